/* How many steps each point of the plane takes to leave the circle of radius 2.
 * Made into mandelbrot.ptx by the command in cuda-samples/README.md. */
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define TID(d) __nvvm_read_ptx_sreg_tid_##d()
#define CTA(d) __nvvm_read_ptx_sreg_ctaid_##d()
#define NTID(d) __nvvm_read_ptx_sreg_ntid_##d()
#define NCTA(d) __nvvm_read_ptx_sreg_nctaid_##d()
#define SYNC() __nvvm_bar_sync(0)

extern "C" __global__ void mandelbrot(unsigned *steps, unsigned width, unsigned height, unsigned most, double left,
                                      double top, double scale) {
    unsigned x = CTA(x) * NTID(x) + TID(x), y = CTA(y) * NTID(y) + TID(y);
    if (x >= width || y >= height) return;
    double a = left + x * scale, b = top + y * scale, re = 0, im = 0;
    unsigned n = 0;
    while (n < most && re * re + im * im <= 4.0) {
        double next = re * re - im * im + a;
        im = 2.0 * re * im + b;
        re = next;
        n++;
    }
    steps[y * width + x] = n;
}
