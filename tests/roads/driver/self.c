/* A driver that looks itself up while it starts, in every way a driver might, and must find itself
 * each time: what a library in between answered would lead it in a circle. A driver of this kind
 * also lives in two files: the second half here is libcuda.so.1.1, which asks on its behalf. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

extern void *beneath_handle;
static int depth;

static int in_this_file(void *function) {
    Dl_info own, its;
    return function && dladdr(&depth, &own) && dladdr(function, &its) && own.dli_fbase == its.dli_fbase;
}

int cuInit(unsigned flags) {
    if (depth++) return printf("LOST the driver called itself in a circle\n"), 999;
    void *handle = dlopen(getenv("ODD_DRIVER_ITSELF"), RTLD_NOW | RTLD_NOLOAD);
    void *other = dlopen(getenv("ODD_DRIVER_OTHER"), RTLD_NOW);
    if (!handle || !other) return printf("LOST %s\n", dlerror()), 999;
    if (!in_this_file(dlsym(handle, "cuDriverGetVersion"))) return printf("LOST itself by handle\n"), 999;
    void *(*ask)(void *, const char *) = (void *(*)(void *, const char *))dlsym(other, "ask_on_behalf");
    if (!ask || !in_this_file(ask(handle, "cuMemAlloc_v2"))) return printf("LOST itself by its other half\n"), 999;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(beneath_handle, "cuInit");
    int code = init(flags);
    depth--;
    return code;
}
