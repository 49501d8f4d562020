#include "server/store/scan.h"

#include "server/store/entries.h"
#include "server/store/known_files.h"
#include "server/store/state.h"
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

/* Files that the system did not let the scan read, with room for all that there are. */
struct unread {
    char (*files)[TD_FILE_NAME];
    int count;
};

/* A scan's view of one file. */
struct look {
    struct td_store *store;
    struct unread *unread;
    const char *file;
    const char *entered; /* name whose writer the scan is already; NULL for none */
    bool vanished;
};

/* Nothing is known of what the file gives now. */
static void leave_unread(const struct look *look, const char *why)
{
    skipped(look->store, look->file, NULL, why);
    snprintf(look->unread->files[look->unread->count++], TD_FILE_NAME, "%s", look->file);
}

/* ---- one tensor ----------------------------------------------------------------------------- */

/* Becomes a version of the name; as its writer. */
static td_status take_tensor(struct td_store *store, const char *file, const struct td_file_id *id,
                             const struct td_data_tensor *found, const struct version *before,
                             struct td_error *err)
{
    /* A number from before the start goes on; later ones may not fall behind what was given out. */
    const bool numbered = found->version > 0 && found->version >> 53 == 0 && !store->opened;
    struct version *version = td_version_new(found->name, err);
    if (!version)
        return TD_MEMORY_EXHAUSTED;
    snprintf(version->file, sizeof version->file, "%s", file);
    version->persisted = version->from_file = true;
    const bool mapped = found->tensor.owner != NULL;
    const uint64_t held =
        mapped ? td_version_mapped_held(&found->tensor) : td_tensor_footprint(&found->tensor);
    td_status status = td_store_expect(store, version, err);
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
    if (status == TD_OK) {
        struct version *replaced = td_store_publish(store, version);
        td_buffer_unref(replaced ? &replaced->base : NULL);
    } else {
        td_version_abandon(store, version);
    }
    return status;
}

static bool same_id(const struct td_file_id *a, const struct td_file_id *b)
{
    return a->inode == b->inode && a->size == b->size && a->changed_ns == b->changed_ns;
}

/* Is the file what it was when it was read? The tensor may have been deleted, or written anew, since
 * then. */
static bool is_as_read(const struct look *look, const struct td_file_id *id)
{
    struct td_file_id now;
    return td_data_dir_look(look->store->dir, look->file, &now) == TD_FILE_THERE &&
           same_id(&now, id);
}

/* Does the file STEM and suffix, `length` letters of the name being its stem, go before the one that
 * is looked at? Unknown where it could not be read, or not be served as it is now. */
static td_look look_earlier(const struct look *look, const char *name, int length,
                            const char *suffix)
{
    char file[TD_FILE_NAME];
    struct td_file_id id;
    bool missed;
    snprintf(file, sizeof file, "%.*s%s", length, name, suffix);
    if (td_data_file_order(file, look->file) >= 0)
        return TD_FILE_GONE;
    for (int i = 0; i < look->unread->count; i++)
        if (strcmp(look->unread->files[i], file) == 0)
            return TD_FILE_UNKNOWN;
    if (!td_store_file_gives(look->store, file, name, &missed))
        return TD_FILE_GONE;
    return missed ? TD_FILE_UNKNOWN : td_data_dir_look(look->store->dir, file, &id);
}

/* Is there a file that goes before the one that is looked at, for a name? */
static td_look find_earlier(const struct look *look, const char *name)
{
    const int length = (int)strlen(name);
    td_look found = look_earlier(look, name, length, ".tensord");
    if (found == TD_FILE_GONE)
        found = look_earlier(look, name, length, ".npy");
    for (int i = 1; i < length && found == TD_FILE_GONE; i++)
        if (name[i] == ':')
            found = look_earlier(look, name, i, ".safetensors");
    return found;
}

/* As the writer of the name. `changed`: the file is not what it was, so that it goes before what
 * came by other ways. False: what the file gives is not served, though it should be. */
