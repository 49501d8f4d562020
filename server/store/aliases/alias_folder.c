#include "server/store/aliases/alias_folder.h"

#include "kernels/op.h"
#include "server/store/aliases/alias_change.h"
#include "server/store/aliases/alias_file.h"
#include "server/store/aliases/alias_load.h"
#include "server/store/aliases/taken_folders.h"
#include "server/store/scan/problems.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool td_alias_folder_is_taken(struct td_store *store, const char *name, const char *digest)
{
    struct td_writer writer;
    td_alias_enter(store, &writer);
    const bool taken = td_taken_has(store, name, digest);
    td_writer_leave(store, &writer);
    return taken;
}

void td_alias_forget_gone(struct td_store *store)
{
    struct td_writer writer;
    struct td_error err;
    bool done;
    td_alias_enter(store, &writer);
    /* Reading the file adds the folders that it lists, so folders are forgotten afterwards. */
    const bool loaded = (store->to_write || store->n_taken > TD_TAKEN_KEPT) &&
                        td_alias_may_write(store) && td_alias_load_entered(store, NULL);
    const bool changed = td_taken_forget_oldest(store);
    if (loaded && (changed || store->to_write) &&
        td_alias_write_file(store, &store->aliases, &done, &err) != TD_OK)
        td_store_report_problem(store, TD_ALIASES_FILE, err.message);
    store->folders_unknown = false;
    td_writer_leave(store, &writer);
}

/* Publishes the folder together with the list. With `persist`, writes aliases.json first. */
static td_status publish_folder(struct td_store *store, const struct td_alias_folder *folder,
                                const struct td_alias_list *list, bool persist,
                                struct td_error *err)
{
    bool done = !persist;
    td_status status = td_taken_note(store, folder->name, folder->digest, err);
    if (status == TD_OK && persist)
        status = td_alias_write_file(store, list, &done, err);
    /* If the folder sets no aliases, its entry in aliases.json only makes the next start faster. */
    if (!done && folder->n_set > 0) {
        td_taken_forget(store, folder->name);
        return status;
    }
    if (status != TD_OK)
        td_store_report_problem(store, TD_ALIASES_FILE, err->message);
    td_alias_publish(store, list, folder, folder->name);
    return TD_OK;
}

/* Reads from aliases.json which folders have set their aliases, because the process that writes the
 * file might have flipped these aliases since. The aliases themselves are read after the folders,
 * because they name versions in the folders. */
static void read_taken(struct td_store *store)
{
    struct td_file_id id;
    struct td_alias_file read;
    struct td_arena arena;
    /* Ignored, because the file is read again after the folders, and damage is then reported. */
    struct td_error unused;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    if (td_alias_read_file(store, &arena, &read, &id, &unused) == TD_OK && read.taken.count > 0)
        (void)td_taken_set(store, &read.taken, &unused);
    td_arena_reset(&arena);
}

/* Warns about aliases in aliases.json that the folder sets again. A file written by hand lists no
 * folders, so it does not show whether its aliases are newer than a folder. */
static void warn_of_aliases(const struct td_store *store, const struct td_alias_folder *folder,
                            const struct td_alias_list *edits)
{
    for (int i = 0; i < edits->count && store->folders_unknown; i++) {
        const char *name = edits->aliases[i].name;
        const struct td_alias *before = td_alias_in(&store->aliases, name, strlen(name));
        if (before)
            td_taken_warn(store, name, before->target, edits->aliases[i].target, folder->name);
    }
}

/* Aliases that a folder changes. */
struct folder_changes {
    /* The first n_given aliases are the aliases that the folder sets. The folder removes the
     * remaining aliases, whose names are allocated. */
    struct td_alias_change *set;
    int n_set, n_given;
};

static bool sets(const struct td_alias_folder *folder, const char *name)
{
    for (int i = 0; i < folder->n_set; i++)
        if (strcmp(folder->set[i].name, name) == 0)
            return true;
    return false;
}

/* True if the folder makes the alias of a part, such as the scales, obsolete. Its target is then a
 * part of another version of the rows, and the version that the folder sets does not have this
 * part, for example because floats replace bytes. Sets `name` to the alias of the part. */
