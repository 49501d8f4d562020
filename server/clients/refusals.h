/* refusals.h - delays the refusals of clients that retry at once.
 *
 * A client that is told to retry after a second, but retries at once on all its connections, would
 * take CPU time from running requests. If a refused client sends again too early, its next refusal
 * is delayed: for as long as the client has retried too early, but at least 5 ms and at most a
 * second. The suspended connection costs nothing. While the queue is empty, some refusals are sent
 * earlier, so that their clients can use the workers.
 *
 *     refused ──► td_refusals_delay ──► waits ──► end, on the thread of this module
 *
 * Bounds     At most TD_REFUSALS_MOST refusals wait at a time; others are not delayed.
 * Ownership  From td_refusals_delay until the call of `end`, a refusal belongs to this module,
 *            otherwise to its owner.
 * Threads    Any thread can call the functions. The module has one thread. Its mutex is not held
 *            while `end` is called. */
#ifndef TD_SERVER_CLIENTS_REFUSALS_H
#define TD_SERVER_CLIENTS_REFUSALS_H

#include "server/workers/heap.h"
#include "server/workers/worker_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TD_REFUSALS_MOST = 4096 };

struct td_refusals;

/* State of a client that is refused; zeros at first. */
struct td_refused {
    /* Time of the first refusal in the current series of early retries. */
    atomic_int_fast64_t since_ns;
    atomic_int_fast64_t retry_at_ns; /* time at which the client was told to retry */
};

struct td_refusal {
    struct td_heap_node due; /* must be first, because the heap casts back */
    void (*end)(struct td_refusal *refusal);
};

/* Returns NULL if no memory or no thread is available. The state of the pool's queue decides
 * whether refusals are sent early. */
struct td_refusals *td_refusals_new(struct td_worker_pool *workers);
/* Call after td_refusals_close. NULL is allowed. */
void td_refusals_free(struct td_refusals *refusals);

/* Records that the client is refused and told to retry after `retry_after_s` seconds. Returns how
 * long the refusal should wait, or 0 if the client was not told so before or has waited. */
int64_t td_refusals_record(struct td_refused *client, int64_t now_ns, unsigned retry_after_s);

/* Delays the refusal until `due_ns`. Returns false, without calling `end`, if too many refusals are
 * waiting or td_refusals_close was called. */
bool td_refusals_delay(struct td_refusals *refusals, struct td_refusal *refusal, int64_t due_ns);

/* Makes all waiting refusals end soon, and delays none from now on. */
void td_refusals_close(struct td_refusals *refusals);

#endif
