#include "kernels/integers.h"
#include "server/store/aliases/alias_check.h"
#include "server/store/aliases/alias_flip.h"
#include "server/store/aliases/alias_list.h"
#include "server/store/changes/expiry.h"
#include "server/store/changes/retention.h"
#include "server/store/changes/write_check.h"
#include "server/store/changes/writers.h"
#include "server/store/entries.h"
#include "server/store/etag.h"
#include "server/store/keys.h"
#include "server/store/lookup_errors.h"
#include "server/store/quota.h"
#include "server/store/scan/known_files.h"
#include "server/store/state.h"

#include <string.h>

/* Returns RESOURCE_LIMIT if `bytes` bytes do not fit now in place of `replaced` bytes. */
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
    status = td_store_check_put(store, write, before, err);
    if (status == TD_OK && !before)
        status = td_store_check_count(store, ++totals->new_names, err);
    if (status == TD_OK && write->persist) {
        status = td_data_dir_admit(store->dir, write->name, bytes, err);
    } else if (status == TD_OK) {
        totals->replaced += before ? before->held : 0;
        totals->bytes = td_saturating_add(totals->bytes, bytes);
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

/* ---- the next version ------------------------------------------------------------------------ */

/* Change of one name. The name is locked from begin_change to end_change. */
struct change {
    struct td_store *store;
    const struct td_store_write *write;
    struct td_writer writer;
    struct td_version *before, *version;
    bool kept_from_aliases;
};

static td_status begin_change(struct change *change, struct td_error *err)
{
    const struct td_store_write *write = change->write;
    td_status status = td_store_check_write(change->store, write, err);
    if (status != TD_OK)
        return status;
    (void)td_store_enter(change->store, write, &change->writer);
    change->before = td_store_current(change->store, write->name, strlen(write->name));
    return TD_OK;
}

/* Publishes the version. If the change drops the keys of the table, notes that in *out, because the
 * client might not have intended it. */
static void publish(const struct change *change, struct td_version **replaced,
                    struct td_tensor_listing *out)
{
    const struct td_version *before = change->before;
    *replaced = td_version_publish(change->store, change->version, out);
    if (before && before->keys && !out->keys)
        out->rows[0] = (struct td_row_count){ "dropped_keys", before->tensor.shape.dim[0] };
}

/* Publishes the version if it is complete, or is on disk despite an error. Otherwise abandons the
 * version. */
static void end_change(struct change *change, td_status status, struct td_tensor_listing *out)
{
    struct td_version *version = change->version, *replaced = NULL;
    if (version && (status == TD_OK || version->persisted))
        publish(change, &replaced, out);
    else
        td_version_abandon(change->store, version);
    if (change->kept_from_aliases)
        td_alias_cancel_delete(change->store, change->write->name);
    td_buffer_unref(replaced ? &replaced->base : NULL);
    td_buffer_unref(change->before ? &change->before->base : NULL);
    td_store_leave(change->store, change->write, &change->writer);
}

/* Makes keys from a vector. *out must be NULL before the call. Fails if the vector is mapped from
 * the file of a resident table and that file was truncated, because the vector then reads as
 * zeros. */
static td_status make_keys(const struct change *change, const struct td_tensor *vector,
                           struct td_exec *exec, const struct td_stop *stop, struct td_keys **out,
                           struct td_error *err)
{
    const struct td_version *source = td_version_of(vector);
    const td_status status = td_keys_make(change->store, vector, exec, stop, out, err);
    if (!source || td_version_check(source, err) == TD_OK)
        return status;
    td_keys_unref(*out);
    *out = NULL;
    return TD_DEVICE_UNAVAILABLE;
}

/* Prepares the next version with these keys. Takes over the reference to the keys. */
static td_status prepare(struct change *change, struct td_keys *keys, struct td_arena *arena,
                         struct td_error *err)
{
    const td_status status =
        td_version_prepare(change->store, change->write->name, arena, &change->version, err);
    if (status == TD_OK)
        td_version_set_keys(change->version, keys);
    else
        td_keys_unref(keys);
    return status;
}

td_status td_store_put_table(struct td_store *store, const struct td_store_write *write,
                             const struct td_tensor *rows, const struct td_tensor *key_vector,
                             struct td_exec *exec, struct td_arena *arena,
                             struct td_tensor_listing *out, bool *created, struct td_error *err)
{
    struct change change = { .store = store, .write = write };
    struct td_keys *keys = NULL;
    td_status status = begin_change(&change, err);
    if (status != TD_OK)
        return status;
    status = td_store_check_put(store, write, change.before, err);
    if (status == TD_OK && key_vector) {
        status = td_keys_check(key_vector, write->name, &rows->shape, err);
        if (status == TD_OK)
            status = make_keys(&change, key_vector, exec, &arena->stop, &keys, err);
    }
    if (status == TD_OK)
        status = prepare(&change, keys, arena, err);
    if (status == TD_OK)
        status = td_version_fill(store, change.version, change.before, rows, write->persist,
                                 &arena->stop, err);
    if (status == TD_OK)
        td_expiry_start(change.version, write->ttl_s);
    *created = !change.before;
    end_change(&change, status, out);
    if (status == TD_OK)
        td_store_retain_beside(store, write->name, write->writer);
    return status;
}

td_status td_store_put(struct td_store *store, const struct td_store_write *write,
                       const struct td_tensor *tensor, struct td_arena *arena,
                       struct td_tensor_listing *out, bool *created, struct td_error *err)
{
    return td_store_put_table(store, write, tensor, NULL, NULL, arena, out, created, err);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* True if the write persists keys that `before` already has in memory. */
static bool persists_keys(const struct td_store_write *write, const struct td_version *before,
                          const struct td_tensor *keys)
{
    return write->persist && before->keys && !before->persisted &&
           td_keys_equal(before->keys, keys);
}

/* Returns an error if `keys` cannot be added to the rows of `before`. With NULL `keys`, returns an
 * error if the keys of `before` cannot be deleted. A version gets keys only once, but the same keys
 * can be persisted later. */
static td_status check_keys_before(const struct td_store_write *write,
                                   const struct td_version *before, const struct td_tensor *keys,
                                   struct td_error *err)
{
    const td_status status = td_condition_check(&write->condition, write->name, before->etag, err);
    if (status != TD_OK || !td_table_version(write->name) || (keys && !before->keys))
        return status;
    if (keys && persists_keys(write, before, keys))
        return TD_OK;
    return td_error_set(err, TD_CONFLICT,
                        "'%s' is a version, which never changes; put its keys together with the "
                        "version, or add them once, before an alias names the version",
                        write->name);
}

td_status td_store_admit_keys(struct td_store *store, const struct td_store_write *write,
                              const struct td_tensor *keys, struct td_error *err)
{
    struct td_version *before;
    td_status status = td_store_check_write(store, write, err);
    if (status == TD_OK)
        status = td_store_need(store, write->name, strlen(write->name), &before, err);
    if (status != TD_OK)
        return status;
    const uint64_t rows = td_tensor_footprint(&before->tensor);
    status = check_keys_before(write, before, keys, err);
    if (status == TD_OK)
        status = td_keys_check(keys, write->name, &before->tensor.shape, err);
    if (status == TD_OK && write->persist)
        status = td_data_dir_admit(store->dir, write->name,
                                   td_saturating_add(rows, td_keys_footprint(keys)), err);
    else if (status == TD_OK)
        status = admit_bytes(
            store, before->held,
            td_saturating_add(before->held - td_version_keys_held(before), td_keys_footprint(keys)),
            err);
    td_buffer_unref(&before->base);
    return status;
}

/* Shares the rows of the previous version with the next version, in the same memory. */
static td_status share_rows(struct change *change, struct td_error *err)
{
    const struct td_version *before = change->before;
    struct td_version *version = change->version;
    const uint64_t rows = before->held - td_version_keys_held(before);
    const uint64_t held = rows + td_version_keys_held(version);
    const td_status status =
        td_store_reserve(change->store, before->held, held, &version->outgoing, err);
    if (status != TD_OK)
        return status;
    td_version_share(version, before, held);
    version->number = td_store_next_number(change->store, 0);
    td_etag_from_number(change->store, version);
    return TD_OK;
}

/* Changes the keys of an existing table. Takes over the reference to the keys. */
static td_status change_keys(struct change *change, struct td_keys *keys, struct td_arena *arena,
                             struct td_error *err)
{
    const struct td_tensor *rows = &change->before->tensor;
    td_status status = prepare(change, keys, arena, err);
    if (status != TD_OK)
        return status;
    status = change->write->persist ? td_version_fill(change->store, change->version,
                                                      change->before, rows, true, &arena->stop, err)
                                    : share_rows(change, err);
    td_expiry_keep(change->version, change->before);
    return status == TD_OK ? td_version_check(change->before, err) : status;
}

/* Checks that the current version exists, can be read and can be changed, and that the condition
 * holds. */
static td_status check_current(const struct change *change, const struct td_tensor *keys,
                               struct td_error *err)
{
    const char *name = change->write->name;
    td_status status = td_alias_check_name(change->store, name, err);
    if (status != TD_OK)
        return status;
    if (!change->before)
        return td_store_missing(change->store, name, strlen(name), err);
    status = td_version_check(change->before, err);
    if (status == TD_OK && change->write->persist)
        status = td_version_check_folder(change->before, err);
    return status != TD_OK ? status : check_keys_before(change->write, change->before, keys, err);
}

/* Returns CONFLICT if an alias names the version. Otherwise ensures that no alias can name it until
 * the change ends. */
static td_status keep_from_aliases(struct change *change, struct td_error *err)
{
    const char *name = change->write->name;
    if (!td_table_version(name))
        return TD_OK;
    change->kept_from_aliases = td_alias_begin_delete(change->store, name, TD_IGNORED) == TD_OK;
    return change->kept_from_aliases
               ? TD_OK
               : td_error_set(err, TD_CONFLICT,
                              "'%s' is a version that an alias names, so its keys cannot change; "
                              "put another version with its keys, {\"tensor\": [...], \"keys\": "
                              "[...]}, and let the alias name that version",
                              name);
}

td_status td_store_put_keys(struct td_store *store, const struct td_store_write *write,
                            const struct td_tensor *key_vector, struct td_exec *exec,
                            struct td_arena *arena, struct td_tensor_listing *out, bool *created,
                            struct td_error *err)
{
    struct change change = { .store = store, .write = write };
    struct td_keys *keys = NULL;
    td_status status = begin_change(&change, err);
    if (status != TD_OK)
        return status;
    status = check_current(&change, key_vector, err);
    if (status == TD_OK)
        status = td_keys_check(key_vector, write->name, &change.before->tensor.shape, err);
    if (status == TD_OK)
        status = make_keys(&change, key_vector, exec, &arena->stop, &keys, err);
    *created = change.before && !change.before->keys;
    if (status == TD_OK) {
        status = persists_keys(write, change.before, key_vector) ? TD_OK
                                                                 : keep_from_aliases(&change, err);
        if (status != TD_OK)
            td_keys_unref(keys);
        else
            status = change_keys(&change, keys, arena, err);
    }
    end_change(&change, status, out);
    return status;
}

/* True if there are keys to delete, including keys that were deleted in memory and are still in the
 * file. */
static bool has_keys_to_delete(const struct change *change)
{
    const struct td_version *before = change->before;
    return before->keys || (change->write->persist && before->file[0] && !before->persisted);
}

td_status td_store_delete_keys(struct td_store *store, const struct td_store_write *write,
                               struct td_arena *arena, struct td_tensor_listing *out,
                               struct td_error *err)
{
    struct change change = { .store = store, .write = write };
    td_status status = begin_change(&change, err);
    if (status != TD_OK)
        return status;
    status = check_current(&change, NULL, err);
    if (status == TD_OK && !has_keys_to_delete(&change))
        status = td_store_no_keys(write->name, err);
    if (status == TD_OK)
        status = change_keys(&change, NULL, arena, err);
    end_change(&change, status, out);
    return status;
}

/* ---- DELETE ---------------------------------------------------------------------------------- */

/* Returns an error if an alias that this process does not know might name the version. If this
 * process cannot change the folder, returns TD_OK, because the removal then reports the error. */
static td_status check_aliases(struct td_store *store, const char *name, struct td_error *err)
{
    return !td_table_version(name) || !store->dir || !td_data_dir_is_locked(store->dir)
               ? TD_OK
               : td_alias_check_file(store, err);
}

/* Deletes a tensor. The caller has locked its name. */
static td_status delete_tensor(struct td_store *store, const struct td_store_write *write,
                               bool *persisted, struct td_error *err)
{
    struct td_version *before = td_store_current(store, write->name, strlen(write->name));
    struct td_refused_file refused;
    const bool damaged =
        !before && td_store_find_refused_file(store, write->name, &refused) && refused.own;
    td_status status = TD_OK;
    if (before || damaged)
        status =
            td_condition_check(&write->condition, write->name, before ? before->etag : NULL, err);
    else
        status = td_store_missing(store, write->name, strlen(write->name), err);
    if (status == TD_OK)
        status = check_aliases(store, write->name, err);
    if (status == TD_OK)
        status = td_version_delete(store, write->name, before, false, persisted, err);
    td_buffer_unref(before ? &before->base : NULL);
    return status;
}

td_status td_store_delete(struct td_store *store, const struct td_store_write *write,
                          bool *persisted, struct td_error *err)
{
    struct td_writer writer;
    char target[TD_TENSOR_NAME];
    td_status status = td_name_check(write->name, err);
    *persisted = false;
    if (status != TD_OK)
        return status;
    if (td_alias_target(store, write->name, strlen(write->name), target))
        return td_alias_delete(store, write, persisted, err);
    (void)td_store_enter(store, write, &writer);
    status = delete_tensor(store, write, persisted, err);
    td_store_leave(store, write, &writer);
    return status;
}

/* ---- before a change ------------------------------------------------------------------------- */

bool td_store_plan_write(struct td_store *store, const struct td_store_write *write,
                         struct td_writer *writer)
{
    char target[TD_TENSOR_NAME];
    *writer = (struct td_writer){ .names = &write->name, .n_names = 1 };
    writer->aliases =
        write->removes && td_alias_target(store, write->name, strlen(write->name), target);
    /* A tensor in memory can also have a file, which a DELETE removes. */
    return store->dir && (write->persist || write->removes);
}
