/* The driver is opened for all, and its functions are asked of the loader's searches.
 *   searched default|next */
#include "road.h"

static void *where;
static void *find(const char *name) { return dlsym(where, name); }

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    opened("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    where = strcmp(argv[1], "next") ? RTLD_DEFAULT : RTLD_NEXT;
    return walk(argv[1], find);
}
