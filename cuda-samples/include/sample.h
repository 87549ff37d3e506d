/* What every sample of the driver API has in common: the device, PTX from the file beside the
 * executable, one way to check a call. All results are checked on the host; the last line is PASSED or
 * FAILED why. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "common.h"
#include "halfwarp_cuda.h"

static inline const char *code_name(CUresult code)
{
    const char *name = NULL;
    if (cuGetErrorName(code, &name) != CUDA_SUCCESS || name == NULL)
        return "an unknown code";
    return name;
}

static inline void check(CUresult code, const char *call)
{
    if (code != CUDA_SUCCESS)
        failed("%s: %s (%u)", call, code_name(code), code);
}

#define CHECK(call) check((call), #call)

/* The first device of those we can see, with its primary context current. */
static inline CUdevice open_device(void)
{
    CUdevice device;
    CUcontext context;
    char name[128] = "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    printf("on %s\n", name);
    return device;
}

static inline void close_device(CUdevice device)
{
    CHECK(cuCtxSetCurrent(NULL));
    CHECK(cuDevicePrimaryCtxRelease(device));
}

/* The module in NAME.ptx beside the executable. */
static inline CUmodule load_ptx(const char *name)
{
    char path[PATH_MAX + 64];
    FILE *file;
    long bytes;
    char *text;
    CUmodule module;
    path_of_ptx(path, sizeof path, name);
    file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0)
        failed("cannot read %s, which belongs beside the executable", path);
    rewind(file);
    text = calloc(1, (size_t)bytes + 1);
    if (!text || fread(text, 1, (size_t)bytes, file) != (size_t)bytes)
        failed("cannot read %s", path);
    fclose(file);
    CHECK(cuModuleLoadData(&module, text));
    free(text);
    return module;
}

#endif
