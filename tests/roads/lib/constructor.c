/* A library that uses the driver while it is loaded. */
#include "../road.h"

static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }

__attribute__((constructor)) static void at_load(void) {
    handle = opened("libcuda.so.1", RTLD_NOW);
    walk("constructor", find);
}
int road_plugin(void) { return 0; }
