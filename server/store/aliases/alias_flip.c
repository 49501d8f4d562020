#include "server/store/aliases/alias_flip.h"

#include "server/store/aliases/alias_check.h"
#include "server/store/aliases/alias_file.h"
#include "server/store/changes/retention.h"
#include "server/store/entries.h"
#include "server/store/files/data_dir.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/problems.h"
#include "server/store/scan/scan_report.h"
#include "server/store/state.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what becomes of the aliases ------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_alias *)a)->name, ((const struct td_alias *)b)->name);
}

static td_status make_room(struct td_alias_table *edits, int count, struct td_error *err)
{
    *edits =
        (struct td_alias_table){ .aliases = calloc((size_t)count + 1, sizeof *edits->aliases) };
    return edits->aliases
               ? TD_OK
               : td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for %d aliases", count);
}

/* Sets the edit of one alias; the writer of the aliases has entered, so that the aliases stay as
 * they are. */
static void edit(const struct td_store *store, struct td_alias_table *edits, const char *name,
                 const char *target, bool persist)
{
    const struct td_alias *before = td_alias_in(&store->aliases, name, strlen(name));
    struct td_alias *alias = &edits->aliases[edits->count++];
    snprintf(alias->name, sizeof alias->name, "%s", name);
    snprintf(alias->target, sizeof alias->target, "%s", target ? target : "");
    snprintf(alias->stored, sizeof alias->stored, "%s",
             persist  ? alias->target
             : before ? before->stored
                      : "");
    snprintf(alias->folder, sizeof alias->folder, "%s", before && !persist ? before->folder : "");
    alias->hidden = before && before->hidden && !target && !persist;
}

static td_status at_set(td_status status, struct td_error *err)
{
    return td_error_at_attribute(err, status, "set");
}

/* All aliases may be removed and as many new ones set, but not more: an edit takes 452 bytes that
 * no limit of memory counts, and all of them are checked under the lock. */
static td_status check_size(const struct td_alias_flip *flip, struct td_error *err)
{
    enum { MOST = 2 * TD_STORE_TENSORS };
    if (flip->n_set > MOST)
        return at_set(td_error_resource(err, "aliases", (uint64_t)flip->n_set, MOST, "the flip"),
                      err);
    if (flip->n_wanted > MOST)
        return td_error_at_attribute(
            err, td_error_resource(err, "aliases", (uint64_t)flip->n_wanted, MOST, "the flip"),
            "if");
    return TD_OK;
}

static td_status make_edits(const struct td_store *store, const struct td_alias_flip *flip,
                            struct td_alias_table *edits, struct td_error *err)
{
    td_status status = check_size(flip, err);
    if (status == TD_OK)
        status = make_room(edits, flip->n_set, err);
    for (int i = 0; i < flip->n_set && status == TD_OK; i++) {
        const struct td_alias_change *set = &flip->set[i];
        status = td_alias_check(set->name, NULL, err);
        if (status == TD_OK && set->target)
            status = td_store_check_name(set->target, err);
        if (status != TD_OK)
            return at_set(status, err);
        edit(store, edits, set->name, set->target, flip->persist);
    }
    if (status == TD_OK)
        qsort(edits->aliases, (size_t)edits->count, sizeof *edits->aliases, by_name);
    return status;
}

/* ---- changes, whose writer of the aliases has entered ---------------------------------------- */

static void claim(struct td_store *store, const struct td_alias_table *claims)
{
    pthread_rwlock_wrlock(&store->lock);
    store->claims = claims;
    pthread_rwlock_unlock(&store->lock);
}

/* The target of the alias `name` in a table; NULL if it has none there. */
static const char *target_in(const struct td_alias_table *table, const char *name)
{
    const struct td_alias *alias = td_alias_in(table, name, strlen(name));
    return alias && alias->target[0] ? alias->target : NULL;
}

/* True if the alias has another target in `now` than in `before`. */
static bool log_change(const struct td_store *store, const char *source, const char *name,
                       const struct td_alias_table *before, const struct td_alias_table *now,
                       bool log)
{
    const char *from = target_in(before, name), *to = target_in(now, name);
    if (from == to || (from && to && strcmp(from, to) == 0))
        return false;
    if (log)
        td_log(store->log, TD_LOG_INFO, "alias_changed", TD_TEXT("alias", name),
               TD_TEXT("from", from), TD_TEXT("to", to), TD_TEXT("source", source));
    return true;
}

