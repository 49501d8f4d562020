/* placement.h - wakes a worker on another processor than the one that needs its help.
 *
 * A worker that helped a thread on its own processor and fell asleep there is often woken there
 * again: on a machine of two processors Linux does not look for an idle one when one of them is
 * busy. It then waits for the very thread that it is to help, up to some milliseconds.
 *
 * A placement belongs to one worker; the lock that guards its sleep guards it. */
#ifndef TD_SERVER_WORKERS_PLACEMENT_H
#define TD_SERVER_WORKERS_PLACEMENT_H

#include <sys/types.h>

#include <stdbool.h>

struct td_placement {
    pid_t thread;
    int processor;  /* where it fell asleep; -1 while it is awake */
    bool elsewhere; /* may not run on `processor` until it is awake */
};

/* The calling thread has this placement from here on. */
void td_placement_init(struct td_placement *placement);

/* The calling thread is about to sleep, or awake again. */
void td_placement_sleep(struct td_placement *placement);
void td_placement_wake(struct td_placement *placement);

/* Before its thread is woken: it wakes on another processor than the calling thread's, if it may
 * run on any. */
void td_placement_avoid(struct td_placement *placement);

#endif
