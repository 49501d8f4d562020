/* passes.h - calls that share one pass over a table (kernels/op_pass.h).
 *
 *     leads ─► queue ─► pass, with all calls that wait by then ─► the next waiting call leads
 *     waits ──────────► (in the pass of another call) ─► back to the queue
 *
 * A call that finds no leader whose pass it can join leads a pass itself. It is queued and computed
 * like any other call. Calls that can join it wait until it starts, and are computed together with
 * it. Calls that come later form the next pass. When several calls have shared the time of a pass,
 * their clients often send the next requests at once, so the next pass over the table starts when
 * as many calls are there again, or after a small part of that time. A call waits only for a
 * leader that runs, or that is the next to run, and only if both do little work beside reading the
 * table. Each call keeps its own errors and deadline, and gets the same bits as alone.
 *
 * Only ops that read a whole table gain from a shared pass. The calls of gather, lookup and
 * embedding_bag read different rows. Calls of einsum read a whole table, but the order of its sums
 * depends on the shapes, so a reply would depend on the other calls. Calls of programs share the
 * pass of the step that reads a table (kernels/program/pass.h), and run their other steps alone.
 *
 * Ownership  The state of a call is in its arena. The leader's worker owns a waiting call from
 *            the start of the pass until the call is back in the queue.
 * Threads    Any. The mutex is held only while the short list of leaders is searched. */
#ifndef TD_SERVER_CALLS_PASSES_H
#define TD_SERVER_CALLS_PASSES_H

#include "server/calls/call.h"

#include <pthread.h>
#include <stdatomic.h>

struct td_pass_call;

/* The end of the last pass, over any data. */
struct td_pass_end {
    const void *data;   /* what the calls shared, which may have been freed; NULL if none */
    int n_calls;        /* calls that were in the pass, and calls that waited at its end */
    int64_t collect_ns; /* the next pass starts at this time, even if not as many calls wait */
};

struct td_passes {
    pthread_mutex_t mutex;
    pthread_cond_t arrived; /* a call waits for a leader */
    struct td_pass_call *leaders;
    struct td_pass_end last;
    atomic_int_fast64_t waiting;  /* calls that wait for the start of a pass */
    atomic_uint_fast64_t members; /* calls computed in the pass of another call, since the start */
};

void td_passes_init(struct td_passes *passes);
void td_passes_destroy(struct td_passes *passes);

/* Decides, after admission, whether a call that will be queued leads a pass or waits for one. Sets
 * call->schedule.pass or call->schedule.away. */
void td_pass_place(struct td_call *call);

/* Computes a leader together with the calls that wait for it. Replaces td_op.run. */
TD_MUST_CHECK td_status td_pass_run(struct td_call *call, struct td_worker *worker,
                                    struct td_exec *exec);

/* Ends the call's time as a leader, if it is one: the first waiting call leads from now on. Called
 * before the call ends in any way. */
void td_pass_leave(struct td_call *call);

/* Refuses the waiting calls whose deadline has passed. */
void td_passes_expire(struct td_passes *passes, int64_t now_ns);

/* True if the call's pass computed other calls as well. */
bool td_pass_is_shared(const struct td_call *call);

#endif
