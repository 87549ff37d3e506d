/* The look-up function itself is looked up, as wrappers do.
 *   second_dlsym default|next|libc DRIVER */
#include "road.h"

static void *handle;
static void *(*look_up)(void *, const char *);
static void *find(const char *name) { return look_up(handle, name); }

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    void *where = RTLD_DEFAULT;
    if (!strcmp(argv[1], "next")) where = RTLD_NEXT;
    if (!strcmp(argv[1], "libc")) where = opened("libc.so.6", RTLD_NOW);
    look_up = (void *(*)(void *, const char *))dlsym(where, "dlsym");
    if (!look_up) lost("dlsym");
    handle = opened(argv[2], RTLD_NOW);
    return walk(argv[1], find);
}
