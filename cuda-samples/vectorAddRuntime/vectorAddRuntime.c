/* vectorAdd in runtime-API form: no context and no module is named, the runtime has them. */
#include "../include/runtime.h"

#define BLOCK 256u

static double size = 50000, iterations = 1, seconds = 0;

static const struct sample_option options[] = {
    {"size", "N", &size, "elements"},
    {"iterations", "N", &iterations, "additions"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long"},
};

int main(int argc, char **argv)
{
    read_options(argc, argv, "Adds two vectors of floats by the runtime API.", options, OPTION_COUNT(options));
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

    void *on_a, *on_b, *on_sum;
    cudaKernel_t add = load_kernel("vectorAddRuntime", "vectorAdd");
    CHECK(cudaMalloc(&on_a, bytes));
    CHECK(cudaMalloc(&on_b, bytes));
    CHECK(cudaMalloc(&on_sum, bytes));
    CHECK(cudaMemcpy(on_a, a, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(on_b, b, bytes, cudaMemcpyHostToDevice));
    double begun = now_seconds();
    unsigned long round = 0;
    for (; goes_on(round, iterations, begun, seconds); round++) {
        void *parameters[] = {&on_a, &on_b, &on_sum, &n};
        CHECK(cudaMemset(on_sum, 0xff, bytes));
        CHECK(cudaLaunchKernel(add, (dim3){(n + BLOCK - 1) / BLOCK, 1, 1}, (dim3){BLOCK, 1, 1}, parameters, 0, NULL));
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(sum, on_sum, bytes, cudaMemcpyDeviceToHost));
        for (unsigned i = 0; i < n; i++)
            if (sum[i] != a[i] + b[i])
                failed("element %u of addition %lu is %g, not %g", i, round + 1, (double)sum[i],
                       (double)(a[i] + b[i]));
    }
    printf("%lu additions of %u elements in %.3f s\n", round, n, now_seconds() - begun);
    CHECK(cudaFree(on_a));
    CHECK(cudaFree(on_b));
    CHECK(cudaFree(on_sum));
    printf("PASSED\n");
    return 0;
}
