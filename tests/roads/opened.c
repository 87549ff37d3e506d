/* The driver is opened by a name and asked with that handle.
 *   opened NAME [global] [deepbind] [lazy]      NAME may be "itself" for the program's own handle */
#include "road.h"

static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }

int main(int argc, char **argv) {
    int mode = RTLD_NOW;
    if (argc < 2) return 2;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "global")) mode |= RTLD_GLOBAL;
        if (!strcmp(argv[i], "deepbind")) mode |= RTLD_DEEPBIND;
        if (!strcmp(argv[i], "lazy")) mode = (mode & ~RTLD_NOW) | RTLD_LAZY;
    }
    handle = opened(argv[1], mode);
    if (argc > 2 && !strcmp(argv[argc - 1], "itself")) handle = opened(NULL, RTLD_NOW);
    return walk("opened", find);
}
