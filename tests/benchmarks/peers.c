/* A fast JSON-RPC server and a load client for it: faster than anything put between them.
 *
 *   peers serve [BOOT_MS]
 *   peers drive {pipe|socketpair} SIZE COUNT WINDOW COMMAND [ARG...]
 *
 * The server answers initialize and tools/call; it echoes the text of a call. BOOT_MS is how long it
 * takes before it reads anything.
 *
 * The client starts COMMAND, shakes hands, prints a line ("ready", the child's pid, microseconds from
 * start to answer), waits for a line on its stdin, makes COUNT calls of SIZE bytes with WINDOW of them in
 * flight, compares every byte of every answer, prints a line (seconds, p50 and p99 in microseconds,
 * the monotonic clock in nanoseconds), waits for a line again, closes, and prints a line (the command's
 * exit status, microseconds from close to exit). It exits with 1 when a byte differs or is missing. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIRST_ID 1000000 /* seven figures from the first call to the last: all calls have one size */
#define ROOM (8 << 20)

static const char INITIALIZE[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"load\",\"version\":\"1\"}}}\n";
static const char INITIALIZED_RESULT[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"2025-11-25\","
    "\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"echo\",\"version\":\"1\"}}}\n";
static const char INITIALIZED[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

static const char HEAD[] = "{\"jsonrpc\":\"2.0\",\"id\":";
static const char CALL[] = ",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"";
static const char CALL_END[] = "\"}}}\n";
static const char ANSWER[] = ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"";
static const char ANSWER_END[] = "\"}],\"isError\":false}}\n";
static const char REFUSAL[] =
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"not what was sent\"}}\n";

#define LENGTH(text) (sizeof(text) - 1)

static void fail(const char *what) {
    fprintf(stderr, "peers: %s\n", what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno != EINTR) exit(1); /* the other side has gone */
        if (written > 0) data += written, size -= (size_t)written;
    }
}

static char *put(char *to, const char *from, size_t size) {
    memcpy(to, from, size);
    return to + size;
}

/* The answer to one line, written to `to`; where it ends. */
static char *answer(char *to, const char *line, size_t size) {
    const size_t id = LENGTH(HEAD), call = id + 7, text = call + LENGTH(CALL);
    if (size == LENGTH(INITIALIZE) && memcmp(line, INITIALIZE, size) == 0)
        return put(to, INITIALIZED_RESULT, LENGTH(INITIALIZED_RESULT));
    if (size == LENGTH(INITIALIZED) && memcmp(line, INITIALIZED, size) == 0) return to;
    if (size < text + LENGTH(CALL_END) || memcmp(line, HEAD, id) != 0 ||
        memcmp(line + call, CALL, LENGTH(CALL)) != 0 ||
        memcmp(line + size - LENGTH(CALL_END), CALL_END, LENGTH(CALL_END)) != 0)
        return put(to, REFUSAL, LENGTH(REFUSAL));
    to = put(to, line, call);
    to = put(to, ANSWER, LENGTH(ANSWER));
    to = put(to, line + text, size - text - LENGTH(CALL_END));
    return put(to, ANSWER_END, LENGTH(ANSWER_END));
}

static int serve(int boot_ms) {
    char *in = malloc(ROOM), *out = malloc(2 * ROOM);
    size_t held = 0;
    usleep((useconds_t)boot_ms * 1000);
    for (;;) {
        ssize_t got = read(0, in + held, ROOM - held);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        char *line = in, *end, *to = out, *stop = in + held + got;
        /* What was held before holds no line feed: only look at what came now. */
        for (char *from = in + held; (end = memchr(from, '\n', (size_t)(stop - from))); from = line) {
            to = answer(to, line, (size_t)(end + 1 - line));
            line = end + 1;
        }
        write_all(1, out, (size_t)(to - out));
        held = (size_t)(stop - line);
        memmove(in, line, held);
    }
}

static pid_t start(int sockets, char **command, int *to, int *from) {
    int in[2], out[2];
    if (sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, in) || socketpair(AF_UNIX, SOCK_STREAM, 0, out)
                : pipe(in) || pipe(out))
        fail("no pipes");
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execvp(command[0], command);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    *to = in[1], *from = out[0];
    return child;
}

static void expect(int fd, const char *text) {
    size_t size = strlen(text), held = 0;
    char *got = malloc(size);
    while (held < size) {
        ssize_t count = read(fd, got + held, size - held);
        if (count <= 0) fail("the command ended before it answered");
        held += (size_t)count;
    }
    if (memcmp(got, text, size) != 0) fail("another answer than the server's to initialize");
    free(got);
}

static void wait_for_line(void) {
    char byte;
    while (read(0, &byte, 1) == 1 && byte != '\n') {
    }
}

static int by_size(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Call number `index`, or its answer, with `text` bytes of text that differ from call to call. */
static size_t compose(char *to, long index, size_t text, int is_answer) {
    char *from = to;
    to = put(to, HEAD, LENGTH(HEAD));
    to += sprintf(to, "%07ld", FIRST_ID + index);
    to = is_answer ? put(to, ANSWER, LENGTH(ANSWER)) : put(to, CALL, LENGTH(CALL));
    memset(to, 'a' + (int)(index % 26), text);
    to += text;
    to = is_answer ? put(to, ANSWER_END, LENGTH(ANSWER_END)) : put(to, CALL_END, LENGTH(CALL_END));
    return (size_t)(to - from);
}

static int drive(int sockets, size_t size, long count, long window, char **command) {
    int to, from;
    int64_t began = now_ns();
    pid_t child = start(sockets, command, &to, &from);
    write_all(to, INITIALIZE, LENGTH(INITIALIZE));
    expect(from, INITIALIZED_RESULT);
    int64_t greeted = now_ns();
    write_all(to, INITIALIZED, LENGTH(INITIALIZED));
    printf("ready %d %ld\n", child, (long)((greeted - began) / 1000));
    fflush(stdout);
    wait_for_line();

    size_t fixed = LENGTH(HEAD) + 7 + LENGTH(CALL) + LENGTH(CALL_END), text = size > fixed ? size - fixed : 0;
    char *call = malloc(size + fixed), *wanted = malloc(size + fixed + 256), *got = malloc(ROOM);
    int64_t *sent_at = calloc((size_t)count + 1, sizeof *sent_at), *took = calloc((size_t)count + 1, sizeof *took);
    size_t call_size = 0, written = 0, wanted_size = compose(wanted, 0, text, 1), matched = 0;
    long sent = 0, answered = 0;

    /* Both directions at once: a peer that is full must not keep the other from being read. */
    fcntl(to, F_SETFL, fcntl(to, F_GETFL) | O_NONBLOCK);
    fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
    int64_t first = now_ns();
    while (answered < count) {
        int writing = written < call_size || (sent < count && sent - answered < window);
        struct pollfd ends[2] = {{from, POLLIN, 0}, {to, writing ? POLLOUT : 0, 0}};
        if (poll(ends, 2, 60000) <= 0) fail("nothing moved for a minute");
        while (ends[1].revents & POLLOUT) {
            if (written == call_size) {
                if (sent == count || sent - answered >= window) break;
                call_size = compose(call, sent, text, 0), written = 0;
                sent_at[sent++] = now_ns();
            }
            ssize_t put_out = write(to, call + written, call_size - written);
            if (put_out <= 0) break;
            written += (size_t)put_out;
        }
        if (!(ends[0].revents & (POLLIN | POLLHUP))) continue;
        ssize_t count_in = read(from, got, ROOM);
        if (count_in == 0) fail("the command closed its stdout early");
        int64_t read_at = now_ns();
        for (char *at = got, *stop = got + (count_in > 0 ? count_in : 0); at < stop;) {
            size_t part = wanted_size - matched < (size_t)(stop - at) ? wanted_size - matched : (size_t)(stop - at);
            if (memcmp(at, wanted + matched, part) != 0) fail("a byte was changed, lost or out of order");
            at += part, matched += part;
            if (matched < wanted_size) continue;
            took[answered] = read_at - sent_at[answered];
            if (++answered > count) fail("more answers than calls");
            wanted_size = compose(wanted, answered, text, 1), matched = 0;
        }
    }
    int64_t last = now_ns();
    qsort(took, (size_t)count, sizeof *took, by_size);
    printf("done %.6f %.2f %.2f %lld\n", (double)(last - first) / 1e9,
           count ? (double)took[count / 2] / 1e3 : 0, count ? (double)took[count * 99 / 100] / 1e3 : 0,
           (long long)last);
    fflush(stdout);
    wait_for_line();

    int status;
    char more;
    int64_t closed = now_ns();
    close(to);
    struct pollfd end = {from, POLLIN, 0};
    while (poll(&end, 1, 60000) > 0 && read(from, &more, 1) > 0) fail("more bytes than answers");
    waitpid(child, &status, 0);
    printf("closed %d %ld\n", status, (long)((now_ns() - closed) / 1000));
    return 0;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 2 && strcmp(argv[1], "serve") == 0) return serve(argc > 2 ? atoi(argv[2]) : 0);
    if (argc >= 7 && strcmp(argv[1], "drive") == 0)
        return drive(strcmp(argv[2], "socketpair") == 0, (size_t)atol(argv[3]), atol(argv[4]), atol(argv[5]),
                     argv + 6);
    fail("usage: peers serve [BOOT_MS] | peers drive {pipe|socketpair} SIZE COUNT WINDOW COMMAND...");
}
