#include "server/store/files.h"

#include "api/text/sorted_names.h"
#include "server/store/parts.h"

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

static const char *name_at(const void *store, int i)
{
    return ((const struct td_store *)store)->files[i]->file.name;
}

/* With files_mutex held: where the file stands, or would. */
static int known_place(const struct td_store *store, const char *file, bool *there)
{
    return td_sorted_place(store, store->n_files, name_at, file, strlen(file), there);
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

struct known_file *td_known_file_new(const char *file, const struct td_file_id *id, int n)
{
    struct known_file *known = calloc(1, sizeof *known);
    if (!known)
        return NULL;
    snprintf(known->file.name, sizeof known->file.name, "%s", file);
    known->file.id = *id;
    known->names = calloc((size_t)n + 1, sizeof *known->names);
    if (known->names)
        return known;
    free(known);
    return NULL;
}

void td_store_remember_file(struct td_store *store, struct known_file *known)
{
    bool there;
    if (!known)
        return;
    pthread_mutex_lock(&store->files_mutex);
    int place = known_place(store, known->file.name, &there);
    if (there)
        forget_at(store, place);
    if (store->n_files == store->file_room) {
        const int room = store->file_room ? store->file_room * 2 : 16;
        struct known_file **files = realloc(store->files, (size_t)room * sizeof *files);
        store->files = files ? files : store->files;
        store->file_room = files ? room : store->file_room;
    }
    if (store->n_files < store->file_room) {
        struct known_file **at = &store->files[place];
        memmove(at + 1, at, (size_t)(store->n_files - place) * sizeof *at);
        *at = known;
        store->n_files++;
        known = NULL;
    }
    pthread_mutex_unlock(&store->files_mutex);
    td_known_file_free(known);
}

struct known_file *td_store_recall_file(struct td_store *store, const char *file)
{
    bool there;
    struct known_file *copy = NULL;
    pthread_mutex_lock(&store->files_mutex);
    const int place = known_place(store, file, &there);
    if (there) {
        const struct known_file *known = store->files[place];
        copy = td_known_file_new(file, &known->file.id, known->n_names);
        if (copy) {
            copy->n_names = known->n_names;
            memcpy(copy->names, known->names, (size_t)known->n_names * sizeof *known->names);
        }
    }
    pthread_mutex_unlock(&store->files_mutex);
    return copy;
}

char (*td_store_known_files(struct td_store *store, int *count))[TD_FILE_NAME]
{
    char(*names)[TD_FILE_NAME];
    pthread_mutex_lock(&store->files_mutex);
    names = calloc((size_t)store->n_files + 1, sizeof *names);
    *count = names ? store->n_files : 0;
    for (int i = 0; i < *count && names; i++)
        snprintf(names[i], sizeof names[i], "%s", store->files[i]->file.name);
    pthread_mutex_unlock(&store->files_mutex);
    return names;
}

void td_store_wrote_file(struct td_store *store, const char *name, const char *file,
                         const struct td_file_id *id)
{
    char plain[TD_FILE_NAME];
    struct known_file *known = td_known_file_new(file, id, 1);
    if (known)
        snprintf(known->names[known->n_names++], sizeof *known->names, "%s", name);
    td_store_remember_file(store, known);
    snprintf(plain, sizeof plain, "%s.npy", name);
    td_store_forget_file(store, plain);
}

void td_store_removed_files(struct td_store *store, const char *name)
{
    pthread_mutex_lock(&store->files_mutex);
    for (int i = store->n_files - 1; i >= 0; i--)
        if (store->files[i]->n_names == 1 && strcmp(store->files[i]->names[0], name) == 0)
            forget_at(store, i);
    pthread_mutex_unlock(&store->files_mutex);
}
