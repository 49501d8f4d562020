#include "server/store/changes/expiry.h"

#include "server/observe/clock.h"
#include "server/store/changes/writers.h"
#include "server/store/entries.h"
#include "server/store/state.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)

td_status td_expiry_check(const struct td_store_write *write, struct td_error *err)
{
    if (write->ttl_s == 0 || !td_table_version(write->name))
        return TD_OK;
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "'%s' is a version, which never changes, so it cannot have ttl_s; use a "
                        "name without '@'",
                        write->name);
}

void td_expiry_start(struct td_version *version, int64_t ttl_s)
{
    version->expires_ns = ttl_s > 0 ? td_now_ns() + ttl_s * NS_PER_S : TD_NEVER;
}

void td_expiry_keep(struct td_version *version, const struct td_version *before)
{
    version->expires_ns = version->persisted ? TD_NEVER : before->expires_ns;
}

/* Removes the version if it is still current. Returns false if another writer has locked the
 * name. */
static bool remove_expired(struct td_store *store, const struct td_version *version)
{
    const char *name = version->name;
    struct td_writer writer = { .names = &name, .n_names = 1 };
    if (!td_writer_try(store, &writer))
        return false;
    struct td_version *current = td_store_current(store, version->name, strlen(version->name));
    if (current == version)
        td_store_drop(store, version->name);
    td_buffer_unref(current ? &current->base : NULL);
    td_writer_leave(store, &writer);
    if (current == version)
        td_log(store->log, TD_LOG_DEBUG, "tensor_expired", TD_TEXT("tensor", version->name));
    return true;
}

void td_store_expire(struct td_store *store, int64_t now_ns)
{
    int count;
    struct td_version **expired = td_store_expired(store, now_ns, &count);
    for (int i = 0; i < count; i++) {
        if (!remove_expired(store, expired[i]))
            td_store_expire_again(store, now_ns);
        td_buffer_unref(&expired[i]->base);
    }
    free(expired);
}
