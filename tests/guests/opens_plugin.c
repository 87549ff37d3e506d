/* HOOK-06: a program that knows nothing of CUDA opens a plug-in which opens the driver. Foreign
 * names that begin like the driver's must find what they find without us, which here is nothing.
 *   opens_plugin PLUGIN MIB      prints "CODE n", n of the plug-in's allocation */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct answers { void *foreign[4], *foreign_in_all[4]; int code; };

int main(int argc, char **argv) {
    struct answers answers = {0};
    if (argc != 3) return 2;
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 1;
    void (*run)(struct answers *, size_t) = (void (*)(struct answers *, size_t))dlsym(plugin, "plugin_main");
    if (!run) return fprintf(stderr, "%s\n", dlerror()), 1;
    run(&answers, (size_t)atol(argv[2]) << 20);
    for (int i = 0; i < 4; i++)
        if (answers.foreign[i] || answers.foreign_in_all[i]) return puts("a foreign name was answered"), 1;
    printf("CODE %d\n", answers.code);
    return 0;
}
