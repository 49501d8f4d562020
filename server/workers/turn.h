/* turn.h - threads that leave the processor to others after short turns.
 *
 * The kernel lets a thread run for 1 to 4 ms before it switches to one that has been woken. A
 * client with few connections would wait for so long whenever a worker or an I/O thread is busy
 * with the requests of another client. Threads with long work therefore yield after a turn.
 *
 * A turn belongs to one thread. */
#ifndef TD_SERVER_WORKERS_TURN_H
#define TD_SERVER_WORKERS_TURN_H

#include <stdint.h>

/* Of work before the processor is left to others. */
#define TD_TURN_NS INT64_C(20000)

struct td_turn {
    int64_t began_ns;
};

/* Gives the calling thread time slices of 0.2 ms, so that yielding costs it no more than the
 * rest of such a slice: the kernel counts a yielded slice as used. Linux before 6.12 ignores it.
 * Keeps the thread's policy and priority. */
void td_turn_shorten_slices(void);

/* The thread begins to work, having slept. */
void td_turn_begin(struct td_turn *turn);

/* Yields if the turn has lasted for TD_TURN_NS, and begins the next one. */
void td_turn_check(struct td_turn *turn);

#endif
