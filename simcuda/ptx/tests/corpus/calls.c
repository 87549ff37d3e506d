/* Calls: direct, deep, by pointer, and printf. */
#include "device.h"

FAR static u32 mixed(u8 a, s16 b, u32 c, u64 d, f32 e, f64 f) { return a + (u32)b + c * 3 + (u32)(d >> 32) + (u32)(s32)(e * 4) + (u32)(s64)(f * 2); }
KERNEL(call_direct) {
    OUT(u32, 0) = mixed(IN(u8, 0), IN(s16, 1), IN(u32, 1), IN(u64, 1), (f32)IN(u8, 16), (f64)IN(s16, 9));
    OUT(u32, 1) = mixed(255, -1, 7, ~0ull, 1.25f, -2.5);
}
FAR static u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KERNEL(call_recursive) { OUT(u32, 0) = fibonacci(IN(u32, 0) % 12); }
FAR static u32 ackermann(u32 m, u32 n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
KERNEL(call_deep) { OUT(u32, 0) = ackermann(IN(u32, 0) & 1, IN(u32, 1) & 7) + ackermann(2, IN(u32, 2) & 3); }
FAR static u32 plus(u32 a, u32 b) { return a + b; }
FAR static u32 minus(u32 a, u32 b) { return a - b; }
FAR static u32 times(u32 a, u32 b) { return a * b; }
FAR static u32 chosen(u32 a, u32 b) { return a > b ? a : b; }
typedef u32 (*operation)(u32, u32);
static operation const operations[4] = {plus, minus, times, chosen};
KERNEL(call_indirect) {
    u32 a = IN(u32, 0), b = IN(u32, 1);
    for (u32 i = 0; i < 4; i++) { operation f = operations[(a >> i * 2 ^ tid()) & 3]; b = f(a, b); OUT(u32, i) = b; }
}
FAR static void visit(u32 *p, void (*with)(u32 *, u32), u32 x) { for (u32 i = 0; i < 3; i++) with(p + i, x + i); }
FAR static void add_to(u32 *p, u32 x) { *p += x; }
FAR static void set_to(u32 *p, u32 x) { *p = x * x; }
KERNEL(call_back) {
    u32 values[3] = {1, 2, 3};
    visit(values, IN(u32, 0) & 1 ? add_to : set_to, IN(u32, 1) & 255);
    for (int i = 0; i < 3; i++) OUT(u32, i) = values[i];
}
KERNEL(call_print) {
    if (thread_of() % 16 != 3) return;
    struct { u32 a; s32 b; f64 c; u64 d; u32 e, f; } args = {thread_of(), -7, 2.5, 1ull << 40, 'x', 255};
    vprintf("thread %u: %d %.3f %llu %c %04x 100%%\n", &args);
    OUT(u32, 0) = 1;
}
