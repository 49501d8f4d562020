#include "server/store/aliases/taken_folders.h"

#include "server/store/aliases/alias_file.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int td_taken_place(const struct td_store *store, const char *name)
{
    int i = 0;
    while (i < store->n_taken && strcmp(store->taken[i].name, name) != 0)
        i++;
    return i;
}

bool td_taken_has(const struct td_store *store, const char *name, const char *digest)
{
    const int place = td_taken_place(store, name);
    return place < store->n_taken && strcmp(store->taken[place].digest, digest) == 0;
}

bool td_taken_in_file(const struct td_string_map *read, const char *folder)
{
    int i = 0;
    while (i < read->count && strcmp(read->pairs[i].name, folder) != 0)
        i++;
    return i < read->count;
}

td_status td_taken_note(struct td_store *store, const char *name, const char *digest,
                        struct td_error *err)
{
    struct td_taken_folder *larger =
        realloc(store->taken, ((size_t)store->n_taken + 1) * sizeof *larger);
    if (!larger)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the name of a folder");
    store->taken = larger;
    const int place = td_taken_place(store, name);
    const bool stored = td_taken_has(store, name, digest) && larger[place].stored;
    td_taken_forget(store, name);
    struct td_taken_folder *taken = &larger[store->n_taken++];
    taken->stored = stored;
    snprintf(taken->name, sizeof taken->name, "%s", name);
    snprintf(taken->digest, sizeof taken->digest, "%s", digest);
    if (!stored && !store->read_only)
        store->to_write = true;
    return TD_OK;
}

void td_taken_forget(struct td_store *store, const char *name)
{
    const int place = td_taken_place(store, name);
    if (place == store->n_taken)
        return;
    memmove(&store->taken[place], &store->taken[place + 1],
            (size_t)(--store->n_taken - place) * sizeof *store->taken);
}

bool td_taken_forget_oldest(struct td_store *store)
{
    int surplus = -TD_TAKEN_KEPT;
    for (int i = 0; i < store->n_taken; i++)
        surplus += td_data_dir_has_gone(store->dir, store->taken[i].name);
    const bool any = surplus > 0;
    for (int i = 0; surplus > 0;) {
        if (td_data_dir_has_gone(store->dir, store->taken[i].name)) {
            td_taken_forget(store, store->taken[i].name);
            surplus--;
        } else if (++i == store->n_taken) {
            break; /* some folders might have returned since they were counted */
        }
    }
    return any;
}

td_status td_taken_set(struct td_store *store, const struct td_string_map *read,
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
        if (!td_taken_in_file(read, before->name))
            taken[n++] = *before;
    }
    free(store->taken);
    store->taken = taken;
    store->n_taken = n;
    store->to_write = n > read->count && !store->read_only;
    return TD_OK;
}

void td_taken_warn(const struct td_store *store, const char *name, const char *from, const char *to,
                   const char *folder)
{
    char reason[4 * TD_TENSOR_NAME];
    if (strcmp(from, to) == 0)
        return;
    snprintf(reason, sizeof reason,
             "its alias '%s' names %s, but the folder %s, which \"taken\" does not list, sets it "
             "to %s",
             name, from, folder, to);
    if (store->inspector)
        store->inspector->skipped(store->inspector->context, TD_ALIASES_FILE, NULL, reason);
    else
        td_log(store->log, TD_LOG_WARN, "alias_set_again", TD_TEXT("alias", name),
               TD_TEXT("from", from), TD_TEXT("to", to), TD_TEXT("source", folder));
}