static bool offer(const struct look *look, const struct td_file_id *id,
                  const struct td_data_tensor *found, bool changed)
{
    struct td_store *store = look->store;
    struct version *before = td_store_current(store, found->name, strlen(found->name));
    struct td_error err = { 0 };
    bool settled = true;
    if (before && !changed)
        goto done;
    switch (find_earlier(look, found->name)) {
    case TD_FILE_GONE:
        settled = is_as_read(look, id);
        if (settled && take_tensor(store, look->file, id, found, before, &err) != TD_OK) {
            skipped(store, look->file, found->name, err.message);
            settled = false;
        }
        break;
    case TD_FILE_THERE:
        skipped(store, look->file, found->name, "another file has a tensor of that name");
        break;
    default:
        skipped(store, look->file, found->name,
                "another file, which would go before it, cannot be read now");
        settled = false;
    }
done:
    td_buffer_unref(before ? &before->base : NULL);
    return settled;
}

static bool is_gone(struct td_store *store, const char *file)
{
    struct td_file_id id;
    return td_data_dir_look(store->dir, file, &id) == TD_FILE_GONE;
}

/* As the writer of the name: a tensor that its file does not give any more. One that vanished may
 * have been written again since. False: it is served on, though it should not be. */
static bool withdraw(const struct look *look, const char *name)
{
    bool settled = true;
    struct version *current = td_store_current(look->store, name, strlen(name));
    if (current && strcmp(current->file, look->file) == 0) {
        settled = !look->vanished || is_gone(look->store, look->file);
        if (settled)
            td_store_drop(look->store, name);
    }
    td_buffer_unref(current ? &current->base : NULL);
    return settled;
}

/* ---- one file ------------------------------------------------------------------------------- */

/* Is everything served that the file has? Something of it may have been hidden by another file, or
 * was missed. */
static bool all_there(struct td_store *store, const struct known_file *known)
{
    bool all = true;
    for (int i = 0; i < known->n_names && all; i++) {
        const struct known_name *name = &known->names[i];
        struct version *current = td_store_current(store, name->name, strlen(name->name));
        all = current != NULL && !name->missed;
        td_buffer_unref(current ? &current->base : NULL);
    }
    return all;
}

/* Calls offer, or withdraw where nothing was found, as the writer of the name. */
static bool as_writer(const struct look *look, const char *name, const struct td_file_id *id,
                      const struct td_data_tensor *found, bool changed)
{
    struct writer writer;
    const bool enter = !look->entered || strcmp(look->entered, name) != 0;
    /* A scan runs within no update, so it may wait. */
    if (enter && td_writer_enter(look->store, &writer, name, NULL) != TD_OK)
        return false;
    const bool settled = found ? offer(look, id, found, changed) : withdraw(look, name);
    if (enter)
        td_writer_leave(look->store, &writer);
    return settled;
}

/* What the file gives, in the place of what it gave before. Without memory to remember it nothing is
 * taken: of a file that is not known all would be taken once more, in the place of what came later. */
