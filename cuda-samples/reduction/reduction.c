/* Sums numbers on the GPU, in one launch that leaves a sum for each block and a second that sums those. */
#include "../include/sample.h"

#define BLOCK 256u
#define BLOCKS 64u

static double size = 1 << 20, iterations = 1, seconds = 0;

static const struct sample_option options[] = {
    {"size", "N", &size, "numbers"},
    {"iterations", "N", &iterations, "sums"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long"},
};

static float sum_of(CUfunction reduction, CUdeviceptr in, CUdeviceptr parts, CUdeviceptr out, unsigned n)
{
    unsigned blocks = BLOCKS;
    float sum = -1;
    void *first[] = {&in, &parts, &n}, *second[] = {&parts, &out, &blocks};
    CHECK(cuLaunchKernel(reduction, BLOCKS, 1, 1, BLOCK, 1, 1, 0, NULL, first, NULL));
    CHECK(cuLaunchKernel(reduction, 1, 1, 1, BLOCK, 1, 1, 0, NULL, second, NULL));
    CHECK(cuMemcpyDtoH(&sum, out, sizeof sum));
    return sum;
}

int main(int argc, char **argv)
{
    read_options(argc, argv, "Sums numbers.", options, OPTION_COUNT(options));
    if (size < 1 || size > 1u << 30)
        failed("--size must be from 1 to 2^30");
    unsigned n = (unsigned)size;
    float *numbers = malloc(n * sizeof *numbers);
    if (!numbers)
        failed("no host memory for %u numbers", n);
    /* Small whole numbers: every order of adding them gives the same sum, as long as it is exact. */
    double wanted = 0;
    for (unsigned i = 0; i < n; i++)
        wanted += numbers[i] = (float)((i * 7u) % 4u) * (i % 64u == 0);
    if (wanted > 1 << 24)
        failed("--size is too large for an exact sum of floats");

    CUdevice device = open_device();
    CUmodule module = load_ptx("reduction");
    CUfunction reduction;
    CUdeviceptr in, parts, out;
    CHECK(cuModuleGetFunction(&reduction, module, "reduction"));
    CHECK(cuMemAlloc(&in, n * sizeof *numbers));
    CHECK(cuMemAlloc(&parts, BLOCKS * sizeof(float)));
    CHECK(cuMemAlloc(&out, sizeof(float)));
    CHECK(cuMemcpyHtoD(in, numbers, n * sizeof *numbers));
    double begun = now_seconds();
    unsigned long round = 0;
    for (; goes_on(round, iterations, begun, seconds); round++) {
        float sum = sum_of(reduction, in, parts, out, n);
        if ((double)sum != wanted)
            failed("sum %lu is %g, not %g", round + 1, (double)sum, wanted);
    }
    printf("%lu sums of %u numbers in %.3f s\n", round, n, now_seconds() - begun);
    CHECK(cuMemFree(in));
    CHECK(cuMemFree(parts));
    CHECK(cuMemFree(out));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
