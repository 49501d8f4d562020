/* populate.h - a thread that populates the memory of large bodies before they are received.
 *
 * On the first access to a page, the kernel allocates and clears it. This takes 0.1 s per GiB, and
 * ten times as long in a virtual machine whose host must also allocate the page. An I/O thread that
 * did this would stall all its connections. Instead, the connection of a large body is suspended
 * while this thread populates the next part of its memory. Other connections therefore get a turn
 * even if one client sends very fast.
 *
 * Ownership  Borrows a job until it is done.
 * Threads    One thread. Any thread can call td_populator_submit. `done` runs on the populator's
 *            thread, and is allowed to free the job or submit it again. */
#ifndef TD_SERVER_MEMORY_POPULATE_H
#define TD_SERVER_MEMORY_POPULATE_H

#include <stddef.h>

struct td_populator;

struct td_populate_job {
    char *data;   /* memory whose content may be overwritten */
    size_t bytes; /* number of bytes to populate */
    void (*done)(struct td_populate_job *job);
    struct td_populate_job *next; /* next job in the queue */
};

/* Returns NULL if allocation fails or no thread can be started. */
struct td_populator *td_populator_new(void);

/* Stops accepting jobs. Calls `done` for waiting jobs without populating their memory. Accepts
 * NULL. */
void td_populator_stop(struct td_populator *pages);
void td_populator_free(struct td_populator *pages); /* also stops the thread; accepts NULL */

/* Submits a job. Jobs run in the order of submission. After a stop, `done` is called immediately,
 * on the caller's thread. */
void td_populator_submit(struct td_populator *pages, struct td_populate_job *job);

#endif
