/* The paths that a program takes through the library, one call at a time between two breakpoints, so
 * that a tracer can count instructions. Only under one: a breakpoint ends a process otherwise.
 *   paths GO
 * Prints "READY pid" and begins when the file GO exists. The calls come in the order of the list in
 * tests/tests/instructions.rs. */
#include "launch.h"
#define STOP() __asm__ volatile("int3" ::: "memory")

int main(int argc, char **argv) {
    int version;
    case_id = "paths";
    CHECK(argc == 2, "paths GO");
    MUST(cuDriverGetVersion(&version));
    printf("READY %d\n", getpid());
    fflush(stdout);
    for (int i = 0; access(argv[1], F_OK) != 0; i++) {
        CHECK(i < 12000, "%s did not appear", argv[1]);
        usleep(5000);
    }
    CUdeviceptr p, q;
    CUcontext context = first_gpu();
    CUresult (*get_current)(CUcontext *) = (CUresult(*)(CUcontext *))dlsym(driver(), "cuCtxGetCurrent");
    CUresult (*alloc)(CUdeviceptr *, size_t) = (CUresult(*)(CUdeviceptr *, size_t))dlsym(driver(), "cuMemAlloc_v2");
    CUresult (*give)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))dlsym(driver(), "cuMemFree_v2");
    CUresult (*look)(const char *, void **, int, unsigned long long) =
        (CUresult(*)(const char *, void **, int, unsigned long long))dlsym(driver(), "cuGetProcAddress");
    void *libc = dlopen("libc.so.6", RTLD_NOW), *found = NULL;
    MUST(cuMemAlloc_v2(&p, 32 * MiB)); /* after this the allowance has room for what follows */
    MUST(cuMemFree_v2(p));
    MUST(cuMemAlloc_v2(&q, 1 * MiB));
    MUST(look("cuMemAlloc", &found, 12000, 0)); /* the first asks the driver twice */
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **) =
        (CUresult(*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))dlsym(driver(), "cuLaunchKernel");
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t, CUstream) =
        (CUresult(*)(CUdeviceptr, unsigned char, size_t, CUstream))dlsym(driver(), "cuMemsetD8Async");
    CUmodule module;
    CUfunction nothing;
    MUST(cuModuleLoadData(&module, ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry nothing() {\nret;\n}\n"));
    MUST(cuModuleGetFunction(&nothing, module, "nothing"));
    MUST(launch(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)); /* the first looks for a slot */

    STOP();
    get_current(&context); /* a forwarded call */
    STOP();
    STOP();
    alloc(&p, 1 * MiB); /* below the allowance */
    STOP();
    STOP();
    give(p);
    STOP();
    STOP();
    found = dlsym(libc, "getenv"); /* a name that does not begin like ours */
    STOP();
    STOP();
    found = dlsym(libc, "connect"); /* one that does, and is not */
    STOP();
    STOP();
    look("cuMemAlloc", &found, 12000, 0);
    STOP();
    STOP();
    launch(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL); /* the gates are open, nothing is bounded */
    STOP();
    STOP();
    fill(q, 0, 16, NULL);
    STOP();
    CHECK(found && libc, "a look-up failed");
    return 0;
}
