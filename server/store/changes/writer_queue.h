/* writer_queue.h - locks on names, so only one writer at a time changes a name. Other writers of
 * the name wait for their turn.
 *
 *     enter ─► no other writer has the names ──────────────────► change ─► leave
 *           └► another writer has one: the writer waits, and ready() is called when its turn comes
 *
 * A writer locks all its names at once or none of them, so writers that hold names never wait for
 * each other. The only exception is a scan, which blocks its thread and can lock more names while
 * it holds some. A scan therefore waits only for writers that hold their names, and those writers
 * finish by themselves.
 *
 * Order      Writers that share a name change it in the order in which they called td_writer_enter.
 * Deadlines  td_writers_expire also calls ready() of a writer whose deadline has passed. That
 *            writer does not hold its names and must not change anything, and td_writer_has_entered
 *            returns false for it.
 * Ownership  The caller owns the td_writer and its names. Both must remain valid until
 *            td_writer_leave, or until ready() is called for a writer whose deadline has passed.
 * Threads    Any. ready() is called with no lock held, on the thread that called td_writer_leave or
 *            td_writers_expire. It must not block.
 * Cost       td_writer_enter and td_writer_leave compare the names of all writers. The queues of
 *            the requests that write bound the number of writers. */
#ifndef TD_SERVER_STORE_WRITER_QUEUE_H
#define TD_SERVER_STORE_WRITER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct td_store;

struct td_writer {
    /* Set by the caller. */
    /* Names of tensors, sorted by strcmp. */
    const char *const *names;
    int n_names;
    /* The writer locks all names NAME@VERSION with this VERSION, or none if it is NULL. */
    const char *version;
    /* The writer locks all aliases. */
    bool aliases;
    /* Deadline of the wait. */
    int64_t deadline_ns;
    void (*ready)(struct td_writer *writer);

    /* Private. */
    struct td_writer *next;
    bool entered;
};

/* Locks the names and returns true if no other writer holds any of them. Otherwise, queues the
 * writer and returns false. ready() is then called later, possibly before this function returns. */
bool td_writer_enter(struct td_store *store, struct td_writer *writer);

/* Like td_writer_enter, but returns false without queuing the writer. */
bool td_writer_try(struct td_store *store, struct td_writer *writer);

/* Blocks the thread until the writer holds its names. */
void td_writer_wait(struct td_store *store, struct td_writer *writer);

/* Ends the change and releases the names. Calls ready() of each writer whose turn has come. */
void td_writer_leave(struct td_store *store, struct td_writer *writer);

/* Removes from the queue the writers whose deadline has passed, or all waiting writers if
 * `everything` is true. Writers that block their threads keep waiting. */
void td_writers_expire(struct td_store *store, int64_t now_ns, bool everything);

/* Returns the number of waiting writers. */
int td_writers_waiting(struct td_store *store);

static inline bool td_writer_has_entered(const struct td_writer *writer)
{
    return writer->entered;
}

#endif
