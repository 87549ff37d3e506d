// Kernels of our own in the CUDA dialect, compiled to PTX by clang without any vendor header. The
// results beside this file are made with
//   clang-19 -x cuda --cuda-device-only -S -nocudainc -nocudalib --cuda-gpu-arch=sm_75
//            -Xclang -target-feature -Xclang +ptx63 -O2 kernels.cu -o kernels-O2.ptx
// and the same with -O0.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define T __nvvm_read_ptx_sreg_tid_x()
#define B __nvvm_read_ptx_sreg_ctaid_x()
#define N __nvvm_read_ptx_sreg_ntid_x()
#define SYNC __nvvm_bar_sync(0)
typedef unsigned u; typedef unsigned long long ull;
extern "C" __device__ int vprintf(const char*, const char*);
__constant__ float coef[4]={1,2,3,4};
__device__ int counter;
__device__ int table[3]={7,8,9};
extern "C" __global__ void vectorAdd(const float*a,const float*b,float*c,int n){int i=B*N+T; if(i<n)c[i]=a[i]+b[i];}
extern "C" __global__ void mm(const float*A,const float*Bm,float*C,int n){
 __shared__ float As[16][16]; __shared__ float Bs[16][16];
 int tx=T, ty=__nvvm_read_ptx_sreg_tid_y(); int row=__nvvm_read_ptx_sreg_ctaid_y()*16+ty, col=B*16+tx; float s=0;
 for(int t=0;t<n/16;t++){As[ty][tx]=A[row*n+t*16+tx];Bs[ty][tx]=Bm[(t*16+ty)*n+col];SYNC;
  for(int k=0;k<16;k++)s+=As[ty][k]*Bs[k][tx];SYNC;}
 C[row*n+col]=s;}
extern "C" __global__ void reduce(const int*in,int*out,int n){
 __shared__ int w[32]; int s=0; for(int i=B*N+T;i<n;i+=N*__nvvm_read_ptx_sreg_nctaid_x())s+=in[i];
 for(int d=16;d;d>>=1)s+=__nvvm_shfl_sync_down_i32(~0u,s,d,31);
 if((T&31)==0)w[T>>5]=s; SYNC;
 if(T<32){s=T<N/32?w[T]:0;for(int d=16;d;d>>=1)s+=__nvvm_shfl_sync_down_i32(~0u,s,d,31); if(T==0)__nvvm_atom_add_gen_i(out,s);}}
extern "C" __global__ void hist(const unsigned char*in,int*h,int n){extern __shared__ int sh[]; for(int i=T;i<256;i+=N)sh[i]=0;SYNC; for(int i=B*N+T;i<n;i+=N*__nvvm_read_ptx_sreg_nctaid_x())__nvvm_atom_add_gen_i(&sh[in[i]],1);SYNC;for(int i=T;i<256;i+=N)__nvvm_atom_add_gen_i(&h[i],sh[i]);}
__device__ __attribute__((noinline)) int fib(int n){return n<2?n:fib(n-1)+fib(n-2);}
extern "C" __global__ void rec(int*o){o[T]=fib(T);}
struct S{int a;double b;float c[3];};
extern "C" __global__ void st(S s,S*o,int k){S t=s;t.c[k]=coef[k]+table[k];t.b=t.b/s.a; o[T]=t; __nvvm_atom_add_gen_i(&counter,1);}
extern "C" __global__ void local(int*o,int n){int a[64];for(int i=0;i<n;i++)a[i]=i*i;int s=0;for(int i=0;i<n;i++)s+=a[(i*7)%n];o[T]=s;}
extern "C" __global__ void spin(ull ns){ull t;asm volatile("mov.u64 %0, %%globaltimer;":"=l"(t));ull e=t+ns;while(t<e){asm volatile("nanosleep.u32 1000;");asm volatile("mov.u64 %0, %%globaltimer;":"=l"(t));}}
extern "C" __global__ void mix(const int*a,const ull*b,float*f,double*d,ull*o,short*h,signed char*c){int i=T;
 o[i]=b[i]/(ull)(a[i]|1)+b[i]%7; f[i]=f[i]/3.0f+__builtin_sqrtf(f[i]); d[i]=__builtin_fma(d[i],2.0,1.0)-(double)a[i]; h[i]=h[i]*3>>1; c[i]=c[i]<<2; f[i]+=(float)b[i]; o[i]^=(ull)d[i]; o[i]+=__builtin_popcount(a[i])+__builtin_clz(a[i]|1)+__builtin_ctzll(b[i]|2)+__builtin_bswap32(a[i]);
 f[i]=__builtin_fmaxf(f[i],__builtin_fabsf(f[i+1]));f[i]=__builtin_floorf(f[i]); o[i]+=__nvvm_mulhi_i(a[i],3)+__builtin_bitreverse32(a[i]); o[i]=(o[i]<<13)|(o[i]>>51);}
extern "C" __global__ void cas(u*p,float*q,double*r,ull*l){ u old=*(volatile u*)p,as; do{as=old;old=__nvvm_atom_cas_gen_i((int*)p,as,as+1);}while(as!=old); __nvvm_atom_add_gen_f(q,1.5f);__nvvm_atom_add_gen_d(r,2.5);__nvvm_atom_add_gen_ll((long long*)l,3);__nvvm_atom_max_gen_ui(p+1,T);__nvvm_atom_xchg_gen_i((int*)p+2,T);}
extern "C" __global__ void hello(int x){struct{int a;double d;}v={(int)T,x*1.5};vprintf("hello %d %f\n",(char*)&v);}
extern "C" __global__ void sw(int*o,int k){int r;switch(o[T]){case 0:r=5;break;case 1:r=k;break;case 2:r=k*k;break;case 3:r=9;break;case 4:r=-1;break;case 5:r=k/3;break;default:r=o[T+1];}o[T]=r;}
extern "C" __global__ void h16(_Float16*a,_Float16*b){int i=T;a[i]=a[i]*b[i]+a[i];a[i]=a[i]/b[i]; if(a[i]<b[i])a[i]=(_Float16)i;}
extern "C" __global__ void vote(int*o){ o[T]=__nvvm_vote_ballot_sync(~0u,T&1)+__nvvm_vote_any_sync(~0u,T==3)+__nvvm_vote_all_sync(~0u,1)+__nvvm_activemask()+__nvvm_match_any_sync_i32(~0u,T/4);}
typedef int (*fp)(int); __device__ int f1(int x){return x+1;} __device__ int f2(int x){return x*2;}
extern "C" __global__ void indirect(int*o){fp f=T&1?f1:f2;o[T]=f(T);}
typedef float f4 __attribute__((ext_vector_type(4)));
extern "C" __global__ void vec(const f4*a,f4*b){b[T]=a[T]*2.0f;}
