/* HOOK-03 in its linked form: the driver's functions are ordinary undefined symbols.
 *   linked MIB      prints "CODE n" of one allocation */
#include <stdio.h>
#include <stdlib.h>

typedef int CUresult;
CUresult cuInit(unsigned flags);
CUresult cuDevicePrimaryCtxRetain(void **context, int device);
CUresult cuCtxSetCurrent(void *context);
CUresult cuMemAlloc_v2(unsigned long long *p, size_t bytes);

int main(int argc, char **argv) {
    void *context;
    unsigned long long p;
    if (argc != 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
    printf("CODE %d\n", cuMemAlloc_v2(&p, (size_t)atol(argv[1]) << 20));
    return 0;
}
