/* Moves bodies that attract each other, step by step, on the GPU and on the host, and compares where
 * they are at the end. */
#include "../include/sample.h"

#include <math.h>

#define BLOCK 64u

struct body {
    float x, y, z, mass;
};

static double bodies = 256, steps = 4, seconds = 0;

static const struct sample_option options[] = {
    {"bodies", "N", &bodies, "bodies"},
    {"steps", "N", &steps, "steps"},
    {"seconds", "N", &seconds, "instead of a count: go on for so long, without comparing"},
};

static void step_on_host(struct body *at, struct body *next, struct body *speeds, unsigned n, float dt)
{
    for (unsigned i = 0; i < n; i++) {
        float ax = 0, ay = 0, az = 0;
        for (unsigned k = 0; k < n; k++) {
            float dx = at[k].x - at[i].x, dy = at[k].y - at[i].y, dz = at[k].z - at[i].z;
            float square = dx * dx + dy * dy + dz * dz + 0.01f;
            float pull = at[k].mass / (square * sqrtf(square));
            ax += dx * pull, ay += dy * pull, az += dz * pull;
        }
        speeds[i].x += ax * dt, speeds[i].y += ay * dt, speeds[i].z += az * dt;
        next[i] = at[i];
        next[i].x += speeds[i].x * dt, next[i].y += speeds[i].y * dt, next[i].z += speeds[i].z * dt;
    }
    memcpy(at, next, n * sizeof *at);
}

int main(int argc, char **argv)
{
    read_options(argc, argv, "Moves bodies that attract each other.", options, OPTION_COUNT(options));
    if (bodies < 1 || bodies > 1 << 16)
        failed("--bodies must be from 1 to 2^16");
    unsigned n = (unsigned)bodies;
    size_t bytes = n * sizeof(struct body);
    float dt = 0.01f;
    struct body *at = calloc(n, sizeof *at), *next = calloc(n, sizeof *at), *speeds = calloc(n, sizeof *at),
                *moved = calloc(n, sizeof *at);
    if (!at || !next || !speeds || !moved)
        failed("no host memory for %u bodies", n);
    for (unsigned i = 0; i < n; i++)
        at[i] = (struct body){(float)rand() / (float)RAND_MAX, (float)rand() / (float)RAND_MAX,
                              (float)rand() / (float)RAND_MAX, 1.0f / (float)n};

    CUdevice device = open_device();
    CUmodule module = load_ptx("nbody");
    CUfunction step;
    CUdeviceptr on[2], on_speeds;
    CHECK(cuModuleGetFunction(&step, module, "nbody"));
    CHECK(cuMemAlloc(&on[0], bytes));
    CHECK(cuMemAlloc(&on[1], bytes));
    CHECK(cuMemAlloc(&on_speeds, bytes));
    CHECK(cuMemcpyHtoD(on[0], at, bytes));
    CHECK(cuMemcpyHtoD(on_speeds, speeds, bytes));
    double begun = now_seconds();
    unsigned long round = 0;
    for (; goes_on(round, steps, begun, seconds); round++) {
        void *parameters[] = {&on[round % 2], &on[(round + 1) % 2], &on_speeds, &n, &dt};
        CHECK(cuLaunchKernel(step, (n + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL));
    }
    CHECK(cuMemcpyDtoH(moved, on[round % 2], bytes));
    printf("%lu steps of %u bodies in %.3f s\n", round, n, now_seconds() - begun);
    if (seconds == 0) {
        for (unsigned long i = 0; i < round; i++)
            step_on_host(at, next, speeds, n, dt);
        for (unsigned i = 0; i < n; i++)
            if (fabsf(moved[i].x - at[i].x) + fabsf(moved[i].y - at[i].y) + fabsf(moved[i].z - at[i].z) > 1e-4f)
                failed("body %u is at (%g, %g, %g), not (%g, %g, %g)", i, (double)moved[i].x, (double)moved[i].y,
                       (double)moved[i].z, (double)at[i].x, (double)at[i].y, (double)at[i].z);
    }
    CHECK(cuMemFree(on[0]));
    CHECK(cuMemFree(on[1]));
    CHECK(cuMemFree(on_speeds));
    CHECK(cuModuleUnload(module));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
