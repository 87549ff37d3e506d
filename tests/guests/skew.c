/* HOOK-07: a driver that is newer or older than the list of functions. Prints one line a word:
 *   newer MIB   asks cuGetProcAddress for cuMemAlloc and allocates: "NEWER code exported", whether the
 *               pointer is one that dlsym knows
 *   has NAME    "HAS NAME dlsym lookup", 1 where a pointer was given
 *   alloc MIB   "CODE n" of cuMemAlloc_v2 */
#include "case.h"

typedef CUresult lookup_fn(const char *, void **, int, unsigned long long);

static void *looked_up(const char *name) {
    void *found = NULL;
    lookup_fn *get = (lookup_fn *)dlsym(driver(), "cuGetProcAddress");
    CHECK(get, "driver has no cuGetProcAddress");
    if (get(name, &found, 13000, 0) != OK) return NULL;
    return found;
}

int main(int argc, char **argv) {
    CUdeviceptr p;
    case_id = "HOOK-07";
    first_gpu();
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *word = argv[i], *what = argv[i + 1];
        if (!strcmp(word, "has")) {
            printf("HAS %s %d %d\n", what, dlsym(driver(), what) != NULL, looked_up(what) != NULL);
        } else if (!strcmp(word, "alloc")) {
            printf("CODE %d\n", cuMemAlloc_v2(&p, strtoul(what, NULL, 10) * MiB));
        } else {
            CUresult (*alloc)(CUdeviceptr *, size_t) = looked_up("cuMemAlloc");
            CHECK(alloc, "no cuMemAlloc");
            void *exported = dlsym(driver(), "cuMemAlloc_v2");
            CUresult code = alloc(&p, strtoul(what, NULL, 10) * MiB);
            printf("NEWER %d %d\n", code, (void *)alloc == exported);
        }
    }
    return 0;
}
