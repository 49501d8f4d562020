#include "server/store/aliases/alias_load.h"

#include "server/store/aliases/alias_change.h"
#include "server/store/aliases/alias_file.h"
#include "server/store/aliases/taken_folders.h"
#include "server/store/entries.h"
#include "server/store/files/data_dir.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/problems.h"
#include "server/store/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- changes of the file -------------------------------------------------------------------- */

static bool is_tensor(struct td_store *store, const char *name)
{
    const struct td_version *unused;
    pthread_rwlock_rdlock(&store->lock);
    const bool is = td_store_use_locked(store, name, &unused) != TD_NAME_FREE;
    pthread_rwlock_unlock(&store->lock);
    return is;
}

/* True if a folder set the alias while the file could not be written, and the file that was just
 * read does not list this folder. A restart would set the alias again, so the target in the file is
 * ignored. */
static bool is_pending(const struct td_store *store, const struct td_alias *alias,
                       const struct td_string_map *read_taken)
{
    const int place =
        alias && alias->folder[0] ? td_taken_place(store, alias->folder) : store->n_taken;
    return place < store->n_taken && !store->taken[place].stored &&
           !td_taken_in_file(read_taken, alias->folder) &&
           !td_data_dir_has_gone(store->dir, alias->folder);
}

/* Makes the edits that turn the aliases in effect into the aliases of the file. */
static td_status compare_file(const struct td_store *store, const struct td_alias_file *found,
                              struct td_alias_list *edits, struct td_error *err)
{
    const struct td_alias_list *now = &store->aliases;
    const struct td_string_map *read = &found->aliases;
    struct td_alias_list file;
    td_status status = td_alias_make_room(&file, read->count, err);
    if (status != TD_OK)
        return status;
    status = td_alias_make_room(edits, read->count + now->count, err);
    for (int i = 0; i < read->count && status == TD_OK; i++)
        td_alias_edit(&file, read->pairs[i].name, read->pairs[i].value);
    td_alias_sort(&file);
    for (int i = 0; i < file.count && status == TD_OK; i++) {
        const struct td_alias *alias = &file.aliases[i],
                              *before = td_alias_in(now, alias->name, strlen(alias->name));
        if (is_pending(store, before, &found->taken))
            td_taken_warn(store, alias->name, alias->target, before->target, before->folder);
        else if (!before || before->folder[0] || strcmp(before->target, alias->target) != 0)
            edits->aliases[edits->count++] = *alias;
    }
    for (int i = 0; i < now->count && status == TD_OK; i++) {
        const struct td_alias *alias = &now->aliases[i];
        if (!td_alias_in(&file, alias->name, strlen(alias->name)) &&
            !is_pending(store, alias, &found->taken))
            td_alias_edit(edits, alias->name, NULL);
    }
    if (status == TD_OK)
        td_alias_sort(edits);
    free(file.aliases);
    return status;
}

/* Hides the aliases that have the name of a tensor, because a rescan does not remove a tensor that
 * is served. At startup, the aliases are read before any tensor is served. */
static void hide_taken_names(struct td_store *store, struct td_alias_list *edits)
{
    const struct td_version *unused;
    /* The edits are claimed, so other threads read them under the lock. */
    pthread_rwlock_wrlock(&store->lock);
    for (int i = 0; i < edits->count; i++) {
        struct td_alias *alias = &edits->aliases[i];
        alias->hidden =
            alias->target[0] && td_store_use_locked(store, alias->name, &unused) != TD_NAME_FREE;
    }
    pthread_rwlock_unlock(&store->lock);
}

/* Removes the problems of the edited aliases, and adds a problem for each hidden alias. Sets
 * store->name_freed if an alias is removed and a file contains a tensor of the same name. */
static void note_edits(struct td_store *store, const struct td_alias_list *edits)
{
    char unused[TD_FILE_NAME];
    for (int i = 0; i < edits->count; i++) {
        const struct td_alias *alias = &edits->aliases[i];
        td_store_solve_alias(store, alias->name);
        if (alias->hidden)
            td_store_report_alias(store, alias->name,
                                  "the alias in aliases.json is not served until a restart: a "
                                  "tensor has the same name, and a restart would serve the alias "
                                  "instead. Delete the tensor, or remove the alias from "
                                  "aliases.json, and send SIGHUP");
        if (!alias->target[0] && td_store_find_file(store, alias->name, unused))
            store->name_freed = true;
    }
}

