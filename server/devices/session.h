/* session.h - one device from opening to closing, and what belongs to it.
 *
 *     opener ──► open ──► in use ──┬──► close                   all has been answered and read
 *                                  ├──► close_lost, until true  it fails: nothing is asked of it any more
 *                                  └──► leave                   it stays open for good
 *
 * Opener     A driver may take seconds to start, or for ever, so a device is opened on a thread of its
 *            own; who cannot wait any longer leaves it alone.
 * Lost       A device that hangs may hang in its closing as well, so a lost one is closed on a thread
 *            of its own; and before that all staging has to come back, as its memory goes with it.
 * Ownership  Of all that the struct names. Items in its batches are borrowed.
 * Threads    The batcher's.
 * Errors     open: what the device says, or MEMORY_EXHAUSTED. */
#ifndef TD_SERVER_DEVICES_SESSION_H
#define TD_SERVER_DEVICES_SESSION_H

#include "server/devices/batch.h"
#include "server/devices/batcher.h"

enum { TD_SESSION_BATCHES = 2 };

struct td_device_session {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_staging *staging;
    struct td_device_tables *tables;
    struct td_batch_device shared; /* by the batches */
    struct td_batch *batches[TD_SESSION_BATCHES];
    struct td_device_closer *closer; /* of a lost one; NULL until it is begun */
};

struct td_device_opener;

/* Begins to open a device. NULL with err filled. */
struct td_device_opener *td_device_opener_new(const struct td_batcher_options *options,
                                              struct td_error *err);
bool td_device_opener_is_done(const struct td_device_opener *opener);
/* What it opens is closed again, whenever that is. NULL is fine. */
void td_device_opener_leave(struct td_device_opener *opener);

/* Takes over an opener that is done. */
TD_MUST_CHECK td_status td_device_session_open(struct td_device_opener *opener,
                                               const struct td_batcher_options *options,
                                               struct td_device_session **out,
                                               struct td_error *err);

/* How many batches are in flight. */
int td_device_session_in_flight(const struct td_device_session *session);

/* Which of the batches can be started, or -1. */
int td_device_session_free_batch(const struct td_device_session *session);

/* Which began first of those in flight, or -1. */
int td_device_session_oldest_batch(const struct td_device_session *session);

/* Gives back the memory that batches without work keep on the device, and staging memory that nobody
 * uses; false when there is none. */
bool td_device_session_trim(struct td_device_session *session);

/* The device answers, nothing is in flight, and all of the staging is back. */
void td_device_session_close(struct td_device_session *session);

/* A step towards closing one that is lost, whose items have been given back. True when it is closed
 * and the session is gone; without memory or threads the next call tries again. */
bool td_device_session_close_lost(struct td_device_session *session);

/* Lets go of what is left on the host, with nothing in flight or lost. The device stays open, with
 * what it holds: its own memory, its pinned memory, and a version of a table that it may still be
 * reading. Buffers of its staging stay good. */
void td_device_session_leave(struct td_device_session *session);

#endif
