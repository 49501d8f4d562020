/* arena.h - the memory of one call: a bump allocator that releases everything at once.
 *
 * Small objects (shapes, attributes, messages) and small tensors are allocated in the first block,
 * which the caller reuses for the next call. When the first block is full, the arena takes further
 * blocks. Each large allocation gets a buffer of its own. Blocks and buffers come from a struct
 * td_memory.
 *
 * Ownership  The arena borrows the first block. It owns the buffers that it took and the references
 *            given to td_arena_keep, until td_arena_reset releases them. Under AddressSanitizer the
 *            unused part of the first block stays poisoned until the reset.
 * Threads    Not synchronised. One thread at a time uses an arena; the arena moves between threads
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
    size_t taken;             /* bytes of the buffers taken from memory */
    /* The stop check of the call, for long loops that fill the memory. td_arena_init sets it to
     * "never", the owner can change it, and td_arena_reset keeps it. */
    struct td_stop stop;
};

void td_arena_init(struct td_arena *arena, void *first, size_t first_size,
                   struct td_memory *memory);

/* Allocates count * size bytes with undefined contents, aligned to 16 bytes, or to 64 if the
 * allocation has at least 64 bytes. The pointer is valid even for zero bytes. Returns NULL, with
 * err filled, if the product overflows or memory is exhausted. */
void *td_arena_alloc(struct td_arena *arena, size_t count, size_t size, struct td_error *err);

/* Makes sure that the next allocations succeed, up to a total of `bytes` (at most TD_ARENA_RESERVE)
 * including alignment. Use it before changes that cannot be undone and need allocations
 * afterwards. */
#define TD_ARENA_RESERVE ((size_t)8 * 1024)
TD_MUST_CHECK td_status td_arena_reserve(struct td_arena *arena, size_t bytes,
                                         struct td_error *err);

/* Takes over one reference from the caller and drops it at reset. If memory for the list node is
 * exhausted, drops the reference and returns false, with err filled. */
bool td_arena_keep(struct td_arena *arena, struct td_buffer *buffer, struct td_error *err);

/* Drops a reference that td_arena_keep took over; the data in the buffer must not be used
 * afterwards. Does nothing if the arena does not hold the buffer. */
void td_arena_drop(struct td_arena *arena, struct td_buffer *buffer);

/* Returns the buffer whose data starts at `data`, which is the buffer of a large allocation, or
 * NULL for an allocation inside a block. By taking a reference to the buffer, a caller can keep the
 * data longer than the call. */
struct td_buffer *td_arena_owner(const struct td_arena *arena, const void *data);

/* Returns a NUL-terminated copy of the text in the arena, or NULL, with err filled, if memory is
 * exhausted. */
char *td_arena_text(struct td_arena *arena, const char *text, size_t length, struct td_error *err);

/* Releases everything; all pointers into the arena become invalid. */
void td_arena_reset(struct td_arena *arena);

#endif
