/* An MCP server over HTTP/1.1 and a load client for it: faster than anything put between them.
 *
 *   http_peers serve
 *   http_peers call PORT CONNECTIONS COUNT SIZE
 *   http_peers stream PORT CONNECTIONS COUNT EVENTS
 *   http_peers open PORT
 *
 * The server prints its port and serves until its stdin ends. It answers a call of "echo" with JSON; a call
 * of "count" with an event stream of so many progress events and the answer, each event in a chunk and a
 * write of its own; a GET with an event stream on which nothing happens.
 *
 * The client shakes hands and connects, prints "ready", and waits for a line on its stdin. Then it makes
 * COUNT calls over CONNECTIONS connections, one at a time on each: of SIZE bytes, or for EVENTS events. It
 * compares every byte of every body, makes one more call alone, and prints a line: "done", seconds, p50 and
 * p99 in microseconds (of a call; of the time to the first event), and the monotonic clock in nanoseconds.
 * It keeps the connections until the next line. "open" takes numbers instead, a line each, and holds that
 * many idle streams open. It exits with 1 when a byte differs or is missing. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FIRST_ID 1000000L /* seven figures from the first call to the last: all calls have one size */
#define ROOM (1 << 20)
#define HEAD_ROOM (16 << 10)
#define EVENTS_A_TURN 16 /* that a stream gets before the others have their turn */
#define LENGTH(text) (sizeof(text) - 1)
#define SESSION "5f0c3a1e9b7d4c26"

