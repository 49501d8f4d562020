/* away.h - the scheduler's view of a call that is computed elsewhere, for example on a device.
 *
 *     placed: due ─► submit ─► (elsewhere) ─► back: done, refused, or here
 *
 * Ownership  In the call's arena. From submit to `back`, the call belongs to the thread or device
 *            that computes it.
 * Threads    `back` can run on any thread. The call's owner calls the other functions. */
#ifndef TD_SERVER_CALLS_AWAY_H
#define TD_SERVER_CALLS_AWAY_H

#include "server/calls/call.h"

typedef enum td_away_state {
    TD_AWAY_DUE, /* the call is placed elsewhere and has not returned yet */
    /* The outputs are ready, or the upload is complete. */
    TD_AWAY_DONE,
    TD_AWAY_REFUSED, /* call->error is set */
    /* The call continues as if it had not been placed. */
    TD_AWAY_HERE
} td_away_state;

struct td_away {
    td_away_state state;
    /* Starts the computation, which always ends by calling `back` with the call. `back` must not
     * block. */
    void (*submit)(struct td_call *call, void (*back)(struct td_call *call));
    /* Takes over the outputs of a completed call. Runs on a worker, which is NULL if the call has
     * left the queue because the server stops. */
    td_status (*finish)(struct td_call *call, struct td_worker *worker);
};

/* True if the call is placed elsewhere and is in this state. */
static inline bool td_away_is(const struct td_call *call, td_away_state state)
{
    return call->schedule.away && call->schedule.away->state == state;
}

#endif
