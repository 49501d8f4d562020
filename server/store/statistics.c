#include "server/store/state.h"
#include "server/store/version.h"

#include <string.h>

/* Returns the member in which the version keeps the statistics of its rows or its keys. Returns
 * NULL if the tensor is not resident. */
static _Atomic(struct td_buffer *) *place_of(const struct td_tensor *tensor)
{
    /* Readers share the version and change only this member. */
    struct td_version *version = (struct td_version *)(uintptr_t)td_version_of(tensor);
    return !version                         ? NULL
           : tensor == &version->key_vector ? &version->statistics_of_keys
                                            : &version->statistics;
}

const struct td_statistics *td_store_statistics(const struct td_tensor *tensor)
{
    _Atomic(struct td_buffer *) *place = place_of(tensor);
    const struct td_buffer *kept = place ? atomic_load(place) : NULL;
    return kept ? kept->data : NULL;
}

void td_store_keep_statistics(struct td_store *store, const struct td_tensor *tensor,
                              const struct td_statistics *statistics)
{
    _Atomic(struct td_buffer *) *place = place_of(tensor);
    /* Do not keep statistics that take more than 1/16 of the tensor's size, because computing them
     * again takes only microseconds. */
    enum { SHARE = 16 };
    const size_t bytes = td_statistics_bytes(tensor);
    if (bytes > td_tensor_footprint(tensor) / SHARE)
        return;
    struct td_error err;
    struct td_buffer *none = NULL;
    struct td_buffer *buffer = place ? store->memory->take(store->memory, bytes, &err) : NULL;
    if (!buffer)
        return;
    memcpy(buffer->data, statistics, bytes);
    /* Another call might have stored the same statistics in the meantime. */
    if (!atomic_compare_exchange_strong(place, &none, buffer))
        td_buffer_unref(buffer);
}
