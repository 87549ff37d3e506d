/* A plug-in that finds its dependencies by its own RUNPATH, at load and by a `dlopen` of its own:
 * the loader judges both by who asks, which must be the plug-in and not us. */
#include "../road.h"

int needed_answer(void);
static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }

int road_plugin(void) {
    void *late = opened("libroadlate.so", RTLD_NOW);
    int (*answer)(void) = (int (*)(void))dlsym(late, "needed_answer");
    if (!answer || answer() != 42 || needed_answer() != 42) lost("a dependency");
    handle = opened("libcuda.so.1", RTLD_NOW);
    return walk("runpath", find);
}
