/* The mathematics library on the device, close to the host's. */
#include "check.h"
#include <math.h>

int main(void) {
    enum { N = 500 };
    static double in[N], s[N], e[N], r[N];
    static float f[N];
    for (int i = 0; i < N; i++) in[i] = 0.05 * i;
#pragma omp target teams distribute parallel for map(to : in) map(from : s, e, r, f)
    for (int i = 0; i < N; i++) s[i] = sin(in[i]), e[i] = exp(-in[i]), r[i] = sqrt(in[i]) + pow(in[i], 1.5), f[i] = fabsf((float)in[i] - 7) + floorf((float)in[i]);
    int right = 1;
    for (int i = 0; i < N; i++) {
        right &= fabs(s[i] - sin(in[i])) < 1e-12 && fabs(e[i] - exp(-in[i])) < 1e-12;
        right &= fabs(r[i] - sqrt(in[i]) - pow(in[i], 1.5)) < 1e-9 && f[i] == fabsf((float)in[i] - 7) + floorf((float)in[i]);
    }
    return finish(right);
}
