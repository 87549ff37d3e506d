/* A program of another C library (musl). Without an argument it does what programs do that never
 * touch CUDA, look-ups of libc's own functions among it; with one it makes CUDA calls and prints their codes.
 *   musl [cuda] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


int main(int argc, char **argv) {
    size_t (*length)(const char *) = (size_t (*)(const char *))dlsym(RTLD_DEFAULT, "strlen");
    int (*foreign)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "toupper");
    if (!length || length("four") != 4 || !foreign || foreign('n') != 'N') return puts("LOST libc"), 1;
    if (dlsym(RTLD_DEFAULT, "no_such_name") || !dlerror()) return puts("LOST dlerror"), 1;
    char *copy = strdup("musl lives");
    if (argc == 1 || strcmp(argv[1], "cuda")) return puts(copy), free(copy), 0;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(RTLD_DEFAULT, "cuInit");
    int (*alloc)(unsigned long long *, size_t) =
        (int (*)(unsigned long long *, size_t))dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    if (!init || !alloc) return puts("LOST"), 1;
    unsigned long long p;
    int first = init(0), second = init(0);
    printf("CODES %d %d %d\n", first, second, alloc(&p, 1 << 20));
    return 0;
}
