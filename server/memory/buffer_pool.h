/* buffer_pool.h - a pool of warm buffers by size class, and the server-wide memory budget.
 *
 *     take ─► in use (counted against `limit`) ─► last unref ─► warm (up to `warm_limit`) ─► system
 *                        ▲                                       │
 *                        └─────────── the next take ◄────────────┘
 *
 * The first touch of a fresh page costs many times more than copying into a warm one, so a released
 * buffer stays warm for the next request and is unmapped when it was not used for some seconds
 * (td_buffer_pool_trim). Size classes are a quarter of a power of two apart: at most 1/4 is unused.
 *
 * Bounds     in use + warm never exceed limit; warm buffers are evicted to make room.
 * Errors     take: RESOURCE_LIMIT if the size exceeds the limit, MEMORY_EXHAUSTED if it does not
 *            fit beside the memory in use.
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
    struct td_buffer_pool *pool); /* after all its buffers are released; NULL is fine */

/* The pool as a source of buffers. Borrowed. */
struct td_memory *td_buffer_pool_memory(struct td_buffer_pool *pool);

/* Sets the callback that releases spare buffers, kept only for reuse. It is called before a
 * request is refused, on the requesting thread and with no lock held. NULL for none. Not while
 * another thread may allocate. */
void td_buffer_pool_spares(struct td_buffer_pool *pool, void (*release_spares)(void *context),
                           void *context);

/* Counts memory allocated elsewhere (a library's tables) against the budget; discharge undoes
 * it. */
TD_MUST_CHECK td_status td_buffer_pool_charge(struct td_buffer_pool *pool, uint64_t bytes,
                                              struct td_error *err);
void td_buffer_pool_discharge(struct td_buffer_pool *pool, uint64_t bytes);

/* As charge, but spare buffers are not released for it. */
bool td_buffer_pool_charge_if_room(struct td_buffer_pool *pool, uint64_t bytes);

/* Whether `bytes` more fit now for a caller that holds `held`. For admission, before anything is
 * allocated; take checks again. RESOURCE_LIMIT if held + bytes exceed the limit. */
TD_MUST_CHECK td_status td_buffer_pool_admit(struct td_buffer_pool *pool, uint64_t held,
                                             uint64_t bytes, struct td_error *err);

/* Unmaps the buffers that have been warm since before `since_ns`. */
void td_buffer_pool_trim(struct td_buffer_pool *pool, int64_t since_ns);

struct td_buffer_pool_stats td_buffer_pool_stats(struct td_buffer_pool *pool);

#endif
