/* The host's side of device.h: what each name means, from the definitions of the PTX ISA. Threads of
 * a block are coroutines (host.c), so that barriers and exchanges wait as they do on a card. */
#include <fenv.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL(name) void name(const void *in, void *out, unsigned n)
#define SHARED(type, name, count) static type name[count]
#define CONSTANT(type, name, count) static const type name[count]
#define SHARED_POINTER(type) type *

struct place { u32 tid, ctaid, ntid, nctaid; };
extern struct place here;
#define tid() here.tid
#define ctaid() here.ctaid
#define ntid() here.ntid
#define nctaid() here.nctaid
void host_barrier(void);
u32 host_reduce(int predicate, int *any, int *all);
void host_pause(void);
/* The values that all lanes of the mask hand in. */
const u64 *host_exchange(u32 mask, u64 value);
int host_vprintf(const char *format, const void *arguments);
#define vprintf host_vprintf
#define barrier() host_barrier()
#define rest() host_pause()
#define syncwarp(m) ((void)host_exchange(m, 0))
static inline u32 barrier_popc(int p) { int x, y; return host_reduce(p, &x, &y); }
static inline u32 barrier_and(int p) { int x, y; host_reduce(p, &x, &y); return (u32)y; }
static inline u32 barrier_or(int p) { int x, y; host_reduce(p, &x, &y); return (u32)x; }

/* shfl: bits 0-4 of c bound the lane, bits 8-12 select the segment. */
enum { UP, DOWN, BFLY, IDX };
static inline u32 shuffle(int how, u32 mask, u32 v, u32 b, u32 c) {
    const u64 *all = host_exchange(mask, v);
    int lane = (int)(tid() % 32), segment = (int)(c >> 8 & 31), bound = (int)(c & 31);
    int top = (lane & segment) | (bound & ~segment), bottom = lane & segment, from;
    int step = (int)(b & 31), valid;
    switch (how) {
    case UP: from = lane - step; valid = from >= top; break;
    case DOWN: from = lane + step; valid = from <= top; break;
    case BFLY: from = lane ^ step; valid = from <= top; break;
    default: from = bottom | (step & ~segment); valid = from <= top; break;
    }
    u32 result = (u32)all[valid ? from : lane];
    return result;
}
#define shfl_up(m, v, d, c) shuffle(UP, m, (u32)(v), d, c)
#define shfl_down(m, v, d, c) shuffle(DOWN, m, (u32)(v), d, c)
#define shfl_bfly(m, v, d, c) shuffle(BFLY, m, (u32)(v), d, c)
#define shfl_idx(m, v, d, c) shuffle(IDX, m, (u32)(v), d, c)
static inline u32 ballot(u32 m, int p) {
    const u64 *all = host_exchange(m, p != 0); u32 set = 0;
    for (int i = 0; i < 32; i++) if (m >> i & 1 && all[i]) set |= 1u << i;
    return set;
}
static inline u32 vote_all(u32 m, int p) { return ballot(m, p) == m; }
static inline u32 vote_any(u32 m, int p) { return ballot(m, p) != 0; }
static inline u32 vote_uni(u32 m, int p) { u32 b = ballot(m, p); return b == m || b == 0; }
static inline u32 match_any64(u32 m, u64 v) {
    const u64 *all = host_exchange(m, v); u32 set = 0;
    for (int i = 0; i < 32; i++) if (m >> i & 1 && all[i] == v) set |= 1u << i;
    return set;
}
#define match_any(m, v) match_any64(m, (u32)(v))
static inline u32 match_all(u32 m, u32 v, int *p) { *p = match_any64(m, v) == m; return *p ? m : 0; }

