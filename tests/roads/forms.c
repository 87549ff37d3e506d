/* Every form of every function that obtains memory, by name and by cuGetProcAddress under each
 * version that answers with it and each stream flag. The forms of version 2000 have 32-bit addresses,
 * which a driver may answer with 801 (not supported) whatever is asked.
 *   forms symbol | forms 1 | forms 2       by name, by either version of cuGetProcAddress */
#include "road.h"

struct form { const char *symbol, *asked; int from, until; unsigned flags; int (*call)(void *, size_t); const char *undo; };

struct array1 { unsigned width, height; int format; unsigned channels; };
struct array2 { size_t width, height; int format; unsigned channels; };
struct array3d1 { unsigned width, height, depth; int format; unsigned channels, flags; };
struct array3d2 { size_t width, height, depth; int format; unsigned channels, flags; };
struct prop { int type, handles, at, id; void *os; unsigned char flags[8]; };
struct pool_prop { int type, handles, at, id; void *os; size_t max; unsigned char rest[56]; };
enum { FLOAT = 0x20, WIDTH = 4096 };

static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }
static void *pool(void) {
    static void *made;
    struct pool_prop prop = {.type = 1, .at = 1};
    int (*create)(void **, const struct pool_prop *) =
        (int (*)(void **, const struct pool_prop *))must_find(find, "cuMemPoolCreate");
    if (!made && create(&made, &prop)) lost("a pool");
    return made;
}
static pointer out[2];
#define FORM(name, ...) static int name(void *f, size_t bytes) { size_t pitch; (void)pitch; __VA_ARGS__ }
FORM(alloc1, int (*call)(unsigned *, unsigned) = f; return call((unsigned *)out, (unsigned)bytes);)
FORM(alloc, int (*call)(pointer *, size_t) = f; return call(out, bytes);)
FORM(pitch1, int (*call)(unsigned *, unsigned *, unsigned, unsigned, unsigned) = f; unsigned narrow;
     return call((unsigned *)out, &narrow, WIDTH, (unsigned)(bytes / WIDTH), 16);)
FORM(pitch2, int (*call)(pointer *, size_t *, size_t, size_t, unsigned) = f;
     return call(out, &pitch, WIDTH, bytes / WIDTH, 16);)
FORM(managed, int (*call)(pointer *, size_t, unsigned) = f; return call(out, bytes, 1);)
FORM(async, int (*call)(pointer *, size_t, void *) = f; return call(out, bytes, NULL);)
FORM(from_pool, int (*call)(pointer *, size_t, void *, void *) = f; return call(out, bytes, pool(), NULL);)
FORM(create, int (*call)(pointer *, size_t, const struct prop *, unsigned long long) = f;
     struct prop prop = {.type = 1, .at = 1}; return call(out, bytes, &prop, 0);)
FORM(array1, int (*call)(void **, const struct array1 *) = f;
     struct array1 d = {WIDTH, (unsigned)(bytes / WIDTH / 16), FLOAT, 4}; return call((void **)out, &d);)
FORM(array2, int (*call)(void **, const struct array2 *) = f;
     struct array2 d = {WIDTH, bytes / WIDTH / 16, FLOAT, 4}; return call((void **)out, &d);)
FORM(array3d1, int (*call)(void **, const struct array3d1 *) = f;
     struct array3d1 d = {WIDTH, (unsigned)(bytes / WIDTH / 16), 0, FLOAT, 4, 0}; return call((void **)out, &d);)
FORM(array3d2, int (*call)(void **, const struct array3d2 *) = f;
     struct array3d2 d = {WIDTH, bytes / WIDTH / 16, 0, FLOAT, 4, 0}; return call((void **)out, &d);)
FORM(mipmap, int (*call)(void **, const struct array3d2 *, unsigned) = f;
     struct array3d2 d = {WIDTH, bytes / WIDTH / 16, 0, FLOAT, 4, 0}; return call((void **)out, &d, 1);)

