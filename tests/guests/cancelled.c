/* Threads that are cancelled (pthread_cancel) while they ask for more than there is, again and again.
 * The program must live, and nothing of theirs may be charged afterwards.
 *   cancelled THREADS */
#include "case.h"
#include <pthread.h>

static CUcontext context;

static void *ask(void *unused) {
    CUdeviceptr p;
    MUST(cuCtxSetCurrent(context));
    for (;;) {
        pthread_testcancel();
        CHECK(cuMemAlloc_v2(&p, 64 * GiB) == OUT_OF_MEMORY, "too much was given");
    }
    return unused;
}

int main(int argc, char **argv) {
    case_id = "cancelled";
    CHECK(argc == 2, "cancelled THREADS");
    context = first_gpu();
    size_t before = free_bytes();
    for (int i = 0; i < atoi(argv[1]); i++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, ask, NULL), "no thread");
        usleep((unsigned)(500 + 37 * i));
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    CHECK(free_bytes() == before, "free is %zu, was %zu", free_bytes(), before);
    pass();
}
