/* One dialect for two compilers: clang's NVPTX makes PTX of a kernel, the system's C compiler a host
 * program of the same text. Here are the names that both know; what they mean on the host is in
 * host.h, written from the PTX ISA and not from the interpreter. */
#ifndef CORPUS_DEVICE_H
#define CORPUS_DEVICE_H

typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef float f32;
typedef double f64;
typedef _Float16 f16;

#define FAR __attribute__((noinline))
/* What a thread may read and write: 64 bytes each, and 1024 bytes of `out` behind them for all. */
#define IN(type, i) (((const type *)in)[thread_of() * (64 / sizeof(type)) + (i)])
#define OUT(type, i) (((type *)out)[thread_of() * (64 / sizeof(type)) + (i)])
#define COMMON(type) ((type *)((u8 *)out + (u64)n * 64))

#ifdef __NVPTX__
#define KERNEL(name) __attribute__((nvptx_kernel)) void name(const void *in, void *out, unsigned n)
#define SHARED(type, name, count) static __attribute__((address_space(3))) type name[count]
#define CONSTANT(type, name, count) static __attribute__((address_space(4))) const type name[count]
#define SHARED_POINTER(type) __attribute__((address_space(3))) type *
#define tid() ((u32)__nvvm_read_ptx_sreg_tid_x())
#define ctaid() ((u32)__nvvm_read_ptx_sreg_ctaid_x())
#define ntid() ((u32)__nvvm_read_ptx_sreg_ntid_x())
#define nctaid() ((u32)__nvvm_read_ptx_sreg_nctaid_x())
#define barrier() __nvvm_bar_sync(0)
#define barrier_popc(p) ((u32)__nvvm_bar0_popc(p))
#define barrier_and(p) ((u32)__nvvm_bar0_and(p))
#define barrier_or(p) ((u32)__nvvm_bar0_or(p))
#define shfl_up(m, v, d, c) ((u32)__nvvm_shfl_sync_up_i32(m, (s32)(v), d, c))
#define shfl_down(m, v, d, c) ((u32)__nvvm_shfl_sync_down_i32(m, (s32)(v), d, c))
#define shfl_bfly(m, v, d, c) ((u32)__nvvm_shfl_sync_bfly_i32(m, (s32)(v), d, c))
#define shfl_idx(m, v, d, c) ((u32)__nvvm_shfl_sync_idx_i32(m, (s32)(v), d, c))
#define vote_all(m, p) ((u32)__nvvm_vote_all_sync(m, p))
#define vote_any(m, p) ((u32)__nvvm_vote_any_sync(m, p))
#define vote_uni(m, p) ((u32)__nvvm_vote_uni_sync(m, p))
#define ballot(m, p) ((u32)__nvvm_vote_ballot_sync(m, p))
#define match_any(m, v) ((u32)__nvvm_match_any_sync_i32(m, (s32)(v)))
#define match_any64(m, v) ((u32)__nvvm_match_any_sync_i64(m, (s64)(v)))
#define match_all(m, v, p) ((u32)__nvvm_match_all_sync_i32p(m, (s32)(v), p))
#define syncwarp(m) __nvvm_bar_warp_sync(m)
int vprintf(const char *, const void *);

/* One instruction with its operands: result, sources. */
#define ASM1(t, name, ins, r, a) \
    static inline t name(t x) { t d; __asm__(ins " %0, %1;" : "=" r(d) : a(x)); return d; }
#define ASM2(t, name, ins, r) \
    static inline t name(t x, t y) { t d; __asm__(ins " %0, %1, %2;" : "=" r(d) : r(x), r(y)); return d; }
#define ASM3(t, name, ins, r) \
    static inline t name(t x, t y, t z) { \
        t d; __asm__(ins " %0, %1, %2, %3;" : "=" r(d) : r(x), r(y), r(z)); return d; }
