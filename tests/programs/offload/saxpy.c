/* y = a x + y over a grid of teams. */
#include "check.h"

int main(void) {
    enum { N = 20000 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 2.0f * (float)i;
#pragma omp target teams distribute parallel for map(to : x[0 : N]) map(tofrom : y[0 : N])
    for (int i = 0; i < N; i++) y[i] = 3.0f * x[i] + y[i];
    int right = 1;
    for (int i = 0; i < N; i++) right &= y[i] == 5.0f * (float)i;
    return finish(right);
}
