/* upload.h - uploads a large table to the device in pieces.
 *
 *     table ── copiers ──► four pieces of pinned memory ── stream ──► device memory
 *                          two are filled while two others are copied
 *
 * No call waits for a copy, and no call submits more than a window of two pieces, regardless of the
 * table's size. A stream holds a limited number of copies before the next copy blocks its caller,
 * and pageable memory is read at a fraction of the bus's speed. With two pieces, the device has its
 * next piece while the batcher's thread does other work. A stream has one upload at a time, and no
 * other work.
 *
 * Ownership  Borrows the table and the memory on the device. Holds pinned memory from
 *            td_upload_take to td_upload_end.
 * Threads    The batcher's thread.
 * Errors     The errors of the device. `take` returns MEMORY_EXHAUSTED if it finds no pinned
 *            memory. */
#ifndef TD_SERVER_DEVICES_UPLOAD_H
#define TD_SERVER_DEVICES_UPLOAD_H

#include "server/devices/copiers.h"
#include "server/devices/staging.h"

/* Minimum size of a table that is uploaded in pieces. Smaller tables are copied at once. */
#define TD_UPLOAD_LEAST ((size_t)1 << 20)

struct td_upload_device {
    const struct td_device_api *api;
    struct td_device_stream *stream;
    struct td_staging *staging;
    struct td_copiers *copiers;
};

enum { TD_UPLOAD_WINDOW = 2, TD_UPLOAD_PIECES = 2 * TD_UPLOAD_WINDOW };

/* State of an upload. A state whose members are all zero means no upload. */
struct td_upload {
    struct td_upload_device device;
    char *to;
    const char *from;
    size_t bytes;
    /* `filled` counts bytes that pieces have started to fill. `submitted` counts bytes submitted to
     * the stream. */
    size_t filled, submitted;
    struct td_upload_piece {
        struct td_buffer *buffer;
        struct td_copy_job filling;
        size_t bytes; /* 0: the piece is free */
    } pieces[TD_UPLOAD_PIECES];
    int next; /* index of the piece to submit next */
    /* Number of pieces before `next` that were submitted since the stream was last idle. */
    int in_flight;
};

/* Gets the pinned memory for an upload. Copying starts with td_upload_begin. */
TD_MUST_CHECK td_status td_upload_take(struct td_upload *upload,
                                       const struct td_upload_device *device, size_t bytes,
                                       struct td_error *err);

/* Starts to copy the bytes for which td_upload_take got memory. */
void td_upload_begin(struct td_upload *upload, void *to, const void *from);

/* Does one step of the upload, taking at most timeout_ns. Sets *done when the device has the whole
 * table. */
TD_MUST_CHECK td_status td_upload_step(struct td_upload *upload, int64_t timeout_ns, bool *done,
                                       struct td_error *err);

/* Releases everything that the upload holds. Can be called at any time, even if the device is
 * lost. */
void td_upload_end(struct td_upload *upload);

#endif
