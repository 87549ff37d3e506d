/* Turns a matrix over its diagonal on the GPU and compares every element. */
#include "../include/sample.h"

#define TILE 16u

static double width = 400, height = 300, iterations = 1, seconds = 0;

static const struct sample_option options[] = {
    {"width", "N", &width, "columns"},
    {"height", "N", &height, "rows"},
    {"iterations", "N", &iterations, "times"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long"},
};

int main(int argc, char **argv)
{
    read_options(argc, argv, "Transposes a matrix.", options, OPTION_COUNT(options));
    if (width < 1 || height < 1 || width > 1 << 15 || height > 1 << 15)
        failed("--width and --height must be from 1 to 2^15");
    unsigned w = (unsigned)width, h = (unsigned)height;
    size_t bytes = (size_t)w * h * sizeof(float);
    float *matrix = malloc(bytes), *turned = malloc(bytes);
    if (!matrix || !turned)
        failed("no host memory for %u x %u", w, h);
    for (size_t i = 0; i < (size_t)w * h; i++)
        matrix[i] = (float)(i % 8191);

    CUdevice device = open_device();
    CUmodule module = load_ptx("transpose");
    CUfunction transpose;
    CUdeviceptr in, out;
    CHECK(cuModuleGetFunction(&transpose, module, "transpose"));
    CHECK(cuMemAlloc(&in, bytes));
    CHECK(cuMemAlloc(&out, bytes));
    CHECK(cuMemcpyHtoD(in, matrix, bytes));
    double begun = now_seconds();
    unsigned long round = 0;
    for (; goes_on(round, iterations, begun, seconds); round++) {
        void *parameters[] = {&in, &out, &w, &h};
        memset(turned, 0xff, bytes);
        CHECK(cuMemcpyHtoD(out, turned, bytes));
        CHECK(cuLaunchKernel(transpose, (w + TILE - 1) / TILE, (h + TILE - 1) / TILE, 1, TILE, TILE, 1, 0, NULL,
                             parameters, NULL));
        CHECK(cuMemcpyDtoH(turned, out, bytes));
        for (unsigned y = 0; y < h; y++)
            for (unsigned x = 0; x < w; x++)
                if (turned[(size_t)x * h + y] != matrix[(size_t)y * w + x])
                    failed("row %u, column %u is %g, not %g", x, y, (double)turned[(size_t)x * h + y],
                           (double)matrix[(size_t)y * w + x]);
    }
    printf("%lu times %u x %u in %.3f s\n", round, w, h, now_seconds() - begun);
    CHECK(cuMemFree(in));
    CHECK(cuMemFree(out));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
