/* Control flow: lanes of a warp go different ways and meet again. */
#include "device.h"

KERNEL(flow_loops) {
    u32 a = IN(u32, 0) & 63, sum = 0;
    for (u32 i = 0; i < a; i++) { for (u32 j = i; j < 20; j += 3) { if ((i ^ j) & 4) continue; sum += i * j; if (sum > 4000) break; } }
    OUT(u32, 0) = sum;
}
KERNEL(flow_collatz) {
    u64 x = IN(u32, 0) % 10000 + 1; u32 steps = 0;
    while (x != 1) { x = x & 1 ? 3 * x + 1 : x >> 1; steps++; }
    OUT(u32, 0) = steps;
}
KERNEL(flow_switch) {
    u32 a = IN(u32, 0), r;
    switch (a % 11) {
    case 0: r = a * 3; break;
    case 1: r = a ^ 0x55; break;
    case 2: r = 7; /* on */
    case 3: r = a >> 2; break;
    case 4: r = ~a; break;
    case 5: r = a / 3; break;
    case 6: case 7: r = a & 0xff; break;
    case 8: r = a - 1; break;
    case 9: r = a << 5; break;
    default: r = 1234;
    }
    OUT(u32, 0) = r;
}
SHARED(u32, room, 256);
KERNEL(flow_early_exit) {
    u32 t = tid();
    room[t] = 0; barrier();
    if (IN(u32, 0) & 1) return;
    room[t] = IN(u32, 0); barrier();
    OUT(u32, 0) = room[t ^ 1] + room[(t + 5) % ntid()];
}
KERNEL(flow_return_inside) {
    for (u32 i = 0; i < 16; i++) { if ((IN(u8, i) & 7) == 3) { OUT(u32, 0) = i + 100; return; } OUT(u32, 1) = i; }
    OUT(u32, 0) = 1;
}
KERNEL(flow_gotos) {
    u32 a = IN(u32, 0), n2 = 0;
again:
    if (a & 1) { a >>= 1; n2 += 3; goto odd; }
    if (a == 0) goto end;
    a >>= 2; n2++;
    goto again;
odd:
    if (a & 2) { a >>= 3; n2 ^= 5; }
    if (a > 1000) goto again;
end:
    OUT(u32, 0) = n2; OUT(u32, 1) = a;
}
KERNEL(flow_gcd) {
    u32 a = IN(u32, 0) | 1, b = IN(u32, 1) % 100000 + 1;
    while (b) { u32 t = a % b; a = b; b = t; }
    OUT(u32, 0) = a;
}
KERNEL(flow_search) {
    u32 wanted = IN(u32, 0) % 64, low_ = 0, high = 64, tries = 0;
    while (low_ < high) { u32 middle = (low_ + high) / 2; tries++; if (middle * middle % 4096 < wanted * wanted % 4096) low_ = middle + 1; else high = middle; }
    OUT(u32, 0) = low_; OUT(u32, 1) = tries;
}
KERNEL(flow_select) {
    u32 a = IN(u32, 0), b = IN(u32, 1); f32 x = (f32)(s32)a;
    OUT(u32, 0) = a > b && b > 7 ? a : b < 5 || a == 3 ? 1 : b; OUT(f32, 1) = x > 0 ? x : -x; OUT(u32, 2) = (a & b & 1) ? a : ~b;
}
KERNEL(flow_queens) {
    /* Six queens, the first one's column given: an explicit stack. */
    u32 stack[6], row = 1, found = 0; stack[0] = tid() % 6; u32 c = 0;
    while (row >= 1) {
        u32 ok = 0;
        for (; c < 6; c++) {
            ok = 1;
            for (u32 r = 0; r < row; r++) { u32 d = row - r; if (stack[r] == c || stack[r] + d == c || c + d == stack[r]) { ok = 0; break; } }
            if (ok) break;
        }
        if (ok && row == 5) { found++; c++; continue; }
        if (ok) { stack[row++] = c; c = 0; continue; }
        row--; c = stack[row] + 1;
    }
    OUT(u32, 0) = found;
}
