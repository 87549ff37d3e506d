/* Atomics and reductions of every type and scope, and ordered accesses. What is compared does not
 * depend on the order of the threads. */
#include "device.h"

#ifdef __NVPTX__
ATOMICS(aadd_u32, "add", u32, "u32", "r") ATOMICS(amin_u32, "min", u32, "u32", "r") ATOMICS(amax_u32, "max", u32, "u32", "r")
ATOMICS(amin_s32, "min", s32, "s32", "r") ATOMICS(amax_s32, "max", s32, "s32", "r")
ATOMICS(aand_b32, "and", u32, "b32", "r") ATOMICS(aor_b32, "or", u32, "b32", "r") ATOMICS(axor_b32, "xor", u32, "b32", "r")
ATOMICS(aadd_u64, "add", u64, "u64", "l") ATOMICS(amin_u64, "min", u64, "u64", "l") ATOMICS(amax_u64, "max", u64, "u64", "l")
ATOMICS(amin_s64, "min", s64, "s64", "l") ATOMICS(amax_s64, "max", s64, "s64", "l")
ATOMICS(aand_b64, "and", u64, "b64", "l") ATOMICS(aor_b64, "or", u64, "b64", "l") ATOMICS(axor_b64, "xor", u64, "b64", "l")
SHARED_ATOMIC(u32, "r", sadd_u32, "add.u32") SHARED_ATOMIC(u32, "r", sinc_u32, "inc.u32") SHARED_ATOMIC(s32, "r", smin_s32, "cta.min.s32")
SHARED_ATOMIC(u32, "r", sxor_b32, "acquire.cta.xor.b32") SHARED_ATOMIC(u64, "l", sadd_u64, "add.u64") SHARED_ATOMIC(f32, "f", sadd_f32, "add.f32")
#else
UPDATES(u32, aadd_u32, o + x) UPDATES(u32, amin_u32, o < x ? o : x) UPDATES(u32, amax_u32, o > x ? o : x)
UPDATES(s32, amin_s32, o < x ? o : x) UPDATES(s32, amax_s32, o > x ? o : x)
UPDATES(u32, aand_b32, o & x) UPDATES(u32, aor_b32, o | x) UPDATES(u32, axor_b32, o ^ x)
UPDATES(u64, aadd_u64, o + x) UPDATES(u64, amin_u64, o < x ? o : x) UPDATES(u64, amax_u64, o > x ? o : x)
UPDATES(s64, amin_s64, o < x ? o : x) UPDATES(s64, amax_s64, o > x ? o : x)
UPDATES(u64, aand_b64, o & x) UPDATES(u64, aor_b64, o | x) UPDATES(u64, axor_b64, o ^ x)
UPDATE(u32, sadd_u32, o + x) UPDATE(u32, sinc_u32, o >= x ? 0 : o + 1) UPDATE(s32, smin_s32, o < x ? o : x)
UPDATE(u32, sxor_b32, o ^ x) UPDATE(u64, sadd_u64, o + x) UPDATE(f32, sadd_f32, o + x)
#endif

