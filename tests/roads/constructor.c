/* The driver is used before main, in a constructor of the program. */
#include "road.h"

static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }

__attribute__((constructor(101))) static void before_main(void) {
    handle = opened("libcuda.so.1", RTLD_NOW);
    walk("before-main", find);
}
int main(void) { return 0; }
