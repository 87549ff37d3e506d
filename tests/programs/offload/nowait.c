/* Regions that do not wait, ordered by what they depend on. */
#include "check.h"

int main(void) {
    enum { N = 2000 };
    static int a[N], b[N], c[N];
#pragma omp target enter data map(alloc : a, b, c)
#pragma omp target teams distribute parallel for nowait depend(out : a)
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp target teams distribute parallel for nowait depend(out : b)
    for (int i = 0; i < N; i++) b[i] = 2 * i;
#pragma omp target teams distribute parallel for nowait depend(in : a, b) depend(out : c)
    for (int i = 0; i < N; i++) c[i] = a[i] + b[i];
#pragma omp taskwait
#pragma omp target exit data map(from : c) map(delete : a, b)
    int right = 1;
    for (int i = 0; i < N; i++) right &= c[i] == 3 * i;
    return finish(right);
}
