// The streams of the mock by the time their next token is due: a binary heap, the earliest at heap[0].

static Stream **heap;
static size_t heap_size, heap_room;

static void place(size_t index, Stream *stream) {
    heap[index] = stream;
    stream->heap_index = index;
}

static void sink(size_t index) {
    Stream *stream = heap[index];
    for (size_t child; (child = 2 * index + 1) < heap_size; index = child) {
        if (child + 1 < heap_size && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
        if (heap[child]->due_ns >= stream->due_ns) break;
        place(index, heap[child]);
    }
    place(index, stream);
}

static void rise(size_t index) {
    Stream *stream = heap[index];
    for (; index && heap[(index - 1) / 2]->due_ns > stream->due_ns; index = (index - 1) / 2)
        place(index, heap[(index - 1) / 2]);
    place(index, stream);
}

static void heap_add(Stream *stream) {
    if (heap_size == heap_room) heap = realloc(heap, (heap_room = heap_room ? 2 * heap_room : 256) * sizeof *heap);
    place(heap_size++, stream);
    rise(heap_size - 1);
}

static void heap_remove(Stream *stream) {
    size_t index = stream->heap_index;
    Stream *last = heap[--heap_size];
    if (last == stream) return;
    place(index, last);
    sink(index);
    rise(last->heap_index);
}
