/* populate.h - a thread that gets memory from the system before large bodies fill it.
 *
 * The first touch of a page makes the system find and clear it: 0.1 s for each GiB, ten times as
 * long in a virtual machine whose host has to find it as well. An I/O thread that did so would answer
 * nobody else meanwhile. So the connection of a large body sleeps while this thread has the next part
 * of its memory made; that also gives other connections their turn, however fast one client sends.
 *
 * Ownership  Borrows a job until it is done.
 * Threads    One of its own; populate from any. `done` is called on the thread of this file, and may
 *            free or submit the job again. */
#ifndef TD_SERVER_MEMORY_POPULATE_H
#define TD_SERVER_MEMORY_POPULATE_H

#include <stddef.h>

struct td_pages;

struct td_pages_job {
    char *data;   /* whose content does not matter yet */
    size_t bytes; /* what is made there */
    void (*done)(struct td_pages_job *job);
    struct td_pages_job *next; /* in the queue */
};

struct td_pages *td_pages_new(void); /* NULL without memory or threads */

/* Takes no more jobs, and lets those that wait be done at once, as they are. */
void td_pages_stop(struct td_pages *pages);
void td_pages_free(struct td_pages *pages); /* stops it first; NULL is fine */

/* In the order they come. After a stop `done` is called at once, by the caller's own thread. */
void td_pages_populate(struct td_pages *pages, struct td_pages_job *job);

#endif
