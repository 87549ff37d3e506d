/* Physical memory that is kept alive in unusual ways is still paid for. MODE says how:
 *   retain   the handle is released while mapped, retained by its address, then unmapped
 *   race     one thread maps while another releases the handle
 * Each block that is alive in the end is counted; prints "ALIVE mib".
 *   handles MODE BLOCKS */
#include "case.h"
#include <pthread.h>

#define BLOCK (256 * MiB)

DRIVER(cuMemAddressReserve, (CUdeviceptr *p, size_t bytes, size_t align, CUdeviceptr hint, unsigned long long flags),
       (p, bytes, align, hint, flags))
DRIVER(cuMemMap, (CUdeviceptr p, size_t bytes, size_t offset, CUhandle handle, unsigned long long flags),
       (p, bytes, offset, handle, flags))
DRIVER(cuMemUnmap, (CUdeviceptr p, size_t bytes), (p, bytes))
DRIVER(cuMemRetainAllocationHandle, (CUhandle *handle, void *p), (handle, p))

static CUhandle handle;
static CUdeviceptr at;
static CUresult mapped;
static pthread_barrier_t both;

static CUresult create(void) {
    CUmemAllocationProp prop = {.type = PINNED, .at = {DEVICE, 0}};
    return cuMemCreate(&handle, BLOCK, &prop, 0);
}

/* Whether one more block is alive. */
static int retain(void) {
    if (create() != OK) return 0;
    MUST(cuMemMap(at, BLOCK, 0, handle, 0));
    MUST(cuMemRelease(handle));
    MUST(cuMemRetainAllocationHandle(&handle, (void *)at));
    MUST(cuMemUnmap(at, BLOCK));
    return 1;
}

static void *map(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        pthread_barrier_wait(&both);
        mapped = cuMemMap(at, BLOCK, 0, handle, 0);
        pthread_barrier_wait(&both);
    }
    return NULL;
}

int main(int argc, char **argv) {
    case_id = "handles";
    CHECK(argc == 3, "handles MODE BLOCKS");
    long rounds = atol(argv[2]), alive = 0;
    int race = !strcmp(argv[1], "race");
    setvbuf(stdout, NULL, _IOLBF, 0);
    first_gpu();
    size_t before = free_bytes();
    MUST(cuMemAddressReserve(&at, BLOCK, 0, 0, 0));
    pthread_barrier_init(&both, NULL, 2);
    pthread_t thread;
    if (race) CHECK(!pthread_create(&thread, NULL, map, (void *)rounds), "no thread");
    for (long i = 0; i < rounds; i++) {
        if (!race) {
            alive += retain();
            continue;
        }
        MUST(create());
        pthread_barrier_wait(&both);
        MUST(cuMemRelease(handle));
        pthread_barrier_wait(&both);
        size_t expected = mapped == OK ? before - BLOCK : before;
        CHECK(free_bytes() == expected, "round %ld: map gave %d, free is %zu, not %zu", i, mapped, free_bytes(), expected);
        if (mapped == OK) MUST(cuMemUnmap(at, BLOCK));
        CHECK(free_bytes() == before, "round %ld: free is %zu, was %zu", i, free_bytes(), before);
    }
    printf("ALIVE %ld\n", alive * (long)(BLOCK / MiB));
    getchar();
    return 0;
}