/* Returns TENSOR_NOT_FOUND if the file moves an alias from a version that is served to a version
 * that is not served. No alias then changes, because the file might flip several aliases that
 * belong together. At startup, no alias has a served version to keep. `folder` is the folder that
 * is being published, or NULL; its versions count as served. */
static td_status check_targets(struct td_store *store, const struct td_alias_list *edits,
                               const struct td_alias_folder *folder, struct td_error *err)
{
    const struct td_version *unused;
    const struct td_alias *missing = NULL;
    pthread_rwlock_rdlock(&store->lock);
    for (int i = 0; i < edits->count && !missing; i++) {
        const struct td_alias *alias = &edits->aliases[i];
        const struct td_alias *now = td_alias_in(&store->aliases, alias->name, strlen(alias->name));
        if (td_alias_is_served(now) && alias->target[0] &&
            !td_alias_version_comes_locked(store, folder, alias->target) &&
            td_store_use_locked(store, now->target, &unused) == TD_NAME_CURRENT)
            missing = alias;
    }
    pthread_rwlock_unlock(&store->lock);
    return missing ? td_error_set(err, TD_TENSOR_NOT_FOUND,
                                  "its alias '%s' names %s, which does not exist", missing->name,
                                  missing->target)
                   : TD_OK;
}

/* Makes the edits. For `folder`, see check_targets. */
static td_status set_aliases(struct td_store *store, struct td_alias_list *edits,
                             const struct td_alias_folder *folder, struct td_error *err)
{
    td_alias_claim(store, edits);
    td_status status = check_targets(store, edits, folder, err);
    if (status == TD_OK) {
        hide_taken_names(store, edits);
        status = td_alias_apply(store, edits, false, TD_ALIASES_FILE, err);
    }
    td_alias_claim(store, NULL);
    if (status == TD_OK)
        note_edits(store, edits);
    return status;
}

static td_status take_aliases(struct td_store *store, const struct td_alias_file *read,
                              const struct td_alias_folder *folder, struct td_error *err)
{
    struct td_alias_list edits = { 0 };
    td_status status = compare_file(store, read, &edits, err);
    if (status == TD_OK)
        status = set_aliases(store, &edits, folder, err);
    free(edits.aliases);
    return status;
}

/* ---- reading the file ------------------------------------------------------------------------ */

/* Reads the file. A missing file means that there are no aliases. */
td_status td_alias_read_file(const struct td_store *store, struct td_arena *arena,
                             struct td_alias_file *read, struct td_file_id *id,
                             struct td_error *err)
{
    enum { MOST_BYTES = 64 << 20 };
    char *text;
    size_t bytes;
    *read = (struct td_alias_file){ 0 };
    td_status status =
        td_data_dir_read_text(store->dir, TD_ALIASES_FILE, MOST_BYTES, &text, &bytes, id, err);
    if (status == TD_OK && text)
        status = td_alias_file_read(text, bytes, arena, read, err);
    free(text);
    return status;
}

/* Reads the file and puts its aliases into effect. */
static td_status take_file(struct td_store *store, const struct td_alias_folder *folder,
                           struct td_error *err)
{
    struct td_file_id id;
    struct td_alias_file read;
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_status status = td_alias_read_file(store, &arena, &read, &id, err);
    if (status == TD_OK)
        status = take_aliases(store, &read, folder, err);
    if (status == TD_OK)
        status = td_taken_set(store, &read.taken, err);
    if (status == TD_OK)
        store->folders_unknown = read.aliases.count > 0 && store->n_taken == 0;
    if (status == TD_OK)
        td_alias_set_file(store, &store->aliases_file, &id);
    td_arena_reset(&arena);
    return status;
}

