/* Random calls of every row of the table, legal and illegal, from a seed: what each answers and writes.
 * Two runs with one seed must print the same, with a library between program and driver or without.
 *   differ SEED BLOCKS CALLS linked|found    each block of calls in a process of its own, with a seed of its
 *                                            own; by the program's own symbols, or by those looked up */
#include "road.h"
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct row { const char *symbol, *memory, *types; void *linked; };
#define KINDS(symbol, memory, types) __attribute__((weak)) int symbol(void);
#include "driver_kinds.h"
#undef KINDS
#define KINDS(symbol, memory, types) {#symbol, memory, types, (void *)symbol},
static const struct row ROWS[] = {
#include "driver_kinds.h"
};
enum { COUNT = sizeof ROWS / sizeof *ROWS, SCRATCH = 2 << 20, POOL = 64, ARGUMENTS = 24 };

/* Calls that wait for ever or for other processes, read through null by their own rule, or end in a
 * function of the program's. */
static const char *const LEFT_OUT[] = {"cuStreamWaitValue", "cuStreamBatchMemOp", "cuLaunch", "cuCheckpoint",
    "cuCoredump", "cuStreamAddCallback", "cuUserObject", "cuGL", "cuEGL", "cuVDPAU", "cuGraphics", "cuProfiler",
    "cuLogicalEndpoint", "cuTensorMap", "cuGetExportTable", "cuGraphAddHostNode", "cuLinkAddFile",
    "cuModuleLoad", "cuLibraryLoadFromFile", "cuOccupancyMax", NULL};

/* Values that calls have given, by the type that takes them. */
static struct { const char *type; uint64_t value; } pool[POOL];
static int pooled;
static uint64_t state;
static int linked;
static unsigned char *scratch[4];

static uint64_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
}
static unsigned below(unsigned n) { return (unsigned)(next() >> 33) % n; }

