/* Allocates and frees by turns in every way, shares some of it and works on it, until it is killed or a
 * line comes. Prints "CHURN" when it has begun. Refusals other than out-of-memory end it, and a call
 * that takes longer than SECONDS.
 *   churn SEED MIB SECONDS [forever]      (at most that much at once; forever: no line is waited for) */
#include "case.h"
#include <poll.h>
#include <time.h>

#define SLOTS 16
enum way { PLAIN, ASYNC, HANDLE, SHARED, ARRAY, WAYS };
struct slot { enum way way; size_t bytes; CUdeviceptr p; CUhandle handle; CUarray array; int fd; };

typedef CUresult export_fn(void *, CUhandle, int, unsigned long long);
static size_t held, most;
static double longest;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
#define TIMED(code, call) do { double began_ = now(); code = (call); double took_ = now() - began_; \
    if (took_ > longest) longest = took_; } while (0)

static CUresult take(struct slot *slot) {
    static export_fn *share;
    CUresult code;
    CUmemAllocationProp prop = {.type = PINNED, .at = {DEVICE, 0}};
    CUarrayDesc desc = {slot->bytes / 4096, 1024, FORMAT_FLOAT, 1};
    if (!share) share = (export_fn *)dlsym(driver(), "cuMemExportToShareableHandle");
    switch (slot->way) {
    case PLAIN: TIMED(code, cuMemAlloc_v2(&slot->p, slot->bytes)); break;
    case ASYNC: TIMED(code, cuMemAllocAsync(&slot->p, slot->bytes, NULL)); break;
    case HANDLE: TIMED(code, cuMemCreate(&slot->handle, slot->bytes, &prop, 0)); break;
    case SHARED:
        prop.handles = 1;
        TIMED(code, cuMemCreate(&slot->handle, slot->bytes, &prop, 0));
        if (code == OK) MUST(share(&slot->fd, slot->handle, 1, 0));
        break;
    default: TIMED(code, cuArrayCreate_v2(&slot->array, &desc));
    }
    if (code == OK && slot->way <= ASYNC) TIMED(code, cuMemsetD8Async(slot->p, 1, 4096, NULL));
    return code;
}

static CUresult give(struct slot *slot) {
    CUresult code;
    switch (slot->way) {
    case PLAIN: TIMED(code, cuMemFree_v2(slot->p)); break;
    case ASYNC: TIMED(code, cuMemFreeAsync(slot->p, NULL)); break;
    case SHARED: close(slot->fd); /* fall through */
    case HANDLE: TIMED(code, cuMemRelease(slot->handle)); break;
    default: TIMED(code, cuArrayDestroy(slot->array));
    }
    return code;
}

int main(int argc, char **argv) {
    struct slot slots[SLOTS] = {0};
    struct pollfd in = {0, POLLIN, 0};
    case_id = "CHURN";
    CHECK(argc == 4 || argc == 5, "churn SEED MIB SECONDS [forever]");
    unsigned seed = (unsigned)strtoul(argv[1], NULL, 10);
    most = strtoul(argv[2], NULL, 10) * MiB;
    double allowed = atof(argv[3]);
    first_gpu();
    puts("CHURN");
    fflush(stdout);
    while (argc == 5 || poll(&in, 1, 0) == 0) {
        struct slot *slot = &slots[rand_r(&seed) % SLOTS];
        if (slot->bytes) {
            MUST(give(slot));
            held -= slot->bytes;
            slot->bytes = 0;
        } else {
            slot->way = rand_r(&seed) % WAYS;
            slot->bytes = (size_t)(rand_r(&seed) % 8 + 1) * 2 * MiB;
            if (held + slot->bytes > most) slot->bytes = 0;
            if (!slot->bytes) continue;
            CUresult code = take(slot);
            CHECK(code == OK || code == OUT_OF_MEMORY, "way %d was refused with %d", slot->way, code);
            if (code == OK) held += slot->bytes;
            else slot->bytes = 0;
        }
        CHECK(longest <= allowed, "a call took %.3f s", longest);
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].bytes) MUST(give(&slots[i]));
    printf("LONGEST %.3f\n", longest);
    return 0;
}
