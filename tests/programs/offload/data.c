/* Data that is entered, updated both ways and taken out again. */
#include "check.h"

int main(void) {
    enum { N = 3000 };
    int *v = malloc(N * sizeof *v);
    for (int i = 0; i < N; i++) v[i] = i;
#pragma omp target enter data map(to : v[0 : N])
#pragma omp target teams distribute parallel for
    for (int i = 0; i < N; i++) v[i] += 10;
#pragma omp target update from(v[0 : N])
    int right = v[0] == 10 && v[N - 1] == N + 9;
    for (int i = 0; i < N; i++) v[i] = -i;
#pragma omp target update to(v[0 : N])
#pragma omp target teams distribute parallel for
    for (int i = 0; i < N; i++) v[i] *= 2;
#pragma omp target exit data map(from : v[0 : N])
    for (int i = 0; i < N; i++) right &= v[i] == -2 * i;
    return finish(right);
}
