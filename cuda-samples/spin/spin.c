/* Keeps the GPU's compute engine busy for a given time by the GPU's own clock. One launch at a time, it
 * compares what the kernel and the events measured with what was asked for; with a queue (--depth) it
 * counts what was finished and how long that ran on the GPU. */
#include "../include/sample.h"

#include <pthread.h>
#include <signal.h>

#define MOST_DEPTH 1024
#define MOST_STREAMS 64

static double milliseconds = 10, nanoseconds = 0, iterations = 10, seconds = 0, blocks = 1, threads = 32,
              depth = 1, streams = 1, ex = 0, cooperative = 0, graph = 0, per_thread = 0, verbose = 0;

static const struct sample_option options[] = {
    {"ms", "N", &milliseconds, "milliseconds that a kernel spins"},
    {"ns", "N", &nanoseconds, "instead: nanoseconds"},
    {"iterations", "N", &iterations, "launches, of each stream"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long, or until SIGTERM"},
    {"blocks", "N", &blocks, "blocks of a kernel"},
    {"threads", "N", &threads, "threads of a block"},
    {"depth", "N", &depth, "launches that are queued at the same time"},
    {"streams", "N", &streams, "host threads, each with a stream"},
    {"per-thread", NULL, &per_thread, "on each thread's default stream"},
    {"ex", NULL, &ex, "by cuLaunchKernelEx"},
    {"cooperative", NULL, &cooperative, "by cuLaunchCooperativeKernel"},
    {"graph", "N", &graph, "by launching a graph of so many kernels"},
    {"verbose", NULL, &verbose, "a line for each kernel, one launch at a time"},
};

/* What the kernel writes: its time, and for all of them together their number and their time. */
struct spun {
    uint64_t ns, kernels, total_ns;
};

static uint64_t asked_ns;
static CUfunction spin;
static CUdeviceptr on_spun;
static CUcontext context;
static double begun;
static volatile sig_atomic_t told_to_end;

static void end(int signal)
{
    (void)signal;
    told_to_end = 1;
}

static void launch(CUstream stream)
{
    void *parameters[] = {&asked_ns, &on_spun};
    unsigned grid = (unsigned)blocks, block = (unsigned)threads;
    if (ex) {
        CUlaunchConfig config = {grid, 1, 1, block, 1, 1, 0, stream, NULL, 0};
        CHECK(cuLaunchKernelEx(&config, spin, parameters, NULL));
    } else if (cooperative)
        CHECK(cuLaunchCooperativeKernel(spin, grid, 1, 1, block, 1, 1, 0, stream, parameters));
    else
        CHECK(cuLaunchKernel(spin, grid, 1, 1, block, 1, 1, 0, stream, parameters, NULL));
}

/* A graph of kernels one after another, captured on the stream. */
static CUgraphExec captured(CUstream stream)
{
    CUgraph made;
    CUgraphExec ready;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int kernel = 0; kernel < (int)graph; kernel++)
        launch(stream);
    CHECK(cuStreamEndCapture(stream, &made));
    CHECK(cuGraphInstantiateWithFlags(&ready, made, 0));
    CHECK(cuGraphDestroy(made));
    return ready;
}

/* One stream that always has `depth` launches queued. */
static void *keep_busy(void *launched)
{
    CUstream stream = CU_STREAM_PER_THREAD;
    CUevent ended[MOST_DEPTH];
    CUgraphExec all = NULL;
    unsigned long round = 0, slots = (unsigned long)depth;
    CHECK(cuCtxSetCurrent(context));
    if (!per_thread)
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned long slot = 0; slot < slots; slot++)
        CHECK(cuEventCreate(&ended[slot], CU_EVENT_DISABLE_TIMING));
    if (graph > 0)
        all = captured(stream);
    for (; !told_to_end && goes_on(round, iterations, begun, seconds); round++) {
        if (round >= slots)
            CHECK(cuEventSynchronize(ended[round % slots]));
        if (all)
            CHECK(cuGraphLaunch(all, stream));
        else
            launch(stream);
        CHECK(cuEventRecord(ended[round % slots], stream));
    }
    CHECK(cuStreamSynchronize(stream));
    if (all)
        CHECK(cuGraphExecDestroy(all));
    for (unsigned long slot = 0; slot < slots; slot++)
        CHECK(cuEventDestroy(ended[slot]));
    if (!per_thread)
        CHECK(cuStreamDestroy(stream));
    *(unsigned long *)launched = round;
    return NULL;
}