static inline u32 low(u32 x) { return x & 255; }
static inline u64 bfe_any(u64 x, u32 p, u32 l, int width, int is_signed) {
    u64 d = 0; p = low(p); l = low(l);
    int msb = width - 1;
    u32 sign_at = p + l - 1 < (u32)msb ? p + l - 1 : (u32)msb;
    u64 sign = !is_signed || l == 0 ? 0 : x >> sign_at & 1;
    for (u32 i = 0; i <= (u32)msb; i++)
        d |= (i < l && p + i <= (u32)msb ? x >> (p + i) & 1 : sign) << i;
    return d;
}
static inline u32 bfe_u32(u32 x, u32 p, u32 l) { return (u32)bfe_any(x, p, l, 32, 0); }
static inline u32 bfe_s32(u32 x, u32 p, u32 l) { return (u32)bfe_any(x, p, l, 32, 1); }
static inline u64 bfe_u64(u64 x, u32 p, u32 l) { return bfe_any(x, p, l, 64, 0); }
static inline u64 bfe_s64(u64 x, u32 p, u32 l) { return bfe_any(x, p, l, 64, 1); }
static inline u64 bfi_any(u64 x, u64 y, u32 p, u32 l, u32 width) {
    for (u32 i = 0; i < low(l) && low(p) + i < width; i++) {
        u64 bit = (u64)1 << (low(p) + i);
        y = x >> i & 1 ? y | bit : y & ~bit;
    }
    return y;
}
static inline u32 bfi_b32(u32 x, u32 y, u32 p, u32 l) { return (u32)bfi_any(x, y, p, l, 32); }
static inline u64 bfi_b64(u64 x, u64 y, u32 p, u32 l) { return bfi_any(x, y, p, l, 64); }
static inline u32 bfind_u32(u32 x) { for (int i = 31; i >= 0; i--) if (x >> i & 1) return (u32)i; return ~0u; }
static inline u32 bfind_s32(u32 x) { return bfind_u32((s32)x < 0 ? ~x : x); }
static inline u32 bfind_amount(u32 x) { u32 i = bfind_u32(x); return i == ~0u ? i : 31 - i; }
static inline u32 byte_of(u32 x, u32 y, u32 i) { return (i < 4 ? x >> 8 * i : y >> 8 * (i - 4)) & 255; }
static inline u32 prmt(u32 x, u32 y, u32 s) {
    u32 d = 0;
    for (int i = 0; i < 4; i++) {
        u32 pick = s >> 4 * i & 15, byte = byte_of(x, y, pick & 7);
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        d |= byte << 8 * i;
    }
    return d;
}
static inline u32 prmt_row(u32 x, u32 y, const u8 row[4]) {
    u32 d = 0;
    for (int i = 0; i < 4; i++) d |= byte_of(x, y, row[3 - i]) << 8 * i;
    return d;
}
/* The rows of the ISA's table, highest byte first. */
#define PRMT_MODE(name, ...) \
    static inline u32 name(u32 x, u32 y, u32 s) { static const u8 rows[4][4] = __VA_ARGS__; return prmt_row(x, y, rows[s & 3]); }
PRMT_MODE(prmt_f4e, {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}})
PRMT_MODE(prmt_b4e, {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}})
PRMT_MODE(prmt_rc8, {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}})
PRMT_MODE(prmt_ecl, {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}})
PRMT_MODE(prmt_ecr, {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}})
PRMT_MODE(prmt_rc16, {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}})
static inline u32 lop3(u32 x, u32 y, u32 z, u32 table) {
    u32 d = 0;
    for (int i = 0; i < 32; i++) d |= (table >> ((x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1)) & 1) << i;
    return d;
}
static inline u64 both(u32 x, u32 y) { return (u64)y << 32 | x; }
static inline u32 shf_l_wrap(u32 x, u32 y, u32 c) { c &= 31; return (u32)(both(x, y) << c >> 32); }
static inline u32 shf_l_clamp(u32 x, u32 y, u32 c) { return c >= 32 ? x : (u32)(both(x, y) << c >> 32); }
static inline u32 shf_r_wrap(u32 x, u32 y, u32 c) { return (u32)(both(x, y) >> (c & 31)); }
static inline u32 shf_r_clamp(u32 x, u32 y, u32 c) { return c >= 32 ? y : (u32)(both(x, y) >> c); }
#define DP4A(name, ta, tb) \
    static inline u32 name(u32 x, u32 y, u32 z) { \
        for (int i = 0; i < 4; i++) z += (u32)((s32)(ta)(x >> 8 * i) * (s32)(tb)(y >> 8 * i)); return z; }
