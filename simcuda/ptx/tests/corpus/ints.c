/* Integers of every width. */
#include "device.h"

#define SMALL_INTS(name, t, u) \
    KERNEL(name) { \
        t a = IN(t, 0), b = IN(t, 1), c = IN(t, 2); \
        OUT(t, 0) = (t)(a + b); OUT(t, 1) = (t)(a - b * c); OUT(t, 2) = (t)(a * b); \
        OUT(t, 3) = (t)(a / (t)(b | 1)); OUT(t, 4) = (t)(a % (t)(c | 1)); \
        OUT(t, 5) = (t)(a & b ^ c); OUT(t, 6) = (t)~a; OUT(t, 7) = (t)-b; \
        OUT(t, 8) = (t)(a << (b & 7)); OUT(t, 9) = (t)(a >> (c & 7)); \
        OUT(t, 10) = a < b; OUT(t, 11) = (t)(a > c ? a : c); OUT(t, 12) = (t)((u)a > (u)b ? b : a); \
    }
SMALL_INTS(int_u8, u8, u8)
SMALL_INTS(int_s8, s8, u8)
SMALL_INTS(int_u16, u16, u16)
SMALL_INTS(int_s16, s16, u16)

#define WIDE_INTS(name, t, u, s, bits) \
    KERNEL(name) { \
        t a = IN(t, 0), b = IN(t, 1), c = IN(t, 2); \
        t d = (t)((u)a + (u)b), e = (t)((u)a * (u)b - (u)c); \
        OUT(t, 0) = d ^ e; OUT(t, 1) = (t)(b == (t)-1 ? a : a / (t)(b | 1)); \
        OUT(t, 2) = (t)(c == (t)-1 ? a : a % (t)(c | 1)); \
        OUT(t, 3) = (a < b) + 2 * (a >= c) + 4 * (b == c) + 8 * (a > b) + 16 * (b <= c) + 32 * (a != 0); \
        OUT(t, 4) = (t)((u)a << ((u)b & (bits - 1))); OUT(t, 5) = (t)(a >> ((u)c & (bits - 1))); \
        OUT(t, 6) = a > b ? a : b; OUT(t, 7) = a < c ? ~a : (t)(0 - (u)c); \
    }
WIDE_INTS(int_u32, u32, u32, s32, 32)
WIDE_INTS(int_s32, s32, u32, s32, 32)
WIDE_INTS(int_u64, u64, u64, s64, 64)
WIDE_INTS(int_s64, s64, u64, s64, 64)

KERNEL(int_products) {
    u32 a = IN(u32, 0), b = IN(u32, 1);
    u64 x = IN(u64, 2), y = IN(u64, 3);
    OUT(u64, 0) = (u64)a * b;
    OUT(u64, 1) = (u64)((s64)(s32)a * (s32)b) + x;
    OUT(u32, 4) = (u32)((u64)a * b >> 32);
    OUT(u32, 5) = (u32)((s64)(s32)a * (s32)b >> 32);
    OUT(u64, 3) = (u64)((unsigned __int128)x * y >> 64);
    OUT(u64, 4) = (u64)((__int128)(s64)x * (s64)y >> 64);
    OUT(u32, 10) = (u32)(u16)a * (u16)b;
    OUT(u32, 11) = (u32)((s32)(s16)a * (s16)b) + a;
}

KERNEL(int_u128) {
    unsigned __int128 a = (unsigned __int128)IN(u64, 0) << 64 | IN(u64, 1);
    unsigned __int128 b = (unsigned __int128)IN(u64, 2) << 64 | IN(u64, 3);
    unsigned __int128 c = a * b + (a ^ b) - (b << 3);
    OUT(u64, 0) = (u64)(c >> 64); OUT(u64, 1) = (u64)c;
    OUT(u64, 2) = (u64)((a + b) >> (IN(u32, 8) & 127)); OUT(u64, 3) = a < b;
    OUT(u64, 4) = (u64)((__int128)a >> (IN(u32, 9) & 127));
}

