/* Arrays of every form under a limit: what each costs is counted while it lives, by whatever way it
 * ends, and neither a refusal nor an array without memory of its own costs anything.
 *   arrays                       (prints "PASS ARRAYS") */
#include "case.h"

typedef struct { size_t width, height, depth; int format; unsigned channels, flags; } CUarray3DDesc;
typedef struct { unsigned width, height; int format; unsigned channels; } CUarrayDescV1;
typedef struct { unsigned width, height, depth; int format; unsigned channels, flags; } CUarray3DDescV1;
typedef void *CUmipmappedArray;

DRIVER(cuArrayCreate, (CUarray *array, const CUarrayDescV1 *desc), (array, desc))
DRIVER(cuArray3DCreate, (CUarray *array, const CUarray3DDescV1 *desc), (array, desc))
DRIVER(cuArray3DCreate_v2, (CUarray *array, const CUarray3DDesc *desc), (array, desc))
DRIVER(cuMipmappedArrayCreate, (CUmipmappedArray *array, const CUarray3DDesc *desc, unsigned levels),
       (array, desc, levels))
DRIVER(cuMipmappedArrayGetLevel, (CUarray *level, CUmipmappedArray array, unsigned n), (level, array, n))
DRIVER(cuMipmappedArrayDestroy, (CUmipmappedArray array), (array))
DRIVER(cuCtxCreate_v2, (CUcontext *context, unsigned flags, CUdevice device), (context, flags, device))
DRIVER(cuCtxDestroy_v2, (CUcontext context), (context))

enum { INVALID_HANDLE = 400, CAPTURE_UNSUPPORTED = 900, LAYERED = 1, DEFERRED = 0x80 };
static const CUarray3DDesc block = {256, 256, 64, FORMAT_FLOAT, 1, 0};        /* 16 MiB */
static size_t before;

static void costs(size_t bytes, const char *what) {
    size_t now = free_bytes();
    CHECK(before - now == bytes, "%s: %zu bytes are counted, not %zu", what, before - now, bytes);
}

static void every_form(void) {
    const CUarrayDesc flat = {2048, 2048, FORMAT_FLOAT, 1};
    const CUarrayDescV1 old_flat = {2048, 2048, FORMAT_FLOAT, 1};
    const CUarray3DDescV1 old_block = {256, 256, 64, FORMAT_FLOAT, 1, 0};
    CUarray arrays[4];
    MUST(cuArrayCreate_v2(&arrays[0], &flat));
    costs(16 * MiB, "an array");
    MUST(cuArrayCreate(&arrays[1], &old_flat));
    costs(32 * MiB, "an array by the old form");
    MUST(cuArray3DCreate_v2(&arrays[2], &block));
    costs(48 * MiB, "a 3D array");
    MUST(cuArray3DCreate(&arrays[3], &old_block));
    costs(64 * MiB, "a 3D array by the old form");
    for (int i = 0; i < 4; i++) MUST(cuArrayDestroy(arrays[i]));
    costs(0, "destroyed arrays");
}

/* The driver says what it takes: less than the granule that an estimate would have. */
static void small(void) {
    const CUarrayDesc desc = {128, 128, FORMAT_FLOAT, 1};
    CUarray array;
    MUST(cuArrayCreate_v2(&array, &desc));
    costs(64 << 10, "a small array");
    MUST(cuArrayDestroy(array));
    costs(0, "a small array destroyed");
}

static void levels(void) {
    const CUarray3DDesc layers = {1024, 1024, 4, FORMAT_FLOAT, 1, LAYERED};   /* 16, then 4 MiB */
    CUmipmappedArray array;
    CUarray level;
    MUST(cuMipmappedArrayCreate(&array, &layers, 2));
    costs(20 * MiB, "two levels");
    MUST(cuMipmappedArrayGetLevel(&level, array, 1));
    costs(20 * MiB, "a level looked at");
    CHECK(cuArrayDestroy(level) == INVALID_HANDLE, "a level was destroyed");
    costs(20 * MiB, "a level that stays");
    MUST(cuMipmappedArrayDestroy(array));
    costs(0, "levels destroyed");
}

