/* A driver of our own for tests: every function of the table jumps to that of the driver at the path
 * in ODD_DRIVER_BENEATH, and look-ups are answered with these functions. All symbols are weak, so
 * that a file beside this one may answer some itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define ROW(name) "1"
enum { ROWS = sizeof(
#include "driver_rows.h"
) - 1 };
#undef ROW
#define ROW(name) #name "\0"
static const char names[] =
#include "driver_rows.h"
;
#undef ROW

__attribute__((visibility("hidden"))) void *beneath[ROWS];
__attribute__((visibility("hidden"))) void *beneath_handle;

#define ROW(name) \
    ".weak " #name "\n.type " #name ", @function\n" #name ": jmp *beneath + 8 * row(%rip)\n" \
    ".set row, row + 1\n"
__asm__(".text\n.set row, 0\n"
#include "driver_rows.h"
);

static int absent(void) { return 500; }

/* Answers as the driver beneath does, with the function of this file that leads there. */
__attribute__((visibility("hidden"))) int look_up_beneath(const char *asked, void **out, int version,
                                                          unsigned long long flags, int *status) {
    static int (*get)(const char *, void **, int, unsigned long long, int *);
    if (!get) *(void **)&get = dlsym(beneath_handle, "cuGetProcAddress_v2");
    int code = get ? get(asked, out, version, flags, status) : 500;
    if (code || !out || !*out) return code;
    const char *name = names;
    for (int row = 0; row < ROWS; row++, name += __builtin_strlen(name) + 1)
        if (beneath[row] == *out) {
            Dl_info own;
            void *self = dladdr(names, &own) ? dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
            void *ours = self ? dlsym(self, name) : NULL;
            if (ours) *out = ours;
            return code;
        }
    return code;
}
__attribute__((weak)) int cuGetProcAddress_v2(const char *name, void **out, int version,
                                              unsigned long long flags, int *status) {
    return look_up_beneath(name, out, version, flags, status);
}
__attribute__((weak)) int cuGetProcAddress(const char *name, void **out, int version,
                                           unsigned long long flags) {
    return look_up_beneath(name, out, version, flags, NULL);
}

__attribute__((constructor)) static void find_beneath(void) {
    const char *path = getenv("ODD_DRIVER_BENEATH"), *name = names;
    beneath_handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (int row = 0; row < ROWS; row++) {
        void *found = beneath_handle ? dlsym(beneath_handle, name) : NULL;
        beneath[row] = found ? found : (void *)absent;
        while (*name++) {}
    }
}