static void queued(void)
{
    pthread_t thread[MOST_STREAMS];
    unsigned long launched[MOST_STREAMS], all = 0;
    struct spun spun;
    for (int i = 0; i < (int)streams; i++)
        if (pthread_create(&thread[i], NULL, keep_busy, &launched[i]) != 0)
            failed("cannot start thread %d", i);
    for (int i = 0; i < (int)streams; i++) {
        pthread_join(thread[i], NULL);
        all += launched[i];
    }
    double took = now_seconds() - begun;
    CHECK(cuMemcpyDtoH(&spun, on_spun, sizeof spun));
    unsigned long kernels = graph > 0 ? all * (unsigned long)graph : all;
    if (spun.kernels != kernels || spun.total_ns < kernels * asked_ns)
        failed("%lu kernels were launched, %llu ended after %llu ns", kernels,
               (unsigned long long)spun.kernels, (unsigned long long)spun.total_ns);
    printf("finished %lu launches: %lu kernels, %llu ns of GPU time in %.0f ns\n", all, kernels,
           (unsigned long long)spun.total_ns, took * 1e9);
}

/* The event's time between two launches' ends, and the kernel's own. */
static void one_at_a_time(void)
{
    CUevent start, stop;
    double total_ns = 0;
    unsigned long round = 0;
    CHECK(cuEventCreate(&start, 0));
    CHECK(cuEventCreate(&stop, 0));
    for (; !told_to_end && goes_on(round, iterations, begun, seconds); round++) {
        float elapsed_ms;
        struct spun spun = {0, 0, 0};
        CHECK(cuMemcpyHtoD(on_spun, &spun, sizeof spun));
        CHECK(cuEventRecord(start, NULL));
        launch(NULL);
        CHECK(cuEventRecord(stop, NULL));
        CHECK(cuEventSynchronize(stop));
        CHECK(cuEventElapsedTime(&elapsed_ms, start, stop));
        CHECK(cuMemcpyDtoH(&spun, on_spun, sizeof spun));
        if (spun.ns < asked_ns)
            failed("kernel %lu spun for %llu ns, not %llu", round + 1, (unsigned long long)spun.ns,
                   (unsigned long long)asked_ns);
        /* A GPU's clock may advance in steps of 1 ms or so. */
        if ((double)elapsed_ms < (double)asked_ns * 1e-6 - 2)
            failed("events around kernel %lu are %.3f ms apart", round + 1, (double)elapsed_ms);
        total_ns += (double)spun.ns;
        if (verbose)
            printf("kernel %lu took %.3f ms\n", round + 1, (double)elapsed_ms);
    }
    double took = now_seconds() - begun;
    printf("%lu kernels spun for %.3f s in %.3f s\n", round, total_ns * 1e-9, took);
    CHECK(cuEventDestroy(start));
    CHECK(cuEventDestroy(stop));
}

int main(int argc, char **argv)
{
    read_options(argc, argv, "Runs kernels that spin for a given time.", options,
                 OPTION_COUNT(options));
    if (blocks < 1 || blocks > 65535 || threads < 1 || threads > 1024 || milliseconds > 60000)
        failed("--blocks 1 to 65535, --threads 1 to 1024, --ms at most 60000");
    if (depth < 1 || depth > MOST_DEPTH || streams < 1 || streams > MOST_STREAMS || graph > 10000)
        failed("--depth 1 to %d, --streams 1 to %d, --graph at most 10000", MOST_DEPTH, MOST_STREAMS);
    asked_ns = nanoseconds > 0 ? (uint64_t)nanoseconds : (uint64_t)(milliseconds * 1e6);
    signal(SIGTERM, end);

    CUdevice device = open_device();
    CUmodule module = load_ptx("spin");
    struct spun spun = {0, 0, 0};
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuModuleGetFunction(&spin, module, "spin"));
    CHECK(cuMemAlloc(&on_spun, sizeof spun));
    CHECK(cuMemcpyHtoD(on_spun, &spun, sizeof spun));
    begun = now_seconds();
    if (depth > 1 || streams > 1 || graph > 0 || per_thread)
        queued();
    else
        one_at_a_time();
    CHECK(cuMemFree(on_spun));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
