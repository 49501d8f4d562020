/* refusals.h - delays the refusals of clients that retry at once.
 *
 * A client that is told to retry after a second and does so at once, on each of its connections,
 * would take the processor from the requests that are computed. So the refusal of a client that was
 * refused before, and sends again before the time that it was told, waits: as long as the client
 * has done so, but at least 5 ms and at most a second. Its connection stays suspended and costs
 * nothing meanwhile. While nothing is queued some are sent earlier, so that their clients may use
 * the workers.
 *
 *     refused ──► td_refusals_delay ──► waits ──► end, on the thread of this module
 *
 * Bounds     TD_REFUSALS_MOST at a time; others are not delayed.
 * Ownership  A refusal belongs to its owner, and to this module from delay until it calls `end`.
 * Threads    Any; one of its own. One mutex, not held while `end` is called. */
#ifndef TD_SERVER_CLIENTS_REFUSALS_H
#define TD_SERVER_CLIENTS_REFUSALS_H

#include "server/workers/heap.h"
#include "server/workers/worker_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TD_REFUSALS_MOST = 4096 };

struct td_refusals;

/* What is known of a client that is refused. Zeros at first. */
struct td_refused {
    atomic_int_fast64_t since_ns; /* the first of its refusals, each before the time it was told */
    atomic_int_fast64_t retry_at_ns; /* when it was told to retry */
};

struct td_refusal {
    struct td_heap_node due; /* first: the heap casts back */
    void (*end)(struct td_refusal *refusal);
};

/* NULL without memory or a thread. The pool's queue decides whether refusals are sent early. */
struct td_refusals *td_refusals_new(struct td_worker_pool *workers);
void td_refusals_free(struct td_refusals *refusals); /* after close; NULL is fine */

/* Records that the client is refused and told to retry after so many seconds. Returns how long the
 * refusal should wait: 0 if the client was not told so before, or has waited. */
int64_t td_refusals_record(struct td_refused *client, int64_t now_ns, unsigned retry_after_s);

/* False if too many wait or none may wait any more: then `end` is not called. */
bool td_refusals_delay(struct td_refusals *refusals, struct td_refusal *refusal, int64_t due_ns);

/* Ends those that wait, soon; none is delayed from now on. */
void td_refusals_close(struct td_refusals *refusals);

#endif
