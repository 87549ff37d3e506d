/* A product of matrices, two loops over the device, one inside. */
#include "check.h"

int main(void) {
    enum { N = 40 };
    static float a[N][N], b[N][N], c[N][N];
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = (float)(i % 5 - j % 3), b[i][j] = (float)(i % 7 + j % 2);
#pragma omp target teams distribute parallel for collapse(2) map(to : a, b) map(from : c)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int k = 0; k < N; k++) s += a[i][k] * b[k][j];
            c[i][j] = s;
        }
    int right = 1;
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) { float s = 0; for (int k = 0; k < N; k++) s += a[i][k] * b[k][j]; right &= s == c[i][j]; }
    return finish(right);
}
