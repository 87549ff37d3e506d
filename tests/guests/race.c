/* Many long-lived processes of one tenant race for its last bytes behind one barrier, round after
 * round. A filler leaves exactly ROOM blocks free; every worker then asks for blocks until it is
 * refused. In each round exactly ROOM blocks must be granted, whoever gets them.
 *   race WORKERS ROUNDS ROOM
 * Prints "ROUNDS n SHARED m" (m: rounds in which two processes or more were refused), then in a
 * last round keeps what it got, prints "HOLDING", waits for a line, kills all workers and the filler
 * with SIGKILL, prints "KILLED" and waits for another line. */
#include "case.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define BLOCK (2 * MiB)
#define MOST_WORKERS 64
#define MOST_BLOCKS 4096
#define PATIENCE_S 60

struct worker { unsigned granted; int refusal; };
struct shared {
    pthread_barrier_t ready, filled, start, asked, freed;
    struct worker workers[MOST_WORKERS];
};
static struct shared *shared;

/* A barrier that a dead process never reaches must not hold the others for ever. */
static void meet(pthread_barrier_t *barrier) {
    alarm(PATIENCE_S);
    pthread_barrier_wait(barrier);
    alarm(0);
}

static void work(int me, int rounds) {
    static CUdeviceptr blocks[MOST_BLOCKS];
    first_gpu();
    meet(&shared->ready);
    for (int round = 0; round <= rounds; round++) {
        unsigned granted = 0;
        CUresult code = OK;
        meet(&shared->start);
        while (granted < MOST_BLOCKS && (code = cuMemAlloc_v2(&blocks[granted], BLOCK)) == OK) granted++;
        shared->workers[me] = (struct worker){granted, code};
        meet(&shared->asked);
        if (round == rounds) break;
        while (granted) MUST(cuMemFree_v2(blocks[--granted]));
        meet(&shared->freed);
    }
    for (;;) pause();
}

/* Takes all but `room` blocks of what is free once every worker has its context. */
static void fill(unsigned room) {
    CUdeviceptr p;
    first_gpu();
    meet(&shared->ready);
    size_t free = free_bytes(), left = room * BLOCK;
    CHECK(free > left, "only %zu bytes are free, %u blocks of room were asked for", free, room);
    MUST(cuMemAlloc_v2(&p, (free - left) / 512 * 512));
    free = free_bytes();
    CHECK(free / BLOCK == room, "%zu bytes are free after filling, not %u blocks", free, room);
    meet(&shared->filled);
    for (;;) pause();
}

static pid_t child(void) {
    pid_t pid = fork();
    CHECK(pid >= 0, "no more processes");
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void wait_for_a_line(void) {
    char line[64];
    if (!fgets(line, sizeof line, stdin)) fail("nobody is there any more");
}

/* What one round came to; returns how many processes were refused. */
static int judge(int round, int workers, unsigned room) {
    unsigned granted = 0;
    int refused = 0;
    for (int me = 0; me < workers; me++) {
        struct worker *worker = &shared->workers[me];
        granted += worker->granted;
        refused += worker->refusal == OUT_OF_MEMORY;
        CHECK(worker->refusal == OUT_OF_MEMORY, "round %d: a worker was refused with %d", round, worker->refusal);
    }
    CHECK(granted == room, "round %d: %u blocks were granted, %u fit", round, granted, room);
    return refused;
}

static void make_barrier(pthread_barrier_t *barrier, int members) {
    pthread_barrierattr_t across;
    pthread_barrierattr_init(&across);
    pthread_barrierattr_setpshared(&across, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &across, (unsigned)members);
}

int main(int argc, char **argv) {
    case_id = "race";
    CHECK(argc == 4, "race WORKERS ROUNDS ROOM");
    int workers = atoi(argv[1]), rounds = atoi(argv[2]), contested = 0;
    unsigned room = (unsigned)atoi(argv[3]);
    CHECK(workers > 1 && workers <= MOST_WORKERS && room < MOST_BLOCKS, "that many are not possible");
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "no shared memory");
    make_barrier(&shared->ready, workers + 2); /* workers, filler, parent */
    make_barrier(&shared->filled, 2);          /* filler, parent */
    make_barrier(&shared->start, workers + 1);
    make_barrier(&shared->asked, workers + 1);
    make_barrier(&shared->freed, workers + 1);

    pid_t pids[MOST_WORKERS + 1];
    for (int me = 0; me < workers; me++)
        if ((pids[me] = child()) == 0) work(me, rounds);
    if ((pids[workers] = child()) == 0) fill(room);
    meet(&shared->ready);
    meet(&shared->filled);
    for (int round = 0; round <= rounds; round++) {
        meet(&shared->start);
        meet(&shared->asked);
        contested += judge(round, workers, room) >= 2;
        if (round < rounds) meet(&shared->freed);
    }
    printf("ROUNDS %d SHARED %d\nHOLDING\n", rounds + 1, contested);
    wait_for_a_line();
    for (int i = 0; i <= workers; i++) kill(pids[i], SIGKILL);
    for (int i = 0; i <= workers; i++) waitpid(pids[i], NULL, 0);
    puts("KILLED");
    wait_for_a_line();
    return 0;
}
