/* What every sample of the runtime API has in common. The last line is PASSED or FAILED why. */
#ifndef RUNTIME_H
#define RUNTIME_H

#include "common.h"
#include "halfwarp_runtime.h"

static inline void check(cudaError_t code, const char *call)
{
    if (code != cudaSuccess)
        failed("%s: %s (%u)", call, cudaGetErrorName(code), code);
}

#define CHECK(call) check((call), #call)

/* A kernel of NAME.ptx beside the executable; the library stays until the program ends. */
static inline cudaKernel_t load_kernel(const char *name, const char *kernel)
{
    char path[PATH_MAX + 64];
    cudaLibrary_t library;
    cudaKernel_t found;
    path_of_ptx(path, sizeof path, name);
    CHECK(cudaLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryGetKernel(&found, library, kernel));
    return found;
}

#endif