/* The same update at each scope, each on a place of its own. */
#define EVERY_SCOPE(f, p, x) (f(p, x), f##_cta(p + 1, x), f##_gpu(p + 2, x), f##_sys(p + 3, x), f##_red(p + 4, x), f##_red_gpu(p + 5, x))
KERNEL(atomic_u32) {
    u32 *c = COMMON(u32), v = IN(u32, 0);
    EVERY_SCOPE(aadd_u32, c, v); EVERY_SCOPE(amax_u32, c + 6, v); EVERY_SCOPE(aor_b32, c + 12, v & 0x1111); EVERY_SCOPE(axor_b32, c + 18, v);
    if (thread_of() == 0) for (int i = 24; i < 36; i++) c[i] = ~0u;
}
KERNEL(atomic_u32_least) {
    u32 *c = COMMON(u32) + ctaid() * 16, v = IN(u32, 0);
    if (tid() == 0) for (int i = 0; i < 12; i++) c[i] = ~0u;
    barrier();
    EVERY_SCOPE(amin_u32, c, v); EVERY_SCOPE(aand_b32, c + 6, v | 0xffff0000u);
}
KERNEL(atomic_s32) { s32 *c = COMMON(s32), v = IN(s32, 0); EVERY_SCOPE(amin_s32, c, v); EVERY_SCOPE(amax_s32, c + 6, v); }
KERNEL(atomic_u64) {
    u64 *c = COMMON(u64), v = IN(u64, 0);
    EVERY_SCOPE(aadd_u64, c, v); EVERY_SCOPE(amax_u64, c + 6, v); EVERY_SCOPE(aor_b64, c + 12, v & 0x100000001ull); EVERY_SCOPE(axor_b64, c + 18, v);
    EVERY_SCOPE(amin_u64, c + 24, v); EVERY_SCOPE(aand_b64, c + 30, v);
}
KERNEL(atomic_s64) { s64 *c = COMMON(s64), v = IN(s64, 0); EVERY_SCOPE(amin_s64, c, v); EVERY_SCOPE(amax_s64, c + 6, v); }
KERNEL(atomic_floats) {
    /* Quarters of small numbers: sums are exact in any order. */
    f32 v = (f32)(s32)(IN(u32, 0) & 255) / 4; f64 w = (f64)(s32)(IN(u32, 1) & 4095) / 8;
    fadd_f32(COMMON(f32), v); fadd_f32_red(COMMON(f32) + 1, -v); fadd_f64(COMMON(f64) + 1, w); fadd_f64_red(COMMON(f64) + 2, w);
}
KERNEL(atomic_counters) {
    u32 *c = COMMON(u32);
    inc_u32(c, 12); inc_u32(c + 1, 1u << 20); dec_u32(c + 2, 10); inc_u32(c + 3, 0);
    u32 got = inc_u32(c + 4, ~0u);
    aadd_u32(c + 5, got);
}
KERNEL(atomic_exchange) {
    u32 *c = COMMON(u32); u64 *d = COMMON(u64) + 4;
    /* Whatever the order, what was put in comes out once. */
    u32 out_of = exch_u32(c, thread_of() + 1); u64 out_of_64 = exch_u64(d, thread_of() + 1);
    aadd_u32(c + 2, out_of); aadd_u64(d + 1, out_of_64);
    barrier();
    if (ctaid() == 0 && tid() == 0) { c[3] = 1; }
}
KERNEL(atomic_cas_loop) {
    u32 *c = COMMON(u32); u64 *d = COMMON(u64) + 4; u32 old = load_relaxed(c), seen;
    while ((seen = cas_u32(c, old, old * 1 + 3)) != old) old = seen;
    u64 was = 0, is; while ((is = cas_u64(d, was, was + (1ull << 33))) != was) was = is;
}
KERNEL(atomic_cas_16) {
    u16 *c = COMMON(u16) + (tid() & 1), old = 0, seen;
    while ((seen = cas_u16(c, old, (u16)(old + 5))) != old) old = seen;
}
SHARED(u32, counts, 32);
SHARED(u64, wide, 2);
SHARED(f32, single, 2);
KERNEL(atomic_shared) {
    if (tid() < 32) counts[tid()] = 0;
    if (tid() == 0) { wide[0] = 0; single[0] = 0; counts[31] = 0; }
    barrier();
    sadd_u32(&counts[IN(u32, 0) & 15], 1); sinc_u32(&counts[16], 100); smin_s32((SHARED_POINTER(s32))&counts[17], (s32)IN(u32, 1));
    sxor_b32(&counts[18], IN(u32, 2)); sadd_u64(&wide[0], IN(u64, 1)); sadd_f32(&single[0], (f32)(tid() & 7));
    barrier();
    if (tid() < 32) OUT(u32, 0) = counts[tid()];
    if (tid() == 0) { OUT(u64, 1) = wide[0]; OUT(f32, 4) = single[0]; }
}
KERNEL(atomic_builtins) {
    u32 *c = COMMON(u32);
    __atomic_fetch_add(c, tid(), __ATOMIC_RELAXED); __atomic_fetch_or(c + 1, IN(u32, 0), __ATOMIC_RELAXED);
    __atomic_fetch_xor(c + 2, IN(u32, 1), __ATOMIC_RELAXED); __atomic_fetch_sub(c + 3, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(COMMON(u64) + 8, IN(u64, 1), __ATOMIC_RELAXED);
}
/* One thread writes and says so; the others wait for it. */
KERNEL(order_message) {
    u32 *c = COMMON(u32) + 8 * ctaid();
    if (tid() == ntid() - 1) {
        for (u32 i = 1; i < 6; i++) c[i] = ctaid() * 100 + i;
        fence(); store_release(c, 1);
    } else {
        while (load_acquire(c) == 0) rest();
        u32 sum = 0; for (u32 i = 1; i < 6; i++) sum += ((volatile u32 *)c)[i];
        OUT(u32, 0) = sum;
    }
}
/* Blocks take tickets; the last one sums what all left. */
KERNEL(order_last_block) {
    u32 *c = COMMON(u32);
    if (tid() == 0) {
        store_relaxed(c + 8 + ctaid(), ctaid() * 7 + 1); fence();
        if (aadd_u32_gpu(c, 1) == nctaid() - 1) {
            u32 sum = 0; for (u32 i = 0; i < nctaid(); i++) sum += load_acquire(c + 8 + i);
            c[1] = sum;
        }
    }
}
KERNEL(order_lock) {
    u32 *c = COMMON(u32);
    for (u32 t = 0; t < 4; t++) {
        if (tid() % 32 != t * 8) continue;
        while (cas_u32(c, 0, 1) != 0) rest();
        ((volatile u32 *)c)[1] = ((volatile u32 *)c)[1] + 2; fence(); exch_u32(c, 0);
    }
}