DP4A(dp4a_uu, u8, u8) DP4A(dp4a_us, u8, s8) DP4A(dp4a_su, s8, u8) DP4A(dp4a_ss, s8, s8)
static inline u32 dp2a_lo_uu(u32 x, u32 y, u32 z) { return z + (x & 65535) * (y & 255) + (x >> 16) * (y >> 8 & 255); }
static inline u32 dp2a_hi_ss(u32 x, u32 y, u32 z) { return z + (u32)((s16)x * (s8)(y >> 16)) + (u32)((s16)(x >> 16) * (s8)(y >> 24)); }
static inline s64 s24(u32 x) { return (s32)(x << 8) >> 8; }
static inline u32 mul24_lo_u(u32 x, u32 y) { return (u32)((u64)(x & 0xffffff) * (y & 0xffffff)); }
static inline u32 mul24_hi_u(u32 x, u32 y) { return (u32)((u64)(x & 0xffffff) * (y & 0xffffff) >> 16); }
static inline u32 mul24_lo_s(u32 x, u32 y) { return (u32)(s24(x) * s24(y)); }
static inline u32 mul24_hi_s(u32 x, u32 y) { return (u32)(s24(x) * s24(y) >> 16); }
static inline u32 sat32(s64 x) { return (u32)(x > 2147483647 ? 2147483647 : x < -2147483648LL ? -2147483648LL : x); }
static inline u32 mad24_lo_u(u32 x, u32 y, u32 z) { return mul24_lo_u(x, y) + z; }
static inline u32 mad24_lo_s(u32 x, u32 y, u32 z) { return mul24_lo_s(x, y) + z; }
static inline u32 mad24_hi_sat_s(u32 x, u32 y, u32 z) { return sat32((s64)(s32)mul24_hi_s(x, y) + (s32)z); }
static inline u32 sad_u32(u32 x, u32 y, u32 z) { return z + (x > y ? x - y : y - x); }
static inline u32 sad_s32(u32 x, u32 y, u32 z) { return z + ((s32)x > (s32)y ? x - y : y - x); }
static inline u32 add_sat(u32 x, u32 y) { return sat32((s64)(s32)x + (s32)y); }
static inline u32 sub_sat(u32 x, u32 y) { return sat32((s64)(s32)x - (s32)y); }
static inline u32 mad_hi_sat(u32 x, u32 y, u32 z) { return sat32(((s64)(s32)x * (s32)y >> 32) + (s32)z); }
static inline u32 shl_any(u32 x, u32 c) { return c > 31 ? 0 : x << c; }
static inline u32 shr_any_u(u32 x, u32 c) { return c > 31 ? 0 : x >> c; }
static inline u32 shr_any_s(u32 x, u32 c) { return (u32)((s32)x >> (c > 31 ? 31 : c)); }

/* IEEE operations in a rounding of the host's unit. Each is a function that the compiler may not look
 * into: it believes that a rounding changes nothing. */
#define ALONE __attribute__((noipa))
#define IN_ROUND(mode, t, e) ({ int old_ = fegetround(); fesetround(mode); volatile t d_ = (e); fesetround(old_); (t)d_; })
#define FOUR(t, s, name, args, e) \
    static ALONE t name##_rn_##s args { return IN_ROUND(FE_TONEAREST, t, e); } \
    static ALONE t name##_rz_##s args { return IN_ROUND(FE_TOWARDZERO, t, e); } \
    static ALONE t name##_rm_##s args { return IN_ROUND(FE_DOWNWARD, t, e); } \
    static ALONE t name##_rp_##s args { return IN_ROUND(FE_UPWARD, t, e); }
#define ROUNDED(t, s, FMA, SQRT) \
    FOUR(t, s, add, (volatile t x, volatile t y), x + y) FOUR(t, s, sub, (volatile t x, volatile t y), x - y) \
    FOUR(t, s, mul, (volatile t x, volatile t y), x * y) FOUR(t, s, div, (volatile t x, volatile t y), x / y) \
    FOUR(t, s, fma, (volatile t x, volatile t y, volatile t z), FMA(x, y, z)) \
    FOUR(t, s, sqrt, (volatile t x), SQRT(x)) FOUR(t, s, rcp, (volatile t x), 1 / x)
