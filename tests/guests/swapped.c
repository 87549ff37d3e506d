/* Memory that its tester moves away and back. Reads a command a line and answers each with one line:
 *   alloc BYTES      one more allocation, filled with a pattern of its own       OK index address
 *   free INDEX       gives it back                                               OK
 *   behind INDEX     gives it back behind what is in a stream, and waits for that  OK
 *   churn SEED N     so many random frees and allocations                        OK count bytes
 *   touch INDEX      writes its pattern anew, with another number                OK
 *   check            every byte of every allocation, and every address           RIGHT count bytes
 *   range INDEX AT   base and size of what lies AT bytes behind its beginning    OK offset size
 *   plain INDEX      every other question about it answered as for plain memory  OK
 *   launch           a kernel that adds one to a word, waited for                OK word
 *   wait             a stream waits for a word on the host                       OK
 *   go               that word is set, and the stream waited for                 OK
 *   capture, endcapture   begins / ends a capture on a stream                         OK code
 *   context BYTES    a second context, with an allocation in it                  OK
 *   destroy          that context ends                                           OK
 *   make KIND        memory of a kind that can't be moved: array, managed, handle, pool   OK
 *   unmake KIND      gives it back                                               OK
 *   fill             takes all there is, filled with a pattern of its own        OK bytes
 *   info             OK free total
 *   end              ends */
#include "launch.h"
#include <stdint.h>

DRIVER(cuPointerGetAttribute, (void *to, unsigned which, CUdeviceptr at), (to, which, at))
DRIVER(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))

enum { MOST = 4096 };
static struct { CUdeviceptr at; size_t bytes; uint64_t seed; } all[MOST];
static unsigned many;
static CUcontext context, second;
static CUdeviceptr word, flag, in_second;
static volatile unsigned *host_flag;
static CUstream stream, waiting;
static CUfunction add;
static uint64_t seeds = 1;
static unsigned char *buffer;
static size_t buffer_bytes;

static const char ptx[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry add(.param .u64 cells) {\n.reg .u32 %a; .reg .u64 %c;\n"
    "ld.param.u64 %c, [cells]; atom.global.add.u32 %a, [%c], 1; ret;\n}\n";

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}
static void *room(size_t bytes) {
    if (bytes > buffer_bytes) {
        buffer = realloc(buffer, bytes);
        buffer_bytes = bytes;
        CHECK(buffer, "no %zu bytes", bytes);
    }
    return buffer;
}
static uint64_t pattern(uint64_t seed, size_t i) { return (seed << 40 ^ i) * 0x9e3779b97f4a7c15u; }
static void fill(unsigned index) {
    size_t bytes = all[index].bytes, words = (bytes + 7) / 8;
    uint64_t *to = room(words * 8);
    all[index].seed = seeds++;
    for (size_t i = 0; i < words; i++) to[i] = pattern(all[index].seed, i);
    MUST(cuMemcpyHtoD_v2(all[index].at, to, bytes));
}
static CUresult make(size_t bytes) {
    CUdeviceptr at;
    CUresult code = cuMemAlloc_v2(&at, bytes);
    if (code != OK) return code;
    CHECK(many < MOST, "too many");
    all[many].at = at;
    all[many].bytes = bytes;
    fill(many++);
    return OK;
}
static void drop(unsigned index) {
    MUST(cuMemFree_v2(all[index].at));
    all[index] = all[--many];
}
static void check(void) {
    size_t sum = 0;
    for (unsigned n = 0; n < many; n++) {
        size_t bytes = all[n].bytes, words = (bytes + 7) / 8;
        uint64_t *seen = room(words * 8);
        seen[words - 1] = 0;
        MUST(cuMemcpyDtoH_v2(seen, all[n].at, bytes));
        for (size_t i = 0; i < words; i++) {
            uint64_t want = pattern(all[n].seed, i);
            size_t part = i == words - 1 ? bytes - i * 8 : 8;
            CHECK(!memcmp(&seen[i], &want, part), "allocation %u of %zu bytes differs at %zu", n, bytes, i * 8);
        }
        sum += bytes;
    }
    printf("RIGHT %u %zu\n", many, sum);
}
static size_t total(void) {
    size_t sum = 0;
    for (unsigned n = 0; n < many; n++) sum += all[n].bytes;
    return sum;
}
/* Sizes log-uniform from 1 KiB to 16 MiB, at most 96 MiB in all. */
static void churn(uint64_t seed, unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        uint64_t dice = next(&seed);
        size_t bytes = ((size_t)1 << (10 + dice % 14)) + (dice >> 20) % 4096;
        if (many > 4 && dice >> 60 < 7) drop((unsigned)((dice >> 8) % many));
        else if (total() + bytes < 96 * MiB) MUST(make(bytes));
        else drop((unsigned)((dice >> 8) % many));
    }
    printf("OK %u %zu\n", many, total());
}
static void plain(unsigned index) {
    CUdeviceptr at = all[index].at + all[index].bytes / 2, base = 0;
    unsigned kind = 0, mapped = 0, ipc = 9;
    CUcontext of = NULL;
    size_t size = 0;
    uint64_t number = 0, other = 0;
    MUST(cuPointerGetAttribute(&kind, 2, at));
    MUST(cuPointerGetAttribute(&of, 1, at));
    MUST(cuPointerGetAttribute(&base, 11, at));
    MUST(cuPointerGetAttribute(&size, 12, at));
    MUST(cuPointerGetAttribute(&mapped, 13, at));
    MUST(cuPointerGetAttribute(&ipc, 10, at));
    MUST(cuPointerGetAttribute(&number, 7, at));
    MUST(cuPointerGetAttribute(&other, 7, all[index].at));
    CHECK(kind == 2 && of == context && mapped && !ipc, "kind %u, context %p, mapped %u", kind, of, mapped);
    CHECK(base == all[index].at && size == all[index].bytes && number == other, "base or size");
    puts("OK");
}
static CUarray array;
static CUdeviceptr managed, pooled;
static CUhandle handle;