/* Logs each alias that `source`, a file or a folder of the data folder, has changed. */
static void log_changes(const struct td_store *store, const char *source,
                        const struct td_alias_table *before, const struct td_alias_table *now)
{
    int changed = 0;
    for (int i = 0; i < now->count; i++)
        changed +=
            log_change(store, source, now->aliases[i].name, before, now, changed < TD_SCAN_LINES);
    for (int i = 0; i < before->count; i++) {
        const char *name = before->aliases[i].name;
        if (!td_alias_in(now, name, strlen(name)))
            changed += log_change(store, source, name, before, now, changed < TD_SCAN_LINES);
    }
    if (changed > 0)
        td_log(store->log, TD_LOG_INFO, "aliases_loaded", TD_TEXT("source", source),
               TD_INT("changed", changed),
               TD_COUNT("not_logged", changed > TD_SCAN_LINES ? changed - TD_SCAN_LINES : 0));
}

/* Makes the table and the versions of a folder (NULL for none) current, releases the claims and
 * frees the table before. source: the file or folder that a scan has the table from; NULL for a
 * request. */
static void publish(struct td_store *store, const struct td_alias_table *table,
                    const struct td_alias_folder *folder, const char *source)
{
    pthread_rwlock_wrlock(&store->lock);
    const struct td_alias_table before = store->aliases;
    if (folder)
        td_store_publish_new_locked(store, folder->versions, folder->n_versions);
    store->aliases = *table;
    store->claims = NULL;
    atomic_fetch_add(&store->changes, 1);
    pthread_rwlock_unlock(&store->lock);
    if (source && !store->inspector)
        log_changes(store, source, &before, table); /* only the writer of the aliases replaces it */
    free(before.aliases);
}

/* While the file is being replaced, what is found under its name says nothing. */
static void set_writes_file(struct td_store *store, bool writes)
{
    pthread_mutex_lock(&store->aliases_file_mutex);
    store->writes_aliases_file = writes;
    pthread_mutex_unlock(&store->aliases_file_mutex);
}

static void set_file(struct td_store *store, struct td_file_id *member, const struct td_file_id *id)
{
    pthread_mutex_lock(&store->aliases_file_mutex);
    *member = *id;
    pthread_mutex_unlock(&store->aliases_file_mutex);
}

/* Notes whether the aliases are as the file says. */
static void note_read(struct td_store *store, bool read)
{
    atomic_store(&store->aliases_unread, !read);
    if (read)
        atomic_store(&store->aliases_known, true);
}

/* Replaces aliases.json; *done as of td_data_dir_write. */
static td_status store_table(struct td_store *store, const struct td_alias_table *table, bool *done,
                             struct td_error *err)
{
    size_t bytes;
    struct td_file_id id;
    char *text = td_alias_file_text(table, store->taken, store->n_taken, &bytes);
    if (!text)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the text of the aliases");
    set_writes_file(store, true);
    const td_status status =
        td_data_dir_write_text(store->dir, TD_ALIASES_FILE, text, bytes, &id, done, err);
    if (*done)
        set_file(store, &store->aliases_file, &id);
    set_writes_file(store, false);
    if (*done) {
        note_read(store, true);
        for (int i = 0; i < store->n_taken; i++)
            store->taken[i].stored = true;
        store->to_write = false;
        td_store_solve_problem(store, TD_ALIASES_FILE); /* a damaged one, which was removed */
    }
    free(text);
    return status;
}

/* Makes the edits, whose names are claimed; source as of publish. */
static td_status apply(struct td_store *store, const struct td_alias_table *edits, bool persist,
                       const char *source, struct td_error *err)
{
    struct td_alias_table table;
    bool done = !persist;
    td_status status = td_alias_merge(&store->aliases, edits, &table, err);
    if (status == TD_OK && persist)
        status = store_table(store, &table, &done, err);
    if (done && table.aliases)
        publish(store, &table, NULL, source);
    else
        free(table.aliases);
    return status;
}

static bool is_served(struct td_store *store, const char *name)
{
    const struct td_version *version;
    pthread_rwlock_rdlock(&store->lock);
    const bool found = td_store_use_locked(store, name, &version) == TD_NAME_CURRENT;
    pthread_rwlock_unlock(&store->lock);
    return found;
}

