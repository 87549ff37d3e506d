/* LIFE-04: many processes begin at once. Each initialises the driver and makes one allocation of
 * 1 MiB when the pipe that all of them read is closed.
 *   crowd PROCESSES      prints "DONE ok other", how many worked and how many got another code */
#include "case.h"
#include <sys/wait.h>

int main(int argc, char **argv) {
    int gate[2], ok = 0, other = 0;
    case_id = "LIFE-04";
    CHECK(argc == 2, "crowd PROCESSES");
    CHECK(pipe(gate) == 0, "no pipe");
    int processes = atoi(argv[1]);
    for (int i = 0; i < processes; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "no process %d", i);
        if (pid == 0) {
            char byte;
            CUcontext context;
            CUdeviceptr p;
            close(gate[1]);
            while (read(gate[0], &byte, 1) > 0) continue;
            CUresult code = cuInit(0);
            if (code == OK) code = cuDevicePrimaryCtxRetain(&context, 0);
            if (code == OK) code = cuCtxSetCurrent(context);
            if (code == OK) code = cuMemAlloc_v2(&p, MiB);
            exit(code == OK ? 0 : 10);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < processes; i++) {
        int status;
        CHECK(wait(&status) > 0, "a process is missing");
        CHECK(WIFEXITED(status), "a process ended by signal %d", WTERMSIG(status));
        ok += WEXITSTATUS(status) == 0;
        other += WEXITSTATUS(status) == 10;
    }
    printf("DONE %d %d\n", ok, other);
    return ok + other == processes ? 0 : 1;
}
