/* affinity.h - wakes a worker away from the processor of the thread that it will help.
 *
 * A worker that helped a thread on its own processor and fell asleep there is often woken there
 * again. On a machine with two processors, Linux does not search for an idle processor while one of
 * them is busy. The worker then waits for the thread that it is meant to help, for up to several
 * milliseconds.
 *
 * An affinity belongs to one worker. The lock that guards the worker's sleep also guards the
 * affinity. */
#ifndef TD_SERVER_WORKERS_AFFINITY_H
#define TD_SERVER_WORKERS_AFFINITY_H

#include <sys/types.h>

#include <stdbool.h>

struct td_affinity {
    pid_t thread;
    /* Processor on which the worker fell asleep, or -1 while it is awake. */
    int processor;
    /* The worker must not run on `processor` until it is awake. */
    bool elsewhere;
};

/* Makes `affinity` the affinity of the calling thread. */
void td_affinity_init(struct td_affinity *affinity);

/* Records that the calling thread is about to sleep, or that it is awake again. */
void td_affinity_sleep(struct td_affinity *affinity);
void td_affinity_wake(struct td_affinity *affinity);

/* Makes the worker wake on a processor other than the calling thread's, if its affinity allows
 * that. Call before waking the worker. */
void td_affinity_avoid(struct td_affinity *affinity);

#endif