/* Lists an alias whose target is not there, or would not be after a restart. */
static void check_target(struct td_store *store, const struct td_alias *alias)
{
    const bool now = alias->target[0] && !is_served(store, alias->target);
    char reason[2 * TD_TENSOR_NAME + TD_ABSENCE], absence[TD_ABSENCE];
    if (!now && (!alias->stored[0] || is_served(store, alias->stored))) {
        td_store_solve_alias(store, alias->name);
        return;
    }
    td_store_explain_absence(store, now ? alias->target : alias->stored, absence, sizeof absence);
    if (now)
        snprintf(reason, sizeof reason, "it names %s, %s", alias->target, absence);
    else
        snprintf(reason, sizeof reason,
                 "after a restart it names %s, %s; a flip with ?persist=1 lets it name another "
                 "version then, too",
                 alias->stored, absence);
    td_store_report_alias(store, alias->name, reason);
}

static td_status flip_entered(struct td_store *store, const struct td_alias_flip *flip,
                              struct td_error *err)
{
    struct td_alias_table edits = { 0 };
    /* Who may not change the folder is told so by the write. */
    td_status status = flip->persist && td_data_dir_is_locked(store->dir)
                           ? td_alias_check_file(store, err)
                           : TD_OK;
    if (status == TD_OK)
        status = make_edits(store, flip, &edits, err);
    if (status == TD_OK) {
        claim(store, &edits);
        status = td_alias_check_flip(store, flip, &edits, NULL, err);
    }
    if (status == TD_OK)
        status = apply(store, &edits, flip->persist, NULL, err);
    claim(store, NULL);
    for (int i = 0; i < edits.count && status == TD_OK; i++)
        if (!edits.aliases[i].hidden)
            check_target(store, &edits.aliases[i]);
    free(edits.aliases);
    return status;
}

static void enter(struct td_store *store, struct td_writer *writer)
{
    *writer = (struct td_writer){ .aliases = true };
    td_writer_wait(store, writer);
}

bool td_store_plan_flip(const struct td_alias_flip *flip, struct td_writer *writer)
{
    *writer = (struct td_writer){ .aliases = true };
    return flip->persist;
}

td_status td_store_flip(struct td_store *store, const struct td_alias_flip *flip,
                        struct td_error *err)
{
    struct td_writer writer;
    if (flip->persist && !store->dir)
        return td_store_no_folder(err);
    if (!flip->writer)
        enter(store, &writer);
    const td_status status = flip_entered(store, flip, err);
    if (!flip->writer)
        td_writer_leave(store, &writer);
    if (status == TD_OK)
        td_store_retain(store, UINT64_MAX);
    return status;
}

/* The writer of the aliases has entered. */
static td_status delete_entered(struct td_store *store, const struct td_store_write *write,
                                bool *persisted, struct td_error *err)
{
    const struct td_store_name name = { write->name, strlen(write->name) };
    const struct td_alias_change set = { .name = write->name };
    struct td_version *version;
    char target[TD_TENSOR_NAME];
    const struct td_alias *alias = td_alias_in(&store->aliases, name.text, name.length);
    *persisted = alias && alias->stored[0];
    if (!td_alias_target(store, name.text, name.length, target))
        return td_store_not_found(store, name.text, name.length, NULL, err);
    td_store_resolve_names(store, &name, 1, &version);
    td_status status = td_alias_check_condition(write, target, err);
    if (status == TD_OK)
        status =
            td_condition_check(&write->condition, name.text, version ? version->etag : NULL, err);
    if (status == TD_PRECONDITION_FAILED)
        td_error_etag_of(err, target);
    td_buffer_unref(version ? &version->base : NULL);
    return status != TD_OK ? status
                           : flip_entered(store,
                                          &(struct td_alias_flip){
                                              .set = &set, .n_set = 1, .persist = *persisted },
                                          err);
}

td_status td_alias_delete(struct td_store *store, const struct td_store_write *write,
                          bool *persisted, struct td_error *err)
{
    struct td_writer writer;
    if (write->writer && !write->writer->aliases)
        return td_error_set(
            err, TD_CONFLICT,
            "'%s' was a tensor when the request came and is an alias now; to delete "
            "the alias, repeat the request",
            write->name);
    if (!write->writer)
        enter(store, &writer);
    const td_status status = delete_entered(store, write, persisted, err);
    if (!write->writer)
        td_writer_leave(store, &writer);
    if (status == TD_OK)
        td_store_retain(store, UINT64_MAX);
    return status;
}

/* ---- aliases.json ---------------------------------------------------------------------------- */

static bool may_write_file(const struct td_store *store)
{
    return !store->read_only && td_data_dir_is_locked(store->dir);
}

static bool is_tensor(struct td_store *store, const char *name)
{
    const struct td_version *unused;
    pthread_rwlock_rdlock(&store->lock);
    const bool is = td_store_use_locked(store, name, &unused) != TD_NAME_FREE;
    pthread_rwlock_unlock(&store->lock);
    return is;
}

