/* MEM-09: gets memory by the way that a line names, writes a word of it, gives all back, and prints
 * "CODE n", the first code that was not 0. What fails half way is undone; giving back is tried again,
 * as a program does that must not leak. "free" prints "FREE bytes" instead.
 *   ways       (lines: plain pitched managed async pool handle mapped array mipmap free) */
#include "case.h"

#define PIECES 8
#define PIECE (4 * MiB)

typedef struct { size_t width, height, depth; int format; unsigned channels, flags; } Desc3d;
DRIVER(cuMemAddressReserve, (CUdeviceptr *p, size_t n, size_t align, CUdeviceptr at, unsigned long long f),
       (p, n, align, at, f))
DRIVER(cuMemAddressFree, (CUdeviceptr p, size_t bytes), (p, bytes))
DRIVER(cuMemMap, (CUdeviceptr p, size_t bytes, size_t offset, CUhandle h, unsigned long long flags),
       (p, bytes, offset, h, flags))
DRIVER(cuMemUnmap, (CUdeviceptr p, size_t bytes), (p, bytes))
DRIVER(cuMemSetAccess, (CUdeviceptr p, size_t bytes, const int *desc, size_t count), (p, bytes, desc, count))
DRIVER(cuMipmappedArrayCreate, (CUarray *array, const Desc3d *desc, unsigned levels), (array, desc, levels))
DRIVER(cuMipmappedArrayDestroy, (CUarray array), (array))

static CUmemoryPool pool;

/* A fault hits one call: the second try is the last that is needed. */
#define BACK(call) do { if ((call) != OK) MUST(call); } while (0)

static CUresult linear(const char *way) {
    CUdeviceptr p;
    size_t pitch;
    CUresult code;
    int ordered = !strcmp(way, "async") || !strcmp(way, "pool");
    if (!strcmp(way, "plain")) code = cuMemAlloc_v2(&p, 32 * MiB);
    else if (!strcmp(way, "pitched")) code = cuMemAllocPitch_v2(&p, &pitch, 32 * MiB / 1024, 1024, 4);
    else if (!strcmp(way, "managed")) code = cuMemAllocManaged(&p, 32 * MiB, ATTACH_GLOBAL);
    else if (!strcmp(way, "async")) code = cuMemAllocAsync(&p, 32 * MiB, NULL);
    else code = cuMemAllocFromPoolAsync(&p, 32 * MiB, pool, NULL);
    if (code != OK) return code;
    code = cuMemsetD8Async(p, 1, 4, NULL);
    if (!ordered) BACK(cuMemFree_v2(p));
    else BACK(cuMemFreeAsync(p, NULL));
    if (!ordered) return code;
    BACK(cuStreamSynchronize(NULL));
    CUmemoryPool kept = pool;
    if (!strcmp(way, "async")) BACK(cuDeviceGetDefaultMemPool(&kept, 0));
    BACK(cuMemPoolTrimTo(kept, 0));
    return code;
}

/* One allocation as a growing allocator makes it: addresses first, then memory piece by piece. */
static CUresult mapped(void) {
    CUmemAllocationProp prop = {.type = PINNED, .at = {DEVICE, 0}};
    int access[3] = {DEVICE, 0, 3}, there = 0;
    CUdeviceptr base;
    CUhandle handles[PIECES];
    CUresult code = cuMemAddressReserve(&base, PIECES * PIECE, 0, 0, 0);
    if (code != OK) return code;
    for (; there < PIECES; there++) {
        code = cuMemCreate(&handles[there], PIECE, &prop, 0);
        if (code != OK) break;
        code = cuMemMap(base + there * PIECE, PIECE, 0, handles[there], 0);
        if (code == OK) continue;
        BACK(cuMemRelease(handles[there]));
        break;
    }
    if (code == OK) code = cuMemSetAccess(base, PIECES * PIECE, access, 1);
    if (code == OK) code = cuMemsetD8Async(base + PIECES * PIECE - 4, 1, 4, NULL);
    if (code == OK) BACK(cuStreamSynchronize(NULL));
    for (int i = 0; i < there; i++) {
        BACK(cuMemUnmap(base + i * PIECE, PIECE));
        BACK(cuMemRelease(handles[i]));
    }
    BACK(cuMemAddressFree(base, PIECES * PIECE));
    return code;
}

static CUresult other(const char *way) {
    CUmemAllocationProp prop = {.type = PINNED, .at = {DEVICE, 0}};
    CUarrayDesc desc = {2048, 4096, FORMAT_FLOAT, 1};
    Desc3d desc3d = {2048, 2048, 0, FORMAT_FLOAT, 1, 0};
    CUhandle handle;
    CUarray array;
    CUresult code;
    if (!strcmp(way, "handle")) {
        if ((code = cuMemCreate(&handle, 32 * MiB, &prop, 0)) == OK) BACK(cuMemRelease(handle));
    } else if (!strcmp(way, "array")) {
        if ((code = cuArrayCreate_v2(&array, &desc)) == OK) BACK(cuArrayDestroy(array));
    } else if (!strcmp(way, "mipmap")) {
        if ((code = cuMipmappedArrayCreate(&array, &desc3d, 4)) == OK) BACK(cuMipmappedArrayDestroy(array));
    } else {
        fail("no way is called %s", way);
    }
    return code;
}

int main(void) {
    char way[32];
    CUmemPoolProps props = {.type = PINNED, .at = {DEVICE, 0}};
    case_id = "MEM-09";
    first_gpu();
    MUST(cuMemPoolCreate(&pool, &props));
    printf("READY %d\n", (int)getpid());
    fflush(stdout);
    while (scanf("%31s", way) == 1) {
        static const char *const linear_ways[] = {"plain", "pitched", "managed", "async", "pool"};
        int is_linear = 0;
        for (int i = 0; i < 5; i++) is_linear |= !strcmp(way, linear_ways[i]);
        if (!strcmp(way, "free")) printf("FREE %zu\n", free_bytes());
        else printf("CODE %d\n", is_linear ? linear(way) : !strcmp(way, "mapped") ? mapped() : other(way));
        fflush(stdout);
    }
    return 0;
}
