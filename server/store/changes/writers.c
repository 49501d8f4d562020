#include "server/store/changes/writers.h"

#include "server/store/aliases/alias_check.h"
#include "server/store/aliases/alias_list.h"
#include "server/store/entries.h"
#include "server/store/etag.h"
#include "server/store/quota.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/problems.h"
#include "server/store/state.h"

#include <stdio.h>
#include <string.h>

/* True if the owner of the tensor's bytes is more than a quarter larger than the tensor. The tensor
 * is then copied. */
#define MUCH_LARGER(owner, bytes) ((owner) / 5 * 4 > (bytes))

/* ---- locking names --------------------------------------------------------------------------- */

struct td_writer *td_store_enter(struct td_store *store, const struct td_store_write *write,
                                 struct td_writer *own)
{
    if (write->writer)
        return write->writer;
    *own = (struct td_writer){ .names = &write->name, .n_names = 1 };
    td_writer_wait(store, own);
    return own;
}

void td_store_leave(struct td_store *store, const struct td_store_write *write,
                    struct td_writer *own)
{
    if (!write->writer)
        td_writer_leave(store, own);
}

/* ---- preparing a version --------------------------------------------------------------------- */

td_status td_version_prepare(struct td_store *store, const char *name, struct td_arena *arena,
                             struct td_version **out, struct td_error *err)
{
    *out = NULL;
    struct td_version *version = td_version_new(name, err);
    if (!version)
        return TD_MEMORY_EXHAUSTED;
    td_buffer_ref(&version->base); /* for the arena */
    td_status status = td_version_keep(version, arena, err);
    if (status == TD_OK)
        status = td_store_reserve_name(store, version, err);
    if (status == TD_OK)
        *out = version;
    else
        td_buffer_unref(&version->base);
    return status;
}

void td_version_abandon(struct td_store *store, struct td_version *version)
{
    if (!version)
        return;
    td_store_unreserve_name(store, version);
    td_store_unreserve(store, version->held, version->outgoing);
    td_buffer_unref(&version->base);
}

/* Returns the buffer to keep instead of a copy of the tensor, or NULL if the tensor must be copied.
 * For a tensor of a version, the buffer is the version's bytes, never the version itself, because a
 * reference count of 1 on the bytes means exclusive use. */
static struct td_buffer *bytes_to_keep(const struct td_tensor *tensor)
{
    struct td_buffer *owner = tensor->owner;
    const struct td_version *version = td_version_of(tensor);
    if (version) {
        const struct td_part part = td_version_part(version, tensor);
        /* A mapped file can change or be truncated, so its bytes are copied. */
        owner = part.mapped == 0 ? part.bytes : NULL;
    }
    return owner && tensor->dtype != TD_DTYPE_STRING && td_tensor_is_aligned(tensor) &&
                   !MUCH_LARGER(owner->size, tensor->bytes)
               ? owner
               : NULL;
}

/* Keeps the tensor's bytes in memory, or copies them. */
static td_status take_bytes(struct td_store *store, struct td_version *version,
                            const struct td_tensor *tensor, const struct td_stop *stop,
                            struct td_error *err)
{
    const struct td_version *source = td_version_of(tensor);
    struct td_buffer *bytes = bytes_to_keep(tensor);
    td_status status = TD_OK;
    if (bytes)
        td_version_set(version, tensor, td_buffer_ref(bytes));
    else
        status = td_version_copy(store, version, tensor, stop, err);
    if (status == TD_OK && source)
        status = td_version_check(source, err);
    td_etag_from_number(store, version);
    return status;
}

/* Serves the tensor from its file. Also serves the keys from the file, in the memory of `mapped`,
 * instead of from memory. */
static td_status serve_file(struct td_version *version, const struct td_data_tensor *stored,
                            struct td_keys *mapped, struct td_error *err)
{
    const bool fits = !mapped || td_keys_map(mapped, stored, version->file);
    td_version_set_keys(version, fits ? td_keys_ref(mapped) : NULL);
    td_version_map(version, stored);
    /* The digests in the file were computed from these bytes. */
    version->integrity = TD_INTEGRITY_VERIFIED;
    return fits ? TD_OK
                : td_error_set(err, TD_DEVICE_UNAVAILABLE,
                               "the index of the keys in %s was damaged while it was being "
                               "written; put '%s' again",
                               version->file, version->name);
}

/* Returns CONFLICT if the file was added to the folder, or changed, after the last scan. The server
 * has not read that file, and a change of its name would replace or remove it. A damaged file can
 * be replaced. */
static td_status check_file_is_known(struct td_store *store, const char *file,
                                     const struct td_version *before, struct td_error *err)
{
    struct td_file_id now;
    struct td_known_file *known;
    if (td_data_dir_stat(store->dir, file, &now) != TD_FILE_PRESENT ||
        (before && strcmp(before->file, file) == 0 &&
         td_version_check(before, TD_IGNORED) != TD_OK))
        return TD_OK;
    td_status status = td_store_recall_file(store, file, &known, err);
    if (status != TD_OK)
        return status;
    const bool is_known = known && (known->refused || td_file_id_equal(&known->seen, &now) ||
                                    td_file_id_equal(&known->id, &now) ||
                                    td_file_id_equal(&known->seen, &td_file_id_unknown));
    td_known_file_free(known);
    return is_known ? TD_OK
                    : td_error_set(err, TD_CONFLICT,
                                   "%s in the data folder has changed since the server last read "
                                   "it, and this change would replace or remove it; send SIGHUP to "
                                   "the server first, or move the file away",
                                   file);
}

