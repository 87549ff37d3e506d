/* Does what its input says, a line at a time, and answers each with a line.
 *   take MIB    one allocation                     TOOK code
 *   give        releases the latest                GAVE code
 *   fill MIB    such allocations until refused     FILLED how-many code
 *   empty       releases all                       EMPTY
 *   look        what it is told                    SEES total free */
#include "case.h"
#define MOST 4096

int main(void) {
    static CUdeviceptr held[MOST];
    char line[64];
    int count = 0;
    case_id = "orders";
    first_gpu();
    printf("READY\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        size_t bytes = strlen(line) > 5 ? (size_t)atol(line + 5) * MiB : 0;
        if (strncmp(line, "take", 4) == 0) {
            CUresult code = cuMemAlloc_v2(&held[count], bytes);
            count += code == OK;
            printf("TOOK %d\n", code);
        } else if (strncmp(line, "give", 4) == 0) {
            printf("GAVE %d\n", cuMemFree_v2(held[--count]));
        } else if (strncmp(line, "fill", 4) == 0) {
            int before = count;
            CUresult code;
            while ((code = cuMemAlloc_v2(&held[count], bytes)) == OK)
                CHECK(++count < MOST, "too many allocations");
            printf("FILLED %d %d\n", count - before, code);
        } else if (strncmp(line, "empty", 5) == 0) {
            while (count) MUST(cuMemFree_v2(held[--count]));
            printf("EMPTY\n");
        } else {
            printf("SEES %zu %zu\n", total_bytes(), free_bytes());
        }
        fflush(stdout);
    }
    return 0;
}
