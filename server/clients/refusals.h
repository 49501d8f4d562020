/* refusals.h - delays the refusals of clients that retry at once.
 *
 * A client that is told to retry after a second, but retries at once on all its connections, would
 * take CPU time from running requests. If a refused client sends again too early, its next refusal
 * is delayed for as long as the client has retried too early, but at least 5 ms and at most a
 * second. The suspended connection costs nothing. While the queue is empty, some refusals are sent
 * earlier, so their clients can use the workers.
 *
 *     refused ──► td_refusals_delay ──► waits ──► end, on the thread of this module
 *
 * Bounds     At most TD_REFUSALS_MOST refusals wait at a time; others are not delayed.
 * Ownership  A refusal belongs to this module from td_refusals_delay until the call of `end`, and
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

/* State of a refused client. Initially all zero. */
struct td_refused {
    /* Time of the first refusal in the current series of early retries. */
    atomic_int_fast64_t since_ns;
    atomic_int_fast64_t retry_at_ns; /* time at which the client was told to retry */
};

struct td_refusal {
    struct td_heap_node due; /* must be first, because the heap casts back */
    void (*end)(struct td_refusal *refusal);
};

/* Returns NULL if allocation fails or no thread can be started. The state of the pool's queue
 * decides whether refusals are sent early. */
struct td_refusals *td_refusals_new(struct td_worker_pool *workers);
/* Frees the refusals. Call after td_refusals_close. Accepts NULL. */
void td_refusals_free(struct td_refusals *refusals);

/* Records that the client is refused and told to retry after `retry_after_s` seconds. Returns how
 * long the refusal should wait. Returns 0 if the client has not been refused before or has waited
 * as told. */
int64_t td_refusals_record(struct td_refused *client, int64_t now_ns, unsigned retry_after_s);

/* Delays the refusal until `due_ns`. Returns false, without calling `end`, if too many refusals are
 * waiting or td_refusals_close was called. */
bool td_refusals_delay(struct td_refusals *refusals, struct td_refusal *refusal, int64_t due_ns);

/* Ends all waiting refusals soon, and delays no refusals from now on. */
void td_refusals_close(struct td_refusals *refusals);

#endif
