/* away.h - a call that is computed elsewhere, as on a device: all that the scheduler knows of it.
 *
 *     placed: due ─► submit ─► (elsewhere) ─► back: done, refused, or here
 *
 * Ownership  In the call's arena. From submit to `back` the call belongs to whoever computes it.
 * Threads    `back` may run on any thread; the call's owner calls the rest. */
#ifndef TD_SERVER_CALLS_AWAY_H
#define TD_SERVER_CALLS_AWAY_H

#include "server/calls/call.h"

typedef enum td_away_state {
    TD_AWAY_DUE,     /* placed, and not returned yet */
    TD_AWAY_DONE,    /* the call has its outputs, or what it uploads is there */
    TD_AWAY_REFUSED, /* call->error is set */
    TD_AWAY_HERE     /* the call goes on as if it had not been placed */
} td_away_state;

struct td_away {
    td_away_state state;
    /* `back` is called in any case, with the call, and must not block. */
    void (*submit)(struct td_call *call, void (*back)(struct td_call *call));
    /* On a worker, for a call that is done: takes its outputs over. */
    td_status (*finish)(struct td_call *call);
};

/* False also for a call that is placed nowhere. */
static inline bool td_away_is(const struct td_call *call, td_away_state state)
{
    return call->schedule.away && call->schedule.away->state == state;
}

#endif
