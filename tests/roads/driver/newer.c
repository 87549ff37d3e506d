/* A driver newer than the table: asked for cuMemAlloc at 13050 or later it answers with a form that
 * nobody has heard of. With BREAKS it answers with that form at every version, also that of the
 * table's own row. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#ifdef BREAKS
enum { SINCE = 0 };
#else
enum { SINCE = 13050 };
#endif

extern void *beneath_handle;
int look_up_beneath(const char *, void **, int, unsigned long long, int *);

static int a_newer_form(unsigned long long *p, unsigned long bytes) {
    int (*alloc)(unsigned long long *, unsigned long) =
        (int (*)(unsigned long long *, unsigned long))dlsym(beneath_handle, "cuMemAlloc_v2");
    return alloc(p, bytes);
}
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *status) {
    int code = look_up_beneath(name, out, version, flags, status);
    if (!code && version >= SINCE && !strcmp(name, "cuMemAlloc")) *out = (void *)a_newer_form;
    return code;
}
int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, out, version, flags, 0);
}