static bool has_folder(const struct td_string_map *read, const char *folder)
{
    int i = 0;
    while (i < read->count && strcmp(read->pairs[i].name, folder) != 0)
        i++;
    return i < read->count;
}

/* The writer of the aliases has entered. */
static int place_of_folder(const struct td_store *store, const char *name)
{
    int i = 0;
    while (i < store->n_taken && strcmp(store->taken[i].name, name) != 0)
        i++;
    return i;
}

/* Whether a folder has set the alias while the file could not be written, and the file that is read
 * does not know this folder. A restart would set the alias again, so what the file says of it does
 * not count. */
static bool is_pending(const struct td_store *store, const struct td_alias *alias,
                       const struct td_string_map *read_taken)
{
    const int place =
        alias && alias->folder[0] ? place_of_folder(store, alias->folder) : store->n_taken;
    return place < store->n_taken && !store->taken[place].stored &&
           !has_folder(read_taken, alias->folder) &&
           !td_data_dir_has_gone(store->dir, alias->folder);
}

static void warn_set_again(const struct td_store *store, const char *name, const char *from,
                           const char *to, const char *folder)
{
    char reason[4 * TD_TENSOR_NAME];
    if (strcmp(from, to) == 0)
        return;
    snprintf(reason, sizeof reason,
             "its alias '%s' names %s, but the folder %s, which its \"taken\" lacks, sets it to %s",
             name, from, folder, to);
    if (store->inspector)
        store->inspector->skipped(store->inspector->context, TD_ALIASES_FILE, NULL, reason);
    else
        td_log(store->log, TD_LOG_WARN, "alias_set_again", TD_TEXT("alias", name),
               TD_TEXT("from", from), TD_TEXT("to", to), TD_TEXT("source", folder));
}

/* The aliases whose target in the file has changed, as they are to be. An alias with the name of a
 * tensor is not served. */
static td_status compare_stored(const struct td_store *store, const struct td_alias_file *found,
                                struct td_alias_table *edits, struct td_error *err)
{
    const struct td_alias_table *now = &store->aliases;
    const struct td_string_map *read = &found->aliases;
    struct td_alias_table file;
    td_status status = make_room(&file, read->count, err);
    if (status != TD_OK)
        return status;
    status = make_room(edits, read->count + now->count, err);
    for (int i = 0; i < read->count && status == TD_OK; i++)
        edit(store, &file, read->pairs[i].name, read->pairs[i].value, true);
    qsort(file.aliases, (size_t)file.count, sizeof *file.aliases, by_name);
    for (int i = 0; i < file.count && status == TD_OK; i++) {
        const struct td_alias *alias = &file.aliases[i],
                              *before = td_alias_in(now, alias->name, strlen(alias->name));
        if (is_pending(store, before, &found->taken))
            warn_set_again(store, alias->name, alias->stored, before->stored, before->folder);
        else if (!before || before->folder[0] || strcmp(before->stored, alias->stored) != 0)
            edits->aliases[edits->count++] = *alias;
    }
    for (int i = 0; i < now->count && status == TD_OK; i++) {
        const struct td_alias *alias = &now->aliases[i];
        if (alias->stored[0] && !td_alias_in(&file, alias->name, strlen(alias->name)) &&
            !is_pending(store, alias, &found->taken))
            edit(store, edits, alias->name, NULL, true);
    }
    if (status == TD_OK)
        qsort(edits->aliases, (size_t)edits->count, sizeof *edits->aliases, by_name);
    free(file.aliases);
    return status;
}

/* Removes the targets of aliases that have the name of a tensor. What is served is not taken away
 * at a rescan; a start reads the aliases first. */
static void hide_taken_names(struct td_store *store, struct td_alias_table *edits)
{
    for (int i = 0; i < edits->count; i++) {
        struct td_alias *alias = &edits->aliases[i];
        if (!alias->target[0] || !is_tensor(store, alias->name))
            continue;
        alias->target[0] = '\0';
        alias->hidden = true;
    }
}

/* Tells what has become of the aliases, the problems that they had before being solved: which are
 * hidden, and whether one has given up the name of a tensor in a file. */
static void note_edits(struct td_store *store, const struct td_alias_table *edits)
{
    char unused[TD_FILE_NAME];
    for (int i = 0; i < edits->count; i++) {
        const struct td_alias *alias = &edits->aliases[i];
        td_store_solve_alias(store, alias->name);
        if (alias->hidden)
            td_store_report_alias(store, alias->name,
                                  "the alias in aliases.json is not served until a restart: a "
                                  "tensor has its name, which a restart does not serve; delete "
                                  "the tensor, or remove the alias from aliases.json, and send "
                                  "SIGHUP");
        if (!alias->target[0] && !alias->hidden && td_store_find_file(store, alias->name, unused))
            store->name_freed = true;
    }
}

