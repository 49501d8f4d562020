/* writer_queue.h - one writer at a time per name: who changes a name now, and who is next.
 *
 *     enter ─► nobody has the names ───────────────────────────► change ─► leave
 *           └► another writer has one: the writer waits, and ready() is called when its turn comes
 *
 * A writer gets all its names at once or none, so writers that hold names never wait for each
 * other, with one exception: a scan, which blocks its thread, may enter for further names while it
 * has some. It therefore waits only for writers that have entered, and these end by themselves.
 *
 * Order      Writers that share a name change it in the order in which they entered.
 * Deadlines  td_writers_expire calls ready() of a writer whose deadline has passed, without its
 *            names: td_writer_has_entered is false then. Nothing has been changed for it.
 * Ownership  The caller owns the td_writer and its names; both stay valid until it has left, or
 *            until ready() was called for a writer that has not entered.
 * Threads    Any. ready() is called on the thread that leaves or expires, with no lock held; it
 *            must not block.
 * Cost       enter and leave compare the names of all writers. Their number is bounded by the
 *            queues of the requests that write. */
#ifndef TD_SERVER_STORE_WRITER_QUEUE_H
#define TD_SERVER_STORE_WRITER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct td_store;

struct td_writer {
    /* Set by the caller. */
    const char *const *names; /* of tensors, sorted by strcmp */
    int n_names;
    const char *version; /* all names NAME@VERSION of this version; NULL for none */
    bool aliases;        /* all aliases */
    int64_t deadline_ns; /* of the wait */
    void (*ready)(struct td_writer *writer);

    /* Private. */
    struct td_writer *next;
    bool entered;
};

/* True if the writer has its names. Otherwise it waits, and ready() is called later, perhaps before
 * this function returns. */
bool td_writer_enter(struct td_store *store, struct td_writer *writer);

/* True if the writer has its names. Otherwise another writer has one of them, and nothing
 * happens. */
bool td_writer_try(struct td_store *store, struct td_writer *writer);

/* Blocks the thread until the writer has its names. */
void td_writer_wait(struct td_store *store, struct td_writer *writer);

/* Ends the change. Calls ready() of the writers whose turn comes. */
void td_writer_leave(struct td_store *store, struct td_writer *writer);

/* Ends the wait of the writers whose deadline has passed, or of all of them if `everything`. */
void td_writers_expire(struct td_store *store, int64_t now_ns, bool everything);

/* Number of writers that wait. */
int td_writers_waiting(struct td_store *store);

static inline bool td_writer_has_entered(const struct td_writer *writer)
{
    return writer->entered;
}

#endif
