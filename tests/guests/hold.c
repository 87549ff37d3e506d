/* Allocates so many MiB, prints "HELD total free", waits for a line, prints the figures again and
 * ends. Several of them side by side are tenants that do not move.
 *   hold MIB */
#include "case.h"

static void say(const char *word) {
    printf("%s %zu %zu\n", word, total_bytes(), free_bytes());
    fflush(stdout);
}

int main(int argc, char **argv) {
    char line[64];
    CUdeviceptr p;
    case_id = "hold";
    CHECK(argc == 2, "hold MIB");
    first_gpu();
    MUST(cuMemAlloc_v2(&p, (size_t)atol(argv[1]) * MiB));
    say("HELD");
    if (!fgets(line, sizeof line, stdin)) return 0;
    say("AFTER");
    return 0;
}
