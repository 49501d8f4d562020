/* turn.h - makes threads yield the processor after short turns.
 *
 * The kernel lets a thread run for 1 to 4 ms before it switches to a woken thread. Without turns, a
 * client with few connections would wait that long whenever a worker or an I/O thread is busy with
 * another client's requests. Threads with long work therefore yield after a turn.
 *
 * A turn belongs to one thread. */
#ifndef TD_SERVER_WORKERS_TURN_H
#define TD_SERVER_WORKERS_TURN_H

#include <stdint.h>

/* How long a thread works before it yields the processor. */
#define TD_TURN_NS INT64_C(20000)

struct td_turn {
    int64_t began_ns;
};

/* Gives the calling thread time slices of 0.2 ms. The kernel counts a yielded slice as used, so
 * yielding then costs at most the rest of a short slice. Linux before 6.12 ignores this setting.
 * Keeps the thread's policy and priority. */
void td_turn_shorten_slices(void);

/* Starts a turn, after the thread has slept. */
void td_turn_begin(struct td_turn *turn);

/* Yields if the turn has lasted for TD_TURN_NS, and starts the next turn. */
void td_turn_check(struct td_turn *turn);

#endif
