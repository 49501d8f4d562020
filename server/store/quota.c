#include "server/store/quota.h"

#include "server/store/state.h"
#include "server/store/store.h"

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

td_status td_store_reserve(struct td_store *store, uint64_t replaced, uint64_t bytes,
                           uint64_t *outgoing, struct td_error *err)
{
    pthread_rwlock_wrlock(&store->lock);
    /* If the replacement fails, the replaced bytes remain in use. */
    *outgoing = replaced < bytes ? replaced : bytes;
    /* td_store_admit is called without the lock of the name, so a concurrent DELETE might have
     * released these bytes. */
    const uint64_t others = minus(store->held, store->outgoing + replaced);
    const bool fits = bytes <= store->quota && others <= store->quota - bytes;
    if (fits) {
        store->held += bytes;
        store->outgoing += *outgoing;
    }
    const bool crowded = others + bytes + store->spare_bytes > store->quota;
    pthread_rwlock_unlock(&store->lock);
    if (crowded)
        td_store_trim(store, INT64_MAX);
    if (fits)
        return TD_OK;
    *outgoing = 0;
    td_error_resource(err, "resident_bytes",
                      bytes < UINT64_MAX - others ? others + bytes : UINT64_MAX, store->quota,
                      "the store with this tensor");
    td_error_hint(err, "the server's option --tensor-quota sets this limit");
    return TD_RESOURCE_LIMIT;
}

void td_store_unreserve(struct td_store *store, uint64_t bytes, uint64_t outgoing)
{
    pthread_rwlock_wrlock(&store->lock);
    store->held -= bytes;
    store->outgoing -= outgoing;
    pthread_rwlock_unlock(&store->lock);
}
