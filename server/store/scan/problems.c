#include "server/store/scan/problems.h"

#include "api/text/sorted_names.h"
#include "server/store/aliases/aliases.h"
#include "server/store/files/data_dir.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Suffix of an alias's key, because an alias can have the name of a folder. */
#define ALIAS_END "\x01"

struct td_problem_note {
    /* The source, followed by ALIAS_END if it is an alias. */
    char key[TD_FILE_NAME];
    /* True if the source is a folder and nothing in it is served. */
    bool is_refused_folder;
    /* Number of the scan that noted the file, or 0 for sources other than files. */
    uint64_t scan;
    char reason[];
};

static const char *name_at(const void *store, int i)
{
    return ((const struct td_store *)store)->problems[i]->key;
}

static void key_of_alias(const char *alias, char key[TD_FILE_NAME])
{
    snprintf(key, TD_FILE_NAME, "%s" ALIAS_END, alias);
}

/* Returns the index of a key, or the index where the key would be inserted. Call with store->lock
 * held. */
static int place_of(const struct td_store *store, const char *key, bool *found)
{
    return td_sorted_find(store, store->n_problems, name_at, key, strlen(key), found);
}

/* Makes room for one more problem. Call with store->lock held. */
static bool make_room(struct td_store *store)
{
    if (store->n_problems < store->problems_capacity)
        return true;
    const int capacity = store->problems_capacity ? 2 * store->problems_capacity : 16;
    struct td_problem_note **problems = realloc(store->problems, (size_t)capacity * sizeof(void *));
    if (!problems)
        return false;
    store->problems = problems;
    store->problems_capacity = capacity;
    return true;
}

/* Keeps the note. Returns the note that the caller must free: the previous note of the source, if
 * any, or the new note if no memory is available. Call with store->lock held. */
static struct td_problem_note *insert(struct td_store *store, struct td_problem_note *note)
{
    bool found;
    const int place = place_of(store, note->key, &found);
    struct td_problem_note *before = NULL;
    if (found)
        before = store->problems[place];
    else if (!make_room(store))
        return note;
    struct td_problem_note **at = &store->problems[place];
    if (!found)
        memmove(at + 1, at, (size_t)(store->n_problems++ - place) * sizeof(void *));
    *at = note;
    return before;
}

static void note_problem(struct td_store *store, const char *key, const char *reason,
                         bool is_refused_folder, uint64_t scan)
{
    const size_t length = strlen(reason);
    struct td_problem_note *note = malloc(sizeof *note + length + 1);
    if (!note)
        return;
    snprintf(note->key, sizeof note->key, "%s", key);
    note->is_refused_folder = is_refused_folder;
    note->scan = scan;
    memcpy(note->reason, reason, length + 1);
    pthread_rwlock_wrlock(&store->lock);
    struct td_problem_note *gone = insert(store, note);
    pthread_rwlock_unlock(&store->lock);
    free(gone);
}

void td_store_note_problem(struct td_store *store, const char *source, const char *reason)
{
    note_problem(store, source, reason, false, 0);
}

void td_store_begin_file_problems(struct td_store *store)
{
    store->file_scans++;
}

void td_store_note_file_problem(struct td_store *store, const char *file, const char *reason)
{
    note_problem(store, file, reason, false, store->file_scans);
}

void td_store_end_file_problems(struct td_store *store)
{
    int kept = 0;
    pthread_rwlock_wrlock(&store->lock);
    for (int i = 0; i < store->n_problems; i++) {
        struct td_problem_note *note = store->problems[i];
        if (note->scan != 0 && note->scan != store->file_scans)
            free(note);
        else
            store->problems[kept++] = note;
    }
    store->n_problems = kept;
    pthread_rwlock_unlock(&store->lock);
}

