#include "server/store/known_files.h"

#include "api/text/sorted_names.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void td_known_file_free(struct known_file *known)
{
    if (known)
        free(known->names);
    free(known);
}

void td_store_free_files(struct td_store *store)
{
    for (int i = 0; i < store->n_files; i++)
        td_known_file_free(store->files[i]);
    free(store->files);
}

/* ---- the names of a file -------------------------------------------------------------------- */

/* Without names, but with room for n; NULL without memory. */
static struct known_file *known_file_new(const char *file, int n, struct td_error *err)
{
    struct known_file *known = calloc(1, sizeof *known);
    if (known)
        known->names = calloc((size_t)n + 1, sizeof *known->names);
    if (known && known->names) {
        snprintf(known->file, sizeof known->file, "%s", file);
        return known;
    }
    td_known_file_free(known);
    td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for what %s gives", file);
    return NULL;
}

void td_known_file_add(struct known_file *known, const char *name, bool missed)
{
    struct known_name *added = &known->names[known->n_names++];
    snprintf(added->name, sizeof added->name, "%s", name);
    added->missed = missed;
}

static int in_order(const void *a, const void *b)
{
    const struct known_name *one = a, *other = b;
    return strcmp(one->name, other->name);
}

void td_known_file_sort(struct known_file *known)
{
    qsort(known->names, (size_t)known->n_names, sizeof *known->names, in_order);
}

static const char *tensor_at(const void *known, int i)
{
    return ((const struct known_file *)known)->names[i].name;
}

const struct known_name *td_known_file_find(const struct known_file *known, const char *name)
{
    bool there;
    const int place = td_sorted_place(known, known->n_names, tensor_at, name, strlen(name), &there);
    return there ? &known->names[place] : NULL;
}

/* ---- the files ------------------------------------------------------------------------------ */

static const char *file_at(const void *store, int i)
{
    return ((const struct td_store *)store)->files[i]->file;
}

/* With files_mutex held: where the file stands, or would. */
static int known_place(const struct td_store *store, const char *file, bool *there)
{
    return td_sorted_place(store, store->n_files, file_at, file, strlen(file), there);
}

/* With files_mutex held. */
static void forget_at(struct td_store *store, int place)
{
    struct known_file **at = &store->files[place];
    td_known_file_free(*at);
    store->n_files--;
    memmove(at, at + 1, (size_t)(store->n_files - place) * sizeof *at);
}

void td_store_forget_file(struct td_store *store, const char *file)
{
    bool there;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &there);
    if (there)
        forget_at(store, place);
    pthread_mutex_unlock(&store->files_mutex);
}

/* With files_mutex held: room for one more file than are known and expected. */
static bool make_room(struct td_store *store)
{
    if (store->n_files + store->n_files_expected < store->file_room)
        return true;
    const int room = store->file_room ? store->file_room * 2 : 16;
    struct known_file **files = realloc(store->files, (size_t)room * sizeof *files);
    if (!files)
        return false;
    store->files = files;
    store->file_room = room;
    return true;
}

struct known_file *td_store_expect_file(struct td_store *store, const char *file, int n,
                                        struct td_error *err)
{
    struct known_file *known = known_file_new(file, n, err);
    if (!known)
        return NULL;
    pthread_mutex_lock(&store->files_mutex);
    const bool room = make_room(store);
    store->n_files_expected += room;
    pthread_mutex_unlock(&store->files_mutex);
    if (room)
        return known;
    td_known_file_free(known);
    td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for the name %s", file);
    return NULL;
}

void td_store_unexpect_file(struct td_store *store, struct known_file *known)
{
    if (!known)
        return;
    pthread_mutex_lock(&store->files_mutex);
    store->n_files_expected--;
    pthread_mutex_unlock(&store->files_mutex);
    td_known_file_free(known);
}

void td_store_remember_file(struct td_store *store, struct known_file *known)
{
    bool there;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, known->file, &there);
    if (there)
        forget_at(store, place);
    struct known_file **at = &store->files[place];
    memmove(at + 1, at, (size_t)(store->n_files - place) * sizeof *at);
    *at = known;
    store->n_files++;
    store->n_files_expected--;
    pthread_mutex_unlock(&store->files_mutex);
}

td_status td_store_recall_file(struct td_store *store, const char *file, struct known_file **out,
                               struct td_error *err)
{
    bool there;
    *out = NULL;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &there);
    if (there) {
        const struct known_file *known = store->files[place];
        *out = known_file_new(file, known->n_names, err);
        if (*out) {
            (*out)->id = known->id;
            (*out)->n_names = known->n_names;
            memcpy((*out)->names, known->names, (size_t)known->n_names * sizeof *known->names);
        }
    }
    pthread_mutex_unlock(&store->files_mutex);
    return *out || !there ? TD_OK : TD_MEMORY_EXHAUSTED;
}

bool td_store_file_gives(struct td_store *store, const char *file, const char *name, bool *missed)
{
    bool there;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &there);
    const struct known_name *known = there ? td_known_file_find(store->files[place], name) : NULL;
    *missed = known && known->missed;
    pthread_mutex_unlock(&store->files_mutex);
    return known != NULL;
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

void td_store_wrote_file(struct td_store *store, struct known_file *known)
{
    char plain[TD_FILE_NAME];
    snprintf(plain, sizeof plain, "%s.npy", known->names[0].name);
    td_store_remember_file(store, known);
    td_store_forget_file(store, plain);
}

void td_store_removed_files(struct td_store *store, const char *name)
{
    pthread_mutex_lock(&store->files_mutex);
    for (int i = store->n_files - 1; i >= 0; i--)
        if (store->files[i]->n_names == 1 && strcmp(store->files[i]->names[0].name, name) == 0)
            forget_at(store, i);
    pthread_mutex_unlock(&store->files_mutex);
}
