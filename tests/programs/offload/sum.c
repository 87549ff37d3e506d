/* A sum by reduction over teams and threads. */
#include "check.h"

int main(void) {
    enum { N = 10000 };
    static int v[N];
    long sum = 0, expected = 0;
    for (int i = 0; i < N; i++) v[i] = i * 7 % 1001 - 500, expected += v[i];
#pragma omp target teams distribute parallel for map(to : v) reduction(+ : sum)
    for (int i = 0; i < N; i++) sum += v[i];
    return finish(sum == expected);
}
