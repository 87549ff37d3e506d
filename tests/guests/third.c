/* Functions of the driver's names in a library that is not the driver, looked up by that library's
 * handle: what is found is its own, whoever else has such names.
 *   third LIBRARY        prints the three codes */
#include "case.h"

int main(int argc, char **argv) {
    case_id = "third";
    CHECK(argc == 2, "third LIBRARY");
    void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(handle, "%s", dlerror());
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(handle, "cuInit");
    int (*alloc)(void *, unsigned long) = (int (*)(void *, unsigned long))dlsym(handle, "cuMemAlloc_v2");
    int (*nvml)(void) = (int (*)(void))dlsym(handle, "nvmlInit_v2");
    CHECK(init && alloc && nvml, "a name is not found");
    printf("CODES %d %d %d\n", init(0), alloc(&handle, 0), nvml());
    return 0;
}
