#include "server/store/problems.h"

#include "server/store/aliases.h"
#include "server/store/data_dir.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON = 400 };

struct td_problem_note {
    struct td_problem_note *next;
    char source[TD_FILE_NAME];
    char reason[REASON];
};

/* With the lock held: takes the problem of a source out of the list; NULL if there is none. */
static struct td_problem_note *take(struct td_store *store, const char *source)
{
    struct td_problem_note **link = &store->problems;
    while (*link && strcmp((*link)->source, source) != 0)
        link = &(*link)->next;
    struct td_problem_note *found = *link;
    if (found)
        *link = found->next;
    return found;
}

static void keep(struct td_store *store, const char *source, const char *reason)
{
    struct td_problem_note *note = calloc(1, sizeof *note);
    if (!note)
        return;
    snprintf(note->source, sizeof note->source, "%s", source);
    snprintf(note->reason, sizeof note->reason, "%s", reason);
    pthread_rwlock_wrlock(&store->lock);
    struct td_problem_note *before = take(store, source);
    note->next = store->problems;
    store->problems = note;
    pthread_rwlock_unlock(&store->lock);
    free(before);
}

void td_store_report_problem(struct td_store *store, const char *source, const char *reason)
{
    keep(store, source, reason); /* before the log: who reads that may ask for the list */
    if (store->inspector)
        store->inspector->skipped(store->inspector->context, source, NULL, reason);
    else
        td_log(store->log, TD_LOG_WARN, "aliases_refused", TD_TEXT("source", source),
               TD_TEXT("reason", reason));
}

void td_store_refuse_folder(struct td_store *store, const char *folder, const char *reason)
{
    keep(store, folder, reason);
    if (store->inspector)
        store->inspector->skipped(store->inspector->context, folder, NULL, reason);
    else
        td_log(store->log, TD_LOG_WARN, "folder_refused", TD_TEXT("folder", folder),
               TD_TEXT("reason", reason));
}

void td_store_solve_problem(struct td_store *store, const char *source)
{
    pthread_rwlock_wrlock(&store->lock);
    struct td_problem_note *before = take(store, source);
    pthread_rwlock_unlock(&store->lock);
    free(before);
}

td_status td_store_list_problems(struct td_store *store, struct td_arena *arena,
                                 struct td_problem_listing **list, int *count, struct td_error *err)
{
    td_status status = TD_OK;
    int n = 0;
    pthread_rwlock_rdlock(&store->lock);
    for (const struct td_problem_note *note = store->problems; note; note = note->next)
        n++;
    *list = td_arena_alloc(arena, (size_t)n, sizeof **list, err);
    if (!*list)
        status = TD_MEMORY_EXHAUSTED;
    *count = 0;
    for (const struct td_problem_note *note = store->problems; note && status == TD_OK;
         note = note->next) {
        struct td_problem_listing *listing = &(*list)[(*count)++];
        listing->source = td_arena_text(arena, note->source, strlen(note->source), err);
        listing->reason = td_arena_text(arena, note->reason, strlen(note->reason), err);
        status = listing->source && listing->reason ? TD_OK : TD_MEMORY_EXHAUSTED;
    }
    pthread_rwlock_unlock(&store->lock);
    return status;
}

void td_store_free_problems(struct td_store *store)
{
    while (store->problems) {
        struct td_problem_note *note = store->problems;
        store->problems = note->next;
        free(note);
    }
}