static void take_content(const struct look *look, const struct td_data_content *content,
                         const struct known_file *before)
{
    struct td_error err;
    const bool changed = !before || !same_id(&before->id, &content->id);
    struct known_file *known = td_store_expect_file(look->store, look->file, content->count, &err);
    if (!known) {
        leave_unread(look, err.message);
        return;
    }
    known->id = content->id;
    for (int i = 0; i < content->count; i++) {
        const struct td_data_tensor *found = &content->tensors[i];
        if (td_store_check_name(found->name, &err) != TD_OK) {
            skipped(look->store, look->file, found->name, err.message);
            continue;
        }
        const struct known_name *old = before ? td_known_file_find(before, found->name) : NULL;
        const bool missed = old && old->missed;
        const bool settled = as_writer(look, found->name, &content->id, found, changed || missed);
        td_known_file_add(known, found->name, !settled);
    }
    td_known_file_sort(known);
    for (int i = 0; before && i < before->n_names; i++)
        if (!td_known_file_find(known, before->names[i].name))
            as_writer(look, before->names[i].name, NULL, NULL, true);
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

/* What the file gave before is served on where it is as it was, or was put aside whole (another file
 * took its name), and goes where it was written over. */
static void take_failure(const struct look *look, const struct known_file *before)
{
    struct td_file_id id;
    if (!before || td_data_dir_look(look->store->dir, look->file, &id) != TD_FILE_THERE ||
        same_id(&id, &before->id))
        return;
    if (id.inode != before->id.inode) {
        for (int i = 0; i < before->n_names; i++)
            orphan(look->store, look->file, before->names[i].name);
        return;
    }
    for (int i = 0; i < before->n_names; i++)
        as_writer(look, before->names[i].name, NULL, NULL, true);
    td_store_forget_file(look->store, look->file);
}

static void scan_known(const struct look *look)
{
    struct td_file_id id;
    struct td_arena arena;
    struct td_data_content content;
    struct td_error err;
    struct known_file *before;
    if (td_store_recall_file(look->store, look->file, &before, &err) != TD_OK) {
        leave_unread(look, err.message);
        return;
    }
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    if (before && td_data_dir_look(look->store->dir, look->file, &id) == TD_FILE_THERE &&
        same_id(&id, &before->id) && all_there(look->store, before))
        goto done;
    const td_status status = td_data_dir_load(look->store->dir, look->file, &arena, &content, &err);
    if (status == TD_OK) {
        take_content(look, &content, before);
        goto done;
    }
    if (status == TD_MALFORMED_REQUEST)
        skipped(look->store, look->file, NULL, err.message);
    else
        leave_unread(look, err.message);
    take_failure(look, before);
done:
    td_arena_reset(&arena);
    td_known_file_free(before);
}

static void scan_file(struct td_store *store, struct unread *unread, const char *file)
{
    struct writer writer;
    struct look look = { .store = store, .unread = unread, .file = file };
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

/* ---- all of them ----------------------------------------------------------------------------- */

/* As the writer of its one name, if it has one only: DELETE may put such a file back. */
static void vanish(struct td_store *store, const char *file)
{
    struct writer writer;
    struct known_file *known;
    struct td_error err;
    struct look look = { .store = store, .file = file, .vanished = true };
    bool settled = true;
    if (td_store_recall_file(store, file, &known, &err) != TD_OK) {
        skipped(store, file, NULL, err.message);
        return;
    }
    const bool one = known && known->n_names == 1;
    look.entered = one ? known->names[0].name : NULL;
    if (one && td_writer_enter(store, &writer, look.entered, NULL) != TD_OK)
        goto done;
    for (int i = 0; known && i < known->n_names; i++)
        settled &= as_writer(&look, known->names[i].name, NULL, NULL, true);
    if (settled && is_gone(store, file))
        td_store_forget_file(store, file);
    if (one)
        td_writer_leave(store, &writer);
done:
    td_known_file_free(known);
}

bool td_store_scan(struct td_store *store)
{
    char(*files)[TD_FILE_NAME], (*known)[TD_FILE_NAME] = NULL;
    struct unread unread = { 0 };
    int count, n_known = 0;
    pthread_mutex_lock(&store->scanning);
    bool readable = td_data_dir_list(store->dir, &files, &count);
    if (readable) {
        known = td_store_known_files(store, &n_known);
        unread.files = calloc((size_t)count + 1, sizeof *unread.files);
        readable = known && unread.files;
        if (!readable)
            skipped(store, NULL, NULL, "there is no memory for the names of the files");
    }
    for (int i = 0; i < n_known && readable; i++)
        if (is_gone(store, known[i]))
            vanish(store, known[i]);
    for (int i = 0; i < count && readable; i++)
        scan_file(store, &unread, files[i]);
    free(unread.files);
    free(known);
    free(files);
    pthread_mutex_unlock(&store->scanning);
    return readable;
}
