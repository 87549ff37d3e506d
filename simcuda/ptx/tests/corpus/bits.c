/* Single bits and fields of them. */
#include "device.h"

KERNEL(bit_count) {
    u32 a = IN(u32, 0); u64 x = IN(u64, 1);
    OUT(s32, 0) = __builtin_popcount(a); OUT(s32, 1) = __builtin_clz(a | 1); OUT(s32, 2) = __builtin_ctz(a | 0x80000000u);
    OUT(s32, 3) = __builtin_popcountll(x); OUT(s32, 4) = __builtin_clzll(x | 1); OUT(s32, 5) = __builtin_ctzll(x | 1ull << 63);
    OUT(s32, 6) = __builtin_parity(a); OUT(s32, 7) = __builtin_ffs((s32)a); OUT(s32, 8) = __builtin_clrsb((s32)a);
}
KERNEL(bit_reverse) {
    u32 a = IN(u32, 0); u64 x = IN(u64, 1);
#ifdef __NVPTX__
    OUT(u32, 0) = __builtin_bitreverse32(a); OUT(u64, 1) = __builtin_bitreverse64(x); OUT(u32, 4) = __builtin_bitreverse16((u16)a);
#else
    u64 r = 0, s = 0; for (int i = 0; i < 64; i++) { r |= (x >> i & 1) << (63 - i); s |= (u64)(a >> (i & 31) & 1) << (31 - (i & 31)); }
    OUT(u32, 0) = (u32)s; OUT(u64, 1) = r; OUT(u32, 4) = (u32)(s >> 16);
#endif
    OUT(u32, 5) = __builtin_bswap32(a); OUT(u64, 3) = __builtin_bswap64(x); OUT(u32, 8) = __builtin_bswap16((u16)a);
}
KERNEL(bit_extract) {
    u32 a = IN(u32, 0), p = IN(u32, 1), l = IN(u32, 2); u64 x = IN(u64, 2);
    OUT(u32, 0) = bfe_u32(a, p & 31, l & 31); OUT(u32, 1) = bfe_s32(a, p & 31, l & 31);
    OUT(u32, 2) = bfe_u32(a, p, l); OUT(u32, 3) = bfe_s32(a, p, l);
    OUT(u64, 2) = bfe_u64(x, p & 63, l & 63); OUT(u64, 3) = bfe_s64(x, p & 63, l & 63); OUT(u64, 4) = bfe_s64(x, p, l);
    OUT(u32, 10) = bfe_s32(a, 4, 0); OUT(u32, 11) = bfe_s32(a, 28, 8);
}
KERNEL(bit_insert) {
    u32 a = IN(u32, 0), b = IN(u32, 1), p = IN(u32, 2), l = IN(u32, 3); u64 x = IN(u64, 2), y = IN(u64, 3);
    OUT(u32, 0) = bfi_b32(a, b, p & 31, l & 31); OUT(u32, 1) = bfi_b32(a, b, p, l); OUT(u32, 2) = bfi_b32(a, b, 30, 9);
    OUT(u64, 2) = bfi_b64(x, y, p & 63, l & 63); OUT(u64, 3) = bfi_b64(x, y, p, l); OUT(u32, 8) = bfi_b32(a, b, 5, 0);
}
KERNEL(bit_find) {
    u32 a = IN(u32, 0) >> (IN(u32, 1) & 31);
    OUT(u32, 0) = bfind_u32(a); OUT(u32, 1) = bfind_s32(a); OUT(u32, 2) = bfind_s32(~a); OUT(u32, 3) = bfind_amount(a); OUT(u32, 4) = bfind_u32(0);
}
KERNEL(bit_permute) {
    u32 a = IN(u32, 0), b = IN(u32, 1), s = IN(u32, 2);
    OUT(u32, 0) = prmt(a, b, s); OUT(u32, 1) = prmt(a, b, 0x4567); OUT(u32, 2) = prmt(a, b, 0xba98);
    OUT(u32, 3) = prmt_f4e(a, b, s); OUT(u32, 4) = prmt_b4e(a, b, s); OUT(u32, 5) = prmt_rc8(a, b, s);
    OUT(u32, 6) = prmt_ecl(a, b, s); OUT(u32, 7) = prmt_ecr(a, b, s); OUT(u32, 8) = prmt_rc16(a, b, s);
}
KERNEL(bit_lop3) {
    u32 a = IN(u32, 0), b = IN(u32, 1), c = IN(u32, 2);
    OUT(u32, 0) = lop3(a, b, c, 0x96); OUT(u32, 1) = lop3(a, b, c, 0xe8); OUT(u32, 2) = lop3(a, b, c, 0xca);
    OUT(u32, 3) = lop3(a, b, c, 0); OUT(u32, 4) = lop3(a, b, c, 0xff); OUT(u32, 5) = lop3(a, b, c, 0x1b); OUT(u32, 6) = lop3(a, b, c, 0x80);
}
KERNEL(bit_funnel) {
    u32 a = IN(u32, 0), b = IN(u32, 1), c = IN(u32, 2);
    OUT(u32, 0) = shf_l_wrap(a, b, c); OUT(u32, 1) = shf_r_wrap(a, b, c); OUT(u32, 2) = shf_l_clamp(a, b, c);
    OUT(u32, 3) = shf_r_clamp(a, b, c); OUT(u32, 4) = shf_l_clamp(a, b, c & 63); OUT(u32, 5) = shf_r_clamp(a, b, c & 63);
    OUT(u32, 6) = shf_l_clamp(a, b, 32); OUT(u32, 7) = shf_r_wrap(a, b, 32);
}
KERNEL(bit_dot) {
    u32 a = IN(u32, 0), b = IN(u32, 1), c = IN(u32, 2);
    OUT(u32, 0) = dp4a_uu(a, b, c); OUT(u32, 1) = dp4a_us(a, b, c); OUT(u32, 2) = dp4a_su(a, b, c); OUT(u32, 3) = dp4a_ss(a, b, c);
    OUT(u32, 4) = dp2a_lo_uu(a, b, c); OUT(u32, 5) = dp2a_hi_ss(a, b, c);
}
KERNEL(bit_mul24) {
    u32 a = IN(u32, 0), b = IN(u32, 1), c = IN(u32, 2);
    OUT(u32, 0) = mul24_lo_u(a, b); OUT(u32, 1) = mul24_hi_u(a, b); OUT(u32, 2) = mul24_lo_s(a, b); OUT(u32, 3) = mul24_hi_s(a, b);
    OUT(u32, 4) = mad24_lo_u(a, b, c); OUT(u32, 5) = mad24_lo_s(a, b, c); OUT(u32, 6) = mad24_hi_sat_s(a, b, c);
}
KERNEL(bit_distance) {
    u32 a = IN(u32, 0), b = IN(u32, 1), c = IN(u32, 2);
    OUT(u32, 0) = sad_u32(a, b, c); OUT(u32, 1) = sad_s32(a, b, c);
    OUT(u32, 2) = (s32)a < 0 ? 0 - a : a; s64 d = IN(s64, 2); OUT(u64, 2) = d < 0 ? 0 - (u64)d : (u64)d;
}
KERNEL(bit_crc32) {
    u32 crc = ~0u;
    for (int i = 0; i < 16; i++) {
        crc ^= IN(u8, i);
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (0xedb88320u & (0 - (crc & 1)));
    }
    OUT(u32, 0) = ~crc;
}
KERNEL(bit_mix) {
    u64 x = IN(u64, 0), y = IN(u64, 1), sum = 0;
    for (int i = 0; i < 20; i++) {
        x ^= y << 23; x ^= x >> 17; x ^= y ^ y >> 26; u64 t = x; x = y; y = t;
        sum += (x + y) * 0x9e3779b97f4a7c15ull; sum = sum << 31 | sum >> 33;
    }
    OUT(u64, 0) = sum; OUT(u64, 1) = x; OUT(u64, 2) = y;
}
