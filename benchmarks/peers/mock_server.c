// A mock of an OpenAI-compatible server that knows when it sent each token. One thread, epoll, loopback only.
//
//   gcc -O2 -o mock_server mock_server.c && ./mock_server -p PORT [-n TOKENS]
//
// POST /v1/completions streams one token an event; the first is r000000123, the number of the request. Paced: token k
// leaves at arrival + ttft + k * itl. Flat: as fast as the sockets take them, a token for each stream in turn.
//   GET /mock/config?mode=paced|flat&ttft_us=&itl_us=&log=0|1    GET /mock/reset
//   GET /mock/log    a JSON line for each finished request: id, t_done (request read), t (each token's send time)
//   GET /mock/stats  requests, tokens, most streams at once, span from first request to last token, mean lateness
// Times are CLOCK_MONOTONIC nanoseconds.
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, READ_BYTES = 65536, HEAD_BYTES = 16384, MOST_TOKENS = 1000000 };

typedef struct { char *data; size_t length, room; } Buffer;
typedef struct { uint64_t id, done_ns, *sent_ns; int count; } Record;
typedef struct Stream {
    int fd, usage, closing, blocked, active;
    int sent, wanted;                 // tokens
    size_t heap_index, written;       // place in the heap of due times; bytes of `out` that have left
    uint64_t due_ns, done_ns, id;
    Buffer in, out;
    Record *record;
    char head[256];                   // the constant beginning of each event
    size_t head_length;
    struct Stream *next, *previous;   // the ring of flat streams
} Stream;

#include "due_times.h"

static int flat, keep_log, default_tokens = 128;
static uint64_t ttft_ns = 100000000, itl_ns = 20000000;
static int epoll, timer, listener_mark;  // the marks of the timer and of the listener are addresses
static Stream ring = {.next = &ring, .previous = &ring};
static Record **records;
static size_t record_count, record_room;
static uint64_t requests, tokens, next_id, first_ns, last_ns, late_ns, late_count;
static int running, most_running;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static char *reserve(Buffer *buffer, size_t more) {
    if (buffer->length + more > buffer->room) {
        buffer->room = 2 * (buffer->length + more);
        buffer->data = realloc(buffer->data, buffer->room);
        if (!buffer->data) abort();
    }
    return buffer->data + buffer->length;
}

static void append(Buffer *buffer, const char *data, size_t length) {
    memcpy(reserve(buffer, length), data, length);
    buffer->length += length;
}

static void wait_for_room(Stream *stream, int blocked) {
    if (stream->blocked == blocked) return;
    stream->blocked = blocked;
    struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.ptr = stream};
    epoll_ctl(epoll, EPOLL_CTL_MOD, stream->fd, &event);
}

// Write what waits; -1 when the client is gone.
static int flush(Stream *stream) {
    while (stream->written < stream->out.length) {
        ssize_t count = write(stream->fd, stream->out.data + stream->written, stream->out.length - stream->written);
        if (count < 0 && errno == EAGAIN) return wait_for_room(stream, 1), 0;
        if (count < 0) return -1;
        stream->written += (size_t)count;
    }
    stream->written = stream->out.length = 0;
    wait_for_room(stream, 0);
    return stream->closing && !stream->active ? -1 : 0;
}

static void stop_streaming(Stream *stream) {
    if (!stream->active) return;
    stream->active = 0;
    running--;
    if (stream->next) {
        stream->next->previous = stream->previous;
        stream->previous->next = stream->next;
        stream->next = stream->previous = NULL;
    } else {
        heap_remove(stream);
    }
}

static void hang_up(Stream *stream) {
    stop_streaming(stream);
    if (stream->record) free(stream->record->sent_ns);
    free(stream->record);
    close(stream->fd);
    free(stream->in.data);
    free(stream->out.data);
    free(stream);
}

// One event as one HTTP chunk.
static void put_event(Stream *stream, const char *head, size_t head_length, const char *rest) {
    size_t rest_length = strlen(rest), length = head_length + rest_length;
    char *to = reserve(&stream->out, length + 32);
    int size = sprintf(to, "%zx\r\n", length);
    memcpy(to + size, head, head_length);
    memcpy(to + size + head_length, rest, rest_length);
    memcpy(to + size + length, "\r\n", 2);
    stream->out.length += (size_t)size + length + 2;
}

static void put_token(Stream *stream, uint64_t at_ns) {
    static const char *const words[] = {" river", " of", " stone", " under", " a", " quiet", " sky", " moves"};
    char rest[160], number[32];
    const char *word = words[(stream->id + (uint64_t)stream->sent) & 7];
    if (!stream->sent) sprintf(number, "r%09llu", (unsigned long long)stream->id), word = number;
    sprintf(rest, "%s\",\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n", word);
    put_event(stream, stream->head, stream->head_length, rest);
    if (stream->record) stream->record->sent_ns[stream->sent] = at_ns;
    stream->sent++;
    tokens++;
    last_ns = at_ns;
}

