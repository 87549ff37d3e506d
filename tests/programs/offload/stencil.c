/* Jacobi steps between two arrays that stay on the device. */
#include "check.h"

int main(void) {
    enum { N = 48, STEPS = 6 };
    static double a[N][N], b[N][N], c[N][N], d[N][N];
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = b[i][j] = c[i][j] = d[i][j] = i * 31 % 17 + j;
#pragma omp target data map(tofrom : a, b)
    for (int s = 0; s < STEPS; s++) {
#pragma omp target teams distribute parallel for collapse(2)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) b[i][j] = 0.25 * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]);
#pragma omp target teams distribute parallel for collapse(2)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) a[i][j] = b[i][j];
    }
    for (int s = 0; s < STEPS; s++) {
        for (int i = 1; i < N - 1; i++) for (int j = 1; j < N - 1; j++) d[i][j] = 0.25 * (c[i - 1][j] + c[i + 1][j] + c[i][j - 1] + c[i][j + 1]);
        for (int i = 1; i < N - 1; i++) for (int j = 1; j < N - 1; j++) c[i][j] = d[i][j];
    }
    int right = 1;
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) right &= a[i][j] == c[i][j];
    return finish(right);
}
