/* Threads that end in other ways than by returning, with CUDA calls on their last way: by pthread_exit
 * with a clean-up handler that frees, by a destructor of a thread's own data, by pthread_cancel between
 * calls, and the first thread itself while others work on.
 *   leavers THREADS      prints "PASS leavers" from the last thread */
#include "case.h"
#include <pthread.h>

static CUcontext context;
static pthread_key_t key;
static int ended;
static size_t before;

static void give(void *p) {
    MUST(cuMemFree_v2((CUdeviceptr)(size_t)p));
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
}
static CUdeviceptr take(void) {
    CUdeviceptr p;
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&p, MiB));
    return p;
}
static void *by_exit(void *unused) {
    CUdeviceptr p = take();
    pthread_cleanup_push(give, (void *)(size_t)p);
    pthread_exit(NULL);
    pthread_cleanup_pop(0);
    return unused;
}
static void *by_key(void *unused) {
    pthread_setspecific(key, (void *)(size_t)take());
    return unused;
}
static void *by_cancel(void *unused) {
    CUdeviceptr p = take();
    pthread_cleanup_push(give, (void *)(size_t)p);
    for (;;) free_bytes(), usleep(100);
    pthread_cleanup_pop(0);
    return unused;
}
static void *last(void *first) {
    pthread_join(*(pthread_t *)first, NULL);
    MUST(cuCtxSetCurrent(context));
    CHECK(free_bytes() == before, "free is %zu, was %zu", free_bytes(), before);
    pass();
}

int main(int argc, char **argv) {
    static pthread_t first;
    pthread_t thread;
    case_id = "leavers";
    CHECK(argc == 2, "leavers THREADS");
    context = first_gpu();
    before = free_bytes();
    CHECK(!pthread_key_create(&key, give), "no key");
    void *(*const bodies[])(void *) = {by_exit, by_key, by_cancel};
    for (int i = 0; i < atoi(argv[1]); i++) {
        CHECK(!pthread_create(&thread, NULL, bodies[i % 3], NULL), "no thread");
        if (i % 3 == 2) usleep(2000), pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    CHECK(ended >= atoi(argv[1]) * 2 / 3, "%d threads gave back", ended);
    first = pthread_self();
    CHECK(!pthread_create(&thread, NULL, last, &first), "no thread");
    pthread_exit(NULL);
}
