/* Programs that do something odd while their tester opens and closes gates. Each prints "READY pid",
 * waits for a line before every further step, and prints what came of it.
 *   capture   holds a capture open; then ends it, and replays it
 *   flags     a stream waits for a flag that a launch on a second one sets: between the two the gate is closed
 *   ends      main returns while a thread waits at the gate
 *   forks     a child of an initialised process tries to launch
 *   twins     forks before cuInit: two processes join, both launch
 *   dies      a thread is cancelled while it waits at the gate; another launches in its stead
 *   contexts  destroys a context while it is drained, again and again
 *   crosses   launches on a stream of a context that is not current */
#include "launch.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static CUmodule module;
static CUfunction add, set;
static CUdeviceptr cells;

static const char ptx[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry add(.param .u64 cells) {\n.reg .u32 %a; .reg .u64 %c;\n"
    "ld.param.u64 %c, [cells]; atom.global.add.u32 %a, [%c], 1; ret;\n}\n"
    ".visible .entry set(.param .u64 cells) {\n.reg .u32 %a; .reg .u64 %c;\n"
    "ld.param.u64 %c, [cells]; mov.u32 %a, 1; st.volatile.global.u32 [%c+4], %a; ret;\n}\n";

static void step(void) {
    char line[64];
    if (!fgets(line, sizeof line, stdin)) exit(3);
}
static CUresult launch(CUfunction kernel, CUstream stream) {
    void *params[] = {&cells};
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}
static unsigned count(void) {
    unsigned seen[2];
    MUST(cuMemcpyDtoH_v2(seen, cells, sizeof seen));
    return seen[0];
}
static void load(void) {
    MUST(cuMemAlloc_v2(&cells, 4096));
    MUST(cuMemsetD8Async(cells, 0, 4096, NULL));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&add, module, "add"));
    MUST(cuModuleGetFunction(&set, module, "set"));
}
static CUcontext begin(void) {
    CUcontext context = first_gpu();
    load();
    MUST(launch(add, NULL));
    MUST(cuCtxSynchronize());
    printf("READY %d\n", getpid());
    return context;
}

/* Launches on a stream of its own while the other one is captured; it asks the driver nothing else. */
static volatile int over;
static unsigned beside;
static void *launches_beside(void *stream) {
    while (!over) {
        MUST(launch(add, stream));
        beside++;
        usleep(500);
    }
    return NULL;
}

static void capture(void) {
    pthread_t thread;
    CUstream other;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUcontext context = begin();
    step(); /* the bound is set, or not */
    MUST(cuStreamCreate(&stream, 1));
    MUST(cuStreamCreate(&other, 1));
    MUST(cuStreamBeginCapture_v2(stream, 0));
    MUST(launch(add, stream));
    CHECK(context && !pthread_create(&thread, NULL, launches_beside, other), "no thread");
    puts("OPEN");
    step(); /* the gate is closed, and drained */
    MUST(launch(add, stream));
    puts("CAPTURED");
    step();
    CUresult code = cuStreamEndCapture(stream, &graph);
    CHECK(code == OK, "the capture ended with %d", code);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    puts("ENDED");
    MUST(cuGraphLaunch(exec, stream)); /* waits until the gate is open */
    over = 1;
    pthread_join(thread, NULL);
    MUST(cuCtxSynchronize());
    CHECK(count() == 3 + beside && beside > 0, "%u kernels ran, %u were launched", count(), 3 + beside);
    puts("DONE");
}

static void flags(void) {
    CUstream one, two;
    begin();
    step(); /* the bound is set, or not */
    MUST(cuStreamCreate(&one, 1));
    MUST(cuStreamCreate(&two, 1));
    MUST(cuStreamWaitValue32_v2(one, cells + 4, 1, 1)); /* 1: until equal */
    MUST(launch(add, one));
    puts("WAITS");
    step(); /* the gate is closed */
    MUST(launch(set, two));
    puts("SET");
    MUST(cuCtxSynchronize());
    puts("DONE");
}

static void *launches(void *context) {
    MUST(cuCtxSetCurrent(context));
    for (;;) {
        CUresult code = launch(add, NULL);
        if (code != OK) return NULL;
        MUST(cuCtxSynchronize());
    }
}
/* What a runtime library does at the end of its program. */
static void last_launch(void) { launch(add, NULL); }
static void ends(void) {
    pthread_t thread;
    atexit(last_launch);
    CUcontext context = begin();
    pthread_create(&thread, NULL, launches, context);
    step(); /* the gate is closed, the thread waits */
    puts("DONE");
    fflush(stdout);
}

static void forks(void) {
    int status;
    begin();
    step(); /* the gate is closed */
    pid_t child = fork();
    if (child == 0) _exit(launch(add, NULL) == NOT_INITIALIZED ? 0 : 1);
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child ended with %#x", status);
    puts("DONE");
}

static void twins(void) {
    int status, end[2];
    char byte;
    CHECK(!pipe(end), "no pipe");
    pid_t child = fork();
    if (child == 0) {
        begin();
        while (read(end[0], &byte, 1) == 1) {
            MUST(launch(add, NULL));
            MUST(cuCtxSynchronize());
            puts("CHILD");
        }
        _exit(0);
    }
    begin();
    step(); /* the parent's gate is closed */
    CHECK(write(end[1], "x", 1) == 1, "no write");
    step(); /* the child has launched */
    MUST(launch(add, NULL));
    puts("PARENT");
    close(end[0]), close(end[1]);
    kill(child, 9);
    waitpid(child, &status, 0);
    puts("DONE");
}

static void *waits(void *context) {
    MUST(cuCtxSetCurrent(context));
    launch(add, NULL);
    for (;;) pause();
}
static void dies(void) {
    pthread_t thread;
    CUcontext context = begin();
    step(); /* the gate is closed */
    pthread_create(&thread, NULL, waits, context);
    puts("STARTED");
    step(); /* it waits */
    pthread_cancel(thread);
    puts("CANCELLED");
    step(); /* the gate is open */
    pthread_join(thread, NULL);
    unsigned before = count();
    MUST(launch(add, NULL));
    MUST(cuCtxSynchronize());
    CHECK(count() == before + 1 && before == 2, "%u kernels ran", before);
    puts("LAUNCHED");
    step();
    puts("DONE");
}

static void contexts(void) {
    first_gpu();
    printf("READY %d\n", getpid());
    for (int i = 0; i < 60; i++) {
        CUcontext context;
        MUST(cuCtxCreate_v2(&context, 0, 0));
        load();
        for (int j = 0; j < 20; j++) MUST(launch(add, NULL));
        MUST(cuCtxDestroy_v2(context));
    }
    puts("DONE");
}

static void crosses(void) {
    CUcontext one = begin(), two;
    CUstream stream;
    MUST(cuStreamCreate(&stream, 1));
    MUST(cuCtxCreate_v2(&two, 0, 0));
    CHECK(one != two, "one context for two");
    for (int i = 0; i < 200; i++) MUST(launch(add, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxSetCurrent(one));
    CHECK(count() == 201, "%u kernels ran", count());
    puts("DONE");
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"capture", capture}, {"flags", flags}, {"ends", ends}, {"forks", forks},
        {"twins", twins}, {"dies", dies}, {"contexts", contexts}, {"crosses", crosses}};
    case_id = "at_a_gate";
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(argc == 2, "at_a_gate WHAT");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i].name)) return all[i].run(), 0;
    fail("nothing is called %s", argv[1]);
}
