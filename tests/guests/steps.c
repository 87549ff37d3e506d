/* Walks through joining, a context, allocations and frees again and again, beside a second process
 * of the same tenant that takes every unused byte away, so that allowances are called back both
 * ways. A test stops or kills the first process at a crash label.
 *   steps GO
 * The driver is open, but not initialised, when it prints "READY pid"; it goes on when the file GO
 * exists, and prints "DONE" if nobody has stopped it. */
#include "case.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#define ROUNDS 40
#define PATIENCE_S 60

static void wait_for_file(const char *path) {
    for (int i = 0; i < PATIENCE_S * 200; i++) {
        if (access(path, F_OK) == 0) return;
        usleep(5000);
    }
    fail("%s did not appear", path);
}

/* Allocates more than is left while the other holds its allowance, and gives it back. */
static _Noreturn void take_everything(const char *go) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    wait_for_file(go);
    first_gpu();
    for (;;) {
        CUdeviceptr p;
        if (cuMemAlloc_v2(&p, 1280 * MiB) == OK) MUST(cuMemFree_v2(p));
        usleep(2000);
    }
}

int main(int argc, char **argv) {
    case_id = "steps";
    int version;
    CHECK(argc == 2, "steps GO");
    setvbuf(stdout, NULL, _IOLBF, 0);
    pid_t other = fork();
    if (other == 0) take_everything(argv[1]);
    MUST(cuDriverGetVersion(&version));
    printf("READY %d\n", getpid());
    wait_for_file(argv[1]);
    first_gpu();
    for (int round = 0; round < ROUNDS; round++) {
        CUdeviceptr p;
        if (cuMemAlloc_v2(&p, 1024 * MiB) == OK) MUST(cuMemFree_v2(p));
        usleep(5000);
    }
    puts("DONE");
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return 0;
}
