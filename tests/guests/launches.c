/* Launches kernels from so many threads until it is told to end, and keeps count in a file that its
 * tester reads: what the kernels themselves saw, not what the driver was told.
 *   launches FILE THREADS ROAD BURN     ROAD: stream, legacy, per-thread, ex, cooperative, graph
 *   launches uuid                       prints the first device's UUID
 * Prints "READY pid" when every thread has launched once. The file's words are `struct counts`. */
#include "launch.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

static struct counts {
    volatile unsigned stop, ready, begun, ended, launches, failed, burn, pause, per_thread[64];
} *counts;
static CUmodule module;
static CUfunction kernel;
static CUcontext context;
static CUdeviceptr cells;
static const char *road;

/* One thread adds one, burns so many rounds, adds one to the next cell. */
static const char ptx[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry count(.param .u64 cells, .param .u32 burn) {\n"
    ".reg .pred %p; .reg .u32 %a, %b, %n; .reg .u64 %c;\n"
    "ld.param.u64 %c, [cells]; ld.param.u32 %n, [burn];\n"
    "atom.global.add.u32 %a, [%c], 1;\n"
    "mov.u32 %b, 0;\n"
    "AGAIN: setp.ge.u32 %p, %b, %n;\n@%p bra DONE;\nadd.u32 %b, %b, 1;\nbra AGAIN;\n"
    "DONE: atom.global.add.u32 %a, [%c+4], 1;\nret;\n}\n";

static void launch(CUstream stream, CUgraphExec exec) {
    CUdeviceptr at = cells;
    unsigned burn = counts->burn;
    void *params[] = {&at, &burn};
    CUlaunchConfig config = {{1, 1, 1}, {1, 1, 1}, 0, stream, NULL, 0};
    CUresult code;
    if (!strcmp(road, "per-thread")) code = cuLaunchKernel_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    else if (!strcmp(road, "ex")) code = cuLaunchKernelEx(&config, kernel, params, NULL);
    else if (!strcmp(road, "cooperative")) code = cuLaunchCooperativeKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params);
    else if (!strcmp(road, "graph")) code = cuGraphLaunch(exec, stream);
    else code = cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
    __atomic_fetch_add(code == OK ? &counts->launches : &counts->failed, 1, __ATOMIC_SEQ_CST);
}

static void synchronize(CUstream stream) {
    MUST(!strcmp(road, "per-thread") ? cuStreamSynchronize_ptsz(NULL) : cuStreamSynchronize(stream));
}

static void *work(void *number) {
    CUstream stream = NULL;
    CUgraphExec exec = NULL;
    CUgraph graph;
    size_t at = (size_t)number;
    MUST(cuCtxSetCurrent(context));
    if (strcmp(road, "legacy") && strcmp(road, "per-thread")) MUST(cuStreamCreate(&stream, 1));
    if (!strcmp(road, "graph")) {
        unsigned burn = counts->burn;
        void *params[] = {&cells, &burn};
        MUST(cuStreamBeginCapture_v2(stream, 1));
        MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
        MUST(cuStreamEndCapture(stream, &graph));
        MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    }
    launch(stream, exec);
    __atomic_fetch_add(&counts->ready, 1, __ATOMIC_SEQ_CST);
    while (!counts->stop) {
        for (int i = 0; i < 4; i++) {
            launch(stream, exec);
            __atomic_fetch_add(&counts->per_thread[at % 64], 1, __ATOMIC_SEQ_CST);
        }
        synchronize(stream);
        while (counts->pause && !counts->stop) usleep(1000);
    }
    return NULL;
}

static void print_uuid(void) {
    unsigned char uuid[16];
    MUST(cuInit(0));
    MUST(cuDeviceGetUuid(uuid, 0));
    for (int i = 0; i < 16; i++) printf("%02x", uuid[i]);
    puts("");
}

int main(int argc, char **argv) {
    pthread_t threads[128];
    case_id = "launches";
    if (argc == 2) return print_uuid(), 0;
    CHECK(argc == 5, "launches FILE THREADS ROAD BURN");
    int file = open(argv[1], O_RDWR), many = atoi(argv[2]);
    road = argv[3];
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(counts != MAP_FAILED && many <= 128, "no %s", argv[1]);
    counts->burn = (unsigned)atoi(argv[4]);
    context = first_gpu();
    MUST(cuMemHostRegister_v2((void *)counts, 4096, 0));
    MUST(cuMemHostGetDevicePointer_v2(&cells, (void *)&counts->begun, 0));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&kernel, module, "count"));
    for (size_t i = 0; i < (size_t)many; i++) CHECK(!pthread_create(&threads[i], NULL, work, (void *)i), "no thread");
    while (counts->ready < (unsigned)many) usleep(1000);
    printf("READY %d\n", getpid());
    fflush(stdout);
    for (int i = 0; i < many; i++) pthread_join(threads[i], NULL);
    MUST(cuCtxSynchronize());
    CHECK(counts->begun == counts->ended && counts->begun == counts->launches && !counts->failed,
          "%u launched, %u begun, %u ended, %u failed", counts->launches, counts->begun, counts->ended, counts->failed);
    puts("DONE");
    return 0;
}