KERNEL(int_by_constants) {
    u32 a = IN(u32, 0); s32 b = IN(s32, 1); u64 c = IN(u64, 1); s64 d = IN(s64, 2);
    OUT(u32, 0) = a / 7 + a % 10; OUT(s32, 1) = b / 3 - b % 1000;
    OUT(u64, 1) = c / 1000000007 + c % 641; OUT(s64, 2) = d / -12 + d % 86400;
    OUT(u32, 6) = (u16)a / 9; OUT(s32, 7) = (s16)b / -5; OUT(u32, 8) = (u8)a / 3 * 100;
}

KERNEL(int_widths) {
    s64 x = IN(s64, 0);
    OUT(s64, 0) = (s8)x + (s64)(u8)(x >> 8); OUT(s64, 1) = (s16)x - (s64)(u16)(x >> 16);
    OUT(s64, 2) = (s32)x ^ (s64)(u32)(x >> 32); OUT(s32, 6) = (s8)x * (s16)(x >> 20);
    OUT(u16, 14) = (u16)(s8)x; OUT(u8, 30) = (u8)((u16)x >> 5); OUT(u32, 8) = (u32)(u8)(s16)x;
    OUT(s64, 5) = (s64)((s32)(s8)x << 7); OUT(u64, 6) = (u64)(u32)(s16)x;
}

KERNEL(int_shifts) {
    u32 a = IN(u32, 0), c = IN(u32, 1) & 63;
    u64 x = IN(u64, 1);
    OUT(u32, 0) = shl_any(a, c); OUT(u32, 1) = shr_any_u(a, c); OUT(u32, 2) = shr_any_s(a, c);
    OUT(u32, 3) = shl_any(a, a); OUT(u64, 2) = x << c ^ x >> (63 - c);
    OUT(s64, 3) = (s64)x >> c; OUT(u64, 4) = x << 13 | x >> 51; OUT(u32, 10) = a << 7 | a >> 25;
    OUT(u32, 11) = a << (c & 31) | a >> (-c & 31);
}

KERNEL(int_saturating) {
    u32 a = IN(u32, 0), b = IN(u32, 1), c = IN(u32, 2);
    OUT(u32, 0) = add_sat(a, b); OUT(u32, 1) = sub_sat(a, b); OUT(u32, 2) = mad_hi_sat(a, b, c);
    OUT(u32, 3) = add_sat(2147483647, a & 15); OUT(u32, 4) = sub_sat(0x80000000u, b & 15);
    s32 x; OUT(u32, 5) = __builtin_add_overflow((s32)a, (s32)b, &x); OUT(s32, 6) = x;
    u64 y; OUT(u32, 7) = __builtin_mul_overflow(IN(u64, 0), IN(u64, 1), &y); OUT(u64, 4) = y;
}

KERNEL(int_carry_add) {
    u32 x[3] = {IN(u32, 0), IN(u32, 1), IN(u32, 2)}, y[3] = {IN(u32, 3), IN(u32, 4), IN(u32, 5)}, d[3];
    add96(x, y, d);
    for (int i = 0; i < 3; i++) OUT(u32, i) = d[i];
    u32 ones[3] = {~0u, ~0u, 5}, one[3] = {x[0] & 1, 0, 0};
    add96(ones, one, d);
    for (int i = 0; i < 3; i++) OUT(u32, 3 + i) = d[i];
    u64 high; OUT(u64, 4) = add64_carry(IN(u64, 0), IN(u64, 1), &high); OUT(u64, 5) = high;
}

KERNEL(int_carry_sub) {
    u32 x[3] = {IN(u32, 0), IN(u32, 1), IN(u32, 2)}, y[3] = {IN(u32, 3), IN(u32, 4), IN(u32, 5)}, d[3];
    sub96(x, y, d);
    for (int i = 0; i < 3; i++) OUT(u32, i) = d[i];
    u32 zero[3] = {0, 0, 9}, one[3] = {x[0] & 1, 0, 0};
    sub96(zero, one, d);
    for (int i = 0; i < 3; i++) OUT(u32, 3 + i) = d[i];
}

KERNEL(int_carry_mad) {
    u32 x[2] = {IN(u32, 0), IN(u32, 1)}, y[2] = {IN(u32, 2), IN(u32, 3)}, d[4];
    mul64(x, y, d);
    for (int i = 0; i < 4; i++) OUT(u32, i) = d[i];
}
