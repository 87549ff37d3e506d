/* Vectors, narrow elements, local and constant memory, module variables. */
#include "device.h"

typedef f32 f32x4 __attribute__((vector_size(16)));
typedef f32 f32x2 __attribute__((vector_size(8)));
typedef u32 u32x4 __attribute__((vector_size(16)));
typedef u64 u64x2 __attribute__((vector_size(16)));
typedef u16 u16x4 __attribute__((vector_size(8)));
typedef u8 u8x4 __attribute__((vector_size(4)));

KERNEL(vector_floats) {
    f32x4 a = IN(f32x4, 0); f32x2 b = IN(f32x2, 2);
    OUT(f32x4, 0) = a * 2.0f + a; OUT(f32x2, 2) = b - b * b; OUT(f32, 6) = a[0] + a[3];
}
KERNEL(vector_ints) {
    u32x4 a = IN(u32x4, 0); u64x2 b = IN(u64x2, 1); u16x4 c = IN(u16x4, 4); u8x4 d = IN(u8x4, 10);
    OUT(u32x4, 0) = a * 3 ^ a >> 7; OUT(u64x2, 1) = b + (b << 9); OUT(u16x4, 4) = c * c; OUT(u8x4, 10) = d + d;
}
KERNEL(memory_narrow) {
    s32 sum = 0; u32 bits = 0;
    for (int i = 0; i < 16; i++) { sum += IN(s8, i) * IN(s16, i); bits = bits * 31 + IN(u8, i) + IN(u16, i); }
    OUT(s32, 0) = sum; OUT(u32, 1) = bits;
    for (int i = 0; i < 8; i++) { OUT(u8, 8 + i) = (u8)(sum >> i); OUT(u16, 12 + i) = (u16)(bits >> i); }
}
KERNEL(memory_local) {
    u32 table[16];
    for (u32 i = 0; i < 16; i++) table[i] = IN(u32, i) * (i + 1);
    for (u32 i = 0; i < 16; i++) { u32 j = table[i] & 15; u32 t = table[i]; table[i] = table[j]; table[j] = t; }
    for (u32 i = 0; i < 16; i++) OUT(u32, i) = table[(i + table[i]) & 15];
}
CONSTANT(u32, primes, 16) = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
CONSTANT(f64, weights, 4) = {0.5, -1.25, 3e10, 1e-7};
CONSTANT(s8, steps, 5) = {1, -2, 3, -4, 5};
KERNEL(memory_constant) {
    u32 a = IN(u32, 0);
    OUT(u32, 0) = primes[a & 15] * primes[thread_of() & 15]; OUT(s32, 1) = steps[a % 5]; OUT(f64, 1) = weights[a & 3] * 2;
}
static u32 squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
static u32 *const rows[2] = {squares, squares + 4};
static const char letters[] = "halfwarp";
KERNEL(memory_globals) {
    u32 a = IN(u32, 0);
    OUT(u32, 0) = rows[a & 1][a >> 1 & 3]; OUT(u32, 1) = (u32)letters[a & 7]; OUT(u32, 2) = squares[a >> 8 & 7];
}
struct record { u8 kind; u16 size; u32 words[3]; f64 weight; u64 key; };
FAR static struct record turned(struct record r, u32 by) {
    u32 t = r.words[0]; r.words[0] = r.words[1] + by; r.words[1] = r.words[2]; r.words[2] = t;
    r.weight = r.weight * 2; r.kind = (u8)(r.kind + 1); r.size = (u16)(r.size ^ r.kind); r.key += by; return r;
}
KERNEL(memory_structs) {
    struct record r = turned(IN(struct record, 0), 7);
    r = turned(r, r.words[0] & 15);
    OUT(u32, 0) = r.kind; OUT(u32, 1) = r.size; for (int i = 0; i < 3; i++) OUT(u32, 2 + i) = r.words[i];
    OUT(u64, 3) = r.key; OUT(u64, 4) = r.weight > 1;
}
KERNEL(memory_bytes) {
    u8 buffer[40];
    __builtin_memcpy(buffer, &IN(u8, 3), 37); __builtin_memset(buffer + 37, 0xa5, 3);
    for (int i = 0; i < 20; i++) { u8 t = buffer[i]; buffer[i] = buffer[39 - i]; buffer[39 - i] = t; }
    __builtin_memcpy(&OUT(u8, 1), buffer, 39);
    u32 word; __builtin_memcpy(&word, buffer + 5, 4); OUT(u32, 12) = word;
}
KERNEL(memory_volatile) {
    volatile u32 *v = (volatile u32 *)&OUT(u32, 0);
    for (u32 i = 0; i < 8; i++) { *v = *v + IN(u32, i); v[1] = *v ^ i; }
}
SHARED(u32, tile, 256);
KERNEL(memory_shared) {
    u32 t = tid();
    tile[t] = IN(u32, 0); barrier();
    u32 sum = 0; for (u32 i = 0; i < 8; i++) sum += tile[(t + i * 7) % ntid()] * (i + 1);
    barrier(); tile[t ^ 1] = sum; barrier();
    OUT(u32, 0) = tile[t]; OUT(u32, 1) = tile[ntid() - 1 - t];
}
SHARED(u8, bytes_of, 512);
SHARED(f64, doubles, 64);
KERNEL(memory_shared_mixed) {
    u32 t = tid();
    bytes_of[t] = IN(u8, 0); bytes_of[t + 256] = IN(u8, 1); if (t < 64) doubles[t] = t * 0.25; barrier();
    OUT(u32, 0) = bytes_of[255 - (t & 127)] + bytes_of[256 + (t & 127)]; OUT(f64, 1) = doubles[t * 5 & 63];
}
FAR static u32 sum_of(const u32 *p, u32 count) { u32 s = 0; for (u32 i = 0; i < count; i++) s = s * 3 + p[i]; return s; }
/* A generic pointer may mean any of the memories. */
KERNEL(memory_generic) {
    u32 local[4] = {IN(u32, 0), 2, 3, IN(u32, 1)};
    tile[tid()] = IN(u32, 2); barrier();
    const u32 *shared = (const u32 *)&tile[tid() & ~3u];
    const u32 *p = tid() % 3 == 0 ? local : tid() % 3 == 1 ? shared : (const u32 *)&IN(u32, 4);
    OUT(u32, 0) = sum_of(p, 4); OUT(u32, 1) = sum_of(shared, 3);
}
