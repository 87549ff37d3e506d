/* Draws the Mandelbrot set on the GPU and compares every point with the host's. */
#include "../include/sample.h"

#define TILE 16u

static double width = 160, height = 96, most = 128, picture = 0, seconds = 0, iterations = 1;

static const struct sample_option options[] = {
    {"width", "N", &width, "points across"},
    {"height", "N", &height, "points down"},
    {"most", "N", &most, "steps after which a point counts as inside"},
    {"iterations", "N", &iterations, "pictures"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long"},
    {"picture", NULL, &picture, "show it in letters"},
};

static unsigned steps_on_host(double a, double b, unsigned limit)
{
    double re = 0, im = 0;
    unsigned n = 0;
    while (n < limit && re * re + im * im <= 4.0) {
        double next = re * re - im * im + a;
        im = 2.0 * re * im + b;
        re = next;
        n++;
    }
    return n;
}

int main(int argc, char **argv)
{
    read_options(argc, argv, "Draws the Mandelbrot set.", options, OPTION_COUNT(options));
    if (width < 1 || height < 1 || width > 1 << 14 || height > 1 << 14 || most < 1 || most > 1 << 20)
        failed("--width and --height must be from 1 to 2^14, --most from 1 to 2^20");
    unsigned w = (unsigned)width, h = (unsigned)height, limit = (unsigned)most;
    size_t bytes = (size_t)w * h * sizeof(unsigned);
    unsigned *steps = malloc(bytes);
    if (!steps)
        failed("no host memory for %u x %u", w, h);
    double scale = 3.0 / w, left = -2.2, top = -scale * h / 2;

    CUdevice device = open_device();
    CUmodule module = load_ptx("mandelbrot");
    CUfunction mandelbrot;
    CUdeviceptr out;
    CHECK(cuModuleGetFunction(&mandelbrot, module, "mandelbrot"));
    CHECK(cuMemAlloc(&out, bytes));
    double begun = now_seconds();
    unsigned long round = 0;
    for (; goes_on(round, iterations, begun, seconds); round++) {
        void *parameters[] = {&out, &w, &h, &limit, &left, &top, &scale};
        CHECK(cuLaunchKernel(mandelbrot, (w + TILE - 1) / TILE, (h + TILE - 1) / TILE, 1, TILE, TILE, 1, 0, NULL,
                             parameters, NULL));
        CHECK(cuMemcpyDtoH(steps, out, bytes));
        for (unsigned y = 0; y < h; y++)
            for (unsigned x = 0; x < w; x++) {
                unsigned wanted = steps_on_host(left + x * scale, top + y * scale, limit);
                if (steps[(size_t)y * w + x] != wanted)
                    failed("point %u, %u takes %u steps, not %u", x, y, steps[(size_t)y * w + x], wanted);
            }
    }
    printf("%lu pictures of %u x %u in %.3f s\n", round, w, h, now_seconds() - begun);
    for (unsigned y = 0; picture != 0 && y < h; y += 2, putchar('\n'))
        for (unsigned x = 0; x < w; x++)
            putchar(" .:-=+*#%@"[steps[(size_t)y * w + x] * 9 / limit]);
    CHECK(cuMemFree(out));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
