/* A program that closes a descriptor it did not open, the library's socket, and opens something of
 * its own under the same number. The library must keep its hands off that, and the limit must hold.
 * Prints "CLOSED" when it has done so, and after each line "more" allocates 512 MiB and prints
 * "CODE c" (c: what cuMemAlloc answered); after any other line it looks at what is its own.
 *   descriptors */
#include "case.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static int our_socket(void) {
    for (int fd = 3; fd < 65536; fd++) {
        struct sockaddr_un peer = {0};
        socklen_t length = sizeof peer;
        if (!getpeername(fd, (struct sockaddr *)&peer, &length) && strstr(peer.sun_path, "join.sock")) return fd;
    }
    fail("no socket to the broker");
}

int main(void) {
    char line[64], byte;
    int pair[2];
    struct stat before, after;
    case_id = "descriptors";
    setvbuf(stdout, NULL, _IOLBF, 0);
    first_gpu();
    int number = our_socket();
    CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), "no pair");
    CHECK(dup2(pair[0], number) == number, "no duplicate");
    CHECK(!fstat(number, &before), "no file");
    CHECK(send(pair[1], "mine", 4, 0) == 4, "cannot write");
    puts("CLOSED");
    while (fgets(line, sizeof line, stdin) && !strcmp(line, "more\n")) {
        CUdeviceptr p;
        errno = 77;
        CUresult code = cuMemAlloc_v2(&p, 512 * MiB);
        CHECK(errno == 77, "errno is %d", errno);
        printf("CODE %d\n", code);
    }
    CHECK(recv(pair[1], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "something was written into the program's socket");
    CHECK(!fstat(number, &after) && before.st_ino == after.st_ino, "the program's socket is another file now");
    CHECK(recv(number, line, sizeof line, MSG_DONTWAIT) == 4, "what was sent to the program is gone");
    pass();
}
