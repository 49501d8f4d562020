#include "server/store/scan/known_files.h"

#include "api/text/sorted_names.h"
#include "server/store/scan/problems.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void td_known_file_free(struct td_known_file *known)
{
    if (known) {
        free(known->names);
        free(known->reason);
        free(known->damage);
    }
    free(known);
}

void td_store_free_files(struct td_store *store)
{
    for (int i = 0; i < store->n_files; i++)
        td_known_file_free(store->files[i]);
    free(store->files);
}

/* ---- the names of a file -------------------------------------------------------------------- */

/* Returns a record without names but with room for `n` names, or NULL if no memory is available. */
static struct td_known_file *known_file_new(const char *file, int n, struct td_error *err)
{
    struct td_known_file *known = calloc(1, sizeof *known);
    if (known)
        known->names = calloc((size_t)n + 1, sizeof *known->names);
    if (known && known->names) {
        snprintf(known->file, sizeof known->file, "%s", file);
        return known;
    }
    td_known_file_free(known);
    td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the names of %s", file);
    return NULL;
}

void td_known_file_add(struct td_known_file *known, const char *name, bool not_served)
{
    struct td_known_name *added = &known->names[known->n_names++];
    snprintf(added->name, sizeof added->name, "%s", name);
    added->not_served = not_served;
}

static int in_order(const void *a, const void *b)
{
    const struct td_known_name *one = a, *other = b;
    return strcmp(one->name, other->name);
}

void td_known_file_sort(struct td_known_file *known)
{
    int i = 1;
    /* The names of most files are in order, because td_data_dir_load sorts them. */
    while (i < known->n_names && in_order(&known->names[i - 1], &known->names[i]) <= 0)
        i++;
    if (i < known->n_names)
        qsort(known->names, (size_t)known->n_names, sizeof *known->names, in_order);
}

/* Replaces the reason that the file is refused. NULL removes it. */
static void set_reason(struct td_known_file *known, const char *begin, const char *why)
{
    char text[TD_KNOWN_REASON];
    free(known->reason);
    known->reason = NULL;
    known->refused = why != NULL;
    known->partly = false;
    if (!why)
        return;
    snprintf(text, sizeof text, "%s: %s", begin, why);
    known->reason = strdup(text);
}

void td_known_file_refuse_partly(struct td_known_file *known, const char *why)
{
    set_reason(known, "has a tensor that is not served", why);
    known->partly = true;
}

static const char *tensor_at(const void *known, int i)
{
    return ((const struct td_known_file *)known)->names[i].name;
}

const struct td_known_name *td_known_file_find(const struct td_known_file *known, const char *name)
{
    bool found;
    const int place = td_sorted_find(known, known->n_names, tensor_at, name, strlen(name), &found);
    return found ? &known->names[place] : NULL;
}

/* ---- the files ------------------------------------------------------------------------------ */

static const char *file_at(const void *store, int i)
{
    return ((const struct td_store *)store)->files[i]->file;
}

/* Returns the index of the file, or the index where the file would be inserted. Call with
 * files_mutex held. */
static int known_place(const struct td_store *store, const char *file, bool *found)
{
    return td_sorted_find_at_end(store, store->n_files, file_at, file, strlen(file), found);
}

/* Frees the record at an index. Call with files_mutex held. */
static void forget_at(struct td_store *store, int place)
{
    struct td_known_file **at = &store->files[place];
    td_known_file_free(*at);
    store->n_files--;
    memmove(at, at + 1, (size_t)(store->n_files - place) * sizeof *at);
}

void td_store_forget_file(struct td_store *store, const char *file)
{
    bool found;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &found);
    if (found)
        forget_at(store, place);
    pthread_mutex_unlock(&store->files_mutex);
}

/* Makes room for one file in addition to the known and the reserved files. Call with files_mutex
 * held. */
static bool make_room(struct td_store *store)
{
    if (store->n_files + store->n_files_reserved < store->files_capacity)
        return true;
    const int room = store->files_capacity ? store->files_capacity * 2 : 16;
    struct td_known_file **files = realloc(store->files, (size_t)room * sizeof *files);
    if (!files)
        return false;
    store->files = files;
    store->files_capacity = room;
    return true;
}

