/* Conditions and sizes known only at run time. */
#include "check.h"

int main(int count, char **words) {
    (void)words;
    int n = 700 * count, right = 1;
    int *v = calloc((size_t)n, sizeof *v);
#pragma omp target teams distribute parallel for if (n > 100) map(tofrom : v[0 : n]) firstprivate(n)
    for (int i = 0; i < n; i++) v[i] = i < n / 2 ? i : n - i;
#pragma omp target teams distribute parallel for if (n < 100) map(tofrom : v[0 : n])
    for (int i = 0; i < n; i++) v[i]++;
    for (int i = 0; i < n; i++) right &= v[i] == (i < n / 2 ? i : n - i) + 1;
    return finish(right);
}
