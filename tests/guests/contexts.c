/* Threads that make and end contexts at the same time. MODE says what:
 *   first    each retains the primary context once, all at once; prints "MADE n" (n: were given it)
 *   reset    one resets it while another retains it and allocates; the figures must return
 *   free     one destroys a context while another frees what was allocated in it; the same
 *   contexts MODE THREADS_OR_ROUNDS */
#include "case.h"
#include <pthread.h>

DRIVER(cuCtxCreate_v2, (CUcontext *context, unsigned flags, CUdevice device), (context, flags, device))
DRIVER(cuCtxDestroy_v2, (CUcontext context), (context))
DRIVER(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device))
DRIVER(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device))

static pthread_barrier_t all;
static CUcontext made;
static CUdeviceptr block;
static long rounds, given;

static void *first(void *unused) {
    CUcontext context;
    pthread_barrier_wait(&all);
    if (cuDevicePrimaryCtxRetain(&context, 0) == OK) __atomic_fetch_add(&given, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void *other(void *mode) {
    for (long i = 0; i < rounds; i++) {
        pthread_barrier_wait(&all);
        if (*(char *)mode == 'r') cuDevicePrimaryCtxReset_v2(0);
        else if (cuMemFree_v2(block) == OK) given++;
        pthread_barrier_wait(&all);
    }
    return NULL;
}

/* One allocation of a thread beside the reset of its context. */
static void beside_reset(void) {
    CUcontext context;
    CUdeviceptr p = 0;
    int got = cuDevicePrimaryCtxRetain(&context, 0) == OK && cuCtxSetCurrent(context) == OK
              && cuMemAlloc_v2(&p, 64 * MiB) == OK;
    pthread_barrier_wait(&all);
    cuDevicePrimaryCtxReset_v2(0);
    if (got) cuMemFree_v2(p);
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    CUcontext keeper;
    case_id = "contexts";
    CHECK(argc == 3, "contexts MODE THREADS_OR_ROUNDS");
    rounds = atol(argv[2]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    MUST(cuInit(0));
    if (!strcmp(argv[1], "first")) {
        CHECK(rounds <= 64, "too many threads");
        pthread_barrier_init(&all, NULL, (unsigned)rounds);
        for (long i = 0; i < rounds; i++) pthread_create(&threads[i], NULL, first, NULL);
        for (long i = 0; i < rounds; i++) pthread_join(threads[i], NULL);
        printf("MADE %ld\n", given);
        getchar();
        return 0;
    }
    /* Keeps a context on the card, so that what contexts cost stays out of it. */
    MUST(cuCtxCreate_v2(&keeper, 0, 0));
    size_t before = free_bytes();
    pthread_barrier_init(&all, NULL, 2);
    CHECK(!pthread_create(&threads[0], NULL, other, argv[1]), "no thread");
    for (long i = 0; i < rounds; i++) {
        if (*argv[1] == 'r') {
            pthread_barrier_wait(&all);
            beside_reset();
        } else {
            MUST(cuCtxCreate_v2(&made, 0, 0));
            MUST(cuMemAlloc_v2(&block, 64 * MiB));
            pthread_barrier_wait(&all);
            MUST(cuCtxDestroy_v2(made));
            pthread_barrier_wait(&all);
        }
        MUST(cuCtxSetCurrent(keeper));
        size_t after = free_bytes();
        CHECK(after == before, "round %ld: free is %zu, was %zu", i, after, before);
    }
    pthread_join(threads[0], NULL);
    pass();
}
