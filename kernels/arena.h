/* arena.h - the memory of one call: a bump allocator that releases everything at once.
 *
 * Small objects (shapes, attributes, messages) and small tensors are allocated in the first block,
 * which the caller reuses for the next call; when it is full, in further blocks. Large allocations
 * get a buffer each. Blocks and buffers come from a struct td_memory.
 *
 * Ownership  The arena borrows the first block. It owns the buffers that it took and the references
 *            given to td_arena_keep; td_arena_reset releases them. Under AddressSanitizer the
 *            unused part of the first block is poisoned until then.
 * Threads    Not synchronised: used by one thread at a time, passed on with the call. */
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
    struct td_stop stop;      /* of the call: checked by long loops that fill the memory; init
                                 sets it to never, the owner may then set it, reset keeps it */
};

void td_arena_init(struct td_arena *arena, void *first, size_t first_size,
                   struct td_memory *memory);

/* Allocates count * size bytes, contents undefined, aligned to 16, or to 64 when they are 64 or
 * more. For zero bytes the pointer is valid, too. NULL, with err filled, when the product overflows
 * or memory is exhausted. */
void *td_arena_alloc(struct td_arena *arena, size_t count, size_t size, struct td_error *err);

/* Makes the next allocations succeed that have `bytes` (at most TD_ARENA_RESERVE) in total,
 * alignment included. For changes that cannot be undone and are followed by allocations. */
#define TD_ARENA_RESERVE ((size_t)8 * 1024)
TD_MUST_CHECK td_status td_arena_reserve(struct td_arena *arena, size_t bytes,
                                         struct td_error *err);

/* Takes over one reference of the caller and drops it at reset. False, with err filled and the
 * reference dropped, when memory for the list node is exhausted. */
bool td_arena_keep(struct td_arena *arena, struct td_buffer *buffer, struct td_error *err);

/* Drops a reference that td_arena_keep took over. No data in the buffer may be used afterwards. Has
 * no effect for a buffer that the arena does not hold. */
void td_arena_drop(struct td_arena *arena, struct td_buffer *buffer);

/* The buffer whose data starts at `data`: that of a large allocation, which has a buffer of its
 * own. NULL for an allocation inside a block. A caller that references the buffer can keep the data
 * longer than the call. */
struct td_buffer *td_arena_owner(const struct td_arena *arena, const void *data);

/* A NUL-terminated copy of a text in the arena; NULL, with err filled, when memory is exhausted. */
char *td_arena_text(struct td_arena *arena, const char *text, size_t length, struct td_error *err);

/* Releases everything; all pointers into the arena become invalid. */
void td_arena_reset(struct td_arena *arena);

#endif
