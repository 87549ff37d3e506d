/* Memory asked of the device by hand, copied both ways. */
#include "check.h"

int main(void) {
    enum { N = 1000 };
    int device = omp_get_default_device(), host = omp_get_initial_device();
    long *near = malloc(N * sizeof *near), *far = omp_target_alloc(N * sizeof *far, device);
    if (!far) return finish(0);
    for (int i = 0; i < N; i++) near[i] = i;
    int right = omp_target_memcpy(far, near, N * sizeof *far, 0, 0, device, host) == 0;
#pragma omp target teams distribute parallel for is_device_ptr(far)
    for (int i = 0; i < N; i++) far[i] = far[i] * far[i];
    right &= omp_target_memcpy(near, far, N * sizeof *far, 0, 0, host, device) == 0;
    omp_target_free(far, device);
    for (long i = 0; i < N; i++) right &= near[i] == i * i;
    return finish(right);
}