static void report(struct td_store *store, const char *key, const char *source, const char *reason)
{
    /* List the problem before logging it, because a reader of the log might ask for the list at
     * once. */
    td_store_note_problem(store, key, reason);
    if (store->inspector)
        store->inspector->skipped(store->inspector->context, source, NULL, reason);
    else
        td_log(store->log, TD_LOG_WARN, "aliases_refused", TD_TEXT("source", source),
               TD_TEXT("reason", reason));
}

void td_store_report_problem(struct td_store *store, const char *source, const char *reason)
{
    report(store, source, source, reason);
}

void td_store_report_alias(struct td_store *store, const char *alias, const char *reason)
{
    char key[TD_FILE_NAME];
    key_of_alias(alias, key);
    report(store, key, alias, reason);
}

void td_store_report_folder(struct td_store *store, const char *folder, bool served,
                            const char *reason)
{
    note_problem(store, folder, reason, !served, 0);
    if (store->inspector)
        store->inspector->skipped(store->inspector->context, folder, NULL, reason);
    else
        td_log(store->log, TD_LOG_WARN, "folder_refused", TD_TEXT("folder", folder),
               TD_TEXT("reason", reason));
}

bool td_store_find_refused_folder(struct td_store *store, const char *folder, char *reason,
                                  size_t size)
{
    bool found;
    pthread_rwlock_rdlock(&store->lock);
    const int place = place_of(store, folder, &found);
    found = found && store->problems[place]->is_refused_folder;
    snprintf(reason, size, "%s", found ? store->problems[place]->reason : "");
    pthread_rwlock_unlock(&store->lock);
    return found;
}

static bool has_problem(struct td_store *store, const char *key)
{
    bool found;
    pthread_rwlock_rdlock(&store->lock);
    (void)place_of(store, key, &found);
    pthread_rwlock_unlock(&store->lock);
    return found;
}

/* Usually, there is no problem. Checking this under the read lock first avoids delaying
 * requests. */
void td_store_solve_problem(struct td_store *store, const char *source)
{
    struct td_problem_note *gone = NULL;
    bool found;
    if (!has_problem(store, source))
        return;
    pthread_rwlock_wrlock(&store->lock);
    const int place = place_of(store, source, &found);
    if (found) {
        struct td_problem_note **at = &store->problems[place];
        gone = *at;
        memmove(at, at + 1, (size_t)(--store->n_problems - place) * sizeof(void *));
    }
    pthread_rwlock_unlock(&store->lock);
    free(gone);
}

void td_store_solve_alias(struct td_store *store, const char *alias)
{
    char key[TD_FILE_NAME];
    key_of_alias(alias, key);
    td_store_solve_problem(store, key);
}

td_status td_store_list_problems(struct td_store *store, struct td_arena *arena,
                                 struct td_problem_listing **list, int *count, int *others,
                                 struct td_error *err)
{
    td_status status = TD_OK;
    pthread_rwlock_rdlock(&store->lock);
    const int n = store->n_problems < TD_PROBLEMS_LISTED ? store->n_problems : TD_PROBLEMS_LISTED;
    *others = store->n_problems - n;
    *list = td_arena_alloc(arena, (size_t)n, sizeof **list, err);
    if (!*list)
        status = TD_MEMORY_EXHAUSTED;
    *count = 0;
    while (*count < n && status == TD_OK) {
        const struct td_problem_note *note = store->problems[*count];
        struct td_problem_listing *listing = &(*list)[(*count)++];
        listing->source = td_arena_text(arena, note->key, strcspn(note->key, ALIAS_END), err);
        listing->reason = td_arena_text(arena, note->reason, strlen(note->reason), err);
        status = listing->source && listing->reason ? TD_OK : TD_MEMORY_EXHAUSTED;
    }
    pthread_rwlock_unlock(&store->lock);
    return status;
}

void td_store_free_problems(struct td_store *store)
{
    for (int i = 0; i < store->n_problems; i++)
        free(store->problems[i]);
    free(store->problems);
}
