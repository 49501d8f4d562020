#include "server/store/scan.h"

#include "server/store/entries.h"
#include "server/store/files.h"
#include "server/store/parts.h"
#include "server/store/writers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void skipped(const struct td_store *store, const char *file, const char *tensor,
                    const char *why)
{
    td_log(store->log, TD_LOG_WARN, "table_skipped", TD_TEXT("file", file),
           TD_TEXT("tensor", tensor), TD_TEXT("reason", why));
}

static bool is_own(const char *file)
{
    const char *dot = strrchr(file, '.');
    return dot && strcmp(dot, ".tensord") == 0;
}

/* Which of two files goes first, as td_data_dir_list has them. */
static bool goes_before(const char *file, const char *other)
{
    return is_own(file) != is_own(other) ? is_own(file) : strcmp(file, other) < 0;
}

/* ---- one tensor ----------------------------------------------------------------------------- */

/* Becomes a version of the name; as its writer. */
static td_status take_tensor(struct td_store *store, const char *file, const struct td_file_id *id,
                             const struct td_data_tensor *found, const struct version *before,
                             struct td_error *err)
{
    /* A number from before the start goes on; later ones may not fall behind what was given out. */
    const bool numbered = found->version > 0 && found->version >> 53 == 0 && !store->opened;
    struct version *replaced, *version = td_version_new(found->name, err);
    if (!version)
        return TD_MEMORY_EXHAUSTED;
    snprintf(version->file, sizeof version->file, "%s", file);
    version->persisted = version->from_file = true;
    const bool mapped = found->tensor.owner != NULL;
    const uint64_t held =
        mapped ? td_version_mapped_held(&found->tensor) : td_tensor_footprint(&found->tensor);
    td_status status = before ? TD_OK : td_store_check_count(store, err);
    if (status == TD_OK)
        status = td_store_reserve(store, before, held, &version->leaving, err);
    if (status == TD_OK) {
        version->held = held;
        if (mapped)
            td_version_map(version, &found->tensor, found->range);
        else
            status = td_version_copy(store, version, &found->tensor, err);
    }
    version->number = td_store_next_number(store, numbered ? found->version : 0);
    td_version_tag(store, version, id, found->version);
    if (status == TD_OK && !td_store_publish(store, version, &replaced, err))
        status = TD_MEMORY_EXHAUSTED;
    if (status == TD_OK) {
        td_buffer_unref(replaced ? &replaced->base : NULL);
        return TD_OK;
    }
    td_store_unreserve(store, version->held, version->leaving);
    td_buffer_unref(&version->base);
    return status;
}

static bool same_id(const struct td_file_id *a, const struct td_file_id *b)
{
    return a->inode == b->inode && a->size == b->size && a->changed_ns == b->changed_ns;
}

/* As the writer of the name. `changed`: the file is not what it was, so that it goes before what
 * came by other ways. */
static void offer(struct td_store *store, const char *file, const struct td_file_id *id,
                  const struct td_data_tensor *found, bool changed)
{
    struct td_file_id other, now;
    struct td_error err;
    /* Somebody may have deleted the tensor, or written it anew, since the file was read. */
    if (!td_data_dir_look(store->dir, file, &now) || !same_id(&now, id))
        return;
    struct version *before = td_store_current(store, found->name, strlen(found->name));
    const bool of_other = before && before->file[0] && strcmp(before->file, file) != 0 &&
                          goes_before(before->file, file) &&
                          td_data_dir_look(store->dir, before->file, &other);
    if (of_other)
        skipped(store, file, found->name, "another file has a tensor of that name");
    else if ((changed || !before) && take_tensor(store, file, id, found, before, &err) != TD_OK)
        skipped(store, file, found->name, err.message);
    td_buffer_unref(before ? &before->base : NULL);
}

static bool is_gone(struct td_store *store, const char *file)
{
    struct td_file_id id;
    return !td_data_dir_look(store->dir, file, &id);
}

/* As the writer of the name: a tensor that its file does not give any more. One that vanished may
 * have been written again since. */
static void withdraw(struct td_store *store, const char *file, const char *name, bool vanished)
{
    struct version *current = td_store_current(store, name, strlen(name));
    if (current && strcmp(current->file, file) == 0 && (!vanished || is_gone(store, file)))
        td_store_drop(store, name);
    td_buffer_unref(current ? &current->base : NULL);
}

/* ---- one file ------------------------------------------------------------------------------- */

/* Is everything served that the file has? Something of it may have been hidden by another file. */
static bool all_there(struct td_store *store, const struct known_file *known)
{
    bool all = true;
    for (int i = 0; i < known->n_names && all; i++) {
        struct version *current = td_store_current(store, known->names[i], strlen(known->names[i]));
        all = current != NULL;
        td_buffer_unref(current ? &current->base : NULL);
    }
    return all;
}

/* A scan's view of one file. */
struct look {
    struct td_store *store;
    const char *file;
    const char *entered; /* name whose writer the scan is already; NULL for none */
    bool vanished;
};

