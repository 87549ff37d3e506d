/* What errno is after calls that the library answers or passes on, granted and refused ones, and
 * look-ups. It is set before each; what the driver makes of it natively is what it must be.
 *   errnos             prints "ERRNO CALL CODE VALUE" */
#define _GNU_SOURCE
#include "case.h"
#include <errno.h>

#define SAY(call) do { errno = 77; long code_ = (long)(call); int now_ = errno; \
    printf("ERRNO %s %ld %d\n", #call, code_, now_); } while (0)
#define FIND(call) do { errno = 77; int code_ = (call) != NULL; int now_ = errno; \
    printf("ERRNO %s %d %d\n", #call, code_, now_); } while (0)

int main(void) {
    CUcontext context;
    CUdeviceptr p, q;
    CUhandle handle;
    size_t pitch, a;
    case_id = "errnos";
    void *open = driver();
    FIND(dlsym(open, "cuMemAlloc_v2"));
    FIND(dlsym(RTLD_DEFAULT, "strlen"));
    FIND(dlvsym(RTLD_DEFAULT, "strlen", "GLIBC_2.2.5"));
    SAY(cuMemAlloc_v2(&p, MiB));
    SAY(cuInit(0));
    SAY(cuInit(0));
    SAY(cuDevicePrimaryCtxRetain(&context, 0));
    SAY(cuCtxSetCurrent(context));
    SAY(cuMemAlloc_v2(&p, 64 * MiB));
    SAY(cuMemAlloc_v2(&q, 64 * GiB));
    SAY(cuMemAllocPitch_v2(&q, &pitch, 100, 100, 4));
    SAY(cuMemAllocManaged(&q, MiB, ATTACH_GLOBAL));
    SAY(cuMemAllocAsync(&q, MiB, NULL));
    SAY(cuMemFreeAsync(q, NULL));
    SAY(cuMemFree_v2(p));
    SAY(cuMemFree_v2(12345));
    SAY(cuMemGetAddressRange_v2(&p, &a, 12345));
    CUmemAllocationProp prop = {.type = PINNED, .at = {DEVICE, 0}};
    SAY(cuMemCreate(&handle, 2 * MiB, &prop, 0));
    SAY(cuMemCreate(&handle, 64 * GiB, &prop, 0));
    return 0;
}
