/* A plug-in goes the road; this program only opens it and calls it.
 *   plugin FILE [deepbind] */
#include "road.h"

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    void *handle = opened(argv[1], RTLD_NOW | (argc > 2 ? RTLD_DEEPBIND : 0));
    int (*run)(void) = (int (*)(void))dlsym(handle, "road_plugin");
    if (!run) lost("road_plugin");
    return run();
}
