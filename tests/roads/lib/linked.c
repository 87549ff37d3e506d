/* A plug-in that is linked to the driver. */
#include "../road.h"

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(pointer *p, size_t bytes);

static void *find(const char *name) {
    if (!strcmp(name, "cuInit")) return (void *)cuInit;
    if (!strcmp(name, "cuDevicePrimaryCtxRetain")) return (void *)cuDevicePrimaryCtxRetain;
    if (!strcmp(name, "cuCtxSetCurrent")) return (void *)cuCtxSetCurrent;
    return (void *)cuMemAlloc_v2;
}

int road_plugin(void) { return walk("linked-plugin", find); }
