/* A region of one thread, then many: state kept between regions. */
#include "check.h"

int main(void) {
    enum { N = 512 };
    int v[N], right = 1;
    for (int i = 0; i < N; i++) v[i] = i % 9;
#pragma omp target data map(tofrom : v)
    {
#pragma omp target
        for (int i = 1; i < N; i++) v[i] += v[i - 1];
#pragma omp target parallel for
        for (int i = 0; i < N; i++) v[i] = v[i] * 2 + 1;
    }
    for (int i = 0, sum = 0; i < N; i++) sum += i % 9, right &= v[i] == 2 * sum + 1;
    return finish(right);
}
