/* Singles and doubles: IEEE operations in every rounding, comparisons, conversions. */
#include "device.h"

#define ROUNDINGS(t, s) \
    KERNEL(float_add_##s) { \
        t a = IN(t, 0), b = IN(t, 1); \
        OUT(t, 0) = add_rn_##s(a, b); OUT(t, 1) = add_rz_##s(a, b); OUT(t, 2) = add_rm_##s(a, b); OUT(t, 3) = add_rp_##s(a, b); \
        OUT(t, 4) = sub_rn_##s(a, b); OUT(t, 5) = sub_rz_##s(a, b); OUT(t, 6) = sub_rm_##s(a, a); OUT(t, 7) = sub_rp_##s(a, b); } \
    KERNEL(float_mul_##s) { \
        t a = IN(t, 0), b = IN(t, 1); \
        OUT(t, 0) = mul_rn_##s(a, b); OUT(t, 1) = mul_rz_##s(a, b); OUT(t, 2) = mul_rm_##s(a, b); OUT(t, 3) = mul_rp_##s(a, b); } \
    KERNEL(float_div_##s) { \
        t a = IN(t, 0), b = IN(t, 1); \
        OUT(t, 0) = div_rn_##s(a, b); OUT(t, 1) = div_rz_##s(a, b); OUT(t, 2) = div_rm_##s(a, b); OUT(t, 3) = div_rp_##s(a, b); \
        OUT(t, 4) = rcp_rn_##s(a); OUT(t, 5) = rcp_rz_##s(a); OUT(t, 6) = rcp_rm_##s(a); OUT(t, 7) = rcp_rp_##s(a); } \
    KERNEL(float_sqrt_##s) { \
        t a = IN(t, 0), b = IN(t, 1) < 0 ? -IN(t, 1) : IN(t, 1); \
        OUT(t, 0) = sqrt_rn_##s(a); OUT(t, 1) = sqrt_rz_##s(b); OUT(t, 2) = sqrt_rm_##s(b); OUT(t, 3) = sqrt_rp_##s(b); OUT(t, 4) = sqrt_rn_##s(b); } \
    KERNEL(float_fma_##s) { \
        t a = IN(t, 0), b = IN(t, 1), c = IN(t, 2); \
        OUT(t, 0) = fma_rn_##s(a, b, c); OUT(t, 1) = fma_rz_##s(a, b, c); OUT(t, 2) = fma_rm_##s(a, b, c); OUT(t, 3) = fma_rp_##s(a, b, c); \
        OUT(t, 4) = fma_rn_##s(a, b, -(a * b)); OUT(t, 5) = fma_rm_##s(a, b, -(a * b)); OUT(t, 6) = fma_rp_##s(a, a, -(a * a)); }
ROUNDINGS(f32, f32)
ROUNDINGS(f64, f64)

#define PLAIN(name, t, fabs_, copy, i) \
    KERNEL(name) { \
        t a = IN(t, 0), b = IN(t, 1), c = IN(t, 2); \
        OUT(t, 0) = a + b - c; OUT(t, 1) = a * b + c; OUT(t, 2) = a / b; OUT(t, 3) = -a; \
        OUT(t, 4) = fabs_(b); OUT(t, 5) = copy(a, b); \
        OUT(t, 6) = (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > c) + 32 * (a >= c) + 64 * !(a < c) + 128 * (b != b); \
        OUT(t, 7) = a < b ? a : b; }
PLAIN(float_plain_f32, f32, __builtin_fabsf, __builtin_copysignf, s32)
PLAIN(float_plain_f64, f64, __builtin_fabs, __builtin_copysign, s64)

KERNEL(float_flush) {
    f32 a = IN(f32, 0), b = IN(f32, 1), c = IN(f32, 2);
    OUT(f32, 0) = add_ftz(a, b); OUT(f32, 1) = mul_ftz(a, b); OUT(f32, 2) = fma_ftz(a, b, c);
    OUT(f32, 3) = add_satf(a, b); OUT(f32, 4) = mul_ftz_sat(a, b); OUT(f32, 5) = fma_satf(a, b, c);
    OUT(f32, 6) = mul_ftz(a * 1e-30f, 1e-9f);
}
KERNEL(float_least) {
    f32 a = IN(f32, 0), b = IN(f32, 1); f64 x = IN(f64, 1), y = IN(f64, 2);
    OUT(f32, 0) = min_f32(a, b); OUT(f32, 1) = max_f32(a, b); OUT(f32, 2) = min_f32(0.0f, -0.0f); OUT(f32, 3) = max_f32(-0.0f, 0.0f);
    OUT(f64, 2) = min_f64(x, y); OUT(f64, 3) = max_f64(x, y);
}
#define TO_INTEGER(name, from) \
    KERNEL(name) { \
        from x = IN(from, 0); \
        OUT(s32, 0) = cvt_rni_s32_##from(x); OUT(s32, 1) = cvt_rzi_s32_##from(x); OUT(s32, 2) = cvt_rmi_s32_##from(x); OUT(s32, 3) = cvt_rpi_s32_##from(x); \
        OUT(u32, 4) = cvt_rni_u32_##from(x); OUT(u32, 5) = cvt_rzi_u32_##from(x); OUT(u32, 6) = cvt_rmi_u32_##from(x); OUT(u32, 7) = cvt_rpi_u32_##from(x); \
        OUT(s64, 4) = cvt_rni_s64_##from(x); OUT(s64, 5) = cvt_rzi_s64_##from(x); OUT(u64, 6) = cvt_rmi_u64_##from(x); OUT(u64, 7) = cvt_rpi_u64_##from(x); }
TO_INTEGER(float_f32_to_int, f32)
TO_INTEGER(float_f64_to_int, f64)
#define FROM_INTEGER(name, to) \
    KERNEL(name) { \
        s32 a = IN(s32, 0); u32 b = IN(u32, 1); s64 x = IN(s64, 1) >> (b & 31); u64 y = IN(u64, 2) >> (a & 15); \
        to r = 0; to *d = &OUT(to, 0); \
        d[0] = cvt_rn_##to##_s32(a); d[1] = cvt_rz_##to##_s32(a); d[2] = cvt_rm_##to##_u32(b); d[3] = cvt_rp_##to##_u32(b); \
        d[4] = cvt_rn_##to##_s64(x); d[5] = cvt_rm_##to##_s64(x); d[6] = cvt_rp_##to##_u64(y); d[7] = cvt_rz_##to##_u64(y) + r; }
FROM_INTEGER(float_int_to_f32, f32)
FROM_INTEGER(float_int_to_f64, f64)
KERNEL(float_narrow) {
    f64 x = IN(f64, 0); f32 a = IN(f32, 2);
    OUT(f32, 0) = cvt_rn_f32_f64(x); OUT(f32, 1) = cvt_rz_f32_f64(x); OUT(f32, 2) = cvt_rm_f32_f64(x); OUT(f32, 3) = cvt_rp_f32_f64(x);
    OUT(f32, 4) = (f32)(x * 1e-300 * 1e-10); OUT(f32, 5) = (f32)((f64)a * 0.1); OUT(f32, 6) = (f32)(s64)cvt_rzi_s64_f32(a);
}
KERNEL(float_integral) {
    f32 a = IN(f32, 0); f64 x = IN(f64, 1);
    OUT(f32, 0) = cvt_rni_f32_f32(a); OUT(f32, 1) = cvt_rzi_f32_f32(a); OUT(f32, 2) = cvt_rmi_f32_f32(a); OUT(f32, 3) = cvt_rpi_f32_f32(a);
    OUT(f32, 4) = __builtin_floorf(a); OUT(f32, 5) = __builtin_ceilf(a); OUT(f32, 6) = __builtin_truncf(a); OUT(f32, 7) = __builtin_rintf(a);
    OUT(f64, 4) = cvt_rni_f64_f64(x); OUT(f64, 5) = cvt_rmi_f64_f64(x); OUT(f64, 6) = __builtin_floor(x); OUT(f64, 7) = __builtin_trunc(x);
}
/* A sum that loses nothing shows whether every step rounds as it should. */
KERNEL(float_kahan) {
    f32 sum = 0, lost = 0;
    for (int i = 0; i < 16; i++) {
        f32 y = IN(f32, i) - lost, t = sum + y;
        lost = t - sum - y; sum = t;
    }
    OUT(f32, 0) = sum; OUT(f32, 1) = lost;
}
KERNEL(float_mandelbrot) {
    f64 cx = (f64)(tid() % 16) / 8 - 1.5, cy = (f64)(thread_of() / 16) / 4 - 1, x = 0, y = 0;
    u32 i = 0;
    while (i < 200 && x * x + y * y < 4) { f64 t = x * x - y * y + cx; y = 2 * x * y + cy; x = t; i++; }
    OUT(f64, 0) = x; OUT(f64, 1) = y; OUT(f64, 2) = i;
}
KERNEL(float_polynomial) {
    f64 x = IN(f64, 0), s = 0;
    for (int i = 12; i > 0; i--) s = s * x + 1.0 / i;
    OUT(f64, 0) = s; OUT(f32, 2) = (f32)s / 3; OUT(f32, 3) = (f32)(s * s) - (f32)x;
}
