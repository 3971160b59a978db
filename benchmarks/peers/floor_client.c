// The floor: what reading the same streams costs a minimal client. One thread, epoll, closed loop, all starts at once.
//
//   gcc -O2 -o floor_client floor_client.c
//   ./floor_client PORT PATH CONCURRENCY REQUESTS TOKENS PROMPT_WORDS [TIMES.jsonl]
//
// Counts "data: " in what arrives and stamps it; nothing else is read but the request number of the first token. Prints
// a JSON line: CPU microseconds per token and tokens per second. TIMES: per request its number, send and event times.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, READ_BYTES = 131072, MARK = 6, KEPT = MARK, EXTRA_EVENTS = 16 };
static const char mark[] = "data: ";

typedef struct {
    int fd, events, kept;
    long number;
    uint64_t sent_ns, *event_ns;
    char tail[KEPT];  // what may be the beginning of a mark
} Stream;

static char *request;
static size_t request_length;
static int left, running, most_events;
static FILE *times;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void make_request(const char *path, int words, int tokens) {
    size_t room = (size_t)words * 6 + 1024;
    char *body = malloc(room);
    request = malloc(room + 512);
    int length = sprintf(body, "{\"model\":\"mock-model\",\"prompt\":\"");
    for (int i = 0; i < words; i++) length += sprintf(body + length, "hello ");
    length += sprintf(body + length, "\",\"stream\":true,\"max_tokens\":%d,"
                      "\"stream_options\":{\"include_usage\":true}}", tokens);
    request_length = (size_t)sprintf(request, "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                                     "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                                     path, length, body);
    free(body);
}

static void begin(Stream *stream) {
    if (!left) return;
    left--;
    running++;
    stream->events = stream->kept = 0;
    stream->number = -1;
    stream->sent_ns = now_ns();
    if (write(stream->fd, request, request_length) != (ssize_t)request_length) fail("write");
}

static void keep_times(const Stream *stream) {
    if (!times) return;
    fprintf(times, "{\"id\":%ld,\"sent_ns\":%llu,\"t\":[", stream->number, (unsigned long long)stream->sent_ns);
    for (int i = 0; i < stream->events; i++)
        fprintf(times, i ? ",%llu" : "%llu", (unsigned long long)stream->event_ns[i]);
    fprintf(times, "]}\n");
}

static void read_number(Stream *stream, const char *at, const char *end) {
    const char *text = memmem(at, (size_t)(end - at), "\"text\":\"r", 9);
    if (text) stream->number = strtol(text + 9, NULL, 10);
}

// Stamp what has come; 1 when the answer is whole.
static int receive(Stream *stream) {
    static char data[READ_BYTES + KEPT + 1];
    memcpy(data, stream->tail, (size_t)stream->kept);
    ssize_t count = read(stream->fd, data + stream->kept, READ_BYTES);
    uint64_t at_ns = now_ns();
    if (count <= 0) fail("read");
    char *at = data, *end = data + stream->kept + count, *found;
    while ((found = memmem(at, (size_t)(end - at), mark, MARK)) && found + MARK < end) {
        if (found[MARK] == '[') return 1;
        if (!stream->events) read_number(stream, found, end);
        if (stream->events < most_events) stream->event_ns[stream->events++] = at_ns;
        at = found + MARK;
    }
    stream->kept = found ? (int)(end - found) : (int)(end - at < MARK - 1 ? end - at : MARK - 1);
    memcpy(stream->tail, end - stream->kept, (size_t)stream->kept);
    return 0;
}

static void join(Stream *stream, int epoll, int port) {
    int one = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    stream->event_ns = malloc((size_t)most_events * sizeof(uint64_t));
    stream->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(stream->fd, (struct sockaddr *)&at, sizeof at)) fail("connect");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};
    epoll_ctl(epoll, EPOLL_CTL_ADD, stream->fd, &event);
    begin(stream);
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

int main(int count, char **words) {
    if (count < 7) return fprintf(stderr, "PORT PATH CONCURRENCY REQUESTS TOKENS PROMPT_WORDS [TIMES]\n"), 2;
    int concurrency = atoi(words[3]), requests = left = atoi(words[4]), tokens = atoi(words[5]);
    most_events = tokens + EXTRA_EVENTS;
    times = count > 7 ? fopen(words[7], "w") : NULL;
    make_request(words[2], atoi(words[6]), tokens);
    int epoll = epoll_create1(0);
    Stream *streams = calloc((size_t)concurrency, sizeof *streams);
    uint64_t begin_ns = now_ns();
    for (int i = 0; i < concurrency; i++) join(&streams[i], epoll, atoi(words[1]));
    struct epoll_event events[EVENTS];
    while (running) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            Stream *stream = events[i].data.ptr;
            if (!receive(stream)) continue;
            running--;
            keep_times(stream);
            begin(stream);
        }
    }
    double wall_s = (double)(now_ns() - begin_ns) / 1e9, all = (double)requests * tokens;
    printf("{\"us_per_tok\":%.3f,\"tok_s\":%.0f}\n", cpu_s() / all * 1e6, all / wall_s);
    return times ? fclose(times) : 0;
}