struct td_known_file *td_store_reserve_file(struct td_store *store, const char *file, int n,
                                            struct td_error *err)
{
    struct td_known_file *known = known_file_new(file, n, err);
    if (!known)
        return NULL;
    pthread_mutex_lock(&store->files_mutex);
    const bool room = make_room(store);
    store->n_files_reserved += room;
    pthread_mutex_unlock(&store->files_mutex);
    if (room)
        return known;
    td_known_file_free(known);
    td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the name %s", file);
    return NULL;
}

void td_store_unreserve_file(struct td_store *store, struct td_known_file *known)
{
    if (!known)
        return;
    pthread_mutex_lock(&store->files_mutex);
    store->n_files_reserved--;
    pthread_mutex_unlock(&store->files_mutex);
    td_known_file_free(known);
}

void td_store_remember_file(struct td_store *store, struct td_known_file *known)
{
    bool found;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, known->file, &found);
    if (found)
        forget_at(store, place);
    struct td_known_file **at = &store->files[place];
    memmove(at + 1, at, (size_t)(store->n_files - place) * sizeof *at);
    *at = known;
    store->n_files++;
    store->n_files_reserved--;
    pthread_mutex_unlock(&store->files_mutex);
}

static bool is_unknown(const struct td_file_id *id)
{
    return td_file_id_equal(id, &td_file_id_unknown);
}

bool td_known_file_changed(const struct td_known_file *known, const struct td_file_id *id)
{
    return !is_unknown(id) && !is_unknown(&known->seen) && !td_file_id_equal(&known->seen, id);
}

void td_store_file_seen(struct td_store *store, const char *file, const struct td_file_id *id,
                        uint64_t last)
{
    bool found;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &found);
    if (found) {
        struct td_known_file *known = store->files[place];
        if (td_known_file_changed(known, id))
            known->seen_version = last;
        if (!is_unknown(id))
            known->seen = *id;
        set_reason(known, "", NULL);
    }
    pthread_mutex_unlock(&store->files_mutex);
    struct td_known_file *added = found ? NULL : td_store_reserve_file(store, file, 0, TD_IGNORED);
    if (!added)
        return;
    added->seen = *id;
    added->seen_version = last;
    td_store_remember_file(store, added);
}

void td_store_file_refused(struct td_store *store, const char *file, const struct td_file_id *id,
                           uint64_t last, const char *why)
{
    bool found;
    td_store_file_seen(store, file, id, last);
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &found);
    if (found)
        set_reason(store->files[place], "is not served", why);
    pthread_mutex_unlock(&store->files_mutex);
}

void td_store_file_damaged(struct td_store *store, const char *file, const char *reason)
{
    bool found;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &found);
    if (found) {
        free(store->files[place]->damage);
        store->files[place]->damage = strdup(reason);
    }
    pthread_mutex_unlock(&store->files_mutex);
}

/* Finds the next damaged file, starting at index *i, and copies its name and damage. Returns false
 * if there are no more damaged files. */
static bool next_damaged(struct td_store *store, int *i, char file[TD_FILE_NAME],
                         char reason[TD_KNOWN_REASON])
{
    pthread_mutex_lock(&store->files_mutex);
    while (*i < store->n_files && !store->files[*i]->damage)
        ++*i;
    const bool found = *i < store->n_files;
    if (found) {
        snprintf(file, TD_FILE_NAME, "%s", store->files[*i]->file);
        snprintf(reason, TD_KNOWN_REASON, "%s", store->files[*i]->damage);
    }
    ++*i;
    pthread_mutex_unlock(&store->files_mutex);
    return found;
}

void td_store_note_damaged_files(struct td_store *store)
{
    char file[TD_FILE_NAME], reason[TD_KNOWN_REASON];
    for (int i = 0; next_damaged(store, &i, file, reason);)
        td_store_note_file_problem(store, file, reason);
}

/* True if the file out->file, or the tensor of this name in it, is refused. Call with files_mutex
 * held. */
static bool is_refused(const struct td_store *store, const char *name, struct td_refused_file *out)
{
    bool found;
    const int place = known_place(store, out->file, &found);
    const struct td_known_file *known = found ? store->files[place] : NULL;
    if (!known || !known->refused)
        return false;
    const struct td_known_name *tensor = known->partly ? td_known_file_find(known, name) : NULL;
    snprintf(out->reason, sizeof out->reason, "%s",
             known->reason ? known->reason : "is not served");
    return !known->partly || (tensor && tensor->not_served);
}

