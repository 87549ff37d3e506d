/* A dot product in double, of whole numbers so that its order does not matter. */
#include "check.h"

int main(void) {
    enum { N = 8000 };
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), sum = 0, expected = 0;
    for (int i = 0; i < N; i++) x[i] = i % 100, y[i] = i % 37 - 18, expected += x[i] * y[i];
#pragma omp target teams distribute parallel for map(to : x[0 : N], y[0 : N]) reduction(+ : sum)
    for (int i = 0; i < N; i++) sum += x[i] * y[i];
    return finish(sum == expected);
}
