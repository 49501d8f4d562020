/* arena.h - the memory of one call: bump-allocated, freed at one place.
 *
 * Small things (shapes, attributes, messages) and small tensors come from the first block, which
 * its owner reuses from call to call; what does not fit gets a buffer of its own from a struct
 * td_memory.
 *
 * Ownership  The arena borrows the first block, owns the buffers it took and the references given
 *            to td_arena_keep, and lets go of all of them in td_arena_reset. Under
 *            AddressSanitizer unused parts of the first block are poisoned until then.
 * Threads    None of its own: it moves with the call. */
#ifndef TD_KERNELS_ARENA_H
#define TD_KERNELS_ARENA_H

#include "kernels/buffer.h"
#include "kernels/status.h"

#include <stddef.h>

struct td_arena_hold;

struct td_arena {
    char *first; /* first block, borrowed */
    size_t first_size;
    char *next, *end; /* free part of the block in use */
    struct td_arena_hold *held;
    struct td_memory *memory; /* borrowed */
    size_t taken;             /* bytes of the buffers it has from memory */
};

void td_arena_init(struct td_arena *arena, void *first, size_t first_size,
                   struct td_memory *memory);

/* count * size bytes, contents undefined, aligned to 16 (to 64 when they are 64 or more). Zero
 * bytes give a valid pointer. NULL with err filled when the product overflows or there is no
 * memory. */
void *td_arena_alloc(struct td_arena *arena, size_t count, size_t size, struct td_error *err);

/* Makes sure that allocations of `bytes` in all, alignment included and at most TD_ARENA_RESERVE,
 * succeed: before a change that an allocation after it must not turn into a failure. */
#define TD_ARENA_RESERVE ((size_t)8 * 1024)
TD_MUST_CHECK td_status td_arena_reserve(struct td_arena *arena, size_t bytes,
                                         struct td_error *err);

/* Takes over one reference of the caller's, until reset. False (err filled, reference dropped)
 * without memory for the note of it. */
bool td_arena_keep(struct td_arena *arena, struct td_buffer *buffer, struct td_error *err);

/* Lets go of a reference that keep took over: nothing that is still used may lie there. Of a buffer
 * that it does not keep nothing happens. */
void td_arena_drop(struct td_arena *arena, struct td_buffer *buffer);

/* The buffer that begins at `data`: that of a large allocation, which is alone in it. NULL for one
 * that shares its block with others. For who wants to keep it longer than the call. */
struct td_buffer *td_arena_owner(const struct td_arena *arena, const void *data);

/* A NUL-terminated copy. */
char *td_arena_text(struct td_arena *arena, const char *text, size_t length, struct td_error *err);

/* Gives everything back; pointers into the arena end here. */
void td_arena_reset(struct td_arena *arena);

#endif
