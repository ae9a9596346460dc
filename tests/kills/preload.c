/* Preloaded into the relay: kills it at one of its system calls.
 *
 * The file named by KILLS_COUNT holds a number. When a test stores one there, each call below counts it
 * down twice, once before and once after, and the process is killed when it reaches zero.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile int *count;
static pid_t relay; /* the server has another command line, and the recorder another process id */

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("KILLS_COUNT");
    char line[256] = {0};
    int fd = open("/proc/self/cmdline", O_RDONLY);
    ssize_t size = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    if (path == NULL || size <= 0 || memmem(line, size, "-m\0mcpproxy", 12) == NULL)
        return;
    fd = open(path, O_RDWR);
    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory != MAP_FAILED) {
        relay = getpid();
        count = memory;
    }
}

static void step(void) {
    if (count != NULL && *count > 0 && getpid() == relay && --*count == 0)
        kill(relay, SIGKILL);
}

#define WRAP(result, name, parameters, arguments)                                                            \
    result name parameters {                                                                                 \
        static result(*real) parameters;                                                                     \
        if (real == NULL)                                                                                    \
            real = (result(*) parameters)dlsym(RTLD_NEXT, #name);                                            \
        step();                                                                                              \
        result found = real arguments;                                                                       \
        step();                                                                                              \
        return found;                                                                                        \
    }

WRAP(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRAP(ssize_t, writev, (int fd, const struct iovec *parts, int number), (fd, parts, number))
WRAP(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
WRAP(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
WRAP(int, poll, (struct pollfd *fds, nfds_t number, int ms), (fds, number, ms))
WRAP(int, epoll_wait, (int fd, struct epoll_event *events, int number, int ms), (fd, events, number, ms))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(int, close, (int fd), (fd))
