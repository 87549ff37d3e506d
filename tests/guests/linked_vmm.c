/* HOOK-07: calls cuMemCreate as an ordinary symbol, with arguments that would fill nothing, and prints
 * "CODE n". Built with -lcuda. */
#include <stdio.h>

int cuInit(unsigned flags);
int cuMemCreate(unsigned long long *handle, size_t bytes, const void *props, unsigned long long flags);

int main(void) {
    unsigned long long handle;
    int props[8] = {1, 0, 1, 0};
    int code = cuInit(0);
    if (code == 0) code = cuMemCreate(&handle, (size_t)2 << 20, props, 0);
    printf("CODE %d\n", code);
    return 0;
}
