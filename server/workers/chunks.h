/* chunks.h - divides the items of a loop into chunks, which threads claim.
 *
 * Each thread first claims the chunks of its own part, in order, and then chunks of other parts. A
 * thread that reads or writes an array from one chunk to the next thus moves through consecutive
 * memory. If threads took turns instead, each of them would touch every second 64 KiB, and the
 * prefetchers of one processor would fetch lines that the other processor writes.
 *
 * Threads    After td_chunks_init, any thread may call any function. The functions do not order
 *            the data that the threads compute.
 * Cost       Claiming a chunk is one atomic operation while the thread's own part has chunks. */
#ifndef TD_SERVER_WORKERS_CHUNKS_H
#define TD_SERVER_WORKERS_CHUNKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* More threads share the parts. */
#define TD_CHUNKS_PARTS 16

/* Consecutive items of a loop. */
struct td_chunks_part {
    atomic_int_fast64_t next; /* the first item that no thread has claimed */
    int64_t end;
};

struct td_chunks {
    int64_t grain;
    int n_parts;
    struct td_chunks_part parts[TD_CHUNKS_PARTS];
};

/* Divides [0, count) into chunks of `grain` items, the last of which can be smaller, for n_threads
 * threads. All arguments are at least 1, except that count can be 0. */
void td_chunks_init(struct td_chunks *chunks, int64_t count, int64_t grain, int n_threads);

/* Claims the chunk [*begin, *end) for thread number `thread`. Returns false if no chunk is left. */
bool td_chunks_claim(struct td_chunks *chunks, int thread, int64_t *begin, int64_t *end);

/* True if a chunk was left at some moment during the call. */
bool td_chunks_left(struct td_chunks *chunks);

/* Removes the chunks that no thread has claimed. */
void td_chunks_drop(struct td_chunks *chunks);

#endif