/* `until` is the first version that answers with another form, 0 if none does. */
#define ANY 3
static const struct form FORMS[] = {
    {"cuMemAlloc", "cuMemAlloc", 2000, 3020, ANY, alloc1, "cuMemFree"},
    {"cuMemAlloc_v2", "cuMemAlloc", 3020, 0, ANY, alloc, "cuMemFree_v2"},
    {"cuMemAllocPitch", "cuMemAllocPitch", 2000, 3020, ANY, pitch1, "cuMemFree"},
    {"cuMemAllocPitch_v2", "cuMemAllocPitch", 3020, 0, ANY, pitch2, "cuMemFree_v2"},
    {"cuMemAllocManaged", "cuMemAllocManaged", 6000, 0, ANY, managed, "cuMemFree_v2"},
    {"cuMemAllocAsync", "cuMemAllocAsync", 11020, 0, 0, async, "cuMemFree_v2"},
    {"cuMemAllocAsync_ptsz", "cuMemAllocAsync", 11020, 0, 2, async, "cuMemFree_v2"},
    {"cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", 11020, 0, 0, from_pool, "cuMemFree_v2"},
    {"cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync", 11020, 0, 2, from_pool, "cuMemFree_v2"},
    {"cuMemCreate", "cuMemCreate", 10020, 0, ANY, create, "cuMemRelease"},
    {"cuArrayCreate", "cuArrayCreate", 2000, 3020, ANY, array1, "cuArrayDestroy"},
    {"cuArrayCreate_v2", "cuArrayCreate", 3020, 0, ANY, array2, "cuArrayDestroy"},
    {"cuArray3DCreate", "cuArray3DCreate", 2000, 3020, ANY, array3d1, "cuArrayDestroy"},
    {"cuArray3DCreate_v2", "cuArray3DCreate", 3020, 0, ANY, array3d2, "cuArrayDestroy"},
    {"cuMipmappedArrayCreate", "cuMipmappedArrayCreate", 5000, 0, ANY, mipmap, "cuMipmappedArrayDestroy"},
};
static const int VERSIONS[] = {2000, 3010, 3020, 5000, 5050, 6000, 7050, 8000, 9020, 10000, 10020, 11000,
                               11020, 11030, 11080, 12000, 12040, 12090, 13000};

/* Asks and gives back at once, so that natively all forms can have it one after the other. */
static int ask(const struct form *form, void *function, size_t bytes) {
    memset(out, 0, sizeof out);
    int code = form->call(function, bytes);
    if (code) return code;
    int (*undo)(pointer) = (int (*)(pointer))must_find(find, form->undo);
    if (undo(out[0])) lost(form->undo);
    return 0;
}
static void go(const struct form *form, const char *step, void *function) {
    int first = ask(form, function, ENOUGH);
    told(step, first, ask(form, function, TOO_MUCH));
}
static void by_versions(const struct form *form, int second) {
    typedef int (*get1)(const char *, void **, int, unsigned long long);
    typedef int (*get2)(const char *, void **, int, unsigned long long, int *);
    void *get = must_find(find, second ? "cuGetProcAddress_v2" : "cuGetProcAddress");
    for (unsigned flag = 0; flag <= 2; flag++) {
        if (form->flags != ANY && (form->flags == 2) != (flag == 2)) continue;
        for (size_t v = 0; v < sizeof VERSIONS / sizeof *VERSIONS; v++) {
            char step[96];
            void *found = NULL;
            int version = VERSIONS[v], status = 0;
            if (version < form->from || (form->until && version >= form->until)) continue;
            int code = second ? ((get2)get)(form->asked, &found, version, flag, &status)
                              : ((get1)get)(form->asked, &found, version, flag);
            if (code || status || !found) lost(form->asked);
            snprintf(step, sizeof step, "%s@%d/%u", form->symbol, version, flag);
            told(step, 0, ask(form, found, TOO_MUCH));
        }
    }
}
int main(int argc, char **argv) {
    if (argc != 2) return 2;
    handle = opened("libcuda.so.1", RTLD_NOW);
    begin(find);
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        if (strcmp(argv[1], "symbol")) by_versions(&FORMS[i], argv[1][0] == '2');
        else go(&FORMS[i], FORMS[i].symbol, must_find(find, FORMS[i].symbol));
    }
    return 0;
}
