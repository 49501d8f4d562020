/* session.h - an open device with its batches, tables and staging memory.
 *
 *     opener ──► open ──► in use ──┬──► close                   all replies have been sent
 *                                  ├──► close_lost, until true  the device is lost
 *                                  └──► abandon                 the device stays open
 *
 * Opener     A driver may take seconds to start, or never return, so a device is opened on a thread
 *            of its own, which can be abandoned.
 * Lost       Closing a lost device may not return either, so it has a thread of its own. It begins
 *            after all staging buffers are released, as closing the device frees them.
 * Ownership  Owns all that the struct points to. Items in its batches are borrowed.
 * Threads    The batcher's.
 * Errors     open: the device's error, or MEMORY_EXHAUSTED. */
#ifndef TD_SERVER_DEVICES_SESSION_H
#define TD_SERVER_DEVICES_SESSION_H

#include "server/devices/batch.h"
#include "server/devices/batcher_types.h"

enum { TD_SESSION_BATCHES = 2 };

struct td_device_session {
    const struct td_device_api *api;     /* of the batcher's thread */
    const struct td_device_api *own_api; /* of the device, for a thread that may wait for ever */
    struct td_device *device;
    struct td_staging *staging;
    struct td_device_tables *tables;
    struct td_batch_device shared; /* by its batches */
    struct td_batch *batches[TD_SESSION_BATCHES];
    struct td_device_closer *closer; /* of a lost device; NULL until closing begins */
};

struct td_device_opener;

/* Starts opening a device. NULL with err filled. */
struct td_device_opener *td_device_opener_new(const struct td_batcher_options *options,
                                              struct td_error *err);
bool td_device_opener_is_done(const struct td_device_opener *opener);
/* Its thread closes the device again once it is open. False if it is still at work. NULL is
 * fine. */
bool td_device_opener_abandon(struct td_device_opener *opener);

/* Makes a session from an opener that is done, and frees the opener. `api`: the device's functions
 * for this thread. */
TD_MUST_CHECK td_status td_device_session_open(struct td_device_opener *opener,
                                               const struct td_batcher_options *options,
                                               const struct td_device_api *api,
                                               struct td_device_session **out,
                                               struct td_error *err);

/* The number of batches in flight. */
int td_device_session_in_flight(const struct td_device_session *session);

/* A batch that can be started, or -1. */
int td_device_session_free_batch(const struct td_device_session *session);

/* The batch in flight that began first, or -1. */
int td_device_session_oldest_batch(const struct td_device_session *session);

/* Frees scratch memory, which the device has, of idle batches; false if there is none. */
bool td_device_session_trim_scratch(struct td_device_session *session);
/* Frees it, and free staging memory, which takes long to pin again. */
bool td_device_session_trim(struct td_device_session *session);

/* A call to the device does not return: gives back the items in flight with this error, and leaves
 * all else as it is, for the call may still use it. */
void td_device_session_leave(struct td_device_session *session, const struct td_error *err);

/* Called with a working device, nothing in flight and all staging buffers released. */
void td_device_session_close(struct td_device_session *session);

/* One step of closing a lost device, whose items have been given back. True: the device is closed
 * and the session freed. Without memory or threads the next call tries again. */
bool td_device_session_close_lost(struct td_device_session *session);

/* Frees the host side, with nothing in flight or the device lost. The device stays open and keeps
 * its memory, its pinned memory and a version of a table that it may still read. Staging buffers
 * stay valid. */
void td_device_session_abandon(struct td_device_session *session);

#endif
