/* Approximations: each within the bound that the ISA gives it (list.h). */
#include "device.h"

KERNEL(approx_reciprocal) {
    f32 a = IN(f32, 0), b = IN(f32, 1) * 8 + 16;
    OUT(f32, 0) = rcp_approx(b); OUT(f32, 1) = div_approx(a, b); OUT(f32, 2) = div_full(a, b);
}
KERNEL(approx_root) {
    f32 a = __builtin_fabsf(IN(f32, 0)) + 1e-3f;
    OUT(f32, 0) = sqrt_approx(a); OUT(f32, 1) = rsqrt_approx(a);
}
KERNEL(approx_root_f64) {
    f64 a = __builtin_fabs(IN(f64, 0)) + 1e-3;
    OUT(f64, 0) = rsqrt_approx_f64(a);
}
KERNEL(approx_exponential) { OUT(f32, 0) = ex2_approx(IN(f32, 0)); OUT(f32, 1) = ex2_approx(IN(f32, 1) * 10); }
KERNEL(approx_logarithm) { OUT(f32, 0) = lg2_approx(__builtin_fabsf(IN(f32, 0)) + 1e-3f); }
KERNEL(approx_circle) { OUT(f32, 0) = sin_approx(IN(f32, 0)); OUT(f32, 1) = cos_approx(IN(f32, 1)); }
KERNEL(approx_tanh) { OUT(f32, 0) = tanh_approx(IN(f32, 0)); }
