/* HOOK-07 (b), linked: calls of functions that the driver below does not have. Prints their codes. */
#include <stdio.h>

int cuInit(unsigned flags);
int cuMemAllocAsync(unsigned long long *p, unsigned long bytes, void *stream);
int cuMemCreate(unsigned long long *handle, unsigned long bytes, const void *prop, unsigned long long flags);

int main(void) {
    unsigned long long out;
    int start = cuInit(0), async = cuMemAllocAsync(&out, 1, NULL);
    printf("CODES %d %d %d\n", start, async, cuMemCreate(&out, 1, NULL, 0));
    return 0;
}