static bool loses_part(struct td_store *store, const struct td_alias_folder *folder,
                       const struct td_alias_change *rows, const char *part,
                       char name[TD_TENSOR_NAME])
{
    char target[TD_TENSOR_NAME];
    if (!rows->target || !td_table_part_name(rows->name, part, name) || sets(folder, name) ||
        !td_table_part_name(rows->target, part, target))
        return false;
    const struct td_alias *before = td_alias_in(&store->aliases, name, strlen(name));
    if (!before || !td_alias_are_versions_of_one(before->target, target))
        return false;
    pthread_rwlock_rdlock(&store->lock);
    const bool exists = td_alias_version_comes_locked(store, folder, target);
    pthread_rwlock_unlock(&store->lock);
    return !exists;
}

static void free_changes(struct folder_changes *changes)
{
    for (int i = changes->n_given; i < changes->n_set; i++)
        free((char *)changes->set[i].name);
    free(changes->set);
}

/* Collects the aliases that the folder sets, and the aliases of parts that it makes obsolete. A
 * flip lists the aliases to remove, but a folder cannot. If obsolete aliases were not removed here,
 * the folder would be refused. */
static td_status changes_of(struct td_store *store, const struct td_alias_folder *folder,
                            struct folder_changes *changes, struct td_error *err)
{
    char name[TD_TENSOR_NAME], *copy;
    size_t per_alias = 1;
    while (td_op_table_part((int)per_alias - 1))
        per_alias++;
    const size_t most = (size_t)folder->n_set * per_alias;
    *changes = (struct folder_changes){ .set = calloc(most + 1, sizeof *changes->set) };
    bool ok = changes->set != NULL;
    for (int i = 0; i < folder->n_set && ok; i++)
        changes->set[changes->n_set++] = folder->set[i];
    changes->n_given = changes->n_set;
    for (int i = 0; i < folder->n_set && ok; i++)
        for (int part = 0; ok && td_op_table_part(part); part++) {
            if (!loses_part(store, folder, &folder->set[i], td_op_table_part(part), name))
                continue;
            ok = (copy = strdup(name)) != NULL;
            if (ok)
                changes->set[changes->n_set++] = (struct td_alias_change){ copy, NULL };
        }
    return ok ? TD_OK
              : td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the aliases of a folder");
}

/* Makes the edits of the folder's changes. The names are valid, because the folder's manifest has
 * been checked. */
static td_status make_edits(const struct folder_changes *changes, int count,
                            struct td_alias_list *edits, struct td_error *err)
{
    const td_status status = td_alias_make_room(edits, count, err);
    for (int i = 0; i < count && status == TD_OK; i++)
        td_alias_edit(edits, changes->set[i].name, changes->set[i].target);
    if (status == TD_OK)
        td_alias_sort(edits);
    return status;
}

static td_status take_folder(struct td_store *store, const struct td_alias_folder *folder,
                             struct td_error *err)
{
    struct folder_changes changes;
    struct td_alias_list edits = { 0 }, list = { 0 };
    const bool writes = td_alias_may_write(store);
    /* Never overwrite a file that is damaged or that another process has changed. */
    const bool may_write = writes && td_alias_load_entered(store, folder);
    if (!writes)
        read_taken(store);
    const bool taken = td_taken_has(store, folder->name, folder->digest);
    td_status status = changes_of(store, folder, &changes, err);
    const struct td_alias_flip flip = { 0 };
    if (status == TD_OK)
        status = make_edits(&changes, taken ? 0 : changes.n_set, &edits, err);
    for (int i = 0; i < edits.count && !may_write; i++)
        snprintf(edits.aliases[i].folder, sizeof edits.aliases[i].folder, "%s", folder->name);
    if (status == TD_OK) {
        td_alias_claim(store, &edits);
        status = td_alias_check_flip(store, &flip, &edits, folder, err);
    }
    if (status == TD_OK)
        status = td_alias_merge(&store->aliases, &edits, &list, err);
    if (status == TD_OK) {
        warn_of_aliases(store, folder, &edits);
        status = publish_folder(store, folder, &list, may_write && !taken, err);
    }
    if (status != TD_OK)
        free(list.aliases);
    td_alias_claim(store, NULL);
    free(edits.aliases);
    free_changes(&changes);
    return status;
}

td_status td_alias_take_folder(struct td_store *store, const struct td_alias_folder *folder,
                               struct td_error *err)
{
    struct td_writer writer;
    td_alias_enter(store, &writer);
    const td_status status = take_folder(store, folder, err);
    td_writer_leave(store, &writer);
    return status;
}