static void without_memory(void) {
    const CUarray3DDesc bare = {256, 256, 64, FORMAT_FLOAT, 1, DEFERRED};
    CUarray array;
    CUmipmappedArray levels;
    MUST(cuArray3DCreate_v2(&array, &bare));
    MUST(cuMipmappedArrayCreate(&levels, &bare, 2));
    costs(0, "arrays without memory");
    MUST(cuArrayDestroy(array));
    MUST(cuMipmappedArrayDestroy(levels));
    costs(0, "arrays without memory destroyed");
}

static void refused(void) {
    const CUarrayDesc huge = {131072, 65536, FORMAT_FLOAT, 4};
    const CUarray3DDesc endless = {(size_t)1 << 40, (size_t)1 << 40, 1, FORMAT_FLOAT, 4, 0};
    const CUarray3DDesc nothing = {0, 1, 1, FORMAT_FLOAT, 1, 0}, unknown = {16, 16, 1, 0x77, 1, 0};
    CUarray array;
    CHECK(cuArrayCreate_v2(&array, &huge) == OUT_OF_MEMORY, "128 GiB fit");
    CHECK(cuArray3DCreate_v2(&array, &endless) == OUT_OF_MEMORY, "an estimate wrapped round");
    CHECK(cuMipmappedArrayCreate((void **)&array, &endless, 99) == OUT_OF_MEMORY, "levels wrapped round");
    CHECK(cuArray3DCreate_v2(&array, &nothing) == INVALID_VALUE, "no width is a width");
    CHECK(cuArray3DCreate_v2(&array, &unknown) == INVALID_VALUE, "an unknown format is one");
    CHECK(cuArrayCreate_v2(NULL, &huge) == INVALID_VALUE, "there is no output");
    CHECK(cuArrayCreate_v2(&array, NULL) == INVALID_VALUE, "there is no descriptor");
    costs(0, "refusals");
}

/* With nothing left, what the driver refuses is refused by the driver. */
static void at_the_limit(void) {
    const CUarrayDesc small = {128, 128, FORMAT_FLOAT, 1}, nothing = {0, 128, FORMAT_FLOAT, 1};
    const CUarray3DDesc bare = {256, 256, 64, FORMAT_FLOAT, 1, DEFERRED};
    CUdeviceptr all;
    CUarray array;
    MUST(cuMemAlloc_v2(&all, free_bytes()));
    CHECK(cuArrayCreate_v2(&array, &small) == OUT_OF_MEMORY, "an array beyond the limit");
    CHECK(cuArrayCreate_v2(&array, &nothing) == INVALID_VALUE, "no width is out of memory");
    MUST(cuArray3DCreate_v2(&array, &bare));
    MUST(cuArrayDestroy(array));
    MUST(cuMemFree_v2(all));
    costs(0, "the limit left again");
}

static void freed_once(void) {
    CUarray array;
    CUstream stream;
    CUgraph graph;
    MUST(cuArray3DCreate_v2(&array, &block));
    MUST(cuStreamCreate(&stream, 1));
    MUST(cuStreamBeginCapture_v2(stream, 0));
    CHECK(cuArrayDestroy(array) == CAPTURE_UNSUPPORTED, "an array was destroyed during a capture");
    CHECK(cuStreamEndCapture(stream, &graph) != OK, "the capture went on");
    costs(16 * MiB, "an array that the driver would not destroy");
    MUST(cuArrayDestroy(array));
    costs(0, "it destroyed");
    CHECK(cuArrayDestroy(array) == INVALID_HANDLE, "destroyed twice");
    costs(0, "it destroyed twice");
}

static void with_context(CUcontext first) {
    CUcontext context;
    CUarray array;
    CUmipmappedArray levels;
    MUST(cuCtxCreate_v2(&context, 0, 0));
    MUST(cuArray3DCreate_v2(&array, &block));
    MUST(cuMipmappedArrayCreate(&levels, &block, 1));
    costs(32 * MiB, "arrays of a second context");
    MUST(cuCtxDestroy_v2(context));
    MUST(cuCtxSetCurrent(first));
    costs(0, "arrays whose context has ended");
}

int main(void) {
    case_id = "ARRAYS";
    CUcontext context = first_gpu();
    before = free_bytes();
    every_form();
    small();
    levels();
    without_memory();
    refused();
    at_the_limit();
    freed_once();
    with_context(context);
    pass();
}
