/* A plug-in that opens the driver by itself and looks up driver names mixed with foreign ones that
 * begin alike, in every handle it has. */
#include "case.h"

struct answers { void *foreign[4], *foreign_in_all[4]; CUresult code; };

static const char *const foreign[] = {"cublasCreate_v2", "cudnnCreate", "curl_easy_init", "cuda_dummy"};

void plugin_main(struct answers *answers, size_t bytes) {
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    CHECK(handle, "no driver: %s", dlerror());
    for (int i = 0; i < 4; i++) {
        answers->foreign[i] = dlsym(handle, foreign[i]);
        answers->foreign_in_all[i] = dlsym(RTLD_DEFAULT, foreign[i]);
    }
    CUresult (*init)(unsigned) = (CUresult (*)(unsigned))dlsym(handle, "cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) =
        (CUresult (*)(CUcontext *, CUdevice))dlsym(handle, "cuDevicePrimaryCtxRetain");
    CUresult (*set)(CUcontext) = (CUresult (*)(CUcontext))dlsym(handle, "cuCtxSetCurrent");
    CUresult (*alloc)(CUdeviceptr *, size_t) = (CUresult (*)(CUdeviceptr *, size_t))dlsym(handle, "cuMemAlloc_v2");
    CHECK(init && retain && set && alloc, "a driver name has no function");
    CUcontext context;
    CUdeviceptr p;
    MUST(init(0));
    MUST(retain(&context, 0));
    MUST(set(context));
    answers->code = alloc(&p, bytes);
}