/* Calls one of the two as the writer of the name. */
static void as_writer(const struct look *look, const char *name, const struct td_file_id *id,
                      const struct td_data_tensor *found, bool changed)
{
    struct writer writer;
    const bool enter = !look->entered || strcmp(look->entered, name) != 0;
    /* A scan runs within no update, so it may wait. */
    if (enter && td_writer_enter(look->store, &writer, name, NULL) != TD_OK)
        return;
    if (found)
        offer(look->store, look->file, id, found, changed);
    else
        withdraw(look->store, look->file, name, look->vanished);
    if (enter)
        td_writer_leave(look->store, &writer);
}

static bool has_name(const struct known_file *known, const char *name)
{
    for (int i = 0; i < known->n_names; i++)
        if (strcmp(known->names[i], name) == 0)
            return true;
    return false;
}

static void take_content(const struct look *look, const struct td_data_content *content,
                         const struct known_file *before)
{
    const bool changed = !before || !same_id(&before->file.id, &content->id);
    struct known_file *known = td_known_file_new(look->file, &content->id, content->count);
    struct td_error err;
    for (int i = 0; i < content->count; i++) {
        const struct td_data_tensor *found = &content->tensors[i];
        if (td_store_check_name(found->name, &err) != TD_OK) {
            skipped(look->store, look->file, found->name, err.message);
            continue;
        }
        as_writer(look, found->name, &content->id, found, changed);
        if (known)
            snprintf(known->names[known->n_names++], sizeof *known->names, "%s", found->name);
    }
    for (int i = 0; before && known && i < before->n_names; i++)
        if (!has_name(known, before->names[i]))
            as_writer(look, before->names[i], NULL, NULL, true);
    td_store_remember_file(look->store, known);
}

/* No restart brings back what it gave. */
static void orphan(struct td_store *store, const char *file, const char *name)
{
    struct version *current = td_store_current(store, name, strlen(name));
    if (current && strcmp(current->file, file) == 0)
        atomic_store(&current->orphaned, true);
    td_buffer_unref(current ? &current->base : NULL);
}

/* What the file gave before is served on where it was put aside whole (another file took its name),
 * and goes where it was written over. */
static void take_failure(const struct look *look, const struct known_file *before)
{
    struct td_file_id id;
    if (!before || !td_data_dir_look(look->store->dir, look->file, &id))
        return;
    if (id.inode != before->file.id.inode) {
        for (int i = 0; i < before->n_names; i++)
            orphan(look->store, look->file, before->names[i]);
        return;
    }
    for (int i = 0; i < before->n_names; i++)
        as_writer(look, before->names[i], NULL, NULL, true);
    td_store_forget_file(look->store, look->file);
}

static void scan_known(const struct look *look)
{
    struct td_file_id id;
    struct td_arena arena;
    struct td_data_content content;
    struct td_error err;
    struct known_file *before = td_store_recall_file(look->store, look->file);
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    if (before && td_data_dir_look(look->store->dir, look->file, &id) &&
        same_id(&id, &before->file.id) && all_there(look->store, before))
        goto done;
    if (td_data_dir_load(look->store->dir, look->file, &arena, &content, &err) == TD_OK) {
        take_content(look, &content, before);
    } else {
        skipped(look->store, look->file, NULL, err.message);
        take_failure(look, before);
    }
done:
    td_arena_reset(&arena);
    td_known_file_free(before);
}

static void scan_file(struct td_store *store, const char *file)
{
    struct writer writer;
    struct look look = { .store = store, .file = file };
    char stem[TD_FILE_NAME];
    const char *suffix = strrchr(file, '.');
    snprintf(stem, sizeof stem, "%.*s", (int)(suffix - file), file);
    /* A file of one tensor may be being written just now: by the writer of that name. */
    const bool one = strcmp(suffix, ".safetensors") != 0 && td_name_valid(stem);
    if (one && td_writer_enter(store, &writer, stem, NULL) != TD_OK)
        return;
    look.entered = one ? stem : NULL;
    scan_known(&look);
    if (one)
        td_writer_leave(store, &writer);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void vanish(struct td_store *store, const char *file)
{
    const struct look look = { .store = store, .file = file, .vanished = true };
    struct known_file *known = td_store_recall_file(store, file);
    for (int i = 0; known && i < known->n_names; i++)
        as_writer(&look, known->names[i], NULL, NULL, true);
    if (is_gone(store, file))
        td_store_forget_file(store, file);
    td_known_file_free(known);
}

bool td_store_scan(struct td_store *store)
{
    struct td_data_file *files;
    int count, n_known;
    pthread_mutex_lock(&store->scanning);
    const bool readable = td_data_dir_list(store->dir, &files, &count);
    char(*known)[TD_FILE_NAME] = readable ? td_store_known_files(store, &n_known) : NULL;
    for (int i = 0; known && i < n_known; i++)
        if (is_gone(store, known[i]))
            vanish(store, known[i]);
    for (int i = 0; i < count; i++)
        scan_file(store, files[i].name);
    free(known);
    free(files);
    pthread_mutex_unlock(&store->scanning);
    return readable;
}