bool td_store_find_refused_file(struct td_store *store, const char *name,
                                struct td_refused_file *out)
{
    bool found = false;
    pthread_mutex_lock(&store->files_mutex);
    for (int place = 0; !found && td_data_next_file(name, &place, out->file);)
        found = is_refused(store, name, out);
    pthread_mutex_unlock(&store->files_mutex);
    out->own = found && !td_data_file_is(out->file, TD_SAFETENSORS_SUFFIX);
    return found;
}

td_status td_store_recall_file(struct td_store *store, const char *file, struct td_known_file **out,
                               struct td_error *err)
{
    bool found;
    *out = NULL;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &found);
    if (found) {
        const struct td_known_file *known = store->files[place];
        *out = known_file_new(file, known->n_names, err);
        if (*out) {
            struct td_known_name *names = (*out)->names;
            **out = *known;
            (*out)->names = names;
            (*out)->reason = (*out)->damage = NULL;
            memcpy((*out)->names, known->names, (size_t)known->n_names * sizeof *known->names);
        }
    }
    pthread_mutex_unlock(&store->files_mutex);
    return *out || !found ? TD_OK : TD_MEMORY_EXHAUSTED;
}

bool td_store_file_gives(struct td_store *store, const char *file, const char *name,
                         bool *not_served)
{
    bool found;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &found);
    const struct td_known_name *known =
        found ? td_known_file_find(store->files[place], name) : NULL;
    const bool gives = known && !known->unreadable;
    *not_served = gives && known->not_served;
    pthread_mutex_unlock(&store->files_mutex);
    return gives;
}

/* True if the file certainly contains the tensor. Call with files_mutex held. */
static bool is_certain(const struct td_store *store, const char *name, const char *file)
{
    bool found;
    const int place = known_place(store, file, &found);
    const struct td_known_file *known = found ? store->files[place] : NULL;
    if (!known || !td_data_file_is(file, TD_SAFETENSORS_SUFFIX))
        return found;
    const bool content_known = !known->refused || known->partly;
    return content_known && td_known_file_find(known, name) != NULL;
}

bool td_store_find_file(struct td_store *store, const char *name, char file[TD_FILE_NAME])
{
    bool has = false;
    pthread_mutex_lock(&store->files_mutex);
    for (int place = 0; !has && td_data_next_file(name, &place, file);)
        has = is_certain(store, name, file);
    pthread_mutex_unlock(&store->files_mutex);
    return has;
}

char (*td_store_known_files(struct td_store *store, int *count))[TD_FILE_NAME]
{
    char(*names)[TD_FILE_NAME];
    pthread_mutex_lock(&store->files_mutex);
    names = calloc((size_t)store->n_files + 1, sizeof *names);
    *count = names ? store->n_files : 0;
    for (int i = 0; i < *count && names; i++)
        snprintf(names[i], sizeof names[i], "%s", store->files[i]->file);
    pthread_mutex_unlock(&store->files_mutex);
    return names;
}

void td_store_file_written(struct td_store *store, struct td_known_file *known)
{
    char npy[TD_FILE_NAME];
    const bool replaces = td_data_npy_file(known->names[0].name, npy);
    td_store_remember_file(store, known);
    if (replaces)
        td_store_forget_file(store, npy);
}

/* True if a tensor of this name is the only content that the server can read from the file. */
static bool has_only(const struct td_known_file *known, const char *name)
{
    bool only = td_known_file_find(known, name) != NULL;
    for (int i = 0; i < known->n_names && only; i++)
        only = known->names[i].unreadable || strcmp(known->names[i].name, name) == 0;
    return only;
}

void td_store_files_removed(struct td_store *store, const char *name)
{
    /* Forget the files that hold only this name by their file names, because the record of a
     * refused file has no names. */
    char file[TD_FILE_NAME];
    td_data_own_file(name, file);
    td_store_forget_file(store, file);
    if (td_data_npy_file(name, file))
        td_store_forget_file(store, file);
    pthread_mutex_lock(&store->files_mutex);
    for (int i = store->n_files - 1; i >= 0; i--)
        if (has_only(store->files[i], name))
            forget_at(store, i);
    pthread_mutex_unlock(&store->files_mutex);
}
