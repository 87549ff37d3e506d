/* Keeps the GPU's compute engine busy for a given time by the GPU's own clock, and compares what the
 * kernel and the events measured with what was asked for. */
#include "../include/sample.h"

static double milliseconds = 10, iterations = 10, seconds = 0, blocks = 1, threads = 32, verbose = 0;

static const struct sample_option options[] = {
    {"ms", "N", &milliseconds, "milliseconds that a kernel spins"},
    {"iterations", "N", &iterations, "kernels"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long"},
    {"blocks", "N", &blocks, "blocks of a kernel"},
    {"threads", "N", &threads, "threads of a block"},
    {"verbose", NULL, &verbose, "a line for each kernel"},
};

int main(int argc, char **argv)
{
    read_options(argc, argv, "Runs kernels that spin for a given time.", options,
                 OPTION_COUNT(options));
    if (blocks < 1 || blocks > 65535 || threads < 1 || threads > 1024 || milliseconds > 60000)
        failed("--blocks 1 to 65535, --threads 1 to 1024, --ms at most 60000");
    uint64_t asked_ns = (uint64_t)(milliseconds * 1e6), spun_ns, total_ns = 0;

    CUdevice device = open_device();
    CUmodule module = load_ptx("spin");
    CUfunction spin;
    CUdeviceptr on_spun;
    CUevent start, end;
    CHECK(cuModuleGetFunction(&spin, module, "spin"));
    CHECK(cuMemAlloc(&on_spun, sizeof spun_ns));
    CHECK(cuEventCreate(&start, 0));
    CHECK(cuEventCreate(&end, 0));

    double begun = now_seconds();
    unsigned long round = 0;
    while (goes_on(round, iterations, begun, seconds)) {
        float elapsed_ms;
        void *parameters[] = {&asked_ns, &on_spun};
        spun_ns = 0;
        CHECK(cuMemcpyHtoD(on_spun, &spun_ns, sizeof spun_ns));
        CHECK(cuEventRecord(start, NULL));
        CHECK(cuLaunchKernel(spin, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0, NULL,
                             parameters, NULL));
        CHECK(cuEventRecord(end, NULL));
        CHECK(cuEventSynchronize(end));
        CHECK(cuEventElapsedTime(&elapsed_ms, start, end));
        CHECK(cuMemcpyDtoH(&spun_ns, on_spun, sizeof spun_ns));
        if (spun_ns < asked_ns)
            failed("kernel %lu spun for %llu ns, not %llu", round + 1, (unsigned long long)spun_ns,
                   (unsigned long long)asked_ns);
        /* A GPU's clock may advance in steps of 1 ms or so. */
        if ((double)elapsed_ms < milliseconds - 2)
            failed("events around kernel %lu are %.3f ms apart", round + 1, (double)elapsed_ms);
        total_ns += spun_ns;
        round++;
        if (verbose)
            printf("kernel %lu took %.3f ms\n", round, (double)elapsed_ms);
    }
    double took = now_seconds() - begun;
    printf("%lu kernels spun for %.3f s in %.3f s\n", round, (double)total_ns * 1e-9, took);

    CHECK(cuEventDestroy(start));
    CHECK(cuEventDestroy(end));
    CHECK(cuMemFree(on_spun));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
