#include "server/store/changes/write_check.h"

#include "server/store/aliases/alias_check.h"
#include "server/store/aliases/alias_list.h"
#include "server/store/changes/expiry.h"
#include "server/store/changes/retention.h"
#include "server/store/entries.h"
#include "server/store/scan/known_files.h"
#include "server/store/state.h"

#include <string.h>

td_status td_store_check_write(struct td_store *store, const struct td_store_write *write,
                               struct td_error *err)
{
    td_status status = td_name_check(write->name, err);
    if (status == TD_OK && !write->removes)
        status = td_alias_check_name(store, write->name, err);
    if (status == TD_OK && write->persist)
        status = td_alias_check_hidden(store, write->name, err);
    if (status != TD_OK || !write->persist)
        return status;
    return store->dir ? td_data_dir_check_change(store->dir, write->name, err)
                      : td_store_no_folder(err);
}

/* Returns CONFLICT if `before` has a name NAME@VERSION, because that version must not change. A
 * version that cannot be read can be replaced, which repairs it. */
static td_status check_replace(const struct td_store_write *write, const struct td_version *before,
                               struct td_error *err)
{
    if (!before || write->removes || !td_table_version(write->name) ||
        td_version_check(before, TD_IGNORED) != TD_OK)
        return TD_OK;
    return td_error_set(
        err, TD_CONFLICT,
        "%s already exists, and versions never change; store another version of %s",
        TD_NAMED(write->name),
        td_named_text(write->name, td_table_base(write->name), &(struct td_named){ { 0 } }));
}

td_status td_store_check_before(const struct td_store_write *write, const struct td_version *before,
                                struct td_error *err)
{
    const td_status status =
        td_condition_check(&write->condition, write->name, before ? before->etag : NULL, err);
    return status == TD_OK ? check_replace(write, before, err) : status;
}

td_status td_store_check_put(struct td_store *store, const struct td_store_write *write,
                             const struct td_version *before, struct td_error *err)
{
    char file[TD_FILE_NAME];
    td_status status = td_store_check_before(write, before, err);
    if (status == TD_OK && !before)
        status = td_store_check_retained(store, write->name, write->persist, err);
    if (status != TD_OK)
        return status;
    if (write->is_result && td_store_find_file(store, write->name, file))
        return td_error_set(err, TD_CONFLICT,
                            "'%s' is in %s of the data folder, and a result cannot replace it "
                            "because results are stored only in memory; use another name",
                            write->name, file);
    if (write->is_result && before && before->keys)
        return td_error_set(err, TD_CONFLICT,
                            "'%s' has keys, which would be lost because a result has no keys; use "
                            "another name, or delete the tensor first",
                            write->name);
    return td_expiry_check(write, err);
}

td_status td_store_check_change(struct td_store *store, const struct td_store_write *write,
                                struct td_error *err)
{
    td_status status = td_store_check_write(store, write, err);
    if (status != TD_OK)
        return status;
    char target[TD_TENSOR_NAME];
    if (td_alias_target(store, write->name, strlen(write->name), target))
        status = td_alias_check_condition(write, target, err);
    if (status != TD_OK)
        return status;
    struct td_version *before;
    td_store_resolve_names(store, &(struct td_store_name){ write->name, strlen(write->name) }, 1,
                           &before);
    status = td_store_check_before(write, before, err);
    if (status == TD_PRECONDITION_FAILED && before)
        /* If the write deletes an alias, the ETag belongs to the version that the alias names. */
        td_error_etag_of(err, before->name);
    td_buffer_unref(before ? &before->base : NULL);
    return status;
}
