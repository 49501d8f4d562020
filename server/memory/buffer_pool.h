/* buffer_pool.h - warm buffers by size class, and the server-wide memory budget.
 *
 *     take ──► in use (counted against `limit`) ──► last unref ──► warm (up to `warm_limit`) ──► system
 *                        ▲                                           │
 *                        └───────────── the next take ◄──────────────┘
 *
 * The first touch of a fresh page costs more than copying into a warm one many times over, so a
 * buffer given back stays warm for the next request and goes back to the system when nobody wanted
 * it for some seconds (td_buffer_pool_trim). Classes are a quarter of a power of two apart: at most
 * 1/4 is unused.
 *
 * Bounds     in use + warm never exceed limit; to make room, warm buffers go first.
 * Errors     take: RESOURCE_LIMIT when the limit could never hold it, MEMORY_EXHAUSTED when it
 *            could but others use it now.
 * Threads    Any. One mutex, not held while memory is mapped or unmapped. */
#ifndef TD_SERVER_MEMORY_BUFFER_POOL_H
#define TD_SERVER_MEMORY_BUFFER_POOL_H

#include "kernels/buffer.h"
#include "kernels/status.h"

#include <stdint.h>

struct td_buffer_pool;

struct td_buffer_pool_stats {
    uint64_t limit;
    uint64_t in_use;
    uint64_t warm;
};

struct td_buffer_pool *td_buffer_pool_new(uint64_t limit,
                                          uint64_t warm_limit); /* NULL without memory */
void td_buffer_pool_free(
    struct td_buffer_pool *pool); /* after all its buffers came back; NULL is fine */

/* The pool as a source of buffers. Borrowed. */
struct td_memory *td_buffer_pool_memory(struct td_buffer_pool *pool);

/* Who keeps buffers only because they may be of use again: asked for them, on the thread that is
 * short of memory and with no lock held, before anybody is refused. NULL for none. */
void td_buffer_pool_spares(struct td_buffer_pool *pool, void (*let_go)(void *context),
                           void *context);

/* Counts memory that others allocate (a library's tables) against the budget, and gives it back. */
TD_MUST_CHECK td_status td_buffer_pool_charge(struct td_buffer_pool *pool, uint64_t bytes,
                                              struct td_error *err);
void td_buffer_pool_discharge(struct td_buffer_pool *pool, uint64_t bytes);

/* Would `bytes` more fit now, for one who holds `held` already? For admission, before anything is
 * allocated; take decides for good. RESOURCE_LIMIT when both together never fit. */
TD_MUST_CHECK td_status td_buffer_pool_admit(struct td_buffer_pool *pool, uint64_t held,
                                             uint64_t bytes, struct td_error *err);

/* Gives back to the system what has been warm since before `since_ns`. */
void td_buffer_pool_trim(struct td_buffer_pool *pool, int64_t since_ns);

struct td_buffer_pool_stats td_buffer_pool_stats(struct td_buffer_pool *pool);

#endif