/* TENSOR_NOT_FOUND if the file takes an alias from a version that is there to one that is not. Then
 * no alias changes: the file may flip several that belong together. A start has no other version to
 * keep. `folder`, NULL for none, is being taken. */
static td_status check_stored(struct td_store *store, const struct td_alias_table *edits,
                              const struct td_alias_folder *folder, struct td_error *err)
{
    const struct td_version *unused;
    const struct td_alias *missing = NULL;
    pthread_rwlock_rdlock(&store->lock);
    for (int i = 0; i < edits->count && !missing; i++) {
        const struct td_alias *alias = &edits->aliases[i];
        const char *now = target_in(&store->aliases, alias->name);
        if (now && alias->target[0] &&
            !td_alias_version_comes_locked(store, folder, alias->target) &&
            td_store_use_locked(store, now, &unused) == TD_NAME_CURRENT)
            missing = alias;
    }
    pthread_rwlock_unlock(&store->lock);
    return missing ? td_error_set(err, TD_TENSOR_NOT_FOUND,
                                  "its alias '%s' names %s, which is not there", missing->name,
                                  missing->target)
                   : TD_OK;
}

/* Makes the aliases those of the file; `folder` as of check_stored. */
static td_status set_stored(struct td_store *store, struct td_alias_table *edits,
                            const struct td_alias_folder *folder, struct td_error *err)
{
    claim(store, edits);
    td_status status = check_stored(store, edits, folder, err);
    if (status == TD_OK) {
        hide_taken_names(store, edits);
        status = apply(store, edits, false, TD_ALIASES_FILE, err);
    }
    claim(store, NULL);
    if (status == TD_OK)
        note_edits(store, edits);
    return status;
}

static td_status take_stored(struct td_store *store, const struct td_alias_file *read,
                             const struct td_alias_folder *folder, struct td_error *err)
{
    struct td_alias_table edits = { 0 };
    td_status status = compare_stored(store, read, &edits, err);
    if (status == TD_OK)
        status = set_stored(store, &edits, folder, err);
    free(edits.aliases);
    return status;
}

/* A file that a person wrote, or one of before, may lack folders: their aliases have been set
 * nevertheless, and a restart must not set them again. */
static td_status set_taken(struct td_store *store, const struct td_string_map *read,
                           struct td_error *err)
{
    const size_t most = (size_t)read->count + (size_t)store->n_taken;
    struct td_taken_folder *taken = calloc(most + 1, sizeof *taken);
    int n = 0;
    if (!taken)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the names of folders");
    for (; n < read->count; n++) {
        snprintf(taken[n].name, sizeof taken[n].name, "%s", read->pairs[n].name);
        snprintf(taken[n].digest, sizeof taken[n].digest, "%s", read->pairs[n].value);
        taken[n].stored = true;
    }
    for (int i = 0; i < store->n_taken; i++) {
        const struct td_taken_folder *before = &store->taken[i];
        if (!has_folder(read, before->name))
            taken[n++] = *before;
    }
    free(store->taken);
    store->taken = taken;
    store->n_taken = n;
    store->to_write = n > read->count && !store->read_only;
    return TD_OK;
}

/* Reads the file; no file is one without aliases. */
static td_status read_file(const struct td_store *store, struct td_arena *arena,
                           struct td_alias_file *read, struct td_file_id *id, struct td_error *err)
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

/* Takes what the file says. */
static td_status read_stored(struct td_store *store, const struct td_alias_folder *folder,
                             struct td_error *err)
{
    struct td_file_id id;
    struct td_alias_file read;
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_status status = read_file(store, &arena, &read, &id, err);
    if (status == TD_OK)
        status = take_stored(store, &read, folder, err);
    if (status == TD_OK)
        status = set_taken(store, &read.taken, err);
    if (status == TD_OK)
        store->folders_unknown = read.aliases.count > 0 && store->n_taken == 0;
    if (status == TD_OK)
        set_file(store, &store->aliases_file, &id);
    td_arena_reset(&arena);
    return status;
}