static td_status check_files_are_known(struct td_store *store, const char *name,
                                       struct td_error *err)
{
    char own[TD_FILE_NAME], npy[TD_FILE_NAME];
    struct td_version *before = td_store_current(store, name, strlen(name));
    td_data_own_file(name, own);
    td_status status = check_file_is_known(store, own, before, err);
    if (status == TD_OK && td_data_npy_file(name, npy))
        status = check_file_is_known(store, npy, before, err);
    td_buffer_unref(before ? &before->base : NULL);
    return status;
}

/* Removes the files that a new file of the name replaces from the list of problems. */
static void solve_replaced(struct td_store *store, const char *name)
{
    char file[TD_FILE_NAME];
    td_data_own_file(name, file);
    td_store_solve_problem(store, file);
    if (td_data_npy_file(name, file))
        td_store_solve_problem(store, file);
}

td_status td_version_persist(struct td_store *store, struct td_version *version,
                             const struct td_tensor *tensor, bool serve, const struct td_stop *stop,
                             struct td_error *err)
{
    struct td_arena arena;
    struct td_data_content content;
    struct td_keys *mapped = NULL;
    const struct td_version *source = td_version_of(tensor);
    /* Check again, because from here on no flip can set an alias of this name. */
    td_status status = td_alias_check_hidden(store, version->name, err);
    if (status == TD_OK)
        status = check_files_are_known(store, version->name, err);
    if (status != TD_OK)
        return status;
    td_data_own_file(version->name, version->file);
    if (serve && version->keys && !(mapped = td_keys_new(err)))
        return TD_MEMORY_EXHAUSTED;
    struct td_known_file *known = td_store_reserve_file(store, version->file, 1, err);
    if (!known) {
        td_keys_unref(mapped);
        return TD_MEMORY_EXHAUSTED;
    }
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    arena.stop = *stop;
    status = td_data_dir_write(store->dir, version->name, tensor,
                               version->keys ? &version->keys->tensor : NULL,
                               (const int[]){ source ? td_version_part(source, tensor).range : -1,
                                              version->keys ? version->keys->range : -1,
                                              version->keys ? version->keys->index_range : -1 },
                               version->number, &arena, &content, &version->persisted, err);
    if (version->persisted) {
        const struct td_data_tensor *stored = &content.tensors[0];
        td_etag_from_file(version, &content.id, stored);
        version->from_file = serve;
        const td_status served = serve ? serve_file(version, stored, mapped, err) : TD_OK;
        status = status != TD_OK ? status : served;
        known->id = known->seen = content.id;
        known->seen_version = version->number;
        td_known_file_add(known, version->name, false);
        td_store_file_written(store, known);
        solve_replaced(store, version->name);
    } else {
        td_store_unreserve_file(store, known);
    }
    td_keys_unref(mapped);
    td_arena_reset(&arena);
    return status;
}

td_status td_version_fill(struct td_store *store, struct td_version *version,
                          const struct td_version *before, const struct td_tensor *tensor,
                          bool persist, const struct td_stop *stop, struct td_error *err)
{
    version->number = td_store_next_number(store, 0);
    const struct td_tensor *keys = version->keys ? &version->keys->tensor : NULL;
    /* The text of a program stays in memory, as after a restart. */
    const bool map = persist && !td_is_program_name(version->name, strlen(version->name));
    const uint64_t rows = map ? td_version_mapped_held(tensor) : td_tensor_footprint(tensor);
    const uint64_t footprint =
        rows + (map && keys ? td_version_mapped_held(keys) : td_version_keys_held(version));
    td_status status =
        td_store_reserve(store, before ? before->held : 0, footprint, &version->outgoing, err);
    if (status != TD_OK)
        return status;
    version->held = footprint;
    if (!map)
        status = take_bytes(store, version, tensor, stop, err);
    if (status == TD_OK && persist)
        status = td_version_persist(store, version, tensor, map, stop, err);
    return status;
}

struct td_version *td_version_publish(struct td_store *store, struct td_version *version,
                                      struct td_tensor_listing *out)
{
    *out = td_version_listing(version);
    return td_store_publish(store, version);
}

/* ---- deleting -------------------------------------------------------------------------------- */

td_status td_version_check_folder(const struct td_version *version, struct td_error *err)
{
    const char *slash = version ? strchr(version->file, '/') : NULL;
    return slash ? td_error_set(
                       err, TD_FORBIDDEN,
                       "%s comes from the folder %.*s, which can change only as a whole; set "
                       "its aliases to other versions, remove the folder, and send SIGHUP",
                       TD_NAMED(version->name), (int)(slash - version->file), version->file)
                 : TD_OK;
}

/* Removes from the list of problems all files that might have held the name, because these files
 * were removed. */
static void solve_problems(struct td_store *store, const char *name)
{
    char file[TD_FILE_NAME];
    for (int place = 0; td_data_next_file(name, &place, file);)
        td_store_solve_problem(store, file);
}

td_status td_version_delete(struct td_store *store, const char *name,
                            const struct td_version *before, bool own_only, bool *had_file,
                            struct td_error *err)
{
    bool done = false;
    *had_file = false;
    td_status status = td_version_check_folder(before, err);
    if (status == TD_OK)
        status = td_alias_begin_delete(store, name, err);
    if (status != TD_OK)
        return status;
    if (store->dir)
        status = check_files_are_known(store, name, err);
    if (store->dir && status == TD_OK)
        status = td_data_dir_remove(store->dir, name, own_only, had_file, &done, err);
    if (status == TD_OK || done) {
        solve_problems(store, name);
        td_store_files_removed(store, name);
        td_store_drop(store, name);
    } else {
        td_alias_cancel_delete(store, name);
    }
    return status;
}
