#include "api/message/raw.h"

#include <inttypes.h>
#include <string.h>

td_status td_raw_check(const struct td_tensor *tensor, struct td_error *err)
{
    if (tensor->dtype != TD_DTYPE_BOOL)
        return TD_OK;
    const unsigned char *bytes = tensor->data;
    unsigned char all = 0; /* without an early exit, the loop vectorizes */
    for (size_t i = 0; i < tensor->bytes; i++)
        all |= bytes[i];
    if (all <= 1)
        return TD_OK;
    size_t bad = 0;
    while (bytes[bad] <= 1)
        bad++;
    return td_error_set(err, TD_MALFORMED_REQUEST,
                        "element %zu of a bool tensor is the byte %u; expected 0 or 1", bad,
                        bytes[bad]);
}

td_status td_raw_strings(char *bytes, size_t size, struct td_tensor *tensor, struct td_arena *arena,
                         struct td_error *err)
{
    enum { LENGTH = 4 };
    if ((uint64_t)tensor->numel > size / LENGTH)
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "%zu bytes cannot hold the lengths of %" PRId64 " strings", size,
                            tensor->numel);
    tensor->offsets =
        td_arena_alloc(arena, (size_t)tensor->numel + 1, sizeof *tensor->offsets, err);
    if (!tensor->offsets)
        return err->status;
    size_t from = 0, to = 0;
    for (int64_t i = 0; i < tensor->numel; i++) {
        uint32_t length = 0;
        /* Checks only between steps, because the check reads the clock and would slow down short
         * tensors. */
        const bool is_step = i > 0 && i % TD_STOP_ELEMENTS == 0;
        const td_status stop = is_step ? td_stop_check(&arena->stop, err) : TD_OK;
        if (stop != TD_OK)
            return stop;
        if (size - from >= LENGTH)
            memcpy(&length, bytes + from, LENGTH);
        if (size - from < LENGTH || length > size - from - LENGTH)
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "the %zu bytes end inside string %" PRId64 " of %" PRId64, size, i,
                                tensor->numel);
        tensor->offsets[i] = to;
        memmove(bytes + to, bytes + from + LENGTH, length);
        from += LENGTH + length;
        to += length;
    }
    if (from != size)
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "%zu bytes follow the last of %" PRId64 " strings", size - from,
                            tensor->numel);
    tensor->offsets[tensor->numel] = to;
    tensor->data = bytes;
    tensor->bytes = to;
    return TD_OK;
}

bool td_raw_strings_size(const struct td_tensor *tensor, size_t *size)
{
    const uint64_t all = tensor->offsets[tensor->numel] - tensor->offsets[0];
    for (int64_t i = 0; all > UINT32_MAX && i < tensor->numel; i++)
        if (tensor->offsets[i + 1] - tensor->offsets[i] > UINT32_MAX)
            return false;
    size_t lengths;
    return td_size_mul((size_t)tensor->numel, sizeof(uint32_t), &lengths) &&
           td_size_add(lengths, all, size);
}

td_status td_raw_write_strings(char *to, const struct td_tensor *tensor, const struct td_stop *stop,
                               struct td_error *err)
{
    struct td_stop_meter meter = td_stop_meter(stop);
    td_status status = TD_OK;
    for (int64_t i = 0; i < tensor->numel && status == TD_OK; i++) {
        const char *from = (const char *)tensor->data + tensor->offsets[i];
        const uint32_t length = (uint32_t)(tensor->offsets[i + 1] - tensor->offsets[i]);
        memcpy(to, &length, sizeof length);
        to += sizeof length;
        if (length >= TD_STOP_STEP) {
            status = td_stop_copy(stop, to, from, length, err);
        } else {
            memcpy(to, from, length);
            status = td_stop_work(&meter, sizeof length + length, err);
        }
        to += length;
    }
    return status;
}

td_status td_raw_reply(const char *content_type, const char *header, size_t size,
                       const struct td_tensor *tensor, struct td_arena *arena,
                       struct td_reply *reply, struct td_error *err)
{
    size_t copied = td_raw_is_copied(tensor) ? tensor->bytes : 0;
    char *bytes = td_arena_alloc(arena, size + copied, 1, err);
    if (!bytes)
        return err->status;
    memcpy(bytes, header, size);
    if (copied)
        memcpy(bytes + size, tensor->data, copied);
    td_reply_set(reply, 200, content_type, bytes, size + copied);
    if (copied < tensor->bytes)
        reply->chunks[reply->n_chunks++] =
            (struct td_chunk){ .data = tensor->data, .size = tensor->bytes };
    return TD_OK;
}
