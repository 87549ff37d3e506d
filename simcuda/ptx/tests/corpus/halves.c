/* f16: each operation rounds to eleven bits. */
#include "device.h"

KERNEL(half_arithmetic) {
    f16 a = IN(f16, 0), b = IN(f16, 1), c = IN(f16, 2);
    OUT(f16, 0) = a + b; OUT(f16, 1) = a - c; OUT(f16, 2) = a * b; OUT(f16, 3) = (a + b) * c; OUT(f16, 4) = a * b + c;
}
KERNEL(half_divide) {
    f16 a = IN(f16, 0), b = IN(f16, 1);
    OUT(f16, 0) = a / b; OUT(f16, 1) = (f16)1 / b; OUT(f16, 2) = a / (f16)3;
}
KERNEL(half_compare) {
    f16 a = IN(f16, 0), b = IN(f16, 1);
    OUT(u32, 0) = (a < b) + 2 * (a == b) + 4 * (a >= b) + 8 * (a != b); OUT(u32, 1) = a > (f16)0.5 ? 3 : 4;
}
KERNEL(half_convert) {
    f32 x = IN(f32, 0); s32 i = IN(s32, 1); f64 y = IN(f64, 1); f16 h = IN(f16, 12);
    OUT(f16, 0) = (f16)x; OUT(f16, 1) = (f16)(i >> 16); OUT(f16, 2) = (f16)y; OUT(f16, 3) = (f16)(x * 1e-5f);
    OUT(f16, 4) = h; OUT(f16, 5) = (f16)(f32)h;
}
KERNEL(half_widen) {
    f16 h = IN(f16, 0);
    OUT(f32, 0) = (f32)h; OUT(f32, 1) = (f32)h * 1.5f; OUT(f32, 2) = (f32)(f64)h; OUT(f32, 3) = (f32)(s32)(h > (f16)-1000 && h < (f16)1000 ? h : (f16)0);
}
KERNEL(half_sum) {
    f16 s = 0;
    for (int i = 0; i < 32; i++) { s = s + IN(f16, i) * (f16)0.125; }
    OUT(f16, 0) = s;
}
