/* upload.h - a large table on its way to the device, in pieces.
 *
 *     table ── copiers ──► four pieces of pinned memory ── stream ──► device memory
 *                          two are filled while two others are copied
 *
 * No call waits for a copy, and none submits more than a window of two pieces, however large the
 * table is: a stream holds only so many copies before the next one blocks its caller, and pageable
 * memory is read at a fraction of the bus's speed. With two the device has the next one while the
 * batcher's thread does other work. A stream has one upload at a time, and no other work.
 *
 * Ownership  Borrows the table and the memory on the device; takes pinned memory from begin to end.
 * Threads    The batcher's.
 * Errors     Those of the device. MEMORY_EXHAUSTED: begin found no pinned memory. */
#ifndef TD_SERVER_DEVICES_UPLOAD_H
#define TD_SERVER_DEVICES_UPLOAD_H

#include "server/devices/copiers.h"
#include "server/devices/staging.h"

/* From so many bytes on a table takes this way. Smaller ones are copied at once. */
#define TD_UPLOAD_LEAST ((size_t)1 << 20)

struct td_upload_device {
    const struct td_device_api *api;
    struct td_device_stream *stream;
    struct td_staging *staging;
    struct td_copiers *copiers;
};

enum { TD_UPLOAD_WINDOW = 2, TD_UPLOAD_PIECES = 2 * TD_UPLOAD_WINDOW };

/* All zero: no upload. */
struct td_upload {
    struct td_upload_device device;
    char *to;
    const char *from;
    size_t bytes;
    size_t filled, submitted; /* bytes that filling was begun of, that were given to the stream */
    struct td_upload_piece {
        struct td_buffer *buffer;
        struct td_copy_job filling;
        size_t bytes; /* 0: it is free */
    } pieces[TD_UPLOAD_PIECES];
    int next;      /* the piece to be submitted next */
    int in_flight; /* of the pieces before it: submitted since the stream was idle */
};

/* Takes pinned memory; the rest begins with run. */
TD_MUST_CHECK td_status td_upload_take(struct td_upload *upload,
                                       const struct td_upload_device *device, size_t bytes,
                                       struct td_error *err);

/* Begins to copy the bytes that take was told. */
void td_upload_begin(struct td_upload *upload, void *to, const void *from);

/* One step, after at most timeout_ns. *done: the device has all of it. */
TD_MUST_CHECK td_status td_upload_step(struct td_upload *upload, int64_t timeout_ns, bool *done,
                                       struct td_error *err);

/* Releases what it has, at any time: also when the device is lost. */
void td_upload_end(struct td_upload *upload);

#endif
