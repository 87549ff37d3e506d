/* Memory that a program no longer names and the card still holds: it counts until the driver has it
 * back. The limit is the test's: the last allocation would leave more than it on the card.
 *   kept pool        what a pool keeps after frees, its threshold being the highest
 *   kept export      handles released while their exported descriptors live on */
#include "case.h"
#define BLOCK (192 * MiB)

DRIVER(cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value), (pool, attribute, value))
DRIVER(cuMemExportToShareableHandle, (void *out, CUhandle handle, int kind, unsigned long long flags),
       (out, handle, kind, flags))

static CUresult by_pool(void) {
    CUmemoryPool pool;
    CUdeviceptr p;
    unsigned long long all = ~0ull;
    MUST(cuDeviceGetDefaultMemPool(&pool, 0));
    MUST(cuMemPoolSetAttribute(pool, 4 /* release threshold */, &all));
    MUST(cuMemAllocAsync(&p, BLOCK, NULL));
    MUST(cuMemFreeAsync(p, NULL));
    MUST(cuCtxSynchronize());
    return cuMemAlloc_v2(&p, BLOCK);
}

static CUresult by_export(void) {
    const CUmemAllocationProp shareable = {PINNED, 1 /* POSIX descriptor */, {DEVICE, 0}, NULL, {0}};
    for (int i = 0; i < 3; i++) {
        CUhandle handle;
        int descriptor;
        CUresult code = cuMemCreate(&handle, BLOCK, &shareable, 0);
        if (code != OK) return code;
        MUST(cuMemExportToShareableHandle(&descriptor, handle, 1, 0));
        MUST(cuMemRelease(handle));
    }
    return OK;
}

int main(int argc, char **argv) {
    case_id = "kept";
    CHECK(argc == 2, "kept pool|export");
    first_gpu();
    CUresult code = strcmp(argv[1], "pool") == 0 ? by_pool() : by_export();
    CHECK(code == OUT_OF_MEMORY, "more than the limit is on the card, and the last answer was %d", code);
    pass();
}
