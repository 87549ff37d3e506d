/* What every program here ends with: a line that says it was right, and on which side it ran. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int on_device(void) {
    int host = 1;
#pragma omp target map(from : host)
    host = omp_is_initial_device();
    return !host;
}

static int finish(int right) {
    printf("%s on the %s\n", right ? "right" : "wrong", on_device() ? "device" : "host");
    return right ? 0 : 1;
}