ROUNDED(f32, f32, fmaf, sqrtf)
ROUNDED(f64, f64, fma, sqrt)
static inline f32 tiny_to_zero(f32 x) { return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x; }
static inline f32 saturated(f32 x) { return x > 0 ? x < 1 ? x : 1 : 0; }
static inline f32 add_ftz(f32 x, f32 y) { return tiny_to_zero(tiny_to_zero(x) + tiny_to_zero(y)); }
static inline f32 mul_ftz(f32 x, f32 y) { return tiny_to_zero(tiny_to_zero(x) * tiny_to_zero(y)); }
static inline f32 fma_ftz(f32 x, f32 y, f32 z) { return tiny_to_zero(fmaf(tiny_to_zero(x), tiny_to_zero(y), tiny_to_zero(z))); }
static inline f32 add_satf(f32 x, f32 y) { return saturated(x + y); }
static inline f32 mul_ftz_sat(f32 x, f32 y) { return saturated(mul_ftz(x, y)); }
static inline f32 fma_satf(f32 x, f32 y, f32 z) { return saturated(fmaf(x, y, z)); }
#define LEAST(t, name, sign, cmp, nan) \
    static inline t name(t x, t y) { \
        if (x != x) return y; \
        if (y != y) return x; \
        if (x == y) return (signbit(x) != 0) == (sign) ? x : y; \
        return x cmp y ? x : y; }
LEAST(f32, min_f32, 1, <, 0) LEAST(f32, max_f32, 0, >, 0) LEAST(f64, min_f64, 1, <, 0) LEAST(f64, max_f64, 0, >, 0)
#define rcp_approx(x) (1.0f / (x))
#define sqrt_approx(x) sqrtf(x)
#define rsqrt_approx(x) ((f32)(1.0 / sqrt((f64)(x))))
#define rsqrt_approx_f64(x) (1.0 / sqrt(x))
#define div_approx(x, y) ((f32)(x) / (f32)(y))
#define div_full(x, y) ((f32)(x) / (f32)(y))
#define ex2_approx(x) ((f32)exp2((f64)(x)))
#define lg2_approx(x) ((f32)log2((f64)(x)))
#define sin_approx(x) ((f32)sin((f64)(x)))
#define cos_approx(x) ((f32)cos((f64)(x)))
#define tanh_approx(x) ((f32)tanh((f64)(x)))

#define MODE_rni FE_TONEAREST
#define MODE_rzi FE_TOWARDZERO
#define MODE_rmi FE_DOWNWARD
#define MODE_rpi FE_UPWARD
#define MODE_rn FE_TONEAREST
#define MODE_rz FE_TOWARDZERO
#define MODE_rm FE_DOWNWARD
#define MODE_rp FE_UPWARD
/* Floats to integers: NaN is 0, what is out of range becomes the nearest bound. */
#define TO_INT(to, from, mode, least, most) \
    static ALONE to cvt_##mode##_##to##_##from(volatile from x) { \
        f64 v = IN_ROUND(MODE_##mode, f64, nearbyint((f64)x)); \
        if (v != v) return 0; \
        if (v <= (f64)(least)) return (least); \
        if (v >= (f64)(most)) return (most); \
        return (to)v; }
#define TO_INTS(to, from, least, most) TO_INT(to, from, rni, least, most) TO_INT(to, from, rzi, least, most) \
    TO_INT(to, from, rmi, least, most) TO_INT(to, from, rpi, least, most)