/* Serves the hidden aliases whose tensors are gone. */
static td_status show_hidden(struct td_store *store, struct td_error *err)
{
    struct td_alias_table edits;
    const struct td_alias_table *now = &store->aliases;
    td_status status = make_room(&edits, now->count, err);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < now->count; i++)
        if (now->aliases[i].hidden && !is_tensor(store, now->aliases[i].name))
            edit(store, &edits, now->aliases[i].name, now->aliases[i].stored, true);
    if (edits.count > 0) /* again hidden if a tensor was put since */
        status = set_stored(store, &edits, NULL, err);
    free(edits.aliases);
    return status;
}

/* A restart would have to read the file, also if that has not changed. */
static td_status check_readable(struct td_store *store, struct td_error *err)
{
    struct td_error why;
    const td_status status = td_data_dir_check_read(store->dir, TD_ALIASES_FILE, &why);
    return status == TD_OK
               ? TD_OK
               : td_error_set(err, status, "%s cannot be read: %s", TD_ALIASES_FILE, why.message);
}

/* The file is gone that could not be read, or written, before: the aliases in force are right, and
 * are written again after the folders. */
static td_status keep_aliases(struct td_store *store, struct td_error *err)
{
    if (!may_write_file(store))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "it is gone after it could not be read; the daemon that writes the "
                            "data folder writes it again after SIGHUP, or put a right file in its "
                            "place, and send SIGHUP");
    store->to_write = true;
    return TD_OK;
}

/* The writer of the aliases has entered. True if what the file says is in force. `folder`, NULL for
 * none, is being taken. */
static bool load(struct td_store *store, const struct td_alias_folder *folder)
{
    struct td_file_id id = td_file_id_unknown;
    struct td_error err;
    const td_file_state state = td_data_dir_stat(store->dir, TD_ALIASES_FILE, &id);
    const bool same = state == TD_FILE_PRESENT && td_file_id_equal(&id, &store->aliases_file);
    const bool known = same && !store->to_write; /* else it is compared with what it lacks */
    const bool vanished =
        state == TD_FILE_GONE && atomic_load(&store->aliases_known) &&
        (atomic_load(&store->aliases_unread) || (store->to_write && may_write_file(store)));
    td_status status = known      ? check_readable(store, &err)
                       : vanished ? keep_aliases(store, &err)
                                  : read_stored(store, folder, &err);
    if (status == TD_OK)
        status = show_hidden(store, &err);
    if (status == TD_OK) {
        /* One of writing the file stays. */
        if (!same || store->aliases_unread)
            td_store_solve_problem(store, TD_ALIASES_FILE);
        if (state == TD_FILE_GONE && td_store_check_aliases(store, TD_IGNORED) != TD_OK)
            td_log(store->log, TD_LOG_WARN, "aliases_lost", TD_TEXT("source", TD_ALIASES_FILE),
                   TD_TEXT("reason", "it was removed unread; only what the folders of versions set "
                                     "is left of the aliases"));
        note_read(store, true);
        return true;
    }
    note_read(store, false);
    if (atomic_load(&store->aliases_known))
        td_error_hint(&err, "the aliases read before stay in force, until a restart");
    set_file(store, &store->aliases_refused, &id);
    td_store_report_problem(store, TD_ALIASES_FILE, err.message);
    return false;
}

bool td_alias_load(struct td_store *store)
{
    struct td_writer writer;
    enter(store, &writer);
    (void)load(store, NULL);
    const bool freed = store->name_freed;
    store->name_freed = false;
    td_writer_leave(store, &writer);
    return freed;
}

void td_alias_check_targets(struct td_store *store)
{
    struct td_writer writer;
    enter(store, &writer);
    for (int i = 0; i < store->aliases.count; i++)
        if (!store->aliases.aliases[i].hidden)
            check_target(store, &store->aliases.aliases[i]);
    td_writer_leave(store, &writer);
}

/* ---- folders of versions --------------------------------------------------------------------- */

static bool is_taken(const struct td_store *store, const char *name, const char *digest)
{
    const int place = place_of_folder(store, name);
    return place < store->n_taken && strcmp(store->taken[place].digest, digest) == 0;
}

bool td_alias_folder_is_taken(struct td_store *store, const char *name, const char *digest)
{
    struct td_writer writer;
    enter(store, &writer);
    const bool taken = is_taken(store, name, digest);
    td_writer_leave(store, &writer);
    return taken;
}

static void forget(struct td_store *store, const char *name)
{
    const int place = place_of_folder(store, name);
    if (place == store->n_taken)
        return;
    memmove(&store->taken[place], &store->taken[place + 1],
            (size_t)(--store->n_taken - place) * sizeof *store->taken);
}