static int left_out(const char *symbol) {
    for (int i = 0; LEFT_OUT[i]; i++)
        if (!strncmp(symbol, LEFT_OUT[i], strlen(LEFT_OUT[i]))) return 1;
    return 0;
}
static int same_type(const char *a, const char *b, size_t length) {
    return !strncmp(a, b, length) && (a[length] == ' ' || a[length] == 0);
}
/* A value of that type that an earlier call gave, or one that none did. */
static uint64_t given(const char *type, size_t length) {
    int start = pooled ? (int)below((unsigned)pooled) : 0;
    if (below(8))
        for (int i = 0; i < pooled; i++) {
            int at = (start + i) % pooled;
            if (same_type(pool[at].type, type, length)) return pool[at].value;
        }
    static const uint64_t others[] = {0, 1, 2, 3, 0x1234, 0x7f0000000000ull};
    return others[below(6)];
}
static uint64_t number(int wide) {
    static const uint64_t some[] = {0, 1, 2, 3, 4, 7, 16, 64, 256, 4096, 65536, 1 << 20};
    static const uint64_t odd[] = {(uint64_t)-1, 1ull << 31, 1ull << 40, 1ull << 63, 12345};
    if (below(6)) return some[below(12)];
    return wide ? odd[below(5)] : (uint32_t)odd[below(5)];
}
/* The argument for one parameter; `out` is where a pointer leads, -1 for none. */
static uint64_t argument(const char *type, size_t length, int pointers, int *out) {
    *out = -1;
    if (*type == '*') {
        if (!below(10)) return 0;
        *out = pointers & 3;
        return (uint64_t)(uintptr_t)scratch[*out];
    }
    if (strstr(type, "Callback") == type + length - 8 || same_type(type, "CUhostFn", length) ||
        !strncmp(type, "CUoccupancy", 11))
        return 0;
    if (!strncmp(type, "CU", 2)) return given(type, length);
    return number(same_type(type, "usize", length) || same_type(type, "u64", length) ||
                  same_type(type, "c_ulonglong", length));
}
/* What stands there, if it is the same in every process: addresses of this process are not. */
static void say_written(const char *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    if (value >> 40) printf(" address");
    else printf(" %llx", (unsigned long long)value);
}
static void keep(const char *type, size_t length, uint64_t value) {
    static char names[POOL][64];
    int at = pooled < POOL ? pooled++ : (int)below(POOL);
    snprintf(names[at], sizeof names[at], "%.*s", (int)length, type);
    pool[at].type = names[at], pool[at].value = value;
}
static void call(const struct row *row, void *function, int said) {
    uint64_t a[ARGUMENTS] = {0};
    int outs[ARGUMENTS], count = 0, pointers = 0;
    const char *types[ARGUMENTS];
    size_t lengths[ARGUMENTS];
    for (int i = 0; i < 4; i++) memset(scratch[i], 0, 256);
    for (const char *t = row->types; *t && count < ARGUMENTS; count++) {
        size_t length = strcspn(t, " ");
        types[count] = t, lengths[count] = length;
        a[count] = argument(t, length, pointers, &outs[count]);
        if (*t == '*') pointers++;
        t += length + (t[length] == ' ');
    }
    int (*f)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
             uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = (void *)function;
    int code = f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
    if (said) printf("%s %s %d", row->symbol, row->memory, code);
    for (int i = 0; i < count; i++) {
        if (outs[i] < 0 || strncmp(types[i], "*mut", 4)) continue;
        if (said) say_written((char *)scratch[outs[i]]);
        uint64_t value;
        memcpy(&value, scratch[outs[i]], sizeof value);
        if (!code && value && !strncmp(types[i], "*mutCU", 6)) keep(types[i] + 4, lengths[i] - 4, value);
    }
    if (said) puts("");
}
static void *must_find_in(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    if (!found) lost(name);
    return found;
}
static const struct row *row_named(const char *symbol) {
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(ROWS[i].symbol, symbol)) return &ROWS[i];
    return NULL;
}
static void block(void *handle, uint64_t seed, int calls) {
    static const char *const first[] = {"cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuEventCreate", "cuMemAlloc_v2",
                                        "cuMemAlloc_v2", "cuGraphCreate", "cuDeviceGetDefaultMemPool"};
    alarm(20);
    state = seed * 2 + 1;
    int early = (int)(seed % 8) == 0; /* some begin before cuInit */
    if (!early) {
        void *context;
        int (*init)(unsigned) = (int (*)(unsigned))must_find_in(handle, "cuInit");
        int (*retain)(void **, int) = (int (*)(void **, int))must_find_in(handle, "cuDevicePrimaryCtxRetain");
        int (*set)(void *) = (int (*)(void *))must_find_in(handle, "cuCtxSetCurrent");
        if (init(0) || retain(&context, 0) || set(context)) lost("a context");
        keep("CUcontext", 9, (uint64_t)(uintptr_t)context);
        for (size_t i = 0; i < sizeof first / sizeof *first; i++)
            for (int tries = 0; tries < 4; tries++) call(row_named(first[i]), must_find_in(handle, first[i]), 0);
    }
    /* Work that a call submitted may fail a moment later, and the next call tell of it: each call is
     * waited for, so that the moment is the same in every run. */
    int (*settle)(void) = (int (*)(void))must_find_in(handle, "cuCtxSynchronize");
    for (int i = 0; i < calls;) {
        const struct row *row = &ROWS[below(COUNT)];
        void *function = linked ? row->linked : dlsym(handle, row->symbol);
        if (left_out(row->symbol)) continue;
        if (function) call(row, function, 1), settle();
        else printf("%s null\n", row->symbol);
        fflush(stdout);
        i++;
    }
    _exit(0);
}
int main(int argc, char **argv) {
    if (argc != 5) return 2;
    linked = !strcmp(argv[4], "linked");
    void *handle = opened("libcuda.so.1", RTLD_NOW);
    for (int i = 0; i < 4; i++) {
        scratch[i] = mmap((void *)(0x200000000000ull + (uint64_t)i * (SCRATCH * 2)), SCRATCH, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (scratch[i] == MAP_FAILED) return 3;
    }
    for (int i = 0; i < atoi(argv[2]); i++) {
        uint64_t seed = strtoull(argv[1], NULL, 0) + (uint64_t)i;
        int status;
        printf("BLOCK %llu\n", (unsigned long long)seed);
        fflush(stdout);
        pid_t child = fork();
        if (!child) block(handle, seed, atoi(argv[3]));
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) printf("DIED %d\n", WTERMSIG(status));
    }
    return 0;
}
