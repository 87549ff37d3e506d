/* HOOK-07 (b): a driver that lacks functions which the library's table has. Look-ups by name must
 * give null with a text, as they would without us; the functions as linked say not supported.
 *   hidden NAME...       prints "NULL" or "FOUND" for each; then "CODE n" of too much memory */
#include "case.h"

int main(int argc, char **argv) {
    case_id = "hidden";
    first_gpu();
    for (int i = 1; i < argc; i++) {
        void *found = dlsym(driver(), argv[i]);
        const char *why = dlerror();
        CHECK(found || why, "%s: null without a text", argv[i]);
        puts(found ? "FOUND" : "NULL");
    }
    CUdeviceptr p;
    printf("CODE %d\n", cuMemAlloc_v2(&p, GiB + 64 * MiB));
    return 0;
}
