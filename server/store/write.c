#include "server/store/alias_flip.h"
#include "server/store/alias_table.h"
#include "server/store/entries.h"
#include "server/store/known_files.h"
#include "server/store/state.h"
#include "server/store/writers.h"

#include <string.h>

/* Whether the write may replace `before`, NULL for none. */
static td_status check_before(const struct td_store_write *write, const struct td_version *before,
                              struct td_error *err)
{
    const td_status status =
        td_condition_check(&write->condition, write->name, before ? before->etag : NULL, err);
    return status == TD_OK ? td_store_check_replace(write, before, err) : status;
}

td_status td_store_check_change(struct td_store *store, const struct td_store_write *write,
                                struct td_error *err)
{
    td_status status = td_store_check_write(store, write, err);
    if (status != TD_OK)
        return status;
    struct td_version *before;
    td_store_resolve_names(store, &(struct td_store_name){ write->name, strlen(write->name) }, 1,
                           &before);
    status = check_before(write, before, err);
    td_buffer_unref(before ? &before->base : NULL);
    return status;
}

/* Whether so many bytes fit now instead of `replaced` bytes. */
static td_status admit_bytes(struct td_store *store, uint64_t replaced, uint64_t bytes,
                             struct td_error *err)
{
    uint64_t outgoing;
    const td_status status = td_store_reserve(store, replaced, bytes, &outgoing, err);
    if (status == TD_OK)
        td_store_unreserve(store, bytes, outgoing);
    return status;
}

td_status td_store_admit_next(struct td_store *store, const struct td_store_write *write,
                              uint64_t bytes, struct td_store_totals *totals, struct td_error *err)
{
    td_status status = td_store_check_write(store, write, err);
    if (status != TD_OK)
        return status;
    struct td_version *before = td_store_current(store, write->name, strlen(write->name));
    status = check_before(write, before, err);
    if (status == TD_OK && !before)
        status = td_store_check_count(store, ++totals->new_names, err);
    if (status == TD_OK && write->persist) {
        status = td_data_dir_admit(store->dir, write->name, bytes, err);
    } else if (status == TD_OK) {
        totals->replaced += before ? before->held : 0;
        if (__builtin_add_overflow(totals->bytes, bytes, &totals->bytes))
            totals->bytes = UINT64_MAX;
        status = admit_bytes(store, totals->replaced, totals->bytes, err);
    }
    td_buffer_unref(before ? &before->base : NULL);
    return status;
}

td_status td_store_admit(struct td_store *store, const struct td_store_write *write, uint64_t bytes,
                         struct td_error *err)
{
    struct td_store_totals totals = { 0 };
    return td_store_admit_next(store, write, bytes, &totals, err);
}

td_status td_store_put(struct td_store *store, const struct td_store_write *write,
                       const struct td_tensor *tensor, struct td_arena *arena,
                       struct td_tensor_listing *out, bool *created, struct td_error *err)
{
    struct td_writer writer;
    struct td_version *before = NULL, *version = NULL, *replaced = NULL;
    td_status status = td_store_check_write(store, write, err);
    if (status == TD_OK)
        status = td_writer_lock(store, &writer, write->name, err);
    if (status != TD_OK)
        return status;
    before = td_store_current(store, write->name, strlen(write->name));
    status = check_before(write, before, err);
    if (status != TD_OK)
        goto done;
    status = td_version_prepare(store, write->name, arena, &version, err);
    if (status == TD_OK)
        status = td_version_fill(store, version, before, tensor, write->persist, &arena->stop, err);
    if (status == TD_OK || (version && version->persisted))
        replaced = td_version_publish(store, version, out);
    else
        td_version_abandon(store, version);
    *created = !before;
done:
    td_buffer_unref(replaced ? &replaced->base : NULL);
    td_buffer_unref(before ? &before->base : NULL);
    td_writer_unlock(store, &writer);
    return status;
}

/* The name is locked, and a tensor's. */
static td_status delete_tensor(struct td_store *store, const char *name, struct td_error *err)
{
    bool done = false;
    td_status status = td_store_begin_delete(store, name, err);
    if (status != TD_OK)
        return status;
    if (store->dir)
        status = td_data_dir_remove(store->dir, name, &done, err);
    if (status == TD_OK || done) {
        td_store_files_removed(store, name);
        td_store_drop(store, name);
    } else {
        td_store_cancel_delete(store, name);
    }
    return status;
}

td_status td_store_delete(struct td_store *store, const struct td_store_write *write,
                          struct td_error *err)
{
    struct td_writer writer;
    char target[TD_TENSOR_NAME];
    td_status status = td_store_check_name(write->name, err);
    if (status == TD_OK && td_alias_target(store, write->name, strlen(write->name), target))
        return td_alias_delete(store, write, err);
    if (status == TD_OK)
        status = td_writer_lock(store, &writer, write->name, err);
    if (status != TD_OK)
        return status;
    struct td_version *before = td_store_current(store, write->name, strlen(write->name));
    status =
        before || td_store_is_damaged(store, write->name)
            ? td_condition_check(&write->condition, write->name, before ? before->etag : NULL, err)
            : td_store_not_found(store, write->name, strlen(write->name), err);
    if (status == TD_OK)
        status = delete_tensor(store, write->name, err);
    td_buffer_unref(before ? &before->base : NULL);
    td_writer_unlock(store, &writer);
    return status;
}
