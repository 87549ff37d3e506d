/* What the programs of this folder share. A road is a way of finding the driver's functions by
 * their exported names: each program has one, and `walk` goes it: everything that an allocation
 * needs is found on that road, then 64 MiB are asked for, then more than the limit of 1 GiB.
 * Prints "ROAD STEP PID FIRST SECOND", the two result codes. */
#ifndef ROAD_H
#define ROAD_H
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENOUGH ((size_t)64 << 20)
#define TOO_MUCH ((size_t)1088 << 20)
#define UNUSED __attribute__((unused))

typedef void *(*finder)(const char *exported);
typedef unsigned long long pointer;

static UNUSED _Noreturn void lost(const char *what) {
    const char *why = dlerror();
    printf("LOST %s %s\n", what, why ? why : "");
    exit(1);
}
static UNUSED void *must_find(finder find, const char *name) {
    void *found = find(name);
    if (!found) lost(name);
    return found;
}
static UNUSED void told(const char *step, int first, int second) {
    printf("ROAD %s %d %d %d\n", step, (int)getpid(), first, second);
    fflush(stdout);
}
/* The first device's primary context, current on this thread, by functions of this road. */
static UNUSED void begin(finder find) {
    void *context = NULL;
    int (*init)(unsigned) = (int (*)(unsigned))must_find(find, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))must_find(find, "cuDevicePrimaryCtxRetain");
    int (*current)(void *) = (int (*)(void *))must_find(find, "cuCtxSetCurrent");
    int code = init(0);
    if (!code) code = retain(&context, 0);
    if (!code) code = current(context);
    if (code) printf("LOST start gave %d\n", code), exit(1);
}
static UNUSED void allocate(const char *step, void *function) {
    int (*alloc)(pointer *, size_t) = (int (*)(pointer *, size_t))function;
    pointer p;
    int first = alloc(&p, ENOUGH);
    told(step, first, alloc(&p, TOO_MUCH));
}
/* Says which files of the driver's name are mapped. */
static UNUSED void say_drivers(void) {
    char line[4352], path[4096], *at;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, " 00000000 ") && strstr(line, "/libcuda.so.") && (at = strchr(line, '/')) &&
            sscanf(at, "%4095s", path) == 1)
            printf("DRIVER %s\n", path);
    if (maps) fclose(maps);
}
static UNUSED int walk(const char *step, finder find) {
    begin(find);
    allocate(step, must_find(find, "cuMemAlloc_v2"));
    say_drivers();
    return 0;
}
static UNUSED void *opened(const char *name, int mode) {
    void *handle = dlopen(name, mode);
    if (!handle) lost(name);
    return handle;
}
#endif
