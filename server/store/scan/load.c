#include "server/store/scan/load.h"

#include "server/store/changes/writers.h"
#include "server/store/entries.h"
#include "server/store/etag.h"
#include "server/store/quota.h"
#include "server/store/scan/verify.h"
#include "server/store/state.h"

#include <stdio.h>
#include <string.h>

/* Writes to `keys` the name of the file that holds the keys of the table in `file`: a separate file
 * for a .npy file, otherwise `file` itself. `file` can be in a version folder. Sets *folder to the
 * length of the folder's name including the slash, or to 0. */
static void name_keys_file(const char *file, char keys[TD_FILE_NAME], size_t *folder)
{
    const char *slash = strrchr(file, '/');
    char other[TD_FILE_NAME];
    *folder = slash ? (size_t)(slash + 1 - file) : 0;
    if (!td_data_keys_file(file + *folder, other) ||
        snprintf(keys, TD_FILE_NAME, "%.*s%s", (int)*folder, file, other) >= TD_FILE_NAME)
        snprintf(keys, TD_FILE_NAME, "%s", file);
}

static td_status take_keys(struct td_store *store, struct td_version *version, const char *file,
                           const struct td_data_tensor *found, struct td_error *err)
{
    struct td_keys *keys;
    struct td_error why = { 0 };
    char keys_file[TD_FILE_NAME];
    size_t folder;
    if (found->keys_refused)
        return td_error_set(err, TD_MALFORMED_REQUEST, "%s", found->keys_refused);
    if (!found->keys.data)
        return TD_OK;
    name_keys_file(file, keys_file, &folder);
    td_status status = td_keys_check(&found->keys, found->name, &found->tensor.shape, &why);
    if (status == TD_OK)
        status = td_keys_of_file(store, found, keys_file, &keys, &why);
    if (status != TD_OK && strcmp(keys_file, file) != 0)
        return td_error_set(err, status, "%s: %s", keys_file + folder, why.message);
    if (status != TD_OK) {
        *err = why;
        return status;
    }
    td_version_set_keys(version, keys);
    return TD_OK;
}

/* Reserves the name of the version. An error remains listed until the next scan, so its message
 * must remain true even after the alias is removed. */
static td_status reserve_name(struct td_store *store, struct td_version *version,
                              struct td_error *err)
{
    const td_status status = td_store_reserve_name(store, version, err);
    return status != TD_CONFLICT ? status
                                 : td_error_set(err, TD_CONFLICT,
                                                "an alias had its name when the file was read. "
                                                "After that alias is removed, send SIGHUP to "
                                                "serve the tensor");
}

td_status td_load_version(struct td_store *store, const char *file, const struct td_file_id *id,
                          const struct td_data_tensor *found, const struct td_version *before,
                          struct td_version **out, struct td_error *err)
{
    /* Keep a number that was stored before this process started. Later numbers must exceed all
     * numbers assigned so far. */
    const bool numbered = found->version > 0 && found->version >> 53 == 0 && !store->opened;
    struct td_version *version = td_version_new(found->name, err);
    if (!version)
        return TD_MEMORY_EXHAUSTED;
    snprintf(version->file, sizeof version->file, "%s", file);
    version->persisted = version->from_file = true;
    const bool mapped = found->tensor.owner != NULL;
    td_status status = take_keys(store, version, file, found, err);
    const uint64_t held =
        (mapped ? td_version_mapped_held(&found->tensor) : td_tensor_footprint(&found->tensor)) +
        td_version_keys_held(version);
    if (status == TD_OK)
        status = reserve_name(store, version, err);
    if (status == TD_OK)
        status = td_store_reserve(store, before ? before->held : 0, held, &version->outgoing, err);
    if (status == TD_OK) {
        version->held = held;
        if (mapped)
            td_version_map(version, found);
        else
            status = td_version_copy(store, version, &found->tensor, NULL, err);
    }
    if (status == TD_OK && mapped)
        status = td_store_verify_new(store, version, err);
    version->number = td_store_next_number(store, numbered ? found->version : 0);
    td_etag_from_file(version, id, found);
    if (status == TD_OK)
        *out = version;
    else
        td_version_abandon(store, version);
    return status;
}
