/* Carries orders out, by two threads that do not wait for each other.
 *   t SLOT WAY MIB   takes memory by a way       A SLOT CODE
 *   g SLOT           gives it back               A SLOT CODE
 *   s                when all is done            S total free what-the-pools-have */
#include "case.h"
#include <pthread.h>

#define SLOTS 64
DRIVER(cuMemAddressReserve, (CUdeviceptr *p, size_t bytes, size_t align, CUdeviceptr at, unsigned long long flags),
       (p, bytes, align, at, flags))
DRIVER(cuMemAddressFree, (CUdeviceptr p, size_t bytes), (p, bytes))
DRIVER(cuMemMap, (CUdeviceptr p, size_t bytes, size_t offset, CUhandle handle, unsigned long long flags),
       (p, bytes, offset, handle, flags))
DRIVER(cuMemUnmap, (CUdeviceptr p, size_t bytes), (p, bytes))
DRIVER(cuMemPoolGetAttribute, (CUmemoryPool pool, int attribute, void *value), (pool, attribute, value))

enum way { PLAIN, PITCHED, MANAGED, ASYNC, POOL, HANDLE, MAPPED, ARRAY };
struct order { int take, slot, way; size_t bytes; };
static struct { int way; size_t bytes; CUdeviceptr p; CUhandle handle; CUarray array; } slots[SLOTS];
static CUcontext context;
static CUmemoryPool pool, usual;
static int to[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static int outstanding;

static CUresult map(CUdeviceptr *p, size_t bytes) {
    const CUmemAllocationProp prop = {.type = PINNED, .at = {DEVICE, 0}};
    CUhandle handle;
    CUresult code = cuMemCreate(&handle, bytes, &prop, 0);
    if (code != OK) return code;
    MUST(cuMemAddressReserve(p, bytes, 0, 0, 0));
    MUST(cuMemMap(*p, bytes, 0, handle, 0));
    MUST(cuMemRelease(handle));
    return OK;
}

static CUresult take(int at, size_t bytes) {
    const CUmemAllocationProp prop = {.type = PINNED, .at = {DEVICE, 0}};
    CUarrayDesc desc = {bytes / 4096, 1024, FORMAT_FLOAT, 1};
    size_t pitch;
    slots[at].bytes = bytes;
    switch (slots[at].way) {
    case PLAIN: return cuMemAlloc_v2(&slots[at].p, bytes);
    case PITCHED: return cuMemAllocPitch_v2(&slots[at].p, &pitch, bytes / 1024, 1024, 4);
    case MANAGED: return cuMemAllocManaged(&slots[at].p, bytes, ATTACH_GLOBAL);
    case ASYNC: return cuMemAllocAsync(&slots[at].p, bytes, NULL);
    case POOL: return cuMemAllocFromPoolAsync(&slots[at].p, bytes, pool, NULL);
    case HANDLE: return cuMemCreate(&slots[at].handle, bytes, &prop, 0);
    case MAPPED: return map(&slots[at].p, bytes);
    default: return cuArrayCreate_v2(&slots[at].array, &desc);
    }
}

static CUresult give(int at) {
    switch (slots[at].way) {
    case ASYNC:
    case POOL: return cuMemFreeAsync(slots[at].p, NULL);
    case HANDLE: return cuMemRelease(slots[at].handle);
    case MAPPED:
        MUST(cuMemUnmap(slots[at].p, slots[at].bytes));
        return cuMemAddressFree(slots[at].p, slots[at].bytes);
    case ARRAY: return cuArrayDestroy(slots[at].array);
    default: return cuMemFree_v2(slots[at].p);
    }
}

static void *work(void *from) {
    struct order order;
    MUST(cuCtxSetCurrent(context));
    while (read((int)(size_t)from, &order, sizeof order) == sizeof order) {
        if (order.take) slots[order.slot].way = order.way;
        CUresult code = order.take ? take(order.slot, order.bytes) : give(order.slot);
        pthread_mutex_lock(&lock);
        printf("A %d %d\n", order.slot, code);
        fflush(stdout);
        outstanding--;
        pthread_cond_signal(&done);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void show(void) {
    unsigned long long a, b;
    pthread_mutex_lock(&lock);
    while (outstanding) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    MUST(cuCtxSynchronize());
    MUST(cuMemPoolGetAttribute(pool, 5, &a));
    MUST(cuMemPoolGetAttribute(usual, 5, &b));
    printf("S %zu %zu %llu\n", total_bytes(), free_bytes(), a + b);
    fflush(stdout);
}

int main(void) {
    char line[64];
    case_id = "mixture";
    context = first_gpu();
    CUmemPoolProps props = {.type = PINNED, .at = {DEVICE, 0}};
    MUST(cuMemPoolCreate(&pool, &props));
    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    for (int i = 0; i < 2; i++) {
        int ends[2];
        pthread_t thread;
        CHECK(!pipe(ends), "no pipe");
        to[i] = ends[1];
        CHECK(!pthread_create(&thread, NULL, work, (void *)(size_t)ends[0]), "no thread");
    }
    printf("READY\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct order order = {0};
        unsigned mib = 0;
        if (line[0] == 's') {
            show();
            continue;
        }
        order.take = sscanf(line, "t %d %d %u", &order.slot, &order.way, &mib) == 3;
        CHECK(order.take || sscanf(line, "g %d", &order.slot) == 1, "what is %s", line);
        CHECK(order.slot >= 0 && order.slot < SLOTS, "no slot %d", order.slot);
        order.bytes = mib * MiB;
        pthread_mutex_lock(&lock);
        outstanding++;
        pthread_mutex_unlock(&lock);
        CHECK(write(to[order.slot % 2], &order, sizeof order) == sizeof order, "no thread listens");
    }
    return 0;
}
