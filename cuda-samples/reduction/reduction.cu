/* The sum of n numbers: each block sums a stretch in shared memory and, with the last step, among the lanes of a warp.
 * Made into reduction.ptx by the command in cuda-samples/README.md. */
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define TID(d) __nvvm_read_ptx_sreg_tid_##d()
#define CTA(d) __nvvm_read_ptx_sreg_ctaid_##d()
#define NTID(d) __nvvm_read_ptx_sreg_ntid_##d()
#define NCTA(d) __nvvm_read_ptx_sreg_nctaid_##d()
#define SYNC() __nvvm_bar_sync(0)

extern "C" __global__ void reduction(const float *in, float *out, unsigned n) {
    __shared__ float part[256];
    unsigned t = TID(x), step = NTID(x) * NCTA(x);
    float sum = 0;
    for (unsigned i = CTA(x) * NTID(x) + t; i < n; i += step) sum += in[i];
    part[t] = sum;
    SYNC();
    for (unsigned half = NTID(x) / 2; half >= 32; half /= 2) {
        if (t < half) part[t] += part[t + half];
        SYNC();
    }
    if (t < 32) {
        float lane = part[t];
        for (int offset = 16; offset > 0; offset /= 2) lane += __nvvm_shfl_sync_down_f32(0xffffffff, lane, offset, 31);
        if (t == 0) out[CTA(x)] = lane;
    }
}
