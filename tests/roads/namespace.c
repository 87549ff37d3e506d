/* The driver, or a plug-in that uses it, is loaded into a namespace of its own.
 *   namespace driver NAME        this program asks the handle
 *   namespace plugin FILE        the plug-in opens the driver there */
#include "road.h"

static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    handle = dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW);
    if (!handle) lost(argv[2]);
    if (!strcmp(argv[1], "driver")) return walk("namespace", find);
    int (*run)(void) = (int (*)(void))dlsym(handle, "road_plugin");
    if (!run) lost("road_plugin");
    return run();
}
