/* So many processes of one tenant allocate and free at random, asking for more than there is, until a
 * line comes. What all of them hold never passes LIMIT MiB less what their contexts cost, whatever
 * happens to the broker. Prints "STORM" when all have begun.
 *   storm PROCESSES LIMIT CONTEXT */
#include "case.h"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>

#define BLOCKS 64
static struct { volatile long held; volatile int stop, ready, processes; } *shared;

static void work(unsigned seed, long room) {
    CUdeviceptr blocks[BLOCKS] = {0};
    long mib[BLOCKS] = {0};
    first_gpu();
    __atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
    while (shared->ready < shared->processes) usleep(1000);
    while (!shared->stop) {
        int i = rand_r(&seed) % BLOCKS;
        if (blocks[i]) {
            __atomic_fetch_sub(&shared->held, mib[i], __ATOMIC_SEQ_CST);
            MUST(cuMemFree_v2(blocks[i]));
            blocks[i] = 0;
        }
        mib[i] = 1 + rand_r(&seed) % 64;
        if (cuMemAlloc_v2(&blocks[i], (size_t)mib[i] * MiB) != OK) {
            blocks[i] = 0;
            continue;
        }
        long all = __atomic_add_fetch(&shared->held, mib[i], __ATOMIC_SEQ_CST);
        if (all > room) {
            printf("FAIL storm %ld MiB are held, %ld fit\n", all, room);
            fflush(stdout);
            _exit(1);
        }
    }
    __atomic_fetch_add(&shared->ready, -1, __ATOMIC_SEQ_CST);
    while (shared->ready > 0) usleep(1000); /* what one leaves is not for the others */
    _exit(0);
}

int main(int argc, char **argv) {
    char line[64];
    case_id = "storm";
    CHECK(argc == 4, "storm PROCESSES LIMIT CONTEXT");
    int processes = atoi(argv[1]), bad = 0;
    long room = atol(argv[2]) - processes * atol(argv[3]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared->processes = processes;
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work((unsigned)i + 1, room);
        }
    while (shared->ready < processes) usleep(1000);
    puts("STORM");
    if (!fgets(line, sizeof line, stdin)) return 1;
    shared->stop = 1;
    for (int i = 0; i < processes; i++) {
        int status;
        wait(&status);
        bad += status != 0;
    }
    CHECK(!bad, "%d processes failed", bad);
    pass();
}
