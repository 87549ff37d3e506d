/* Counting with atomic updates. */
#include "check.h"

int main(void) {
    enum { N = 5000, BINS = 16 };
    static unsigned char v[N];
    int bins[BINS] = {0}, expected[BINS] = {0};
    for (int i = 0; i < N; i++) v[i] = (unsigned char)(i * i >> 3), expected[v[i] % BINS]++;
#pragma omp target teams distribute parallel for map(to : v) map(tofrom : bins)
    for (int i = 0; i < N; i++) {
#pragma omp atomic
        bins[v[i] % BINS]++;
    }
    int right = 1;
    for (int i = 0; i < BINS; i++) right &= bins[i] == expected[i];
    return finish(right);
}
