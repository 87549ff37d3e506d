/* A program that clears Halfwarp's variables, or its whole environment but the simulated machine's,
 * before its first CUDA call.
 *   scrubbed some|all      prints "ROAD scrubbed PID FIRST SECOND" */
#include "../roads/road.h"

static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }

int main(int argc, char **argv) {
    static const char *const kept[] = {"SIMCUDA_MACHINE", "SIMCUDA_PROFILE", "SIMCUDA_DIR", "SIMCUDA_STRICT",
                                       "XDG_RUNTIME_DIR"};
    char *values[sizeof kept / sizeof *kept];
    if (argc != 2) return 2;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char *value = getenv(kept[i]);
        values[i] = value ? strdup(value) : NULL;
    }
    if (!strcmp(argv[1], "all")) {
        clearenv();
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (values[i]) setenv(kept[i], values[i], 1);
    } else {
        unsetenv("HALFWARP_TENANT"), unsetenv("HALFWARP_JOIN"), unsetenv("LD_PRELOAD");
        setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
    }
    handle = opened("libcuda.so.1", RTLD_NOW);
    return walk("scrubbed", find);
}
