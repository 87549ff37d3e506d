/* Several runtimes in one process, as programs with many libraries have them: each opens the driver by
 * another road, retains the primary context for itself, allocates, and leaves when it likes. They
 * have one primary context, paid for once, and one limit.
 *   runtimes DRIVER      prints "PASS runtimes" */
#include "case.h"
#include <pthread.h>

struct runtime { void *handle; CUcontext context; CUdeviceptr p; };

static void *look(struct runtime *r, const char *name) {
    void *found = NULL;
    CUresult (*get)(const char *, void **, int, unsigned long long) = dlsym(r->handle, "cuGetProcAddress");
    if (get && strcmp(name, "cuDevicePrimaryCtxRelease_v2")) {
        char plain[64];
        snprintf(plain, sizeof plain, "%s", name);
        char *suffix = strstr(plain, "_v2");
        if (suffix) *suffix = 0;
        if (!get(plain, &found, 12000, 0)) return found;
    }
    return dlsym(r->handle, name);
}
static void *begin(void *argument) {
    struct runtime *r = argument;
    CUresult (*init)(unsigned) = look(r, "cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) = look(r, "cuDevicePrimaryCtxRetain");
    CUresult (*set)(CUcontext) = look(r, "cuCtxSetCurrent");
    CUresult (*alloc)(CUdeviceptr *, size_t) = look(r, "cuMemAlloc_v2");
    CHECK(init && retain && set && alloc, "a runtime finds no driver");
    MUST(init(0));
    MUST(retain(&r->context, 0));
    MUST(set(r->context));
    MUST(alloc(&r->p, 128 * MiB));
    return NULL;
}
static void end(struct runtime *r) {
    CUresult (*release)(CUdevice) = look(r, "cuDevicePrimaryCtxRelease_v2");
    CUresult (*give)(CUdeviceptr) = look(r, "cuMemFree_v2");
    CHECK(release && give, "a runtime finds no driver at its end");
    MUST(give(r->p));
    MUST(release(0));
}

int main(int argc, char **argv) {
    case_id = "runtimes";
    CHECK(argc == 2, "runtimes DRIVER");
    struct runtime all[3] = {{.handle = dlopen("libcuda.so.1", RTLD_NOW)},
                             {.handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)},
                             {.handle = dlopen(NULL, RTLD_NOW)}};
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    first_gpu();
    size_t before = free_bytes();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, begin, &all[i]), "no thread");
        pthread_join(thread, NULL);
        CHECK(all[i].context == all[0].context, "runtime %d has a primary context of its own", i);
        CHECK(same(before - free_bytes(), (size_t)(i + 1) * 128 * MiB), "after %d: free is %zu of %zu", i + 1,
              free_bytes(), before);
    }
    CUdeviceptr p;
    CHECK(cuMemAlloc_v2(&p, before - 2 * 128 * MiB) == OUT_OF_MEMORY, "together they pass the limit");
    for (int i = 0; i < 3; i++) end(&all[i]);
    CHECK(same(free_bytes(), before), "free is %zu, was %zu", free_bytes(), before);
    MUST(cuMemAlloc_v2(&p, 64 * MiB));
    pass();
}
