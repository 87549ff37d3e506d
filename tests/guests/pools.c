/* Pools near a limit of 1 GiB: what counts is what each pool has from the card, no more and no less.
 * After each part the program waits for a line, so that its figures can be compared with the card's. */
#include "case.h"
#define BLOCK (64 * MiB)

DRIVER(cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value), (pool, attribute, value))
DRIVER(cuMemPoolGetAttribute, (CUmemoryPool pool, int attribute, void *value), (pool, attribute, value))

static CUmemoryPool own(void) {
    CUmemPoolProps props = {.type = PINNED, .at = {DEVICE, 0}};
    unsigned long long all = ~0ull;
    CUmemoryPool pool;
    MUST(cuMemPoolCreate(&pool, &props));
    MUST(cuMemPoolSetAttribute(pool, 4 /* release threshold */, &all));
    return pool;
}

static void show(const char *part) {
    char line[16];
    printf("PART %s %zu\n", part, total_bytes() - free_bytes());
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin), "nobody answers");
}

int main(void) {
    case_id = "pools";
    first_gpu();
    expect_limit(1 * GiB);
    size_t before = free_bytes();
    CUdeviceptr p, q, small[8];

    CUmemoryPool pool = own();
    MUST(cuMemAllocFromPoolAsync(&p, 1 * MiB, pool, NULL));
    CHECK(before - free_bytes() >= 2 * MiB, "a small allocation takes a chunk");
    show("chunk");
    MUST(cuMemFreeAsync(p, NULL));
    MUST(cuCtxSynchronize());
    unsigned long long none = 0;
    MUST(cuMemPoolSetAttribute(pool, 4, &none));
    MUST(cuCtxSynchronize());
    CHECK(free_bytes() == before, "below its threshold the pool keeps %zu bytes", before - free_bytes());
    show("empty");

    pool = own();
    MUST(cuMemAllocFromPoolAsync(&p, 4 * BLOCK, pool, NULL));
    MUST(cuMemFreeAsync(p, NULL));
    MUST(cuCtxSynchronize());
    while (cuMemAlloc_v2(&q, 16 * MiB) == OK) {} /* less than a chunk is left */
    for (int round = 0; round < 100; round++) {
        MUST(cuMemAllocFromPoolAsync(&p, 4 * BLOCK, pool, NULL));
        MUST(cuMemFreeAsync(p, NULL));
    }
    show("kept");
    for (int i = 0; i < 8; i++) MUST(cuMemAllocFromPoolAsync(&small[i], 32 * MiB, pool, NULL));
    for (int i = 0; i < 8; i += 2) MUST(cuMemFreeAsync(small[i], NULL));
    MUST(cuCtxSynchronize());
    CUresult code = cuMemAllocFromPoolAsync(&p, 64 * MiB, pool, NULL);
    CHECK(code == OUT_OF_MEMORY, "128 MiB in four pieces and no room beside gave %d", code);
    MUST(cuMemAllocFromPoolAsync(&p, 32 * MiB, pool, NULL));
    show("pieces");

    size_t held = free_bytes();
    MUST(cuMemPoolDestroy(pool));
    CHECK(free_bytes() == held, "what is in use of a destroyed pool is not charged any more");
    for (int i = 1; i < 8; i += 2) MUST(cuMemFreeAsync(small[i], NULL));
    CHECK(free_bytes() == held, "one allocation is left");
    MUST(cuMemFreeAsync(p, NULL));
    MUST(cuCtxSynchronize());
    CHECK(free_bytes() > held, "the last allocation of a destroyed pool took its charge along");
    show("destroyed");
    pass();
}
