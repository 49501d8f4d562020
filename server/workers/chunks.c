#include "server/workers/chunks.h"

/* Returns the first of the chunks that belong to part i. */
static int64_t first_chunk(int64_t n_chunks, int64_t n_parts, int64_t i)
{
    return n_chunks / n_parts * i + n_chunks % n_parts * i / n_parts;
}

void td_chunks_init(struct td_chunks *chunks, int64_t count, int64_t grain, int n_threads)
{
    const int64_t n_chunks = count / grain + (count % grain != 0);
    const int n_parts = n_threads < TD_CHUNKS_PARTS ? n_threads : TD_CHUNKS_PARTS;
    chunks->grain = grain;
    chunks->n_parts = n_parts;
    for (int i = 0; i < n_parts; i++) {
        const int64_t end = first_chunk(n_chunks, n_parts, i + 1);
        atomic_init(&chunks->parts[i].next, first_chunk(n_chunks, n_parts, i) * grain);
        chunks->parts[i].end = end < n_chunks ? end * grain : count;
    }
}

static bool claim(struct td_chunks_part *part, int64_t grain, int64_t *begin, int64_t *end)
{
    int_fast64_t next = atomic_load_explicit(&part->next, memory_order_relaxed);
    do {
        if (next >= part->end)
            return false;
        *begin = next;
        *end = part->end - next < grain ? part->end : next + grain;
    } while (!atomic_compare_exchange_weak_explicit(&part->next, &next, *end, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

bool td_chunks_claim(struct td_chunks *chunks, int thread, int64_t *begin, int64_t *end)
{
    for (int i = 0; i < chunks->n_parts; i++)
        if (claim(&chunks->parts[(thread + i) % chunks->n_parts], chunks->grain, begin, end))
            return true;
    return false;
}

bool td_chunks_left(struct td_chunks *chunks)
{
    for (int i = 0; i < chunks->n_parts; i++)
        if (atomic_load_explicit(&chunks->parts[i].next, memory_order_relaxed) <
            chunks->parts[i].end)
            return true;
    return false;
}

void td_chunks_drop(struct td_chunks *chunks)
{
    for (int i = 0; i < chunks->n_parts; i++)
        atomic_store_explicit(&chunks->parts[i].next, chunks->parts[i].end, memory_order_relaxed);
}