/* Forgets those of the folders that are gone which were taken first, beyond TD_TAKEN_KEPT. */
static bool forget_oldest(struct td_store *store)
{
    int surplus = -TD_TAKEN_KEPT;
    for (int i = 0; i < store->n_taken; i++)
        surplus += td_data_dir_has_gone(store->dir, store->taken[i].name);
    const bool any = surplus > 0;
    for (int i = 0; surplus > 0;) {
        if (td_data_dir_has_gone(store->dir, store->taken[i].name)) {
            forget(store, store->taken[i].name);
            surplus--;
        } else if (++i == store->n_taken) {
            break; /* some have come back meanwhile */
        }
    }
    return any;
}

void td_alias_forget_gone(struct td_store *store)
{
    struct td_writer writer;
    struct td_error unused; /* what cannot be written now is written with the next change */
    bool done;
    enter(store, &writer);
    const bool changed = forget_oldest(store);
    if ((changed || store->to_write) && may_write_file(store) && load(store, NULL))
        (void)store_table(store, &store->aliases, &done, &unused);
    store->folders_unknown = false;
    td_writer_leave(store, &writer);
}

static td_status note_taken(struct td_store *store, const struct td_alias_folder *folder,
                            struct td_error *err)
{
    struct td_taken_folder *larger =
        realloc(store->taken, ((size_t)store->n_taken + 1) * sizeof *larger);
    if (!larger)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the name of the folder");
    store->taken = larger;
    const int place = place_of_folder(store, folder->name);
    const bool stored = is_taken(store, folder->name, folder->digest) && larger[place].stored;
    forget(store, folder->name);
    struct td_taken_folder *taken = &larger[store->n_taken++];
    taken->stored = stored;
    snprintf(taken->name, sizeof taken->name, "%s", folder->name);
    snprintf(taken->digest, sizeof taken->digest, "%s", folder->digest);
    if (!stored && !store->read_only)
        store->to_write = true;
    return TD_OK;
}

/* Publishes the folder with the table; writes aliases.json before, if `persist`. */
static td_status publish_folder(struct td_store *store, const struct td_alias_folder *folder,
                                const struct td_alias_table *table, bool persist,
                                struct td_error *err)
{
    bool done = !persist;
    td_status status = note_taken(store, folder, err);
    if (status == TD_OK && persist)
        status = store_table(store, table, &done, err);
    /* Without aliases the file would only spare the next start a comparison. */
    if (!done && folder->n_set > 0) {
        forget(store, folder->name);
        return status;
    }
    if (status != TD_OK)
        td_store_report_problem(store, TD_ALIASES_FILE, err->message);
    publish(store, table, folder, folder->name);
    return TD_OK;
}

/* Which folders the process that writes the file has taken: it may have flipped their aliases
 * since. These are read after the folders, with the versions that they name. */
static void read_taken(struct td_store *store)
{
    struct td_file_id id;
    struct td_alias_file read;
    struct td_arena arena;
    struct td_error unused; /* the file is read again, and damage told, after the folders */
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    if (read_file(store, &arena, &read, &id, &unused) == TD_OK && read.taken.count > 0)
        (void)set_taken(store, &read.taken, &unused);
    td_arena_reset(&arena);
}

/* A file that a person wrote names no folders, so that it cannot say what was flipped since. */
static void warn_of_aliases(const struct td_store *store, const struct td_alias_folder *folder,
                            const struct td_alias_table *edits)
{
    for (int i = 0; i < edits->count && store->folders_unknown; i++) {
        const char *name = edits->aliases[i].name;
        const struct td_alias *before = td_alias_in(&store->aliases, name, strlen(name));
        if (before && before->stored[0])
            warn_set_again(store, name, before->stored, edits->aliases[i].target, folder->name);
    }
}

/* What a folder sets, n_given, and after it the aliases that it takes away, whose names are
 * allocated. */