static void put_end(Stream *stream) {
    put_event(stream, stream->head, stream->head_length, "\",\"finish_reason\":\"length\"}],\"usage\":null}\n\n");
    if (stream->usage) {
        char rest[256];
        char *choices = memmem(stream->head, stream->head_length, "\"choices\":[", 11);
        sprintf(rest, "],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n",
                128, stream->sent, 128 + stream->sent);
        put_event(stream, stream->head, (size_t)(choices + 11 - stream->head), rest);
    }
    put_event(stream, "data: [DONE]\n\n", 14, "");
    append(&stream->out, "0\r\n\r\n", 5);
}

static void keep_record(Stream *stream) {
    if (!stream->record) return;
    if (record_count == record_room)
        records = realloc(records, (record_room = record_room ? 2 * record_room : 1024) * sizeof *records);
    stream->record->count = stream->sent;
    records[record_count++] = stream->record;
    stream->record = NULL;
}

static int take_requests(Stream *stream);

// Send a token; -1 when the client is gone.
static int advance(Stream *stream, uint64_t at_ns) {
    put_token(stream, at_ns);
    int ended = stream->sent == stream->wanted;
    if (ended) {
        put_end(stream);
        stop_streaming(stream);
        keep_record(stream);
    }
    if (flush(stream) < 0) return -1;
    return ended && stream->in.length ? take_requests(stream) : 0;
}

static void answer(Stream *stream, int status, const char *body, size_t length) {
    char head[160];
    int size = sprintf(head, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", status,
                       status == 200 ? "OK" : "Not Found", length);
    append(&stream->out, head, (size_t)size);
    append(&stream->out, body, length);
}

static uint64_t setting(const char *path, const char *name, uint64_t otherwise) {
    const char *at = strstr(path, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : otherwise;
}

static void configure(const char *path) {
    if (strstr(path, "mode=")) flat = strstr(path, "mode=flat") != NULL;
    ttft_ns = 1000 * setting(path, "ttft_us=", ttft_ns / 1000);
    itl_ns = 1000 * setting(path, "itl_us=", itl_ns / 1000);
    keep_log = (int)setting(path, "log=", (uint64_t)keep_log);
}

static void forget(void) {
    for (size_t i = 0; i < record_count; i++) free(records[i]->sent_ns), free(records[i]);
    record_count = 0;
    requests = tokens = first_ns = last_ns = late_ns = late_count = 0;
    most_running = running;
}

static void answer_log(Stream *stream) {
    Buffer text = {0};
    for (size_t i = 0; i < record_count; i++) {
        Record *r = records[i];
        char *to = reserve(&text, 128 + 24 * (size_t)r->count), *begin = to;
        to += sprintf(to, "{\"id\":%llu,\"t_done\":%llu,\"t\":[", (unsigned long long)r->id,
                      (unsigned long long)r->done_ns);
        for (int k = 0; k < r->count; k++) to += sprintf(to, k ? ",%llu" : "%llu", (unsigned long long)r->sent_ns[k]);
        to += sprintf(to, "]}\n");
        text.length += (size_t)(to - begin);
    }
    answer(stream, 200, text.data, text.length);
    free(text.data);
}

static void answer_get(Stream *stream, const char *path) {
    static const char model[] = "{\"object\":\"list\",\"data\":[{\"id\":\"mock-model\",\"object\":\"model\","
                                "\"created\":1,\"owned_by\":\"mock\",\"max_model_len\":1048576}]}";
    char text[320];
    if (!strncmp(path, "/mock/log", 9)) return answer_log(stream);
    if (!strncmp(path, "/v1/models", 10)) return answer(stream, 200, model, sizeof model - 1);
    if (!strncmp(path, "/mock/config", 12)) configure(path);
    else if (!strncmp(path, "/mock/reset", 11)) forget();
    else if (strncmp(path, "/mock/stats", 11) && strncmp(path, "/health", 7)) return answer(stream, 404, "{}", 2);
    uint64_t late = late_count ? late_ns / late_count : 0;
    int size = sprintf(text, "{\"requests\":%llu,\"tokens\":%llu,\"most_streams\":%d,\"span_ns\":%llu,"
                       "\"late_ns\":%llu}",
                       (unsigned long long)requests, (unsigned long long)tokens, most_running,
                       (unsigned long long)(last_ns - first_ns), (unsigned long long)late);
    answer(stream, 200, text, (size_t)size);
}

static long number_after(const char *body, const char *key) {
    const char *at = strstr(body, key);
    return at ? strtol(at + strlen(key) + strspn(at + strlen(key), ": "), NULL, 10) : 0;
}

static void begin_streaming(Stream *stream, const char *body) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    long wanted = number_after(body, "\"max_tokens\"");
    stream->wanted = wanted < 1 || wanted > MOST_TOKENS ? default_tokens : (int)wanted;
    stream->usage = strstr(body, "include_usage") != NULL;
    stream->sent = 0;
    stream->active = 1;
    stream->id = next_id++;
    stream->done_ns = now_ns();
    if (!requests++) first_ns = stream->done_ns;
    if (++running > most_running) most_running = running;
    stream->head_length = (size_t)
        sprintf(stream->head, "data: {\"id\":\"cmpl-%016llx\",\"object\":\"text_completion\",\"created\":1730000000,"
                "\"model\":\"mock-model\",\"choices\":[{\"index\":0,\"text\":\"", (unsigned long long)stream->id);
    if (keep_log) {
        stream->record = calloc(1, sizeof(Record));
        *stream->record = (Record){.id = stream->id, .done_ns = stream->done_ns,
                                   .sent_ns = malloc((size_t)stream->wanted * sizeof(uint64_t))};
    }
    append(&stream->out, head, sizeof head - 1);
    if (flat) {
        stream->next = &ring;
        stream->previous = ring.previous;
        ring.previous = ring.previous->next = stream;
    } else {
        stream->due_ns = stream->done_ns + ttft_ns;
        heap_add(stream);
    }
}

