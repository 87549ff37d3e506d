/* The first call of all comes from a thread that is not the first; a second thread, which never
 * made or set a context, allocates in the first one's.
 *   thread */
#include "road.h"
#include <pthread.h>

static void *handle, *context;
static void *find(const char *name) { return dlsym(handle, name); }

static void *first(void *unused) {
    handle = opened("libcuda.so.1", RTLD_NOW);
    walk("thread", find);
    int (*get)(void **) = (int (*)(void **))must_find(find, "cuCtxGetCurrent");
    if (get(&context)) lost("cuCtxGetCurrent");
    return unused;
}
static void *second(void *unused) {
    int (*push)(void *) = (int (*)(void *))must_find(find, "cuCtxPushCurrent_v2");
    if (push(context)) lost("cuCtxPushCurrent_v2");
    allocate("second-thread", must_find(find, "cuMemAlloc_v2"));
    return unused;
}
int main(void) {
    pthread_t thread;
    void *(*const bodies[])(void *) = {first, second};
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&thread, NULL, bodies[i], NULL)) return 1;
        pthread_join(thread, NULL);
    }
    return 0;
}
