/* HOOK-07 (a): asks for cuMemAlloc at a version that the library's table does not have.
 *   newer VERSION        prints "SAME" if the answer is that of version 12000, else "OTHER" */
#include "case.h"

int main(int argc, char **argv) {
    typedef CUresult (*get_fn)(const char *, void **, int, unsigned long long, int *);
    void *known = NULL, *asked = NULL;
    int status;
    case_id = "newer";
    CHECK(argc == 2, "newer VERSION");
    first_gpu();
    get_fn get = (get_fn)dlsym(driver(), "cuGetProcAddress_v2");
    MUST(get("cuMemAlloc", &known, 12000, 0, &status));
    MUST(get("cuMemAlloc", &asked, atoi(argv[1]), 0, &status));
    CUdeviceptr p;
    CUresult (*alloc)(CUdeviceptr *, size_t) = (CUresult (*)(CUdeviceptr *, size_t))asked;
    MUST(alloc(&p, MiB));
    puts(known == asked ? "SAME" : "OTHER");
    return 0;
}
