/* Minimum, maximum, a logical and a bitwise reduction. */
#include "check.h"

int main(void) {
    enum { N = 4096 };
    static int v[N];
    int least = 1 << 30, most = -(1 << 30), all = 1, bits = 0, l = least, m = most, a = 1, b = 0;
    for (int i = 0; i < N; i++) v[i] = (int)(((unsigned)i * 1103515245u + 12345u) % 100000u);
    for (int i = 0; i < N; i++) {
        if (v[i] < l) l = v[i];
        if (v[i] > m) m = v[i];
        a = a && v[i] != 77777777;
        b |= v[i] & 0xff;
    }
#pragma omp target data map(to : v)
    {
#pragma omp target teams distribute parallel for reduction(min : least) map(tofrom : least)
        for (int i = 0; i < N; i++) if (v[i] < least) least = v[i];
#pragma omp target teams distribute parallel for reduction(max : most) map(tofrom : most)
        for (int i = 0; i < N; i++) if (v[i] > most) most = v[i];
#pragma omp target teams distribute parallel for reduction(&& : all) map(tofrom : all)
        for (int i = 0; i < N; i++) all = all && v[i] != 77777777;
#pragma omp target teams distribute parallel for reduction(| : bits) map(tofrom : bits)
        for (int i = 0; i < N; i++) bits |= v[i] & 0xff;
    }
    return finish(least == l && most == m && all == a && bits == b);
}
