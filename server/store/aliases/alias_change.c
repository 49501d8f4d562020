#include "server/store/aliases/alias_change.h"

#include "server/store/aliases/alias_file.h"
#include "server/store/entries.h"
#include "server/store/lookup_errors.h"
#include "server/store/scan/problems.h"
#include "server/store/scan/scan_report.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void td_alias_enter(struct td_store *store, struct td_writer *writer)
{
    *writer = (struct td_writer){ .aliases = true };
    td_writer_wait(store, writer);
}

bool td_store_persists_aliases(const struct td_store *store)
{
    return store->dir != NULL;
}

bool td_alias_may_write(const struct td_store *store)
{
    return store->dir && !store->read_only && td_data_dir_is_locked(store->dir);
}

/* ---- edits ----------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_alias *)a)->name, ((const struct td_alias *)b)->name);
}

td_status td_alias_make_room(struct td_alias_list *edits, int count, struct td_error *err)
{
    *edits = (struct td_alias_list){ .aliases = calloc((size_t)count + 1, sizeof *edits->aliases) };
    return edits->aliases
               ? TD_OK
               : td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for %d aliases", count);
}

void td_alias_edit(struct td_alias_list *edits, const char *name, const char *target)
{
    struct td_alias *alias = &edits->aliases[edits->count++];
    *alias = (struct td_alias){ 0 };
    snprintf(alias->name, sizeof alias->name, "%s", name);
    snprintf(alias->target, sizeof alias->target, "%s", target ? target : "");
}

void td_alias_sort(struct td_alias_list *edits)
{
    qsort(edits->aliases, (size_t)edits->count, sizeof *edits->aliases, by_name);
}

void td_alias_claim(struct td_store *store, const struct td_alias_list *claims)
{
    pthread_rwlock_wrlock(&store->lock);
    store->claims = claims;
    pthread_rwlock_unlock(&store->lock);
}

/* ---- publishing ------------------------------------------------------------------------------ */

/* Returns the target of the alias in the list, or NULL if the list does not serve the alias. */
static const char *target_in(const struct td_alias_list *list, const char *name)
{
    const struct td_alias *alias = td_alias_in(list, name, strlen(name));
    return td_alias_is_served(alias) ? alias->target : NULL;
}

/* True if the alias has another target in `now` than in `before`. */
static bool log_change(const struct td_store *store, const char *source, const char *name,
                       const struct td_alias_list *before, const struct td_alias_list *now,
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

/* Logs the aliases that `source` has changed, at most TD_SCAN_LINES of them, and their total
 * number. */
static void log_changes(const struct td_store *store, const char *source,
                        const struct td_alias_list *before, const struct td_alias_list *now)
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

void td_alias_publish(struct td_store *store, const struct td_alias_list *list,
                      const struct td_alias_folder *folder, const char *source)
{
    pthread_rwlock_wrlock(&store->lock);
    const struct td_alias_list before = store->aliases;
    if (folder)
        td_store_publish_new_locked(store, folder->versions, folder->n_versions);
    store->aliases = *list;
    store->claims = NULL;
    atomic_fetch_add(&store->changes, 1);
    pthread_rwlock_unlock(&store->lock);
    /* The list needs no lock here, because only a thread that holds the lock on the aliases
     * replaces it. */
    if (source && !store->inspector)
        log_changes(store, source, &before, list);
    free(before.aliases);
}

/* ---- aliases.json ---------------------------------------------------------------------------- */

/* Records whether this process is replacing the file. While it is, the file must not be compared
 * with its record. */
static void set_writes_file(struct td_store *store, bool writes)
{
    pthread_mutex_lock(&store->aliases_file_mutex);
    store->writes_aliases_file = writes;
    pthread_mutex_unlock(&store->aliases_file_mutex);
}

void td_alias_set_file(struct td_store *store, struct td_file_id *record,
                       const struct td_file_id *id)
{
    pthread_mutex_lock(&store->aliases_file_mutex);
    *record = *id;
    pthread_mutex_unlock(&store->aliases_file_mutex);
}

void td_alias_note_read(struct td_store *store, bool read)
{
    atomic_store(&store->aliases_unread, !read);
    if (read)
        atomic_store(&store->aliases_known, true);
}

td_status td_alias_write_file(struct td_store *store, const struct td_alias_list *list, bool *done,
                              struct td_error *err)
{
    size_t bytes;
    struct td_file_id id;
    char *text = td_alias_file_text(list, store->taken, store->n_taken, &bytes);
    if (!text)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the text of the aliases");
    set_writes_file(store, true);
    const td_status status =
        td_data_dir_write_text(store->dir, TD_ALIASES_FILE, text, bytes, &id, done, err);
    if (*done)
        td_alias_set_file(store, &store->aliases_file, &id);
    set_writes_file(store, false);
    if (*done) {
        td_alias_note_read(store, true);
        for (int i = 0; i < store->n_taken; i++)
            store->taken[i].stored = true;
        store->to_write = false;
        /* the file might already have been damaged */
        td_store_solve_problem(store, TD_ALIASES_FILE);
    }
    free(text);
    return status;
}

td_status td_alias_apply(struct td_store *store, const struct td_alias_list *edits, bool persist,
                         const char *source, struct td_error *err)
{
    struct td_alias_list list;
    bool done = !persist;
    td_status status = td_alias_merge(&store->aliases, edits, &list, err);
    if (status == TD_OK && persist)
        status = td_alias_write_file(store, &list, &done, err);
    if (done && list.aliases)
        td_alias_publish(store, &list, NULL, source);
    else
        free(list.aliases);
    return status;
}

/* ---- problems -------------------------------------------------------------------------------- */

static bool is_served(struct td_store *store, const char *name)
{
    const struct td_version *version;
    pthread_rwlock_rdlock(&store->lock);
    const bool found = td_store_use_locked(store, name, &version) == TD_NAME_CURRENT;
    pthread_rwlock_unlock(&store->lock);
    return found;
}

void td_alias_check_target(struct td_store *store, const struct td_alias *alias)
{
    char reason[2 * TD_TENSOR_NAME + TD_ABSENCE], absence[TD_ABSENCE];
    if (!alias->target[0] || is_served(store, alias->target)) {
        td_store_solve_alias(store, alias->name);
        return;
    }
    td_store_explain_absence(store, alias->target, absence, sizeof absence);
    snprintf(reason, sizeof reason, "it names %s, %s", alias->target, absence);
    td_store_report_alias(store, alias->name, reason);
}
