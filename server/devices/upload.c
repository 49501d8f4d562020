#include "server/devices/upload.h"

#include <string.h>

enum { WINDOW = TD_UPLOAD_WINDOW, N_PIECES = TD_UPLOAD_PIECES };

/* A piece of maximum size takes 300 us at 50 GB/s. Between two windows, the device waits for the
 * batcher's thread for about 20 us, or for as long as that thread waits for another batch. */
#define LARGEST_PIECE  ((size_t)16 << 20)
#define SMALLEST_PIECE ((size_t)64 << 10)

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Gets pinned memory for all pieces, each of at most `bytes` bytes. If the memory for one piece is
 * not available, releases the other pieces. */
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
    /* A quarter of the pinned memory leaves room for other computations. */
    const size_t most = td_staging_limit(device->staging) / 4;
    size_t piece = smaller(LARGEST_PIECE, (smaller(bytes, most) + N_PIECES - 1) / N_PIECES);
    for (;; piece /= 2) {
        *upload = (struct td_upload){ .device = *device, .bytes = bytes };
        if (take_pieces(upload, piece, err))
            return TD_OK;
        if (err->status != TD_MEMORY_EXHAUSTED || piece <= SMALLEST_PIECE)
            return err->status;
    }
}

/* Starts filling each free piece. */
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

/* Submits the next piece, which has been filled. */
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
    upload->in_flight++;
    return TD_OK;
}

/* Waits for at most timeout_ns, and sets *idle if the pieces in flight have arrived. */
static td_status wait_for_device(const struct td_upload *upload, int64_t timeout_ns, bool *idle,
                                 struct td_error *err)
{
    const struct td_upload_device *device = &upload->device;
    *idle = upload->in_flight == 0;
    if (*idle)
        return TD_OK;
    return timeout_ns > 0 ? device->api->wait(device->stream, timeout_ns, idle, err)
                          : device->api->poll(device->stream, idle, err);
}

/* True if another piece can be submitted when it is filled. */
static bool has_room(const struct td_upload *upload)
{
    return upload->in_flight < WINDOW && upload->submitted < upload->bytes;
}

td_status td_upload_step(struct td_upload *upload, int64_t timeout_ns, bool *done,
                         struct td_error *err)
{
    bool idle;
    /* While there is room, the step waits for a piece to be filled, not for the device. */
    td_status status = wait_for_device(upload, has_room(upload) ? 0 : timeout_ns, &idle, err);
    *done = false;
    if (status != TD_OK)
        return status;
    if (!has_room(upload))
        timeout_ns = 0;
    for (; idle && upload->in_flight > 0; upload->in_flight--)
        upload->pieces[(upload->next + N_PIECES - upload->in_flight) % N_PIECES].bytes = 0;
    for (;
         status == TD_OK && has_room(upload) &&
         td_copiers_wait(upload->device.copiers, &upload->pieces[upload->next].filling, timeout_ns);
         timeout_ns = 0)
        status = submit(upload, err);
    *done = status == TD_OK && upload->submitted == upload->bytes && upload->in_flight == 0;
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
