/* Functions are asked for under a symbol version.
 *   versioned DRIVER VERSION [default|next] */
#include "road.h"

static void *where;
static const char *version;
static void *find(const char *name) { return dlvsym(where, name, version); }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    where = opened(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (argc > 3) where = strcmp(argv[3], "next") ? RTLD_DEFAULT : RTLD_NEXT;
    version = argv[2];
    return walk("versioned", find);
}
