/* buffer_pool.h - a pool of warm buffers by size class, and the server-wide memory budget.
 *
 *     take ─► in use (counted against `limit`) ─► last unref ─► warm (up to `warm_limit`) ─► system
 *                        ▲                                       │
 *                        └─────────── the next take ◄────────────┘
 *
 * The first access to a fresh page costs many times more than copying into a warm page. A released
 * buffer is therefore kept warm for the next request, and is unmapped after some seconds without
 * use (td_buffer_pool_trim). There are four size classes per power of two, so at most 1/4 of a
 * buffer is unused.
 *
 * Bounds     The bytes in use and the warm bytes together never exceed `limit`. Warm buffers are
 *            evicted to make room.
 * Errors     The function `take` of the pool returns RESOURCE_LIMIT if the size exceeds the limit,
 *            and MEMORY_EXHAUSTED if it does not fit in addition to the memory in use.
 * Threads    Any thread. The pool's mutex is not held while memory is mapped or unmapped. */
#ifndef TD_SERVER_MEMORY_BUFFER_POOL_H
#define TD_SERVER_MEMORY_BUFFER_POOL_H

#include "kernels/buffer.h"
#include "kernels/status.h"

#include <stdint.h>

struct td_buffer_pool;

struct td_buffer_pool_usage {
    uint64_t limit;
    uint64_t in_use;
    uint64_t warm;
};

/* Returns NULL if allocation fails. */
struct td_buffer_pool *td_buffer_pool_new(uint64_t limit, uint64_t warm_limit);
/* Frees the pool. Call only after all buffers were released. Accepts NULL. */
void td_buffer_pool_free(struct td_buffer_pool *pool);

/* Returns the pool as a source of buffers. The pool still owns it. */
struct td_memory *td_buffer_pool_memory(struct td_buffer_pool *pool);

/* Releases buffers that are kept only for reuse, until at least `bytes` bytes are released. Returns
 * true if another call might release more. */
typedef bool td_release_spares(void *context, uint64_t bytes);

/* Sets the callback that releases spare buffers, or NULL. The callback runs before a request is
 * refused, on the requesting thread, with no lock held. Must not be called while another thread
 * might allocate. */
void td_buffer_pool_spares(struct td_buffer_pool *pool, td_release_spares *release_spares,
                           void *context);

/* td_buffer_pool_charge counts memory allocated elsewhere, such as a library's tables, against the
 * budget. td_buffer_pool_discharge undoes the charge. */
TD_MUST_CHECK td_status td_buffer_pool_charge(struct td_buffer_pool *pool, uint64_t bytes,
                                              struct td_error *err);
void td_buffer_pool_discharge(struct td_buffer_pool *pool, uint64_t bytes);

/* Like td_buffer_pool_charge, but does not release spare buffers. Returns false if there is no
 * room. */
bool td_buffer_pool_charge_if_room(struct td_buffer_pool *pool, uint64_t bytes);

/* Checks whether a caller that holds `held` bytes can now allocate `bytes` more. Used at admission,
 * before anything is allocated; `take` checks again. Returns RESOURCE_LIMIT if held + bytes exceeds
 * the limit. */
TD_MUST_CHECK td_status td_buffer_pool_admit(struct td_buffer_pool *pool, uint64_t held,
                                             uint64_t bytes, struct td_error *err);

/* Unmaps the buffers that were released before `since_ns` and are still unused. */
void td_buffer_pool_trim(struct td_buffer_pool *pool, int64_t since_ns);

struct td_buffer_pool_usage td_buffer_pool_usage(struct td_buffer_pool *pool);

#endif