/* Serves hidden aliases whose names no longer belong to a tensor. */
static td_status show_hidden(struct td_store *store, struct td_error *err)
{
    struct td_alias_list edits;
    const struct td_alias_list *now = &store->aliases;
    td_status status = td_alias_make_room(&edits, now->count, err);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < now->count; i++)
        if (now->aliases[i].hidden && !is_tensor(store, now->aliases[i].name))
            td_alias_edit(&edits, now->aliases[i].name, now->aliases[i].target);
    /* If a tensor of this name has been put in the meantime, set_aliases hides the alias again. */
    if (edits.count > 0)
        status = set_aliases(store, &edits, NULL, err);
    free(edits.aliases);
    return status;
}

/* Returns an error if the file cannot be read. The file must be readable for the next start, even
 * if it has not changed. */
static td_status check_readable(struct td_store *store, struct td_error *err)
{
    struct td_error why;
    const td_status status = td_data_dir_check_read(store->dir, TD_ALIASES_FILE, &why);
    return status == TD_OK
               ? TD_OK
               : td_error_set(err, status, "%s cannot be read: %s", TD_ALIASES_FILE, why.message);
}

/* Handles a file that could not be read or written before and no longer exists. The aliases remain
 * in effect, and are written to a new file after the folders have been scanned. */
static td_status keep_aliases(struct td_store *store, struct td_error *err)
{
    if (!td_alias_may_write(store))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "it could not be read, and then it was removed. Send SIGHUP to the "
                            "daemon that writes the data folder, which then writes the file "
                            "again, or put a correct file in its place and send SIGHUP");
    store->to_write = true;
    return TD_OK;
}

/* True if the file is unchanged since it was last read or written. A file that did not exist then
 * must still not exist. */
static bool is_unchanged(const struct td_store *store, td_file_state state,
                         const struct td_file_id *id)
{
    return state != TD_FILE_UNKNOWN && td_file_id_equal(id, &store->aliases_file);
}

static td_status load(struct td_store *store, td_file_state state, const struct td_file_id *id,
                      const struct td_alias_folder *folder, struct td_error *err)
{
    const bool known = atomic_load(&store->aliases_known);
    const bool vanished =
        state == TD_FILE_GONE && known &&
        (atomic_load(&store->aliases_unread) || (store->to_write && td_alias_may_write(store)));
    td_status status = TD_OK;
    if (vanished)
        status = keep_aliases(store, err);
    else if (!known || store->to_write || !is_unchanged(store, state, id))
        status = take_file(store, folder, err);
    else if (state == TD_FILE_PRESENT)
        status = check_readable(store, err);
    return status == TD_OK ? show_hidden(store, err) : status;
}

bool td_alias_load_entered(struct td_store *store, const struct td_alias_folder *folder)
{
    struct td_file_id id = td_file_id_unknown;
    struct td_error err;
    const td_file_state state = td_data_dir_stat(store->dir, TD_ALIASES_FILE, &id);
    const bool same = state == TD_FILE_PRESENT && is_unchanged(store, state, &id);
    if (load(store, state, &id, folder, &err) == TD_OK) {
        /* Keep the problem if the file could not be written. */
        if (!same || store->aliases_unread)
            td_store_solve_problem(store, TD_ALIASES_FILE);
        if (state == TD_FILE_GONE && td_store_check_aliases(store, TD_IGNORED) != TD_OK)
            td_log(store->log, TD_LOG_WARN, "aliases_lost", TD_TEXT("source", TD_ALIASES_FILE),
                   TD_TEXT("reason", "it could not be read at startup and was then removed; only "
                                     "the aliases set by version folders remain"));
        td_alias_note_read(store, true);
        return true;
    }
    td_alias_note_read(store, false);
    if (atomic_load(&store->aliases_known))
        td_error_hint(&err, "the aliases that were read before stay in effect until a restart");
    td_alias_set_file(store, &store->aliases_refused, &id);
    td_store_report_problem(store, TD_ALIASES_FILE, err.message);
    return false;
}

bool td_alias_load(struct td_store *store)
{
    struct td_writer writer;
    td_alias_enter(store, &writer);
    (void)td_alias_load_entered(store, NULL);
    const bool freed = store->name_freed;
    store->name_freed = false;
    td_writer_leave(store, &writer);
    return freed;
}
