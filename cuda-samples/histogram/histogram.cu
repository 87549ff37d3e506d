/* How often each byte occurs: counted by each block in shared memory, then added up in global memory.
 * Made into histogram.ptx by the command in cuda-samples/README.md. */
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define TID(d) __nvvm_read_ptx_sreg_tid_##d()
#define CTA(d) __nvvm_read_ptx_sreg_ctaid_##d()
#define NTID(d) __nvvm_read_ptx_sreg_ntid_##d()
#define NCTA(d) __nvvm_read_ptx_sreg_nctaid_##d()
#define SYNC() __nvvm_bar_sync(0)

extern "C" __global__ void histogram(const unsigned char *in, unsigned *counts, unsigned n) {
    __shared__ unsigned own[256];
    unsigned t = TID(x), step = NTID(x) * NCTA(x);
    own[t] = 0;
    SYNC();
    for (unsigned i = CTA(x) * NTID(x) + t; i < n; i += step) __nvvm_atom_add_gen_i((int *)&own[in[i]], 1);
    SYNC();
    __nvvm_atom_add_gen_i((int *)&counts[t], (int)own[t]);
}
