/* Adds two vectors on the GPU and compares every element with the host's sum. */
#include "../include/sample.h"

#define BLOCK 256u

static double size = 50000, iterations = 1, seconds = 0, verbose = 0;

static const struct sample_option options[] = {
    {"size", "N", &size, "elements"},
    {"iterations", "N", &iterations, "additions"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long"},
    {"verbose", NULL, &verbose, "a line for each addition"},
};

int main(int argc, char **argv)
{
    read_options(argc, argv, "Adds two vectors of floats.", options, OPTION_COUNT(options));
    if (size < 1 || size > 1u << 30)
        failed("--size must be from 1 to 2^30");
    unsigned n = (unsigned)size;
    size_t bytes = n * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes), *sum = malloc(bytes);
    if (!a || !b || !sum)
        failed("no host memory for %u elements", n);
    for (unsigned i = 0; i < n; i++) {
        a[i] = (float)rand() / (float)RAND_MAX;
        b[i] = (float)rand() / (float)RAND_MAX;
    }

    CUdevice device = open_device();
    CUmodule module = load_ptx("vectorAdd");
    CUfunction add;
    CUdeviceptr on_a, on_b, on_sum;
    CHECK(cuModuleGetFunction(&add, module, "vectorAdd"));
    CHECK(cuMemAlloc(&on_a, bytes));
    CHECK(cuMemAlloc(&on_b, bytes));
    CHECK(cuMemAlloc(&on_sum, bytes));
    CHECK(cuMemcpyHtoD(on_a, a, bytes));
    CHECK(cuMemcpyHtoD(on_b, b, bytes));

    double begun = now_seconds();
    unsigned long round = 0;
    while (goes_on(round, iterations, begun, seconds)) {
        void *parameters[] = {&on_a, &on_b, &on_sum, &n};
        memset(sum, 0xff, bytes);
        CHECK(cuMemcpyHtoD(on_sum, sum, bytes));
        CHECK(cuLaunchKernel(add, (n + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, parameters,
                             NULL));
        CHECK(cuMemcpyDtoH(sum, on_sum, bytes));
        for (unsigned i = 0; i < n; i++)
            if (sum[i] != a[i] + b[i])
                failed("element %u of addition %lu is %g, not %g", i, round + 1, (double)sum[i],
                       (double)(a[i] + b[i]));
        round++;
        if (verbose)
            printf("addition %lu is correct\n", round);
    }
    printf("%lu additions of %u elements in %.3f s\n", round, n, now_seconds() - begun);

    CHECK(cuMemFree(on_a));
    CHECK(cuMemFree(on_b));
    CHECK(cuMemFree(on_sum));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
