/* Device code as compilers deliver it: the file FATBIN holds a fat binary with the kernel `vectorAdd`.
 * It is loaded bare and in the wrapper that compilers put around it, by each call that takes one, and
 * through the linker; each time the kernel's sum is checked.
 *   fatbins FATBIN       prints "SUM WAY CODE" of each */
#include "case.h"
#include <stdint.h>

typedef void *CUmodule, *CUfunction, *CUlibrary, *CUkernel, *CUlinkState;
static CUresult (*load_data)(CUmodule *, const void *), (*load_fat)(CUmodule *, const void *),
    (*get)(CUfunction *, CUmodule, const char *),
    (*library)(CUlibrary *, const void *, void *, void *, unsigned, void *, void *, unsigned),
    (*library_kernel)(CUkernel *, CUlibrary, const char *), (*kernel_function)(CUfunction *, CUkernel),
    (*link_create)(unsigned, void *, void *, CUlinkState *),
    (*link_add)(CUlinkState, int, void *, size_t, const char *, unsigned, void *, void *),
    (*link_complete)(CUlinkState, void **, size_t *), (*link_destroy)(CUlinkState),
    (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
              void **),
    (*to_device)(CUdeviceptr, const void *, size_t);
struct wrapper { uint32_t magic, version; const void *fatbin; void *more; };
enum { N = 300 };

static int sums(CUfunction f) {
    float a[N], b[N], sum[N];
    CUdeviceptr on[3];
    unsigned n = N;
    for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = (float)(i * i), sum[i] = -1;
    for (int i = 0; i < 3; i++) MUST(cuMemAlloc_v2(&on[i], sizeof a));
    MUST(to_device(on[0], a, sizeof a));
    MUST(to_device(on[1], b, sizeof b));
    void *parameters[] = {&on[0], &on[1], &on[2], &n};
    MUST(launch(f, 2, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
    MUST(cuMemcpyDtoH_v2(sum, on[2], sizeof sum));
    for (int i = 0; i < 3; i++) MUST(cuMemFree_v2(on[i]));
    for (int i = 0; i < N; i++)
        if (sum[i] != a[i] + b[i]) return 0;
    return 1;
}
static void say(const char *way, CUresult code, const CUmodule *module) {
    CUfunction f;
    if (!code) code = get(&f, *module, "vectorAdd");
    CHECK(code || sums(f), "%s: the sum is wrong", way);
    printf("SUM %s %d\n", way, code);
}

int main(int argc, char **argv) {
    static char image[1 << 20];
    CUmodule module;
    case_id = "fatbins";
    CHECK(argc == 2, "fatbins FATBIN");
    FILE *file = fopen(argv[1], "rb");
    CHECK(file, "no %s", argv[1]);
    size_t bytes = fread(image, 1, sizeof image, file);
#define FIND(pointer, name) CHECK((*(void **)&pointer = dlsym(driver(), name)), "driver has no " name)
    FIND(load_data, "cuModuleLoadData");
    FIND(load_fat, "cuModuleLoadFatBinary");
    FIND(get, "cuModuleGetFunction");
    FIND(library, "cuLibraryLoadData");
    FIND(library_kernel, "cuLibraryGetKernel");
    FIND(kernel_function, "cuKernelGetFunction");
    FIND(link_create, "cuLinkCreate_v2");
    FIND(link_add, "cuLinkAddData_v2");
    FIND(link_complete, "cuLinkComplete");
    FIND(link_destroy, "cuLinkDestroy");
    FIND(launch, "cuLaunchKernel");
    FIND(to_device, "cuMemcpyHtoD_v2");
    first_gpu();
    struct wrapper wrapped = {0x466243b1, 1, image, NULL};
    say("module-bare", load_data(&module, image), &module);
    say("module-wrapped", load_data(&module, &wrapped), &module);
    say("fatbinary-bare", load_fat(&module, image), &module);
    say("fatbinary-wrapped", load_fat(&module, &wrapped), &module);
    CUlibrary lib;
    CUkernel kernel;
    CUfunction f;
    CUresult code = library(&lib, &wrapped, NULL, NULL, 0, NULL, NULL, 0);
    if (!code) code = library_kernel(&kernel, lib, "vectorAdd");
    if (!code) code = kernel_function(&f, kernel);
    CHECK(code || sums(f), "library: the sum is wrong");
    printf("SUM library-wrapped %d\n", code);
    CUlinkState state;
    void *linked;
    size_t size;
    MUST(link_create(0, NULL, NULL, &state));
    code = link_add(state, 2, image, bytes, "fatbin", 0, NULL, NULL);
    if (!code) code = link_complete(state, &linked, &size);
    if (!code) code = load_data(&module, linked);
    say("linked", code, &module);
    MUST(link_destroy(state));
    return 0;
}