ASM3(u32, bfe_u32, "bfe.u32", "r") ASM3(u32, bfe_s32, "bfe.s32", "r")
static inline u64 bfe_u64(u64 x, u32 p, u32 l) { u64 d; __asm__("bfe.u64 %0, %1, %2, %3;" : "=l"(d) : "l"(x), "r"(p), "r"(l)); return d; }
static inline u64 bfe_s64(u64 x, u32 p, u32 l) { u64 d; __asm__("bfe.s64 %0, %1, %2, %3;" : "=l"(d) : "l"(x), "r"(p), "r"(l)); return d; }
static inline u32 bfi_b32(u32 x, u32 y, u32 p, u32 l) { u32 d; __asm__("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(x), "r"(y), "r"(p), "r"(l)); return d; }
static inline u64 bfi_b64(u64 x, u64 y, u32 p, u32 l) { u64 d; __asm__("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(d) : "l"(x), "l"(y), "r"(p), "r"(l)); return d; }
ASM1(u32, bfind_u32, "bfind.u32", "r", "r") ASM1(u32, bfind_s32, "bfind.s32", "r", "r")
ASM1(u32, bfind_amount, "bfind.shiftamt.u32", "r", "r")
ASM3(u32, prmt, "prmt.b32", "r") ASM3(u32, prmt_f4e, "prmt.b32.f4e", "r")
ASM3(u32, prmt_b4e, "prmt.b32.b4e", "r") ASM3(u32, prmt_rc8, "prmt.b32.rc8", "r")
ASM3(u32, prmt_ecl, "prmt.b32.ecl", "r") ASM3(u32, prmt_ecr, "prmt.b32.ecr", "r")
ASM3(u32, prmt_rc16, "prmt.b32.rc16", "r")
#define lop3(x, y, z, table) ({ u32 d_; __asm__("lop3.b32 %0, %1, %2, %3, " #table ";" : "=r"(d_) : "r"(x), "r"(y), "r"(z)); d_; })
ASM3(u32, shf_l_wrap, "shf.l.wrap.b32", "r") ASM3(u32, shf_l_clamp, "shf.l.clamp.b32", "r")
ASM3(u32, shf_r_wrap, "shf.r.wrap.b32", "r") ASM3(u32, shf_r_clamp, "shf.r.clamp.b32", "r")
ASM3(u32, dp4a_uu, "dp4a.u32.u32", "r") ASM3(u32, dp4a_us, "dp4a.u32.s32", "r")
ASM3(u32, dp4a_su, "dp4a.s32.u32", "r") ASM3(u32, dp4a_ss, "dp4a.s32.s32", "r")
ASM3(u32, dp2a_lo_uu, "dp2a.lo.u32.u32", "r") ASM3(u32, dp2a_hi_ss, "dp2a.hi.s32.s32", "r")
ASM2(u32, mul24_lo_u, "mul24.lo.u32", "r") ASM2(u32, mul24_hi_u, "mul24.hi.u32", "r")
ASM2(u32, mul24_lo_s, "mul24.lo.s32", "r") ASM2(u32, mul24_hi_s, "mul24.hi.s32", "r")
ASM3(u32, mad24_lo_u, "mad24.lo.u32", "r") ASM3(u32, mad24_lo_s, "mad24.lo.s32", "r")
ASM3(u32, mad24_hi_sat_s, "mad24.hi.sat.s32", "r")
ASM3(u32, sad_u32, "sad.u32", "r") ASM3(u32, sad_s32, "sad.s32", "r")
ASM2(u32, add_sat, "add.sat.s32", "r") ASM2(u32, sub_sat, "sub.sat.s32", "r")
ASM3(u32, mad_hi_sat, "mad.hi.sat.s32", "r")
ASM2(u32, shl_any, "shl.b32", "r") ASM2(u32, shr_any_u, "shr.u32", "r") ASM2(u32, shr_any_s, "shr.s32", "r")

#define FLOAT2(t, r, name, ins) ASM2(t, name, ins, r)
#define ROUNDED(t, s, r) \
    ASM2(t, add_rn_##s, "add.rn." #s, r) ASM2(t, add_rz_##s, "add.rz." #s, r) \
    ASM2(t, add_rm_##s, "add.rm." #s, r) ASM2(t, add_rp_##s, "add.rp." #s, r) \
    ASM2(t, sub_rn_##s, "sub.rn." #s, r) ASM2(t, sub_rz_##s, "sub.rz." #s, r) \
    ASM2(t, sub_rm_##s, "sub.rm." #s, r) ASM2(t, sub_rp_##s, "sub.rp." #s, r) \
    ASM2(t, mul_rn_##s, "mul.rn." #s, r) ASM2(t, mul_rz_##s, "mul.rz." #s, r) \
    ASM2(t, mul_rm_##s, "mul.rm." #s, r) ASM2(t, mul_rp_##s, "mul.rp." #s, r) \
    ASM2(t, div_rn_##s, "div.rn." #s, r) ASM2(t, div_rz_##s, "div.rz." #s, r) \
    ASM2(t, div_rm_##s, "div.rm." #s, r) ASM2(t, div_rp_##s, "div.rp." #s, r) \
    ASM3(t, fma_rn_##s, "fma.rn." #s, r) ASM3(t, fma_rz_##s, "fma.rz." #s, r) \
    ASM3(t, fma_rm_##s, "fma.rm." #s, r) ASM3(t, fma_rp_##s, "fma.rp." #s, r) \
    ASM1(t, sqrt_rn_##s, "sqrt.rn." #s, r, r) ASM1(t, sqrt_rz_##s, "sqrt.rz." #s, r, r) \
    ASM1(t, sqrt_rm_##s, "sqrt.rm." #s, r, r) ASM1(t, sqrt_rp_##s, "sqrt.rp." #s, r, r) \
    ASM1(t, rcp_rn_##s, "rcp.rn." #s, r, r) ASM1(t, rcp_rz_##s, "rcp.rz." #s, r, r) \
    ASM1(t, rcp_rm_##s, "rcp.rm." #s, r, r) ASM1(t, rcp_rp_##s, "rcp.rp." #s, r, r)
ROUNDED(f32, f32, "f") ROUNDED(f64, f64, "d")
ASM2(f32, add_ftz, "add.rn.ftz.f32", "f") ASM2(f32, mul_ftz, "mul.rn.ftz.f32", "f")
ASM2(f32, add_satf, "add.rn.sat.f32", "f") ASM2(f32, mul_ftz_sat, "mul.rn.ftz.sat.f32", "f")
ASM3(f32, fma_ftz, "fma.rn.ftz.f32", "f") ASM3(f32, fma_satf, "fma.rn.sat.f32", "f")
ASM2(f32, min_f32, "min.f32", "f") ASM2(f32, max_f32, "max.f32", "f")
ASM2(f64, min_f64, "min.f64", "d") ASM2(f64, max_f64, "max.f64", "d")
ASM1(f32, rcp_approx, "rcp.approx.f32", "f", "f") ASM1(f32, sqrt_approx, "sqrt.approx.f32", "f", "f")
ASM1(f32, rsqrt_approx, "rsqrt.approx.f32", "f", "f") ASM2(f32, div_approx, "div.approx.f32", "f")
ASM2(f32, div_full, "div.full.f32", "f") ASM1(f32, ex2_approx, "ex2.approx.f32", "f", "f")
ASM1(f32, lg2_approx, "lg2.approx.f32", "f", "f") ASM1(f32, sin_approx, "sin.approx.f32", "f", "f")
ASM1(f32, cos_approx, "cos.approx.f32", "f", "f") ASM1(f32, tanh_approx, "tanh.approx.f32", "f", "f")
ASM1(f64, rsqrt_approx_f64, "rsqrt.approx.f64", "d", "d")
/* `cvt` with a rounding: result type, source type. */
#define CVT(to, tr, from, fr, mode) \
    static inline to cvt_##mode##_##to##_##from(from x) { \
        to d; __asm__("cvt." #mode "." #to "." #from " %0, %1;" : "=" tr(d) : fr(x)); return d; }
#define CVTS(to, tr, from, fr) CVT(to, tr, from, fr, rni) CVT(to, tr, from, fr, rzi) CVT(to, tr, from, fr, rmi) CVT(to, tr, from, fr, rpi)
#define CVTF(to, tr, from, fr) CVT(to, tr, from, fr, rn) CVT(to, tr, from, fr, rz) CVT(to, tr, from, fr, rm) CVT(to, tr, from, fr, rp)
CVTS(s32, "r", f32, "f") CVTS(u32, "r", f32, "f") CVTS(s64, "l", f32, "f") CVTS(u64, "l", f32, "f")
CVTS(s32, "r", f64, "d") CVTS(u32, "r", f64, "d") CVTS(s64, "l", f64, "d") CVTS(u64, "l", f64, "d")
CVTS(f32, "f", f32, "f") CVTS(f64, "d", f64, "d")
CVTF(f32, "f", s32, "r") CVTF(f32, "f", u32, "r") CVTF(f32, "f", s64, "l") CVTF(f32, "f", u64, "l")
CVTF(f64, "d", s32, "r") CVTF(f64, "d", u32, "r") CVTF(f64, "d", s64, "l") CVTF(f64, "d", u64, "l")
CVTF(f32, "f", f64, "d")

/* Atomics: space, scope and order are in the instruction's text. */
#define ATOMIC(t, r, name, ins) \
    static inline t name(t *p, t x) { \
        t d; __asm__ volatile("atom." ins " %0, [%1], %2;" : "=" r(d) : "l"(p), r(x) : "memory"); return d; }
#define RED(t, r, name, ins) \
    static inline void name(t *p, t x) { __asm__ volatile("red." ins " [%0], %1;" : : "l"(p), r(x) : "memory"); }
#define ATOMICS(name, op, t, s, r) \
    ATOMIC(t, r, name, op "." s) ATOMIC(t, r, name##_cta, "global.cta." op "." s) \
    ATOMIC(t, r, name##_gpu, "acq_rel.gpu.global." op "." s) ATOMIC(t, r, name##_sys, "relaxed.sys.global." op "." s) \
    RED(t, r, name##_red, "global." op "." s) RED(t, r, name##_red_gpu, "release.gpu.global." op "." s)
#define ATOMIC_CAS(t, r, name, ins) \
    static inline t name(t *p, t x, t y) { \
        t d; __asm__ volatile("atom." ins " %0, [%1], %2, %3;" : "=" r(d) : "l"(p), r(x), r(y) : "memory"); return d; }
ATOMIC_CAS(u32, "r", cas_u32, "cas.b32") ATOMIC_CAS(u64, "l", cas_u64, "acq_rel.gpu.global.cas.b64")
ATOMIC_CAS(u16, "h", cas_u16, "global.cas.b16")
ATOMIC(u32, "r", exch_u32, "exch.b32") ATOMIC(u64, "l", exch_u64, "global.exch.b64")
ATOMIC(u32, "r", inc_u32, "inc.u32") ATOMIC(u32, "r", dec_u32, "dec.u32")
ATOMIC(f32, "f", fadd_f32, "add.f32") ATOMIC(f64, "d", fadd_f64, "add.f64")
RED(f32, "f", fadd_f32_red, "global.add.f32") RED(f64, "d", fadd_f64_red, "global.gpu.add.f64")
#define SHARED_ATOMIC(t, r, name, ins) \
    static inline t name(SHARED_POINTER(t) p, t x) { \
        t d; __asm__ volatile("atom.shared." ins " %0, [%1], %2;" : "=" r(d) : "r"((u32)(u64)p), r(x) : "memory"); return d; }
static inline u32 load_acquire(u32 *p) { u32 d; __asm__ volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(d) : "l"(p) : "memory"); return d; }
static inline void store_release(u32 *p, u32 x) { __asm__ volatile("st.release.gpu.u32 [%0], %1;" : : "l"(p), "r"(x) : "memory"); }
static inline u32 load_relaxed(u32 *p) { u32 d; __asm__ volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(d) : "l"(p) : "memory"); return d; }
static inline void store_relaxed(u32 *p, u32 x) { __asm__ volatile("st.relaxed.cta.u32 [%0], %1;" : : "l"(p), "r"(x) : "memory"); }
#define fence() __asm__ volatile("fence.acq_rel.gpu; fence.sc.sys; membar.gl;" : : : "memory")
#define rest() __asm__ volatile("nanosleep.u32 50;")
#else
#include "host.h"
#endif

#ifdef __NVPTX__
/* Chains over the carry: all in one piece of assembly, since nothing else keeps the flag. */
static inline void add96(const u32 *x, const u32 *y, u32 *d) {
    __asm__("add.cc.u32 %0, %3, %6; addc.cc.u32 %1, %4, %7; addc.u32 %2, %5, %8;"
            : "=&r"(d[0]), "=&r"(d[1]), "=r"(d[2]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(y[0]), "r"(y[1]), "r"(y[2]));
}
static inline void sub96(const u32 *x, const u32 *y, u32 *d) {
    __asm__("sub.cc.u32 %0, %3, %6; subc.cc.u32 %1, %4, %7; subc.u32 %2, %5, %8;"
            : "=&r"(d[0]), "=&r"(d[1]), "=r"(d[2]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(y[0]), "r"(y[1]), "r"(y[2]));
}
static inline void mul64(const u32 *x, const u32 *y, u32 *d) {
    __asm__("mul.lo.u32 %0, %4, %6; mul.hi.u32 %1, %4, %6; "
            "mad.lo.cc.u32 %1, %5, %6, %1; madc.hi.u32 %2, %5, %6, 0; "
            "mad.lo.cc.u32 %1, %4, %7, %1; madc.hi.cc.u32 %2, %4, %7, %2; addc.u32 %3, 0, 0; "
            "mad.lo.cc.u32 %2, %5, %7, %2; madc.hi.u32 %3, %5, %7, %3;"
            : "=&r"(d[0]), "=&r"(d[1]), "=&r"(d[2]), "=&r"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(y[1]));
}
static inline u64 add64_carry(u64 x, u64 y, u64 *high) {
    u64 d, h; __asm__("add.cc.u64 %0, %2, %3; addc.u64 %1, 0, 0;" : "=&l"(d), "=l"(h) : "l"(x), "l"(y)); *high = h; return d;
}
#endif

static inline u32 thread_of(void) { return ctaid() * ntid() + tid(); }
#endif
