/* Multiplies two square matrices on the GPU, tile by tile through shared memory, and compares every
 * element with the host's product. Elements are small whole numbers, so both are exact. */
#include "../include/sample.h"

#define TILE 16u

static double size = 128, iterations = 1, seconds = 0, verbose = 0;

static const struct sample_option options[] = {
    {"size", "N", &size, "rows and columns, a multiple of 16"},
    {"iterations", "N", &iterations, "products"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long"},
    {"verbose", NULL, &verbose, "a line for each product"},
};

static void multiply_on_host(const float *a, const float *b, float *product, unsigned n)
{
    memset(product, 0, (size_t)n * n * sizeof(float));
    for (unsigned row = 0; row < n; row++)
        for (unsigned k = 0; k < n; k++)
            for (unsigned column = 0; column < n; column++)
                product[row * n + column] += a[row * n + k] * b[k * n + column];
}

int main(int argc, char **argv)
{
    read_options(argc, argv, "Multiplies two square matrices of floats.", options,
                 OPTION_COUNT(options));
    unsigned n = size <= 4096 ? (unsigned)size : 0;
    if (n == 0 || n % TILE != 0)
        failed("--size must be a multiple of %u, at most 4096", TILE);
    size_t bytes = (size_t)n * n * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes), *product = malloc(bytes), *right = malloc(bytes);
    if (!a || !b || !product || !right)
        failed("no host memory for matrices of %u rows", n);
    for (unsigned i = 0; i < n * n; i++) {
        a[i] = (float)(rand() % 8);
        b[i] = (float)(rand() % 8);
    }
    multiply_on_host(a, b, right, n);

    CUdevice device = open_device();
    CUmodule module = load_ptx("matrixMul");
    CUfunction multiply;
    CUdeviceptr on_a, on_b, on_product;
    CHECK(cuModuleGetFunction(&multiply, module, "matrixMul"));
    CHECK(cuMemAlloc(&on_a, bytes));
    CHECK(cuMemAlloc(&on_b, bytes));
    CHECK(cuMemAlloc(&on_product, bytes));
    CHECK(cuMemcpyHtoD(on_a, a, bytes));
    CHECK(cuMemcpyHtoD(on_b, b, bytes));

    double begun = now_seconds();
    unsigned long round = 0;
    while (goes_on(round, iterations, begun, seconds)) {
        void *parameters[] = {&on_a, &on_b, &on_product, &n};
        memset(product, 0xff, bytes);
        CHECK(cuMemcpyHtoD(on_product, product, bytes));
        CHECK(cuLaunchKernel(multiply, n / TILE, n / TILE, 1, TILE, TILE, 1, 0, NULL, parameters,
                             NULL));
        CHECK(cuMemcpyDtoH(product, on_product, bytes));
        for (unsigned i = 0; i < n * n; i++)
            if (product[i] != right[i])
                failed("element %u,%u of product %lu is %g, not %g", i / n, i % n, round + 1,
                       (double)product[i], (double)right[i]);
        round++;
        if (verbose)
            printf("product %lu is correct\n", round);
    }
    printf("%lu products of %u x %u in %.3f s\n", round, n, n, now_seconds() - begun);

    CHECK(cuMemFree(on_a));
    CHECK(cuMemFree(on_b));
    CHECK(cuMemFree(on_product));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
