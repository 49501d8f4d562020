#include "server/store/copy.h"

/* Size below which a copy is allocated on the heap, because the pool's smallest buffer has
 * 16 KiB. */
enum { SMALL = 8 << 10 };

td_status td_store_copy(struct td_memory *memory, const struct td_tensor *tensor,
                        const struct td_stop *stop, struct td_tensor *copy,
                        struct td_buffer **bytes, struct td_error *err)
{
    const bool strings = tensor->dtype == TD_DTYPE_STRING;
    const size_t n_offsets = strings ? (size_t)tensor->numel + 1 : 0;
    const uint64_t first = strings ? tensor->offsets[0] : 0;
    const size_t size = strings ? (size_t)(tensor->offsets[tensor->numel] - first) : tensor->bytes;
    const size_t total = n_offsets * sizeof *tensor->offsets + size;
    if (total < SMALL)
        memory = td_memory_heap();
    struct td_buffer *buffer = memory->take(memory, total + 1, err);
    if (!buffer)
        return TD_MEMORY_EXHAUSTED;
    *copy = *tensor;
    copy->owner = NULL;
    copy->key_index = NULL;
    copy->keys = NULL;
    copy->offsets = strings ? buffer->data : NULL;
    copy->data = (char *)buffer->data + n_offsets * sizeof *tensor->offsets;
    copy->bytes = size;
    for (size_t i = 0; i < n_offsets; i++)
        copy->offsets[i] = tensor->offsets[i] - first;
    const td_status status =
        td_stop_copy(stop, copy->data, (const char *)tensor->data + first, size, err);
    if (status == TD_OK)
        *bytes = buffer;
    else
        td_buffer_unref(buffer);
    return status;
}
