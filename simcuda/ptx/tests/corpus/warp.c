/* Exchanges between the lanes of a warp, and barriers. */
#include "device.h"
#define WARP 0xffffffffu

KERNEL(warp_shuffle) {
    u32 v = IN(u32, 0);
    OUT(u32, 0) = shfl_up(WARP, v, 3, 0); OUT(u32, 1) = shfl_down(WARP, v, 5, 31); OUT(u32, 2) = shfl_bfly(WARP, v, 9, 31);
    OUT(u32, 3) = shfl_idx(WARP, v, (int)(v & 31), 31); OUT(u32, 4) = shfl_idx(WARP, v, 0, 31);
}
KERNEL(warp_shuffle_segments) {
    u32 v = IN(u32, 0);
    OUT(u32, 0) = shfl_up(WARP, v, 2, 0x1800); OUT(u32, 1) = shfl_down(WARP, v, 3, 0x181f); OUT(u32, 2) = shfl_bfly(WARP, v, 5, 0x101f);
    OUT(u32, 3) = shfl_idx(WARP, v, 9, 0x1c1f); OUT(u32, 4) = shfl_idx(WARP, v, (int)(v & 15), 0x101f); OUT(u32, 5) = shfl_down(WARP, v, 1, 0x1007);
}
KERNEL(warp_vote) {
    u32 v = IN(u32, 0);
    OUT(u32, 0) = ballot(WARP, v & 1); OUT(u32, 1) = vote_all(WARP, v != 5); OUT(u32, 2) = vote_any(WARP, (v & 1023) == 7);
    OUT(u32, 3) = vote_uni(WARP, v & 1); OUT(u32, 4) = vote_uni(WARP, 1); OUT(u32, 5) = ballot(WARP, tid() % 3 == 0);
}
KERNEL(warp_match) {
    u32 v = IN(u32, 0); int all;
    OUT(u32, 0) = match_any(WARP, v & 3); OUT(u32, 1) = match_all(WARP, v, &all); OUT(s32, 2) = all;
    OUT(u32, 3) = match_all(WARP, 9, &all); OUT(s32, 4) = all; OUT(u32, 5) = match_any64(WARP, (u64)(v & 1) << 40);
}
KERNEL(warp_reduce) {
    u32 v = IN(u32, 0), most = v;
    for (int d = 16; d; d >>= 1) { v += shfl_bfly(WARP, v, d, 31); u32 o = shfl_down(WARP, most, d, 31); most = o > most ? o : most; }
    OUT(u32, 0) = v; if (tid() % 32 == 0) OUT(u32, 1) = most;
}
KERNEL(warp_scan) {
    u32 v = IN(u32, 0);
    for (int d = 1; d < 32; d <<= 1) { u32 o = shfl_up(WARP, v, d, 0); if ((int)(tid() % 32) >= d) v += o; }
    OUT(u32, 0) = v;
}
KERNEL(warp_halves) {
    u32 v = IN(u32, 0), lane = tid() % 32;
    if (lane < 16) { OUT(u32, 0) = shfl_bfly(0xffff, v, 3, 31) + ballot(0xffff, v & 1); }
    else { OUT(u32, 0) = shfl_idx(0xffff0000u, v, 17, 31) ^ ballot(0xffff0000u, v & 2); }
    syncwarp(WARP);
    OUT(u32, 1) = ballot(WARP, lane < 16);
}
KERNEL(warp_diverged) {
    u32 v = IN(u32, 0), sum = 0, parts = ballot(WARP, v & 1);
    if (v & 1) { for (int i = 0; i < 3; i++) sum += ballot(parts, v >> i & 2); }
    else { sum = match_any(~parts, v & 6); }
    OUT(u32, 0) = sum;
}
KERNEL(block_reduce_barriers) {
    u32 v = IN(u32, 0);
    OUT(u32, 0) = barrier_popc(v & 1); OUT(u32, 1) = barrier_and(v != 1) != 0; OUT(u32, 2) = barrier_or((v & 255) == 9) != 0; OUT(u32, 3) = barrier_popc(tid() < 5);
}
SHARED(u32, partial, 32);
KERNEL(block_sum) {
    u32 v = IN(u32, 0);
    for (int d = 16; d; d >>= 1) v += shfl_down(WARP, v, d, 31);
    if (tid() % 32 == 0) partial[tid() / 32] = v;
    barrier();
    if (tid() < 32) {
        v = tid() < ntid() / 32 ? partial[tid()] : 0;
        for (int d = 16; d; d >>= 1) v += shfl_bfly(WARP, v, d, 31);
        if (tid() == 0) OUT(u32, 0) = v;
    }
}
SHARED(u32, keys, 256);
KERNEL(block_sort) {
    u32 t = tid();
    keys[t] = IN(u32, 0); barrier();
    for (u32 k = 2; k <= ntid(); k <<= 1)
        for (u32 j = k >> 1; j; j >>= 1) {
            u32 o = t ^ j;
            if (o > t && (keys[t] > keys[o]) == !(t & k)) { u32 x = keys[t]; keys[t] = keys[o]; keys[o] = x; }
            barrier();
        }
    OUT(u32, 0) = keys[t];
}
SHARED(u32, sums, 512);
KERNEL(block_scan) {
    u32 t = tid(), from = 0;
    sums[t] = IN(u32, 0); barrier();
    for (u32 d = 1; d < ntid(); d <<= 1) {
        sums[(from ^ 256) + t] = sums[from + t] + (t >= d ? sums[from + t - d] : 0); from ^= 256; barrier();
    }
    OUT(u32, 0) = sums[from + t];
}
SHARED(f32, left, 256);
SHARED(f32, right, 256);
KERNEL(block_product) {
    u32 x = tid() % 16, y = tid() / 16 % 16; f32 sum = 0;
    for (u32 step = 0; step < 4; step++) {
        left[tid()] = (f32)((s32)(IN(u32, step) & 15) - 8); right[tid()] = (f32)(s32)(IN(u32, step + 4) & 7); barrier();
        for (u32 k = 0; k < 16; k++) sum += left[y * 16 + k] * right[k * 16 + x];
        barrier();
    }
    OUT(f32, 0) = sum;
}
