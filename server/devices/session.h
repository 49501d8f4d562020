/* session.h - an open device with its batches, tables and staging memory.
 *
 *     opener ──► open ──► in use ──┬──► close                   all replies have been sent
 *                                  ├──► close_lost, until true  the device is lost
 *                                  └──► abandon                 the device stays open
 *
 * Opener     A driver might take seconds to start, or never return. A device is therefore opened on
 *            a separate thread, which can be abandoned.
 * Lost       Closing a lost device might not return either, so it has a separate thread. Closing
 *            starts after all staging buffers are released, because closing the device frees them.
 * Ownership  Owns everything that the struct points to. Borrows the items in its batches.
 * Threads    The batcher's thread.
 * Errors     open: the device's error, or MEMORY_EXHAUSTED. */
#ifndef TD_SERVER_DEVICES_SESSION_H
#define TD_SERVER_DEVICES_SESSION_H

#include "server/devices/batch.h"
#include "server/devices/batcher_types.h"

enum { TD_SESSION_BATCHES = 2 };

struct td_device_session {
    const struct td_device_api *api; /* vtable for the batcher's thread */
    /* The device's own vtable, for a thread that might wait forever. */
    const struct td_device_api *own_api;
    struct td_device *device;
    struct td_staging *staging;
    struct td_table_cache *table_cache;
    struct td_batch_device shared; /* data shared by all batches */
    struct td_batch *batches[TD_SESSION_BATCHES];
    struct td_device_closer *closer; /* closer of a lost device; NULL until closing starts */
};

struct td_device_opener;

/* Starts to open a device. Returns NULL with err set on failure. */
struct td_device_opener *td_device_opener_new(const struct td_batcher_options *options,
                                              struct td_error *err);
bool td_device_opener_is_done(const struct td_device_opener *opener);
/* Makes the opener's thread close the device as soon as it is open. Returns false if the thread is
 * still at work. Accepts NULL. */
bool td_device_opener_abandon(struct td_device_opener *opener);

/* Makes a session from an opener that is done, and frees the opener. `api` contains the device's
 * functions for this thread. */
TD_MUST_CHECK td_status td_device_session_open(struct td_device_opener *opener,
                                               const struct td_batcher_options *options,
                                               const struct td_device_api *api,
                                               struct td_device_session **out,
                                               struct td_error *err);

/* Returns the number of batches in flight. */
int td_device_session_in_flight(const struct td_device_session *session);

/* Returns a batch that can be started, or -1. */
int td_device_session_free_batch(const struct td_device_session *session);

/* Returns the batch in flight that started first, or -1. */
int td_device_session_oldest_batch(const struct td_device_session *session);

/* Frees the scratch memory that idle batches hold on the device. Returns false if there is none. */
bool td_device_session_trim_scratch(struct td_device_session *session);
/* Frees scratch memory and unused staging memory. Staging memory is slow to pin again. */
bool td_device_session_trim(struct td_device_session *session);

/* Closes a working device. Nothing may be in flight, and all staging buffers must have been
 * released. */
void td_device_session_close(struct td_device_session *session);

/* Does one step of closing a lost device, whose items have been given back. Returns true when the
 * device is closed and the session freed. If allocation fails or no thread can be started, the next
 * call tries again. */
bool td_device_session_close_lost(struct td_device_session *session);

/* Frees the host side. Nothing may be in flight unless the device is lost. The device stays open
 * and keeps its memory, its pinned memory and any version of a table that it might still read.
 * Staging buffers remain valid. */
void td_device_session_abandon(struct td_device_session *session);

#endif
