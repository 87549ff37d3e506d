/* What a forked child has of the pages that the library shares with the broker.
 *   inherits       prints "PAGES PARENT CHILD" */
#include "case.h"
#include <sys/wait.h>

/* Shared mappings of files that have no name: the broker's pages. */
static int pages(void) {
    char line[4352];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "/memfd:") && strchr(line, 's') && strstr(line, "s 00000000")) found++;
    if (maps) fclose(maps);
    return found;
}

int main(void) {
    int status;
    case_id = "inherits";
    first_gpu();
    int own = pages();
    pid_t child = fork();
    if (!child) _exit(pages());
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "lost the child");
    printf("PAGES %d %d\n", own, WEXITSTATUS(status));
    return 0;
}
