/* What the programs that launch have beside case.h: the driver's functions for modules and launches. */
#ifndef LAUNCH_H
#define LAUNCH_H
#include "case.h"

typedef void *CUmodule, *CUfunction;
typedef struct { unsigned grid[3], block[3], shared; CUstream stream; void *attributes; unsigned count; } CUlaunchConfig;

DRIVER(cuCtxCreate_v2, (CUcontext *context, unsigned flags, CUdevice device), (context, flags, device))
DRIVER(cuCtxDestroy_v2, (CUcontext context), (context))
DRIVER(cuDeviceGetUuid, (void *uuid, CUdevice device), (uuid, device))
DRIVER(cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags), (p, bytes, flags))
DRIVER(cuMemHostGetDevicePointer_v2, (CUdeviceptr *device, void *p, unsigned flags), (device, p, flags))
DRIVER(cuModuleLoadData, (CUmodule *module, const void *image), (module, image))
DRIVER(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name), (function, module, name))
DRIVER(cuLaunchKernel, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **params, void **extra),
       (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
DRIVER(cuLaunchKernel_ptsz, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, CUstream stream, void **params, void **extra),
       (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
DRIVER(cuLaunchCooperativeKernel, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void **params),
       (f, gx, gy, gz, bx, by, bz, shared, stream, params))
DRIVER(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
       (config, f, params, extra))
DRIVER(cuStreamWaitValue32_v2, (CUstream stream, CUdeviceptr at, unsigned value, unsigned flags), (stream, at, value, flags))
DRIVER(cuStreamSynchronize_ptsz, (CUstream stream), (stream))
#endif
