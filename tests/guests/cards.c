/* MEM-10: several cards of unlike size. Prints "CARD number uuid total free" for each that is visible,
 * in the driver's order, then does what the lines say:
 *   take N MIB    plain allocation on card N       async N MIB    the same by cuMemAllocAsync
 *   give M        makes card M current, releases   end
 * and prints "CODE n" each time. */
#include "case.h"

#define CARDS 8
DRIVER(cuDeviceGetCount, (int *count), (count))
DRIVER(cuDeviceGetUuid, (unsigned char *uuid, CUdevice device), (uuid, device))
DRIVER(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device), (bytes, device))

int main(void) {
    CUcontext contexts[CARDS];
    CUdeviceptr p = 0;
    char word[16];
    int count, ordered = 0;
    case_id = "MEM-10";
    MUST(cuInit(0));
    MUST(cuDeviceGetCount(&count));
    for (CUdevice card = 0; card < count && card < CARDS; card++) {
        unsigned char uuid[16];
        size_t total;
        MUST(cuDevicePrimaryCtxRetain(&contexts[card], card));
        MUST(cuCtxSetCurrent(contexts[card]));
        MUST(cuDeviceGetUuid(uuid, card));
        MUST(cuDeviceTotalMem_v2(&total, card));
        CHECK(total == total_bytes(), "card %d has two totals", card);
        printf("CARD %d GPU-", card);
        for (int i = 0; i < 16; i++) printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
        printf(" %zu %zu\n", total, free_bytes());
    }
    puts("READY");
    fflush(stdout);
    int owner = 0;
    while (scanf("%15s", word) == 1 && strcmp(word, "end")) {
        int card = 0;
        long mib = 0;
        CUresult code;
        CHECK(scanf("%d", &card) == 1 && card < count, "which card?");
        if (strcmp(word, "give")) CHECK(scanf("%ld", &mib) == 1, "how much?");
        MUST(cuCtxSetCurrent(contexts[card]));
        if (!strcmp(word, "give")) {
            code = ordered ? cuMemFreeAsync(p, NULL) : cuMemFree_v2(p);
            /* A pool gives back what it keeps when its device is waited for. */
            MUST(cuCtxSynchronize());
            MUST(cuCtxSetCurrent(contexts[owner]));
            MUST(cuCtxSynchronize());
        } else {
            ordered = !strcmp(word, "async");
            owner = card;
            code = ordered ? cuMemAllocAsync(&p, (size_t)mib * MiB, NULL) : cuMemAlloc_v2(&p, (size_t)mib * MiB);
        }
        printf("CODE %d\n", code);
        fflush(stdout);
    }
    return 0;
}