struct folder_changes {
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

/* True if the alias of a part, such as that of the scales, names the part of another version of the
 * rows, and the rows that the folder sets have none: floats after bytes. */
static bool loses_part(struct td_store *store, const struct td_alias_folder *folder,
                       const struct td_alias_change *rows, const char *part,
                       char name[TD_TENSOR_NAME])
{
    char target[TD_TENSOR_NAME];
    if (!rows->target || !td_table_part_name(rows->name, part, name) || sets(folder, name) ||
        !td_table_part_name(rows->target, part, target))
        return false;
    const struct td_alias *before = td_alias_in(&store->aliases, name, strlen(name));
    if (!before ||
        !td_alias_are_versions_of_one(before->target[0] ? before->target : before->stored, target))
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

/* A flip of a person says itself which aliases it takes away; a folder cannot, and would be refused
 * until a person does. */
static td_status changes_of(struct td_store *store, const struct td_alias_folder *folder,
                            struct folder_changes *changes, struct td_error *err)
{
    char name[TD_TENSOR_NAME], *copy;
    const size_t most = (size_t)folder->n_set * (1 + TD_TABLE_PARTS);
    *changes = (struct folder_changes){ .set = calloc(most + 1, sizeof *changes->set) };
    bool ok = changes->set != NULL;
    for (int i = 0; i < folder->n_set && ok; i++)
        changes->set[changes->n_set++] = folder->set[i];
    changes->n_given = changes->n_set;
    for (int i = 0; i < folder->n_set && ok; i++)
        for (int part = 0; part < TD_TABLE_PARTS && ok; part++) {
            if (!loses_part(store, folder, &folder->set[i], td_table_parts[part], name))
                continue;
            ok = (copy = strdup(name)) != NULL;
            if (ok)
                changes->set[changes->n_set++] = (struct td_alias_change){ copy, NULL };
        }
    return ok ? TD_OK
              : td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the aliases of a folder");
}

static td_status take_folder(struct td_store *store, const struct td_alias_folder *folder,
                             struct td_error *err)
{
    struct folder_changes changes;
    struct td_alias_table edits = { 0 }, table = { 0 };
    const bool writes = may_write_file(store);
    /* Neither what another process wrote is overwritten, nor what is damaged. */
    const bool may_write = writes && load(store, folder);
    if (!writes)
        read_taken(store);
    const bool taken = is_taken(store, folder->name, folder->digest);
    td_status status = changes_of(store, folder, &changes, err);
    const struct td_alias_flip flip = { .set = changes.set,
                                        .n_set = taken ? 0 : changes.n_set,
                                        .persist = !store->read_only };
    if (status == TD_OK)
        status = make_edits(store, &flip, &edits, err);
    for (int i = 0; i < edits.count && flip.persist && !may_write; i++)
        snprintf(edits.aliases[i].folder, sizeof edits.aliases[i].folder, "%s", folder->name);
    if (status == TD_OK) {
        claim(store, &edits);
        status = td_alias_check_flip(store, &flip, &edits, folder, err);
    }
    if (status == TD_OK)
        status = td_alias_merge(&store->aliases, &edits, &table, err);
    if (status == TD_OK) {
        warn_of_aliases(store, folder, &edits);
        status = publish_folder(store, folder, &table, may_write && !taken, err);
    }
    if (status != TD_OK)
        free(table.aliases);
    claim(store, NULL);
    free(edits.aliases);
    free_changes(&changes);
    return status;
}

td_status td_alias_take_folder(struct td_store *store, const struct td_alias_folder *folder,
                               struct td_error *err)
{
    struct td_writer writer;
    enter(store, &writer);
    const td_status status = take_folder(store, folder, err);
    td_writer_leave(store, &writer);
    return status;
}

/* ---- the list -------------------------------------------------------------------------------- */

static const char *copy_name(const char *name, struct td_arena *arena, td_status *status,
                             struct td_error *err)
{
    if (!name[0] || *status != TD_OK)
        return NULL;
    const char *copy = td_arena_text(arena, name, strlen(name), err);
    *status = copy ? TD_OK : TD_MEMORY_EXHAUSTED;
    return copy;
}

td_status td_store_list_aliases(struct td_store *store, struct td_arena *arena,
                                struct td_alias_listing **list, int *count, struct td_error *err)
{
    td_status status = TD_OK;
    pthread_rwlock_rdlock(&store->lock);
    const struct td_alias_table *table = &store->aliases;
    *count = table->count;
    *list = td_arena_alloc(arena, (size_t)*count, sizeof **list, err);
    if (!*list)
        status = TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < *count && status == TD_OK; i++) {
        const struct td_alias *alias = &table->aliases[i];
        (*list)[i] =
            (struct td_alias_listing){ .name = copy_name(alias->name, arena, &status, err),
                                       .target = copy_name(alias->target, arena, &status, err),
                                       .stored = copy_name(alias->stored, arena, &status, err) };
    }
    pthread_rwlock_unlock(&store->lock);
    return status;
}

int td_store_count_aliases(struct td_store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    const int count = store->aliases.count;
    pthread_rwlock_unlock(&store->lock);
    return count;
}

void td_alias_free(struct td_store *store)
{
    free(store->aliases.aliases);
    free(store->taken);
}
