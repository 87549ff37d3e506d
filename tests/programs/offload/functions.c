/* Functions and a table that the device has, too. */
#include "check.h"

#pragma omp declare target
static const int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
static int base = 100;
__attribute__((noinline)) static int weight(int i) { return i < 2 ? i : weight(i - 1) + primes[i % 8]; }
__attribute__((noinline)) static double half(double x) { return x / 2; }
#pragma omp end declare target

int main(void) {
    enum { N = 64 };
    int v[N], right = 1;
    double w[N];
    base = 200;
#pragma omp target update to(base)
#pragma omp target teams distribute parallel for map(from : v, w)
    for (int i = 0; i < N; i++) v[i] = weight(i % 20) + base, w[i] = half(i);
    for (int i = 0; i < N; i++) right &= v[i] == weight(i % 20) + 200 && w[i] == half(i);
    return finish(right);
}
