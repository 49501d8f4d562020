#include "server/store/changes/writer_queue.h"

#include "server/store/state.h"
#include "server/store/table_name.h"

#include <string.h>

/* ---- which writers exclude each other -------------------------------------------------------- */

static bool share_a_name(const struct td_writer *a, const struct td_writer *b)
{
    int i = 0, j = 0;
    while (i < a->n_names && j < b->n_names) {
        const int order = strcmp(a->names[i], b->names[j]);
        if (order == 0)
            return true;
        i += order < 0;
        j += order > 0;
    }
    return false;
}

static bool has_name_of_version(const struct td_writer *writer, const char *version)
{
    for (int i = 0; i < writer->n_names; i++) {
        const char *of_name = td_table_version(writer->names[i]);
        if (of_name && strcmp(of_name, version) == 0)
            return true;
    }
    return false;
}

static bool excludes(const struct td_writer *a, const struct td_writer *b)
{
    return share_a_name(a, b) || (a->aliases && b->aliases) ||
           (a->version && b->version && strcmp(a->version, b->version) == 0) ||
           (a->version && has_name_of_version(b, a->version)) ||
           (b->version && has_name_of_version(a, b->version));
}

/* True if a writer in the list before `end` excludes the writer. */
static bool is_excluded(const struct td_writer *list, const struct td_writer *end,
                        const struct td_writer *writer)
{
    const struct td_writer *other = list;
    while (other != end && !excludes(other, writer))
        other = other->next;
    return other != end;
}

/* ---- the two lists; call with store->writing held -------------------------------------------- */

static bool blocks_its_thread(const struct td_writer *writer)
{
    return !writer->ready;
}

/* True if the writer can lock its names now. `end` is the first waiting writer that came later, or
 * NULL. */
static bool may_enter(const struct td_store *store, const struct td_writer *writer,
                      const struct td_writer *end)
{
    return !is_excluded(store->writers, NULL, writer) &&
           (blocks_its_thread(writer) || !is_excluded(store->waiting_writers, end, writer));
}

/* Puts the writer at the head of the list, where the writers that wait for it find it first. */
static void admit(struct td_store *store, struct td_writer *writer)
{
    writer->entered = true;
    writer->next = store->writers;
    store->writers = writer;
}

static void append_waiting(struct td_store *store, struct td_writer *writer)
{
    struct td_writer **link = &store->waiting_writers;
    while (*link)
        link = &(*link)->next;
    writer->entered = false;
    writer->next = NULL;
    *link = writer;
}

/* Writers whose ready() must be called after the lock is released. */
struct ready_list {
    struct td_writer *writers[64];
    int count;
};

static bool is_full(const struct ready_list *list)
{
    return list->count == (int)(sizeof list->writers / sizeof *list->writers);
}

/* Admits waiting writers that can lock their names, in order of arrival, until `ready` is full.
 * Considers only the writers that `left` excludes, or all waiting writers if `left` is NULL. */
static void admit_waiting(struct td_store *store, const struct td_writer *left,
                          struct ready_list *ready)
{
    struct td_writer **link = &store->waiting_writers;
    while (*link && !is_full(ready)) {
        struct td_writer *writer = *link;
        if ((left && !excludes(left, writer)) || !may_enter(store, writer, writer)) {
            link = &writer->next;
            continue;
        }
        *link = writer->next;
        admit(store, writer);
        if (blocks_its_thread(writer))
            pthread_cond_broadcast(&store->written);
        else
            ready->writers[ready->count++] = writer;
    }
}

static void call_ready(const struct ready_list *ready)
{
    for (int i = 0; i < ready->count; i++)
        ready->writers[i]->ready(ready->writers[i]);
}

/* Admits the waiting writers that can lock their names now that `left` has released its names. If
 * `left` is NULL, considers all waiting writers. Calls ready() of each admitted writer. */
static void admit_next(struct td_store *store, const struct td_writer *left)
{
    struct ready_list ready;
    do {
        ready.count = 0;
        pthread_mutex_lock(&store->writing);
        admit_waiting(store, left, &ready);
        pthread_mutex_unlock(&store->writing);
        call_ready(&ready);
    } while (is_full(&ready));
}

/* ---- the interface --------------------------------------------------------------------------- */

bool td_writer_enter(struct td_store *store, struct td_writer *writer)
{
    pthread_mutex_lock(&store->writing);
    const bool enters = may_enter(store, writer, NULL);
    if (enters)
        admit(store, writer);
    else
        append_waiting(store, writer);
    pthread_mutex_unlock(&store->writing);
    return enters;
}

bool td_writer_try(struct td_store *store, struct td_writer *writer)
{
    pthread_mutex_lock(&store->writing);
    const bool enters = may_enter(store, writer, NULL);
    if (enters)
        admit(store, writer);
    pthread_mutex_unlock(&store->writing);
    return enters;
}

void td_writer_wait(struct td_store *store, struct td_writer *writer)
{
    writer->ready = NULL;
    pthread_mutex_lock(&store->writing);
    if (may_enter(store, writer, NULL))
        admit(store, writer);
    else
        append_waiting(store, writer);
    while (!writer->entered)
        pthread_cond_wait(&store->written, &store->writing);
    pthread_mutex_unlock(&store->writing);
}

void td_writer_leave(struct td_store *store, struct td_writer *writer)
{
    pthread_mutex_lock(&store->writing);
    struct td_writer **link = &store->writers;
    while (*link != writer)
        link = &(*link)->next;
    *link = writer->next;
    writer->entered = false;
    pthread_mutex_unlock(&store->writing);
    admit_next(store, writer);
}

/* Removes the next expired writer from the waiting writers and returns it, or returns NULL if no
 * writer has expired. */
static struct td_writer *take_expired(struct td_store *store, int64_t now_ns, bool everything)
{
    struct td_writer **link = &store->waiting_writers;
    while (*link && (blocks_its_thread(*link) || !(everything || (*link)->deadline_ns <= now_ns)))
        link = &(*link)->next;
    struct td_writer *expired = *link;
    if (expired)
        *link = expired->next;
    return expired;
}

void td_writers_expire(struct td_store *store, int64_t now_ns, bool everything)
{
    bool any = false;
    for (;;) {
        pthread_mutex_lock(&store->writing);
        struct td_writer *expired = take_expired(store, now_ns, everything);
        pthread_mutex_unlock(&store->writing);
        if (!expired)
            break;
        any = true;
        expired->ready(expired);
    }
    if (any)
        admit_next(store, NULL);
}

int td_writers_waiting(struct td_store *store)
{
    int count = 0;
    pthread_mutex_lock(&store->writing);
    for (const struct td_writer *writer = store->waiting_writers; writer; writer = writer->next)
        count++;
    pthread_mutex_unlock(&store->writing);
    return count;
}
