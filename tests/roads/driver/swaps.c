/* A driver for which the stream flag of an allocating function has the opposite meaning. */
#include <string.h>

int look_up_beneath(const char *, void **, int, unsigned long long, int *);

int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *status) {
    if (!strcmp(name, "cuMemAllocAsync")) flags = flags == 2 ? 0 : 2;
    return look_up_beneath(name, out, version, flags, status);
}
int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, out, version, flags, 0);
}