static void kind(const char *which, int makes) {
    const CUarrayDesc flat = {256, 256, FORMAT_FLOAT, 1};
    CUmemAllocationProp prop = {1, 0, {1, 0}, NULL, {0}};
    if (!strcmp(which, "array")) MUST(makes ? cuArrayCreate_v2(&array, &flat) : cuArrayDestroy(array));
    else if (!strcmp(which, "managed")) MUST(makes ? cuMemAllocManaged(&managed, 4096, 1) : cuMemFree_v2(managed));
    else if (!strcmp(which, "handle")) MUST(makes ? cuMemCreate(&handle, 2 * MiB, &prop, 0) : cuMemRelease(handle));
    else MUST(makes ? cuMemAllocAsync(&pooled, 4096, stream) : cuMemFreeAsync(pooled, stream));
    MUST(cuStreamSynchronize(stream));
    puts("OK");
}
static void fill_all(void) {
    size_t bytes = free_bytes(), sum = 0;
    CUdeviceptr at;
    for (size_t part = 256 * MiB; part >= 2 * MiB; part /= 2)
        while (part <= bytes && cuMemAlloc_v2(&at, part) == OK) {
            MUST(cuMemsetD8Async(at, 0xa5, part, NULL));
            sum += part;
        }
    MUST(cuCtxSynchronize());
    printf("OK %zu\n", sum);
}

int main(void) {
    char line[128], word_of[16];
    unsigned long a, b;
    unsigned seen;
    CUmodule module;
    CUgraph graph;
    size_t size;
    CUdeviceptr base;
    void *params[] = {&word};
    case_id = "swapped";
    setvbuf(stdout, NULL, _IOLBF, 0);
    context = first_gpu();
    MUST(cuMemAlloc_v2(&word, 4));
    MUST(cuMemsetD8Async(word, 0, 4, NULL));
    MUST(cuStreamCreate(&stream, 1));
    MUST(cuStreamCreate(&waiting, 1));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&add, module, "add"));
    host_flag = aligned_alloc(4096, 4096);
    *host_flag = 0;
    MUST(cuMemHostRegister_v2((void *)host_flag, 4096, 0));
    MUST(cuMemHostGetDevicePointer_v2(&flag, (void *)host_flag, 0));
    printf("READY %d\n", getpid());
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "alloc %lu", &a) == 1) {
            MUST(make(a));
            printf("OK %u %llx\n", many - 1, (unsigned long long)all[many - 1].at);
        } else if (sscanf(line, "free %lu", &a) == 1) drop((unsigned)a), puts("OK");
        else if (sscanf(line, "behind %lu", &a) == 1) {
            MUST(cuMemFreeAsync(all[a].at, stream));
            all[a] = all[--many];
            MUST(cuStreamSynchronize(stream));
            puts("OK");
        } else if (sscanf(line, "churn %lu %lu", &a, &b) == 2) churn(a, (unsigned)b);
        else if (sscanf(line, "touch %lu", &a) == 1) fill((unsigned)a), puts("OK");
        else if (!strncmp(line, "check", 5)) check();
        else if (sscanf(line, "range %lu %lu", &a, &b) == 2) {
            MUST(cuMemGetAddressRange_v2(&base, &size, all[a].at + b));
            printf("OK %llu %zu\n", (unsigned long long)(all[a].at - base), size);
        } else if (sscanf(line, "plain %lu", &a) == 1) plain((unsigned)a);
        else if (!strncmp(line, "launch", 6)) {
            MUST(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
            MUST(cuStreamSynchronize(stream));
            MUST(cuMemcpyDtoH_v2(&seen, word, 4));
            printf("OK %u\n", seen);
        } else if (!strncmp(line, "wait", 4)) {
            *host_flag = 0;
            MUST(cuStreamWaitValue32_v2(waiting, flag, 1, 0));
            puts("OK");
        } else if (!strncmp(line, "go", 2)) {
            *host_flag = 1;
            MUST(cuStreamSynchronize(waiting));
            puts("OK");
        } else if (!strncmp(line, "capture", 7)) printf("OK %d\n", cuStreamBeginCapture_v2(stream, 1));
        else if (!strncmp(line, "endcapture", 10)) printf("OK %d\n", cuStreamEndCapture(stream, &graph));
        else if (sscanf(line, "context %lu", &a) == 1) {
            MUST(cuCtxCreate_v2(&second, 0, 0));
            MUST(cuMemAlloc_v2(&in_second, a));
            MUST(cuCtxSetCurrent(context));
            puts("OK");
        } else if (!strncmp(line, "destroy", 7)) {
            MUST(cuCtxDestroy_v2(second));
            puts("OK");
        } else if (sscanf(line, "make %15s", word_of) == 1) kind(word_of, 1);
        else if (sscanf(line, "unmake %15s", word_of) == 1) kind(word_of, 0);
        else if (!strncmp(line, "fill", 4)) fill_all();
        else if (!strncmp(line, "info", 4)) printf("OK %zu %zu\n", free_bytes(), total_bytes());
        else break;
    }
    puts("DONE");
    return 0;
}