// Answer every whole request that has been read; -1 when the connection is to end.
static int take_requests(Stream *stream) {
    while (!stream->active && stream->in.length) {
        *reserve(&stream->in, 1) = 0;
        char *end = strstr(stream->in.data, "\r\n\r\n");
        if (!end) return stream->in.length > HEAD_BYTES ? -1 : 0;
        *end = 0;
        char method[8], path[512];
        if (sscanf(stream->in.data, "%7s %511s", method, path) != 2) return -1;
        const char *length = strcasestr(stream->in.data, "\r\ncontent-length:");
        if (strcasestr(stream->in.data, "\r\nconnection: close")) stream->closing = 1;
        size_t head = (size_t)(end + 4 - stream->in.data), body = length ? strtoul(length + 17, NULL, 10) : 0;
        *end = '\r';
        if (stream->in.length < head + body) return 0;
        if (!strcmp(method, "GET")) answer_get(stream, path);
        else if (!strncmp(path, "/v1/completions", 15)) begin_streaming(stream, stream->in.data + head);
        else answer(stream, 404, "{}", 2);
        stream->in.length -= head + body;
        memmove(stream->in.data, stream->in.data + head + body, stream->in.length);
        if (flush(stream) < 0) return -1;
    }
    return 0;
}

static int receive(Stream *stream) {
    ssize_t count = read(stream->fd, reserve(&stream->in, READ_BYTES), READ_BYTES - 1);
    if (count < 0) return errno == EAGAIN ? 0 : -1;
    if (!count) return -1;
    stream->in.length += (size_t)count;
    return stream->active ? 0 : take_requests(stream);
}

static void admit(int listener) {
    int one = 1, fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Stream *stream = calloc(1, sizeof *stream);
        stream->fd = fd;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static void set_timer(void) {
    static uint64_t armed_ns;
    uint64_t due_ns = heap_size ? heap[0]->due_ns : 0;
    if (due_ns == armed_ns) return;
    armed_ns = due_ns;
    struct itimerspec when = {.it_value = {(time_t)(due_ns / 1000000000ull), (long)(due_ns % 1000000000ull)}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void send_due(void) {
    uint64_t at_ns;
    while (heap_size && heap[0]->due_ns <= (at_ns = now_ns())) {
        Stream *stream = heap[0];
        late_ns += at_ns - stream->due_ns;
        late_count++;
        stream->due_ns += itl_ns;
        sink(0);
        if (advance(stream, at_ns) < 0) hang_up(stream);
    }
}

static int send_flat(void) {
    int ready = 0;
    for (Stream *stream = ring.next, *next; stream != &ring; stream = next) {
        next = stream->next;
        if (stream->blocked) continue;
        ready = 1;
        if (advance(stream, now_ns()) < 0) hang_up(stream);
    }
    return ready;
}

static int listen_at(int port) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4096)) perror("listen"), exit(1);
    return fd;
}

static void watch(int fd, void *mark) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = mark};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void serve(int listener) {
    struct epoll_event events[EVENTS];
    for (int busy = 0;;) {
        set_timer();
        int count = epoll_wait(epoll, events, EVENTS, busy ? 0 : -1);
        for (int i = 0; i < count; i++) {
            Stream *stream = events[i].data.ptr;
            uint64_t fired;
            if (events[i].data.ptr == &listener_mark) admit(listener);
            else if (events[i].data.ptr == &timer) (void)!read(timer, &fired, sizeof fired);
            else if (((events[i].events & EPOLLOUT) && flush(stream) < 0) ||
                     ((events[i].events & ~(uint32_t)EPOLLOUT) && receive(stream) < 0)) hang_up(stream);
        }
        send_due();
        busy = send_flat();
    }
}

int main(int count, char **words) {
    int port = 9000, option;
    while ((option = getopt(count, words, "p:n:l")) > 0) {
        if (option == 'p') port = atoi(optarg);
        else if (option == 'n') default_tokens = atoi(optarg);
        else if (option == 'l') keep_log = 1;
        else return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int listener = listen_at(port);
    epoll = epoll_create1(0);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    watch(listener, &listener_mark);
    watch(timer, &timer);
    serve(listener);
}
