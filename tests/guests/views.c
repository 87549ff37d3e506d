/* What a program is told of its memory, by every way there is, a line for each card.
 *   views dump          all of it, attributes of devices too, then ends
 *   views nvml          what NVML says, without a CUDA call
 *   views MIB [MIB]     holds so many MiB on the first device (a child as many as the second says) and
 *                       shows at each line of input:
 *     CUDA ordinal uuid total free       (free of the first device only; 0 for others)
 *     NVML index uuid total used free total-v2 used-v2 free-v2
 *     LIST index how pid:bytes …         (compute processes by each form)
 *     END */
#include "case.h"

typedef struct { unsigned char bytes[16]; } CUuuid;
DRIVER(cuDeviceGetCount, (int *count), (count))
DRIVER(cuDeviceGetUuid, (CUuuid *uuid, CUdevice device), (uuid, device))
DRIVER(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device), (bytes, device))
DRIVER(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device), (value, attribute, device))

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct process_v1 { unsigned pid; unsigned long long bytes; };
struct process_v2 { unsigned pid; unsigned long long bytes; unsigned gpu, compute; };
typedef void *device;

static void *nvml;
static void *get(const char *name) {
    if (!nvml) nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    CHECK(nvml, "no NVML: %s", dlerror());
    void *found = dlsym(nvml, name);
    CHECK(found, "NVML has no %s", name);
    return found;
}
#define NVML(name, ...) ((unsigned (*)())get(#name))(__VA_ARGS__)

static void list(device card, unsigned index, const char *name, int form) {
    union { struct process_v1 one[64]; struct process_v2 two[64]; } room;
    unsigned count = 0;
    unsigned (*function)(device, unsigned *, void *) = (unsigned (*)(device, unsigned *, void *))get(name);
    unsigned code = function(card, &count, NULL);
    CHECK(code == 0 || code == 7, "%s of a card gave %u", name, code);
    CHECK(count <= 64, "%u processes", count);
    CHECK(!(code = function(card, &count, &room)), "%s gave %u", name, code);
    printf("LIST %u %d", index, form);
    for (unsigned i = 0; i < count; i++)
        printf(" %u:%llu", form == 1 ? room.one[i].pid : room.two[i].pid,
               form == 1 ? room.one[i].bytes : room.two[i].bytes);
    puts("");
}

static void by_nvml(void) {
    unsigned cards;
    CHECK(!NVML(nvmlDeviceGetCount_v2, &cards), "no count");
    for (unsigned i = 0; i < cards; i++) {
        device card;
        char uuid[96];
        struct memory one;
        struct memory_v2 two = {.version = sizeof two | 2 << 24};
        CHECK(!NVML(nvmlDeviceGetHandleByIndex_v2, i, &card), "no card %u", i);
        CHECK(!NVML(nvmlDeviceGetUUID, card, uuid, 96u), "no UUID");
        CHECK(!NVML(nvmlDeviceGetMemoryInfo, card, &one), "no memory");
        CHECK(!NVML(nvmlDeviceGetMemoryInfo_v2, card, &two), "no memory v2");
        printf("NVML %u %s %llu %llu %llu %llu %llu %llu\n", i, uuid, one.total, one.used, one.free,
               two.total, two.used, two.free);
        struct memory_v2 wrong = {.version = 1};
        CHECK(NVML(nvmlDeviceGetMemoryInfo_v2, card, &wrong), "another version was taken");
        list(card, i, "nvmlDeviceGetComputeRunningProcesses", 1);
        list(card, i, "nvmlDeviceGetComputeRunningProcesses_v2", 2);
        list(card, i, "nvmlDeviceGetComputeRunningProcesses_v3", 3);
        list(card, i, "nvmlDeviceGetGraphicsRunningProcesses_v3", 4);
    }
}

static void by_cuda(int attributes) {
    int count;
    MUST(cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++) {
        CUuuid uuid;
        size_t total;
        MUST(cuDeviceGetUuid(&uuid, i));
        MUST(cuDeviceTotalMem_v2(&total, i));
        printf("CUDA %d GPU-", i);
        for (int b = 0; b < 16; b++)
            printf("%02x%s", uuid.bytes[b], b == 3 || b == 5 || b == 7 || b == 9 ? "-" : "");
        printf(" %zu %zu\n", total, i == 0 ? free_bytes() : 0);
        for (int a = 1; attributes && a < 160; a++) {
            int value = -1;
            CUresult code = cuDeviceGetAttribute(&value, a, i);
            printf("ATTRIBUTE %d %d %d %d\n", i, a, code, value);
        }
    }
}

/* Another process that holds memory until this one ends. */
static void child(size_t bytes) {
    int ready[2], end[2];
    char byte = 0;
    CUdeviceptr p;
    CHECK(!pipe(ready) && !pipe(end), "no pipe");
    if (fork()) {
        close(ready[1]), close(end[0]);
        CHECK(read(ready[0], &byte, 1) == 1, "the child has not begun");
        return;
    }
    close(ready[0]), close(end[1]);
    first_gpu();
    MUST(cuMemAlloc_v2(&p, bytes));
    CHECK(write(ready[1], &byte, 1) == 1, "nobody waits");
    exit(read(end[0], &byte, 1) != 0);
}

int main(int argc, char **argv) {
    char line[64];
    case_id = "views";
    int dump = argc == 2 && strcmp(argv[1], "dump") == 0;
    CHECK(!NVML(nvmlInit_v2), "NVML does not start");
    if (argc == 2 && strcmp(argv[1], "nvml") == 0) {
        by_nvml();
        return 0;
    }
    if (argc == 3) child((size_t)atol(argv[2]) * MiB);
    first_gpu();
    if (!dump) {
        CUdeviceptr p;
        MUST(cuMemAlloc_v2(&p, (size_t)atol(argv[1]) * MiB));
    }
    do {
        by_cuda(dump);
        by_nvml();
        printf("END\n");
        fflush(stdout);
    } while (!dump && fgets(line, sizeof line, stdin));
    return 0;
}
