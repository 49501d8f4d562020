/* populate.h - a thread that maps the memory of large bodies before they are received into it.
 *
 * The first touch of a page makes the kernel allocate and clear it: 0.1 s per GiB, ten times as
 * long in a virtual machine whose host has to allocate it as well. An I/O thread that did so would
 * stall all its connections. So the connection of a large body is suspended while this thread
 * populates the next part of its memory; that also gives other connections a turn, however fast one
 * client sends.
 *
 * Ownership  Borrows a job until it is done.
 * Threads    One of its own; td_populator_submit may be called on any. `done` runs on this thread,
 *            and may free the job or submit it again. */
#ifndef TD_SERVER_MEMORY_POPULATE_H
#define TD_SERVER_MEMORY_POPULATE_H

#include <stddef.h>

struct td_populator;

struct td_populate_job {
    char *data;   /* its content may be overwritten */
    size_t bytes; /* to be populated */
    void (*done)(struct td_populate_job *job);
    struct td_populate_job *next; /* in the queue */
};

struct td_populator *td_populator_new(void); /* NULL without memory or threads */

/* Accepts no more jobs. `done` of the waiting ones is called without populating their memory. NULL
 * is fine. */
void td_populator_stop(struct td_populator *pages);
void td_populator_free(struct td_populator *pages); /* stops it first; NULL is fine */

/* Jobs run in order. After a stop `done` is called immediately, on the caller's thread. */
void td_populator_submit(struct td_populator *pages, struct td_populate_job *job);

#endif
