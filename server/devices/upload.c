#include "server/devices/upload.h"

#include <string.h>

enum { N_PIECES = 2 };

/* Between two pieces the device waits for the batcher's thread, some 20 us; a piece of the largest size takes
 * 300 us at 50 GB/s. */
#define LARGEST_PIECE  ((size_t)16 << 20)
#define SMALLEST_PIECE ((size_t)64 << 10)

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Takes pieces of at most so many bytes, all or none. */
static bool take_pieces(struct td_upload *upload, size_t bytes, struct td_error *err)
{
    struct td_staging *staging = upload->device.staging;
    for (int i = 0; i < N_PIECES; i++)
        if (!(upload->pieces[i].buffer = td_staging_take(staging, bytes, err))) {
            td_upload_end(upload);
            return false;
        }
    return true;
}

td_status td_upload_take(struct td_upload *upload, const struct td_upload_device *device,
                         size_t bytes, struct td_error *err)
{
    /* An eighth of the pinned memory for a piece leaves room for what others compute meanwhile. */
    size_t piece = smaller(LARGEST_PIECE, smaller(bytes, td_staging_limit(device->staging) / 8));
    for (;; piece /= 2) {
        *upload = (struct td_upload){ .device = *device, .bytes = bytes };
        if (take_pieces(upload, piece, err))
            return TD_OK;
        if (err->status != TD_MEMORY_EXHAUSTED || piece <= SMALLEST_PIECE)
            return err->status;
    }
}

/* Begins to fill each piece that is free. */
static void fill(struct td_upload *upload)
{
    for (int k = 0; k < N_PIECES; k++) {
        struct td_upload_piece *piece = &upload->pieces[(upload->next + k) % N_PIECES];
        if (piece->bytes > 0 || upload->filled == upload->bytes)
            continue;
        piece->bytes =
            smaller(smaller(LARGEST_PIECE, piece->buffer->size), upload->bytes - upload->filled);
        td_copiers_start(upload->device.copiers, &piece->filling, piece->buffer->data,
                         upload->from + upload->filled, piece->bytes);
        upload->filled += piece->bytes;
    }
}

void td_upload_begin(struct td_upload *upload, void *to, const void *from)
{
    upload->to = to;
    upload->from = from;
    fill(upload);
}

/* Submits the next piece, which is filled. */
static td_status submit(struct td_upload *upload, struct td_error *err)
{
    const struct td_upload_device *device = &upload->device;
    struct td_upload_piece *piece = &upload->pieces[upload->next];
    const td_status status = device->api->copy_to_device(
        device->stream, upload->to + upload->submitted, piece->buffer->data, piece->bytes, err);
    if (status != TD_OK)
        return status;
    upload->submitted += piece->bytes;
    upload->next = (upload->next + 1) % N_PIECES;
    upload->in_flight = true;
    return TD_OK;
}

td_status td_upload_step(struct td_upload *upload, int64_t timeout_ns, bool *done,
                         struct td_error *err)
{
    const struct td_upload_device *device = &upload->device;
    bool idle = true;
    td_status status = TD_OK;
    if (upload->in_flight)
        status = timeout_ns > 0 ? device->api->wait(device->stream, timeout_ns, &idle, err)
                                : device->api->poll(device->stream, &idle, err);
    *done = false;
    if (status != TD_OK || !idle)
        return status;
    if (upload->in_flight) {
        upload->pieces[(upload->next + 1) % N_PIECES].bytes = 0;
        upload->in_flight = false;
        timeout_ns = 0;
    }
    *done = upload->submitted == upload->bytes;
    if (!*done &&
        td_copiers_wait(device->copiers, &upload->pieces[upload->next].filling, timeout_ns))
        status = submit(upload, err);
    fill(upload);
    return status;
}

void td_upload_end(struct td_upload *upload)
{
    for (int i = 0; i < N_PIECES; i++) {
        if (upload->pieces[i].bytes > 0)
            td_copiers_cancel(upload->device.copiers, &upload->pieces[i].filling);
        td_buffer_unref(upload->pieces[i].buffer);
    }
    *upload = (struct td_upload){ 0 };
}
