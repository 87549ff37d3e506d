/* So many threads call cuInit at once. Prints "SOCKETS n": connections to the broker afterwards.
 *   joins THREADS */
#include "case.h"
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

static pthread_barrier_t all;

static void *begin(void *unused) {
    pthread_barrier_wait(&all);
    MUST(cuInit(0));
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    int sockets = 0;
    case_id = "joins";
    CHECK(argc == 2, "joins THREADS");
    long count = atol(argv[1]);
    pthread_barrier_init(&all, NULL, (unsigned)count);
    for (long i = 0; i < count; i++) pthread_create(&threads[i], NULL, begin, NULL);
    for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_un peer = {0};
        socklen_t length = sizeof peer;
        sockets += !getpeername(fd, (struct sockaddr *)&peer, &length) && strstr(peer.sun_path, "join.sock");
    }
    printf("SOCKETS %d\n", sockets);
    fflush(stdout);
    getchar();
    return 0;
}
