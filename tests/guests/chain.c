/* A program that executes itself again and again, by turns directly and through a child: each link
 * takes 400 MiB of a limit of 1 GiB, so that what the link before left must be free by then.
 *   chain LINKS        prints "LINK n PID CODE" at each */
#include "case.h"
#include <sys/wait.h>

int main(int argc, char **argv) {
    CUdeviceptr p;
    CUresult code = OUT_OF_MEMORY;
    case_id = "chain";
    CHECK(argc == 2, "chain LINKS");
    int left = atoi(argv[1]);
    first_gpu();
    /* The kernel says that the link before is gone a moment after it is. */
    for (int i = 0; i < 200 && code == OUT_OF_MEMORY; i++)
        if ((code = cuMemAlloc_v2(&p, 400 * MiB))) usleep(10000);
    printf("LINK %d %d %d\n", left, (int)getpid(), code);
    fflush(stdout);
    if (left == 0) return 0;
    char next[16];
    snprintf(next, sizeof next, "%d", left - 1);
    if (left % 3 == 0) {
        pid_t child = fork();
        int status;
        if (child) {
            MUST(cuMemFree_v2(p));
            CHECK(waitpid(child, &status, 0) == child, "lost the child");
            return WEXITSTATUS(status);
        }
    }
    execl(argv[0], argv[0], next, NULL);
    return 1;
}
