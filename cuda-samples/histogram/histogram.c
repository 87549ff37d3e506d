/* Counts bytes on the GPU by atomic additions and compares every count. */
#include "../include/sample.h"

#define BINS 256u
#define BLOCKS 32u

static double size = 1 << 20, iterations = 1, seconds = 0;

static const struct sample_option options[] = {
    {"size", "BYTES", &size, "bytes to count"},
    {"iterations", "N", &iterations, "times"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long"},
};

int main(int argc, char **argv)
{
    read_options(argc, argv, "Counts how often each byte occurs.", options, OPTION_COUNT(options));
    if (size < 1 || size > 1u << 30)
        failed("--size must be from 1 to 1GiB");
    unsigned n = (unsigned)size, wanted[BINS] = {0}, counts[BINS], zeroes[BINS] = {0}, seed = 1;
    unsigned char *text = malloc(n);
    if (!text)
        failed("no host memory for %u bytes", n);
    for (unsigned i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        text[i] = (unsigned char)((seed >> 24) & (seed >> 16));
        wanted[text[i]]++;
    }

    CUdevice device = open_device();
    CUmodule module = load_ptx("histogram");
    CUfunction histogram;
    CUdeviceptr in, out;
    CHECK(cuModuleGetFunction(&histogram, module, "histogram"));
    CHECK(cuMemAlloc(&in, n));
    CHECK(cuMemAlloc(&out, sizeof counts));
    CHECK(cuMemcpyHtoD(in, text, n));
    double begun = now_seconds();
    unsigned long round = 0;
    for (; goes_on(round, iterations, begun, seconds); round++) {
        void *parameters[] = {&in, &out, &n};
        CHECK(cuMemcpyHtoD(out, zeroes, sizeof zeroes));
        CHECK(cuLaunchKernel(histogram, BLOCKS, 1, 1, BINS, 1, 1, 0, NULL, parameters, NULL));
        CHECK(cuMemcpyDtoH(counts, out, sizeof counts));
        for (unsigned i = 0; i < BINS; i++)
            if (counts[i] != wanted[i])
                failed("byte %u was counted %u times, not %u", i, counts[i], wanted[i]);
    }
    printf("%lu times %u bytes in %.3f s\n", round, n, now_seconds() - begun);
    CHECK(cuMemFree(in));
    CHECK(cuMemFree(out));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
