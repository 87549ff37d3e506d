/* As a runtime does: cuGetProcAddress is asked for itself, and what that gives for everything else.
 *   chain 1|2       by which version of the call it begins */
#include "road.h"

typedef int (*get1)(const char *, void **, int, unsigned long long);
typedef int (*get2)(const char *, void **, int, unsigned long long, int *);
static get2 get;

static void *find(const char *name) {
    static const char *const forms[] = {"cuMemAlloc_v2", "cuMemAlloc"};
    void *found = NULL;
    int status = 0;
    if (!strcmp(name, forms[0])) name = forms[1];
    return get(name, &found, 12000, 0, &status) || status ? NULL : found;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    void *handle = opened("libcuda.so.1", RTLD_NOW), *itself = NULL;
    int status = 0;
    if (argv[1][0] == '1') {
        get1 first = (get1)dlsym(handle, "cuGetProcAddress");
        if (!first || first("cuGetProcAddress", &itself, 11030, 0)) lost("cuGetProcAddress of itself");
        get1 again = (get1)itself;
        if (again("cuGetProcAddress", &itself, 12000, 0)) lost("cuGetProcAddress at 12000");
    } else {
        get2 first = (get2)dlsym(handle, "cuGetProcAddress_v2");
        void *nothing;
        if (!first) lost("cuGetProcAddress_v2");
        first("", &nothing, 0, 0, &status);
        if (first("cuGetProcAddress", &itself, 12000, 0, &status)) lost("cuGetProcAddress of itself");
    }
    get = (get2)itself;
    return walk("chain", find);
}
