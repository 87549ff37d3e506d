/* A program built with the address sanitizer, whose runtime has to be named before any other library. */
#include "../roads/road.h"

static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }

int main(void) {
    char *checked = malloc(64);
    strcpy(checked, "libcuda.so.1");
    handle = opened(checked, RTLD_NOW);
    free(checked);
    return walk("sanitized", find);
}
