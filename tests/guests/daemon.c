/* A daemon: forks twice, a session of its own, no streams of its caller's, and its parents end at once.
 * Its first CUDA call comes when the file GO is there.
 *   daemon GO OUT MIB [forgets]    writes "PID FIRST CODE" to OUT: the code of cuInit, and of MIB asked for;
 *                                with "forgets" it forgets its environment first, as daemons do that
 *                                write their state in its place */
#include "case.h"
#include <fcntl.h>
#include <sys/stat.h>

extern char **environ;

static void work(char **argv, int forget) {
    if (forget)
        for (char **e = environ; *e; e++) memset(*e, 'x', strlen(*e));
    for (int i = 0; i < 3000 && access(argv[1], F_OK); i++) usleep(10000);
    void *context = NULL;
    CUdeviceptr p;
    int first = cuInit(0), code = -1;
    if (!first && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context))
        code = cuMemAlloc_v2(&p, (size_t)atol(argv[3]) * MiB);
    char said[96], fresh[512];
    snprintf(said, sizeof said, "%d %d %d", (int)getpid(), first, code);
    snprintf(fresh, sizeof fresh, "%s.new", argv[2]);
    int out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(out, said, strlen(said)) < 0 || rename(fresh, argv[2])) _exit(1);
    for (int i = 0; i < 3000 && !access(argv[1], F_OK); i++) usleep(10000);
    _exit(0);
}

int main(int argc, char **argv) {
    case_id = "daemon";
    CHECK(argc >= 4, "daemon GO OUT MIB [forgets]");
    if (fork()) _exit(0);
    setsid();
    if (fork()) _exit(0);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    work(argv, argc > 4);
}