static const char INITIALIZE[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"load\",\"version\":\"1\"}}}";
static const char INITIALIZE_RESULT[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"2025-11-25\","
    "\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"echo\",\"version\":\"1\"}}}";
static const char INITIALIZED[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

static const char MESSAGE[] = "{\"jsonrpc\":\"2.0\",\"id\":";
static const char ECHO[] = ",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"";
static const char ECHO_END[] = "\"}}}";
static const char ANSWER[] = ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"";
static const char ANSWER_END[] = "\"}],\"isError\":false}}";
static const char COUNT[] = "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"tools/call\",\"params\":"
    "{\"_meta\":{\"progressToken\":%ld},\"name\":\"count\",\"arguments\":{\"to\":%ld}}}";
static const char PROGRESS[] = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
    "{\"progressToken\":%ld,\"progress\":%ld}}\n\n";
static const char COUNTED[] = "data: {\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"content\":"
    "[{\"type\":\"text\",\"text\":\"\"}],\"isError\":false}}\n\n";
static const char OPEN[] = ": open\n\n";

static const char STREAM_HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";
static const char LAST_CHUNK[] = "0\r\n\r\n";

static void fail(const char *what) {
    fprintf(stderr, "http_peers: %s\n", what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static char *put(char *to, const char *from, size_t size) {
    memcpy(to, from, size);
    return to + size;
}

static void *grown(void *memory, size_t *room, size_t wanted) {
    if (wanted <= *room) return memory;
    *room = wanted > 2 * *room ? wanted : 2 * *room;
    if (!(memory = realloc(memory, *room))) fail("no memory");
    return memory;
}

/* Event number `event` of the stream that answers call `id`; the one behind the last is the answer. */
static size_t compose_event(char *to, long id, long event, long events) {
    return (size_t)(event <= events ? sprintf(to, PROGRESS, id, event) : sprintf(to, COUNTED, id));
}

/* A connection of either side: bytes to send, and where in what comes it is. */
struct peer {
    int fd, watched;
    char *out;
    size_t out_at, out_size, out_room;
    /* the server's */
    char *in;
    size_t held, room, needed; /* of the request, once its head is there */
    size_t head;
    long id, event, events; /* the stream under way: events == 0 if there is none */
    /* the client's */
    enum { HEAD, BODY, SIZE_LINE, CHUNK, CHUNK_END, LAST_LINE } state;
    char line[HEAD_ROOM];
    size_t line_size;
    long long left;
    long index;
    int64_t sent_at;
    char *wanted;
    size_t matched, wanted_size, wanted_room;
};

static int poller;

static void watch(struct peer *peer, int events) {
    struct epoll_event event = {.events = (uint32_t)events, .data.ptr = peer};
    if (peer->watched == events) return;
    if (epoll_ctl(poller, peer->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, peer->fd, &event)) fail("epoll");
    peer->watched = events;
}

static struct peer *peer_of(int fd) {
    int one = 1;
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer) fail("no memory");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    peer->fd = fd;
    return peer;
}

/* Send what there is; false if the other side has gone. */
static int flush(struct peer *peer) {
    while (peer->out_at < peer->out_size) {
        ssize_t sent =
            send(peer->fd, peer->out + peer->out_at, peer->out_size - peer->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN;
        peer->out_at += (size_t)sent;
    }
    peer->out_at = peer->out_size = 0;
    return 1;
}

static void add(struct peer *peer, const char *data, size_t size) {
    peer->out = grown(peer->out, &peer->out_room, peer->out_size + size);
    memcpy(peer->out + peer->out_size, data, size);
    peer->out_size += size;
}

static const char *field(const char *head, const char *name) {
    const char *found = strcasestr(head, name);
    return found ? found + strlen(name) : NULL;
}

/* The server. */

static void respond(struct peer *peer, const char *status, const char *more, size_t size) {
    char head[512];
    int length = sprintf(head, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status, more, size);
    add(peer, head, (size_t)length);
}

#define JSON_TYPE "Content-Type: application/json\r\n"

static void answer(struct peer *peer, const char *head, const char *body, size_t size) {
    const size_t echo = LENGTH(MESSAGE) + 7, text = echo + LENGTH(ECHO);
    long id = size > echo ? atol(body + LENGTH(MESSAGE)) : 0, token, events;
    char chunk[64];
    if (memcmp(head, "GET ", 4) == 0) {
        add(peer, STREAM_HEAD, LENGTH(STREAM_HEAD));
        add(peer, chunk, (size_t)sprintf(chunk, "%zx\r\n%s\r\n", LENGTH(OPEN), OPEN));
    } else if (size == LENGTH(INITIALIZE) && memcmp(body, INITIALIZE, size) == 0) {
        respond(peer, "200 OK", JSON_TYPE "Mcp-Session-Id: " SESSION "\r\n", LENGTH(INITIALIZE_RESULT));
        add(peer, INITIALIZE_RESULT, LENGTH(INITIALIZE_RESULT));
    } else if (size == LENGTH(INITIALIZED) && memcmp(body, INITIALIZED, size) == 0) {
        respond(peer, "202 Accepted", "", 0);
    } else if (size >= text + LENGTH(ECHO_END) && memcmp(body + echo, ECHO, LENGTH(ECHO)) == 0) {
        size_t said = size - text - LENGTH(ECHO_END);
        respond(peer, "200 OK", JSON_TYPE, echo + LENGTH(ANSWER) + said + LENGTH(ANSWER_END));
        add(peer, body, echo);
        add(peer, ANSWER, LENGTH(ANSWER));
        add(peer, body + text, said);
        add(peer, ANSWER_END, LENGTH(ANSWER_END));
    } else if (size < 256 && sscanf(body, COUNT, &id, &token, &events) == 3) {
        add(peer, STREAM_HEAD, LENGTH(STREAM_HEAD));
        peer->id = id, peer->event = 0, peer->events = events;
    } else {
        respond(peer, "400 Bad Request", "", 0);
    }
}

/* Answer what is there as a whole. */
static void read_requests(struct peer *peer) {
    while (!peer->events && peer->held) {
        if (!peer->needed) {
            char *end = memmem(peer->in, peer->held, "\r\n\r\n", 4);
            if (!end) return;
            *end = 0;
            const char *length = field(peer->in, "\r\ncontent-length:");
            peer->head = (size_t)(end + 4 - peer->in);
            peer->needed = peer->head + (length ? strtoul(length, NULL, 10) : 0);
            peer->in = grown(peer->in, &peer->room, peer->needed + 1);
        }
        if (peer->held < peer->needed) return;
        char behind = peer->in[peer->needed];
        peer->in[peer->needed] = 0;
        answer(peer, peer->in, peer->in + peer->head, peer->needed - peer->head);
        peer->in[peer->needed] = behind;
        peer->held -= peer->needed;
        memmove(peer->in, peer->in + peer->needed, peer->held);
        peer->needed = 0;
    }
}

/* The next event of a stream, as a chunk; what there was has been sent. */
static void add_event(struct peer *peer) {
    char event[256], size[16];
    size_t length = compose_event(event, peer->id, ++peer->event, peer->events);
    add(peer, size, (size_t)sprintf(size, "%zx\r\n", length));
    add(peer, event, length);
    add(peer, "\r\n", 2);
    if (peer->event <= peer->events) return;
    add(peer, LAST_CHUNK, LENGTH(LAST_CHUNK));
    peer->events = 0;
}

static int serve_peer(struct peer *peer, uint32_t events) {
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        peer->in = grown(peer->in, &peer->room, peer->needed ? peer->needed + 1 : peer->held + HEAD_ROOM);
        ssize_t got = recv(peer->fd, peer->in + peer->held, peer->room - 1 - peer->held, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return 0;
        if (got > 0) peer->held += (size_t)got;
        read_requests(peer);
    }
    if (!flush(peer)) return 0;
    for (int turn = 0; peer->events && !peer->out_size && turn < EVENTS_A_TURN; turn++) {
        add_event(peer);
        if (!flush(peer)) return 0;
    }
    if (!peer->events && !peer->out_size) read_requests(peer);
    watch(peer, EPOLLIN | (peer->events || peer->out_size ? EPOLLOUT : 0));
    return 1;
}

static int serve(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct epoll_event ready[256], event = {.events = EPOLLIN};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) fail("cannot listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event); /* the one without a peer */
    struct peer input = {.fd = 0};
    watch(&input, EPOLLIN);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(poller, ready, 256, -1);
        for (int at = 0; at < count; at++) {
            struct peer *peer = ready[at].data.ptr;
            if (peer == &input) {
                char byte;
                if (read(0, &byte, 1) <= 0) return 0;
            } else if (!peer) {
                int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (fd >= 0) watch(peer_of(fd), EPOLLIN);
            } else if (!serve_peer(peer, ready[at].events)) {
                close(peer->fd);
                free(peer->in), free(peer->out), free(peer);
            }
        }
    }
}

/* The client. */

static int port;
static long count, size_or_events, answered, issued;
static int is_stream, is_last;
static int64_t *took;

enum { AT_INITIALIZE = -2, AT_INITIALIZED = -1, AT_GET = -3 };

static char *want(struct peer *peer, size_t size) {
    peer->wanted = grown(peer->wanted, &peer->wanted_room, size);
    peer->wanted_size = size, peer->matched = 0;
    return peer->wanted;
}

/* Call number `index`, and what is wanted as its answer; the text differs from call to call. */
static size_t compose(struct peer *peer, char *to, long index) {
    long id = FIRST_ID + index;
    if (index == AT_GET) {
        memcpy(want(peer, LENGTH(OPEN)), OPEN, LENGTH(OPEN));
        return 0;
    }
    if (index == AT_INITIALIZE) {
        memcpy(want(peer, LENGTH(INITIALIZE_RESULT)), INITIALIZE_RESULT, LENGTH(INITIALIZE_RESULT));
        memcpy(to, INITIALIZE, LENGTH(INITIALIZE));
        return LENGTH(INITIALIZE);
    }
    if (index == AT_INITIALIZED) {
        want(peer, 0);
        memcpy(to, INITIALIZED, LENGTH(INITIALIZED));
        return LENGTH(INITIALIZED);
    }
    if (is_stream && !is_last) {
        peer->event = 1;
        want(peer, 256);
        peer->wanted_size = compose_event(peer->wanted, id, 1, size_or_events);
        return (size_t)sprintf(to, COUNT, id, id, size_or_events);
    }
    size_t fixed = LENGTH(MESSAGE) + 7 + LENGTH(ECHO) + LENGTH(ECHO_END);
    size_t size = is_last ? 0 : (size_t)size_or_events, text = size > fixed ? size - fixed : 0;
    char *from = to, *answer = want(peer, LENGTH(MESSAGE) + 7 + LENGTH(ANSWER) + text + LENGTH(ANSWER_END));
    to = put(to, MESSAGE, LENGTH(MESSAGE));
    to += sprintf(to, "%ld", id);
    answer = put(put(answer, from, LENGTH(MESSAGE) + 7), ANSWER, LENGTH(ANSWER));
    to = put(to, ECHO, LENGTH(ECHO));
    memset(to, 'a' + (int)(index % 26), text);
    put(put(answer, to, text), ANSWER_END, LENGTH(ANSWER_END));
    to = put(to + text, ECHO_END, LENGTH(ECHO_END));
    return (size_t)(to - from);
}

static void ask(struct peer *peer, long index) {
    static char *body;
    static size_t room;
    char head[512];
    body = grown(body, &room, (is_stream || size_or_events < 0 ? 0 : (size_t)size_or_events) + 512);
    size_t size = compose(peer, body, index);
    int length = sprintf(head, "%s /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: load/1\r\n",
                         index == AT_GET ? "GET" : "POST", port);
    if (index != AT_INITIALIZE)
        length += sprintf(head + length, "Mcp-Session-Id: " SESSION "\r\nMcp-Protocol-Version: 2025-11-25\r\n");
    if (index == AT_GET)
        length += sprintf(head + length, "Accept: text/event-stream\r\n\r\n");
    else
        length += sprintf(head + length, "Accept: application/json, text/event-stream\r\n"
                          JSON_TYPE "Content-Length: %zu\r\n\r\n", size);
    add(peer, head, (size_t)length);
    add(peer, body, size);
    peer->index = index, peer->state = HEAD, peer->line_size = 0;
    peer->sent_at = now_ns();
    if (!flush(peer)) fail("the connection broke off");
    watch(peer, EPOLLIN | (peer->out_size ? EPOLLOUT : 0));
}

static void ask_next(struct peer *peer) {
    if (issued < count) ask(peer, issued++);
}

/* Bytes of a body: they are what is wanted. */
static void match(struct peer *peer, const char *data, size_t size, int64_t read_at) {
    while (size) {
        size_t part = peer->wanted_size - peer->matched;
        if (part == 0) fail("more bytes than the answer has");
        if (part > size) part = size;
        if (memcmp(data, peer->wanted + peer->matched, part) != 0) fail("a byte was changed, lost or out of order");
        data += part, size -= part, peer->matched += part;
        if (peer->matched < peer->wanted_size) return;
        if (peer->index == AT_GET) answered++;
        if (!is_stream || is_last || peer->index < 0) continue;
        if (peer->event == 1) took[peer->index] = read_at - peer->sent_at;
        if (peer->event++ > size_or_events) continue;
        peer->wanted_size = compose_event(peer->wanted, FIRST_ID + peer->index, peer->event, size_or_events);
        peer->matched = 0;
    }
}

static void finish_answer(struct peer *peer, int64_t read_at) {
    if (peer->matched != peer->wanted_size) fail("an answer ended early");
    peer->state = HEAD, peer->line_size = 0;
    answered++;
    if (peer->index < 0 || is_last) return;
    if (!is_stream) took[peer->index] = read_at - peer->sent_at;
    ask_next(peer);
}

static void read_head(struct peer *peer, int64_t read_at) {
    int status = 0;
    peer->line[peer->line_size] = 0;
    if (sscanf(peer->line, "HTTP/1.1 %d", &status) != 1 || status != (peer->index == AT_INITIALIZED ? 202 : 200))
        fail(peer->line);
    const char *length = field(peer->line, "\r\ncontent-length:");
    if (field(peer->line, "\r\ntransfer-encoding: chunked"))
        peer->state = SIZE_LINE, peer->line_size = 0;
    else if (!length)
        fail("an answer without a length");
    else if ((peer->left = atoll(length)) > 0)
        peer->state = BODY;
    else
        finish_answer(peer, read_at);
}

static void take(struct peer *peer, const char *at, const char *stop, int64_t read_at) {
    while (at < stop) {
        if (peer->state == BODY || peer->state == CHUNK) {
            size_t part = (size_t)(stop - at) < (size_t)peer->left ? (size_t)(stop - at) : (size_t)peer->left;
            match(peer, at, part, read_at);
            at += part, peer->left -= (long long)part;
            if (peer->left) return;
            if (peer->state == BODY) finish_answer(peer, read_at);
            else peer->state = CHUNK_END, peer->line_size = 0;
            continue;
        }
        if (peer->line_size == HEAD_ROOM - 1) fail("an endless head");
        peer->line[peer->line_size++] = *at++;
        if (at[-1] != '\n') continue;
        if (peer->state == HEAD) {
            if (peer->line_size >= 4 && memcmp(peer->line + peer->line_size - 4, "\r\n\r\n", 4) == 0)
                read_head(peer, read_at);
            continue;
        }
        int is_empty = peer->line_size == 2;
        peer->line[peer->line_size] = 0, peer->line_size = 0;
        if (peer->state == CHUNK_END) {
            if (!is_empty) fail("a chunk is longer than it says");
            peer->state = SIZE_LINE;
        } else if (peer->state == SIZE_LINE) {
            peer->left = strtoll(peer->line, NULL, 16);
            peer->state = peer->left ? CHUNK : LAST_LINE;
        } else if (is_empty) {
            finish_answer(peer, read_at);
        }
    }
}

static void run_until(long wanted) {
    static char got[ROOM];
    struct epoll_event ready[256];
    while (answered < wanted) {
        int events = epoll_wait(poller, ready, 256, 60000);
        if (events == 0) fail("nothing moved for a minute");
        for (int at = 0; at < events; at++) {
            struct peer *peer = ready[at].data.ptr;
            if (ready[at].events & EPOLLOUT) {
                if (!flush(peer)) fail("the connection broke off");
                if (!peer->out_size) watch(peer, EPOLLIN);
            }
            if (!(ready[at].events & ~(uint32_t)EPOLLOUT)) continue;
            ssize_t size = recv(peer->fd, got, ROOM, MSG_DONTWAIT);
            if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (size <= 0) fail("the connection was closed early");
            take(peer, got, got + size, now_ns());
        }
    }
}

static struct peer *connected(void) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail("cannot connect");
    return peer_of(fd);
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

static struct peer *greeted(void) {
    struct peer *peer = connected();
    ask(peer, AT_INITIALIZE);
    run_until(1);
    ask(peer, AT_INITIALIZED);
    run_until(2);
    answered = 0;
    return peer;
}

static int drive(int connections) {
    struct peer **peers = calloc((size_t)connections, sizeof *peers);
    took = calloc((size_t)count + 1, sizeof *took);
    peers[0] = greeted();
    for (int at = 1; at < connections; at++) peers[at] = connected();
    puts("ready");
    fflush(stdout);
    wait_for_line();

    int64_t first = now_ns();
    for (int at = 0; at < connections; at++) ask_next(peers[at]);
    run_until(count);
    int64_t last = now_ns();
    is_last = 1;
    ask(peers[0], count);
    run_until(count + 1);
    int64_t finished = now_ns();
    qsort(took, (size_t)count, sizeof *took, by_size);
    printf("done %.6f %.2f %.2f %lld\n", (double)(last - first) / 1e9, (double)took[count / 2] / 1e3,
           (double)took[count * 99 / 100] / 1e3, (long long)finished);
    fflush(stdout);
    wait_for_line();
    return 0;
}

static int open_streams(void) {
    long wanted, held = 0;
    greeted();
    puts("ready");
    fflush(stdout);
    while (scanf("%ld", &wanted) == 1) {
        for (; held < wanted; held++) {
            ask(connected(), AT_GET);
            run_until(held + 1);
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv) {
    poller = epoll_create1(0);
    if (argc == 2 && strcmp(argv[1], "serve") == 0) return serve();
    if (argc >= 3) port = atoi(argv[2]);
    if (argc == 3 && strcmp(argv[1], "open") == 0) return open_streams();
    is_stream = argc == 6 && strcmp(argv[1], "stream") == 0;
    if (argc == 6 && (is_stream || strcmp(argv[1], "call") == 0)) {
        count = atol(argv[4]), size_or_events = atol(argv[5]);
        return drive(atoi(argv[3]));
    }
    fail("usage: http_peers serve | {call|stream} PORT CONNECTIONS COUNT SIZE_OR_EVENTS | open PORT");
}
