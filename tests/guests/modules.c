/* MEM-16: a context with nothing in it, then with a module that has 256 MiB of global data, and the same
 * by a library; what the program holds is printed, and it waits for a line after each.
 *   modules        HELD part bytes
 *   modules fits   the module's code, and that nothing of it is left if it was refused */
#include "case.h"

typedef void *CUmodule, *CUlibrary;
DRIVER(cuModuleLoadData, (CUmodule *module, const void *image), (module, image))
DRIVER(cuModuleLoad, (CUmodule *module, const char *path), (module, path))
DRIVER(cuModuleUnload, (CUmodule module), (module))
DRIVER(cuModuleGetGlobal_v2, (CUdeviceptr *p, size_t *bytes, CUmodule module, const char *name),
       (p, bytes, module, name))
DRIVER(cuLibraryLoadData,
       (CUlibrary *library, const void *image, void *a, void *b, unsigned c, void *d, void *e, unsigned f),
       (library, image, a, b, c, d, e, f))
DRIVER(cuLibraryGetGlobal, (CUdeviceptr *p, size_t *bytes, CUlibrary library, const char *name),
       (p, bytes, library, name))
DRIVER(cuLibraryUnload, (CUlibrary library), (library))

static const char PTX[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .global .align 8 .b8 big[268435456];\n";

static void show(const char *part) {
    char line[16];
    printf("HELD %s %zu\n", part, total_bytes() - free_bytes());
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin), "nobody answers");
}

int main(int argc, char **argv) {
    case_id = "MEM-16";
    CUmodule module;
    CUlibrary library;
    CUdeviceptr p;
    size_t bytes;
    first_gpu();
    size_t before = free_bytes();
    if (argc == 2 && strcmp(argv[1], "fits") == 0) {
        printf("LOADED %d\n", cuModuleLoadData(&module, PTX));
        CHECK(free_bytes() == before, "a module that was refused holds %zu bytes", before - free_bytes());
        MUST(cuMemAlloc_v2(&p, 1 * MiB));
        pass();
    }
    show("context");
    MUST(cuModuleLoadData(&module, PTX));
    MUST(cuModuleGetGlobal_v2(&p, &bytes, module, "big"));
    CHECK(bytes == 256 * MiB, "the variable has %zu bytes", bytes);
    CHECK(before - free_bytes() == 256 * MiB, "the module holds %zu bytes", before - free_bytes());
    show("module");
    MUST(cuModuleUnload(module));
    CHECK(free_bytes() == before, "an unloaded module holds %zu bytes", before - free_bytes());
    if (argc == 2) {
        FILE *file = fopen(argv[1], "w");
        CHECK(file && fputs(PTX, file) >= 0 && !fclose(file), "no file");
        MUST(cuModuleLoad(&module, argv[1]));
        CHECK(before - free_bytes() == 256 * MiB, "a file's module holds %zu bytes", before - free_bytes());
        MUST(cuModuleUnload(module));
    }
    MUST(cuLibraryLoadData(&library, PTX, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetGlobal(&p, &bytes, library, "big"));
    show("library");
    MUST(cuLibraryUnload(library));
    show("nothing");
    CHECK(free_bytes() == before, "%zu bytes are left", before - free_bytes());
    pass();
}