#define S32_MIN (-2147483647 - 1)
#define S64_MIN (-9223372036854775807LL - 1)
TO_INTS(s32, f32, S32_MIN, 2147483647) TO_INTS(u32, f32, 0, 4294967295u)
TO_INTS(s64, f32, S64_MIN, 9223372036854775807LL) TO_INTS(u64, f32, 0, 18446744073709551615ull)
TO_INTS(s32, f64, S32_MIN, 2147483647) TO_INTS(u32, f64, 0, 4294967295u)
TO_INTS(s64, f64, S64_MIN, 9223372036854775807LL) TO_INTS(u64, f64, 0, 18446744073709551615ull)
#define INTEGRAL(t, f, mode) static ALONE t cvt_##mode##_##t##_##t(volatile t x) { return IN_ROUND(MODE_##mode, t, f(x)); }
#define INTEGRALS(t, f) INTEGRAL(t, f, rni) INTEGRAL(t, f, rzi) INTEGRAL(t, f, rmi) INTEGRAL(t, f, rpi)
INTEGRALS(f32, nearbyintf) INTEGRALS(f64, nearbyint)
#define TO_FLOAT(to, from, mode) static ALONE to cvt_##mode##_##to##_##from(volatile from x) { return IN_ROUND(MODE_##mode, to, (to)x); }
#define TO_FLOATS(to, from) TO_FLOAT(to, from, rn) TO_FLOAT(to, from, rz) TO_FLOAT(to, from, rm) TO_FLOAT(to, from, rp)
TO_FLOATS(f32, s32) TO_FLOATS(f32, u32) TO_FLOATS(f32, s64) TO_FLOATS(f64, s32) TO_FLOATS(f64, u32) TO_FLOATS(f64, s64)
TO_FLOATS(f32, f64)
/* The host's unit knows no unsigned 64-bit source: round by hand. */
static inline u64 kept_bits(u64 x, int bits, int mode) {
    int spare = 64 - bits - __builtin_clzll(x | 1);
    if (spare <= 0) return x;
    u64 rest = x & (((u64)1 << spare) - 1), kept = x >> spare, half = (u64)1 << (spare - 1);
    int up = mode == FE_UPWARD ? rest != 0 : mode == FE_TONEAREST ? rest > half || (rest == half && (kept & 1)) : 0;
    if (up && kept == ((u64)1 << bits) - 1 && spare + bits == 64) return 0;
    return (kept + (u64)up) << spare;
}
#define FROM_U64(to, bits, mode) static ALONE to cvt_##mode##_##to##_u64(u64 x) { \
    u64 kept = kept_bits(x, bits, MODE_##mode); return x != 0 && kept == 0 ? (to)18446744073709551616.0 : (to)kept; }
FROM_U64(f32, 24, rn) FROM_U64(f32, 24, rz) FROM_U64(f32, 24, rm) FROM_U64(f32, 24, rp)
FROM_U64(f64, 53, rn) FROM_U64(f64, 53, rz) FROM_U64(f64, 53, rm) FROM_U64(f64, 53, rp)

/* One thread runs at a time, so a plain update is atomic. */
#define UPDATE(t, name, e) static inline t name(t *p, t x) { t o = *p; (void)x; *p = (e); return o; }
#define UPDATES(t, name, e) UPDATE(t, name, e) UPDATE(t, name##_cta, e) UPDATE(t, name##_gpu, e) UPDATE(t, name##_sys, e) \
    UPDATE(t, name##_red, e) UPDATE(t, name##_red_gpu, e)
static inline u32 cas_u32(u32 *p, u32 x, u32 y) { u32 o = *p; if (o == x) *p = y; return o; }
static inline u64 cas_u64(u64 *p, u64 x, u64 y) { u64 o = *p; if (o == x) *p = y; return o; }
static inline u16 cas_u16(u16 *p, u16 x, u16 y) { u16 o = *p; if (o == x) *p = y; return o; }
UPDATE(u32, exch_u32, x) UPDATE(u64, exch_u64, x)
UPDATE(u32, inc_u32, o >= x ? 0 : o + 1) UPDATE(u32, dec_u32, o == 0 || o > x ? x : o - 1)
UPDATE(f32, fadd_f32, o + x) UPDATE(f64, fadd_f64, o + x) UPDATE(f32, fadd_f32_red, o + x) UPDATE(f64, fadd_f64_red, o + x)
#define load_acquire(p) (*(volatile u32 *)(p))
#define load_relaxed(p) (*(volatile u32 *)(p))
#define store_release(p, x) (*(volatile u32 *)(p) = (x))
#define store_relaxed(p, x) (*(volatile u32 *)(p) = (x))
#define fence() ((void)0)

typedef unsigned __int128 host_u128;
static inline void add96(const u32 *x, const u32 *y, u32 *d) {
    u64 carry = 0;
    for (int i = 0; i < 3; i++) { carry += (u64)x[i] + y[i]; d[i] = (u32)carry; carry >>= 32; }
}
static inline void sub96(const u32 *x, const u32 *y, u32 *d) {
    u64 borrow = 0;
    for (int i = 0; i < 3; i++) { u64 v = (u64)x[i] - y[i] - borrow; d[i] = (u32)v; borrow = v >> 63; }
}
static inline void mul64(const u32 *x, const u32 *y, u32 *d) {
    host_u128 p = (host_u128)both(x[0], x[1]) * both(y[0], y[1]);
    for (int i = 0; i < 4; i++) d[i] = (u32)(p >> 32 * i);
}
static inline u64 add64_carry(u64 x, u64 y, u64 *high) { host_u128 s = (host_u128)x + y; *high = (u64)(s >> 64); return (u64)s; }
