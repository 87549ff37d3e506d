/* MEM-15: threads that allocate and release at random by every way there is, near the limit. What
 * they are told is free never passes the limit and never falls below zero; at the end all of it is
 * free again, and a refusal is out-of-memory and nothing else.
 *   mixed THREADS OPERATIONS [SEED]      (each thread does that many) */
#include "case.h"
#include <pthread.h>

#define SLOTS 24
enum way { PLAIN, PITCHED, MANAGED, ASYNC, POOL, HANDLE, ARRAY, WAYS };
struct slot { enum way way; int used; CUdeviceptr p; CUhandle handle; CUarray array; };

static CUcontext context;
static CUmemoryPool pool;
static size_t limit;
static int operations;
static unsigned seed;

static CUresult take(struct slot *slot, size_t bytes) {
    size_t pitch;
    CUmemAllocationProp prop = {.type = PINNED, .at = {DEVICE, 0}};
    CUarrayDesc desc = {bytes / 4096, 1024, FORMAT_FLOAT, 1};
    switch (slot->way) {
    case PLAIN: return cuMemAlloc_v2(&slot->p, bytes);
    case PITCHED: return cuMemAllocPitch_v2(&slot->p, &pitch, bytes / 1024, 1024, 4);
    case MANAGED: return cuMemAllocManaged(&slot->p, bytes, ATTACH_GLOBAL);
    case ASYNC: return cuMemAllocAsync(&slot->p, bytes, NULL);
    case POOL: return cuMemAllocFromPoolAsync(&slot->p, bytes, pool, NULL);
    case HANDLE: return cuMemCreate(&slot->handle, bytes, &prop, 0);
    default: return cuArrayCreate_v2(&slot->array, &desc);
    }
}

static CUresult give(struct slot *slot) {
    switch (slot->way) {
    case ASYNC:
    case POOL: return cuMemFreeAsync(slot->p, NULL);
    case HANDLE: return cuMemRelease(slot->handle);
    case ARRAY: return cuArrayDestroy(slot->array);
    default: return cuMemFree_v2(slot->p);
    }
}

static void *mix(void *thread) {
    unsigned random = ((unsigned)(size_t)thread + 16 * seed) * 2654435761u + 1;
    struct slot slots[SLOTS] = {0};
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < operations; i++) {
        random = random * 1664525u + 1013904223u;
        struct slot *slot = &slots[(random >> 8) % SLOTS];
        if (slot->used) {
            MUST(give(slot));
            slot->used = 0;
        } else {
            slot->way = (random >> 16) % WAYS;
            /* Whole granules, so that no way rounds up past what another may still have. */
            CUresult code = take(slot, ((random >> 20) % 32 + 1) * 2 * MiB);
            CHECK(code == OK || code == OUT_OF_MEMORY, "way %d was refused with %d", slot->way, code);
            slot->used = code == OK;
        }
        if (i % 64 == 0) CHECK(free_bytes() <= limit, "more is free than the limit");
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].used) MUST(give(&slots[i]));
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[16];
    case_id = "MEM-15";
    CHECK(argc == 3 || argc == 4, "mixed THREADS OPERATIONS [SEED]");
    int count = atoi(argv[1]);
    operations = atoi(argv[2]);
    seed = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    CHECK(count > 0 && count <= 16, "1 to 16 threads");
    context = first_gpu();
    limit = total_bytes();
    CUmemPoolProps props = {.type = PINNED, .at = {DEVICE, 0}};
    MUST(cuMemPoolCreate(&pool, &props));
    size_t before = free_bytes();
    for (int i = 0; i < count; i++) CHECK(!pthread_create(&threads[i], NULL, mix, (void *)(size_t)i), "no thread");
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    CUmemoryPool standard;
    MUST(cuCtxSynchronize());
    MUST(cuDeviceGetDefaultMemPool(&standard, 0));
    MUST(cuMemPoolTrimTo(standard, 0));
    MUST(cuMemPoolDestroy(pool));
    CHECK(free_bytes() == before, "%zu bytes were free, now %zu", before, free_bytes());
    pass();
}
