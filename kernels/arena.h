/* arena.h - the memory of one call: a bump allocator that releases everything at once.
 *
 * Small objects (shapes, attributes, messages) and small tensors go into the first block, which the
 * caller reuses for the next call. When that block is full, the arena allocates more blocks. Each
 * large allocation gets its own buffer. Blocks and buffers come from a struct td_memory.
 *
 * Ownership  The arena borrows the first block. Until td_arena_reset releases them, it owns the
 *            buffers that it allocated and the references passed to td_arena_keep. Under
 *            AddressSanitizer, the unused part of the first block stays poisoned until the reset.
 * Threads    Not synchronised. Only one thread at a time uses an arena, which moves between threads
 *            with its call. */
#ifndef TD_KERNELS_ARENA_H
#define TD_KERNELS_ARENA_H

#include "kernels/buffer.h"
#include "kernels/status.h"
#include "kernels/stop.h"

#include <stddef.h>

struct td_arena_node;

struct td_arena {
    char *first; /* first block, borrowed */
    size_t first_size;
    char *next, *end; /* free part of the current block */
    struct td_arena_node *nodes;
    struct td_memory *memory; /* borrowed */
    size_t taken;             /* number of bytes in buffers allocated from `memory` */
    /* The call's stop check, for long loops that fill memory. td_arena_init sets it to "never". The
     * owner can change it, and td_arena_reset keeps it. */
    struct td_stop stop;
};

void td_arena_init(struct td_arena *arena, void *first, size_t first_size,
                   struct td_memory *memory);

/* Allocates count * size bytes with undefined contents. Allocations of at least 64 bytes are
 * aligned to 64 bytes, smaller allocations to 16. The pointer is valid even for zero bytes. Returns
 * NULL with err filled if the product overflows or memory is exhausted. */
void *td_arena_alloc(struct td_arena *arena, size_t count, size_t size, struct td_error *err);

/* Makes room for one more element of an array of `count` elements that has room for *capacity.
 * Returns the array, or a larger copy of it, and sets *capacity. Returns NULL with err filled if
 * memory is exhausted. */
void *td_arena_grow(struct td_arena *arena, void *array, int count, int *capacity, size_t size,
                    struct td_error *err);

/* Shortens an allocation of `bytes` bytes to its first `used` bytes. Gives the other bytes back if
 * the allocation is the last one in its block, otherwise does nothing. */
void td_arena_trim(struct td_arena *arena, void *place, size_t bytes, size_t used);

/* Ensures that the next allocations succeed, up to a total of `bytes` including alignment. `bytes`
 * is at most TD_ARENA_RESERVE. Call this before a change that cannot be undone but still needs to
 * allocate memory. */
#define TD_ARENA_RESERVE ((size_t)8 * 1024)
TD_MUST_CHECK td_status td_arena_reserve(struct td_arena *arena, size_t bytes,
                                         struct td_error *err);

/* Takes over a reference from the caller and drops it at reset. Drops the reference and returns
 * false, with err filled, if there is no memory for the list node. */
bool td_arena_keep(struct td_arena *arena, struct td_buffer *buffer, struct td_error *err);

/* Drops a reference that td_arena_keep took over. The buffer's data must not be used afterwards.
 * Does nothing if the arena does not hold the buffer. */
void td_arena_drop(struct td_arena *arena, struct td_buffer *buffer);

/* Returns the buffer of a large allocation that starts at `data`, or NULL if `data` is an
 * allocation inside a block. To keep the data after the call ends, take a reference to the
 * buffer. */
struct td_buffer *td_arena_owner(const struct td_arena *arena, const void *data);

/* Copies the text into the arena and appends a NUL. Returns NULL with err filled if memory is
 * exhausted. */
char *td_arena_text(struct td_arena *arena, const char *text, size_t length, struct td_error *err);

/* Releases everything. All pointers into the arena become invalid. */
void td_arena_reset(struct td_arena *arena);

#endif
