/* A program with an entitlement whose broker is not there: cuInit says so within bounded time, the
 * program lives on and may try again. Prints "CODE SECONDS" of two tries. */
#include "case.h"
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void) {
    case_id = "LIFE-08";
    for (int attempt = 0; attempt < 2; attempt++) {
        double began = now();
        CUresult code = cuInit(0);
        printf("%d %.3f\n", code, now() - began);
    }
    return 0;
}
