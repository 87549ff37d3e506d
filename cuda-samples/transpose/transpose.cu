/* A matrix turned over its diagonal, tile by tile through shared memory; the odd column keeps banks apart.
 * Made into transpose.ptx by the command in cuda-samples/README.md. */
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define TID(d) __nvvm_read_ptx_sreg_tid_##d()
#define CTA(d) __nvvm_read_ptx_sreg_ctaid_##d()
#define NTID(d) __nvvm_read_ptx_sreg_ntid_##d()
#define NCTA(d) __nvvm_read_ptx_sreg_nctaid_##d()
#define SYNC() __nvvm_bar_sync(0)

extern "C" __global__ void transpose(const float *in, float *out, unsigned width, unsigned height) {
    __shared__ float tile[16][17];
    unsigned x = CTA(x) * 16 + TID(x), y = CTA(y) * 16 + TID(y);
    if (x < width && y < height) tile[TID(y)][TID(x)] = in[y * width + x];
    SYNC();
    x = CTA(y) * 16 + TID(x), y = CTA(x) * 16 + TID(y);
    if (x < height && y < width) out[y * height + x] = tile[TID(x)][TID(y)];
}
