#include "server/store/scan/scan.h"

#include "api/files/foreign.h"
#include "api/tensor_io.h"
#include "server/store/aliases/alias_flip.h"
#include "server/store/aliases/alias_folder.h"
#include "server/store/aliases/alias_load.h"
#include "server/store/changes/retention.h"
#include "server/store/changes/writers.h"
#include "server/store/entries.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/load.h"
#include "server/store/scan/problems.h"
#include "server/store/scan/scan_report.h"
#include "server/store/scan/verify.h"
#include "server/store/scan/version_folders.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Files whose content this scan does not know, because they are malformed or could not be read. No
 * other file can provide a tensor that might be in one of them. `files` is large enough for all
 * files. */
struct unread_files {
    char (*files)[TD_FILE_NAME];
    int count;
};

/* The files of the scanned folder that can hold keys, sorted by name. Most folders have none, so
 * the scan does not look for the file of the keys of each .npy file. */
struct keys_files {
    const char **files;
    int count;
};

/* Reasons that a file, or some of its tensors, cannot be served: the first reason, and the number
 * of reasons. */
struct unserved {
    char reason[sizeof((struct td_error *)0)->message + TD_TENSOR_NAME + 80];
    int count;
};

/* Scan of one file. */
struct file_scan {
    struct td_store *store;
    struct td_scan_report *report;
    struct unread_files *unread;
    const struct keys_files *keys_files;
    struct unserved *unserved;
    const char *file;
    /* Name that the scan has already locked, or NULL. */
    const char *locked_name;
    bool vanished;
    /* True if the file seems to have the content in its record, but the content might have
     * changed. */
    bool touched;
    /* True if the file was written in place since its record was made. */
    bool overwritten;
};

/* Reports that another file takes precedence for a tensor of this file, permanently or until the
 * other file is repaired. */
static void shadowed(const struct file_scan *scan, const char *tensor, const char *why)
{
    td_scan_report_skip(scan->report, TD_LOG_WARN, scan->file, tensor, why);
}

/* Reports that the file, or one of its tensors, cannot be served. */
static void skipped(const struct file_scan *scan, const char *tensor, const char *why)
{
    struct unserved *unserved = scan->unserved;
    td_scan_report_skip(scan->report, TD_LOG_WARN, scan->file, tensor, why);
    if (unserved && unserved->count++ == 0)
        snprintf(unserved->reason, sizeof unserved->reason, "%.200s%s%s", tensor ? tensor : "",
                 tensor ? ": " : "", why);
}

/* Adds the file to the list of problems if part of it cannot be served. */
static void note_unserved(const struct file_scan *scan)
{
    struct unserved *unserved = scan->unserved;
    const size_t length = strlen(unserved->reason);
    if (unserved->count > 1)
        snprintf(unserved->reason + length, sizeof unserved->reason - length,
                 "; and %d more of its tensors", unserved->count - 1);
    if (unserved->count > 0)
        td_store_note_file_problem(scan->store, scan->file, unserved->reason);
}

static void add_unread(const struct file_scan *scan)
{
    snprintf(scan->unread->files[scan->unread->count++], TD_FILE_NAME, "%s", scan->file);
}

/* Marks a file whose current content is unknown. The record notes the state of the file that the
 * scan saw. As long as that state does not change, the file replaces no version made from now
 * on. */
static void mark_unread(const struct file_scan *scan, const char *why)
{
    struct td_file_id id;
    skipped(scan, NULL, why);
    add_unread(scan);
    const td_file_state state = td_data_dir_stat(scan->store->dir, scan->file, &id);
    if (state == TD_FILE_UNKNOWN)
        id = td_file_id_unknown;
    if (state != TD_FILE_GONE)
        td_store_file_refused(scan->store, scan->file, &id, td_store_last_number(scan->store), why);
}

static void mark_malformed(const struct file_scan *scan, const struct td_file_id *id,
                           const char *why)
{
    skipped(scan, NULL, why);
    add_unread(scan);
    td_store_file_refused(scan->store, scan->file, id, td_store_last_number(scan->store), why);
}

/* ---- one tensor ----------------------------------------------------------------------------- */

/* Publishes a version that clients cannot distinguish from the previous version. Only data that the
 * server derived from the bytes is new. */
static td_status publish_again(const struct file_scan *scan, struct td_version *version,
                               const struct td_version *before)
{
    scan->report->unchanged++;
    /* The previous version is in memory and does not depend on the file. */
    if (!before->from_file) {
        td_version_abandon(scan->store, version);
        return TD_OK;
    }
    struct td_spare spare = td_spare_take(scan->store, version->name);
    version->number = before->number;
    struct td_version *replaced = td_store_publish(scan->store, version);
    td_buffer_unref(&replaced->base);
    td_spare_free(&spare);
    return TD_OK;
}

/* Publishes a tensor as a version of its name. `again` is true if the previous version is from this
 * file and the file seems to have the same content. The name must be locked. */
static td_status take_tensor(const struct file_scan *scan, const struct td_file_id *id,
                             const struct td_data_tensor *found, const struct td_version *before,
                             bool again, struct td_error *err)
{
    struct td_store *store = scan->store;
    struct td_version *version;
    const td_status status = td_load_version(store, scan->file, id, found, before, &version, err);
    if (status != TD_OK)
        return status;
    if (again && strcmp(version->etag, before->etag) == 0)
        return publish_again(scan, version, before);
    struct td_version *replaced = td_store_publish(store, version);
    *(replaced ? &scan->report->replaced : &scan->report->added) += 1;
    scan->report->unpersisted += replaced && !replaced->persisted;
    td_buffer_unref(replaced ? &replaced->base : NULL);
    return TD_OK;
}

/* True if the file is unchanged since it was read. Otherwise, its tensor might have been deleted or
 * written after it was read. At the start there are no clients yet, so the file is not checked
 * again. */
static bool is_unchanged_since_read(const struct file_scan *scan, const struct td_file_id *id)
{
    struct td_file_id now;
    return !scan->store->opened ||
           (td_data_dir_stat(scan->store->dir, scan->file, &now) == TD_FILE_PRESENT &&
            td_file_id_equal(&now, id));
}

/* Returns TD_FILE_PRESENT if the file contains the name and takes precedence over the
 * scanned file. Returns TD_FILE_UNKNOWN if that file could not be read, is malformed, or contains a
 * tensor of the name that cannot be served. Otherwise returns TD_FILE_GONE. */
static td_file_state check_earlier(const struct file_scan *scan, const char *name, const char *file)
{
    struct td_file_id id;
    bool not_served;
    if (td_data_file_order(file, scan->file) >= 0)
        return TD_FILE_GONE;
    for (int i = 0; i < scan->unread->count; i++)
        if (strcmp(scan->unread->files[i], file) == 0)
            return TD_FILE_UNKNOWN;
    if (!td_store_file_gives(scan->store, file, name, &not_served))
        return TD_FILE_GONE;
    return not_served ? TD_FILE_UNKNOWN : td_data_dir_stat(scan->store->dir, file, &id);
}

/* Finds a file that takes precedence over the scanned file for a name. Writes its file name to
 * `file` and returns its state in the same way as check_earlier. */
static td_file_state find_earlier(const struct file_scan *scan, const char *name,
                                  char file[TD_FILE_NAME])
{
    td_file_state found = TD_FILE_GONE;
    for (int place = 0; found == TD_FILE_GONE && td_data_next_file(name, &place, file);)
        found = check_earlier(scan, name, file);
    return found;
}

/* True if the version comes from a folder, or from another file that takes precedence over the
 * scanned file. */
static bool is_of_earlier(const struct td_version *version, const char *file)
{
    return version->file[0] && strcmp(version->file, file) != 0 &&
           (strchr(version->file, '/') || td_data_file_order(version->file, file) < 0);
}

/* True if the version must be made again although the content of the scanned file seems unchanged.
 * Either the bytes from which the version was made might have changed, or they can no longer be
 * read where they were mapped. */
static bool is_stale(const struct file_scan *scan, const struct td_version *version)
{
    return strcmp(version->file, scan->file) == 0 && (scan->touched || td_version_is_lost(version));
}

static void skip_for_earlier(const struct file_scan *scan, const char *name, const char *earlier)
{
    char why[TD_FILE_NAME + 128];
    snprintf(why, sizeof why,
             "%s takes precedence and contains a tensor of this name; to serve this tensor, move "
             "that file away and send SIGHUP",
             earlier);
    shadowed(scan, name,
             strchr(earlier, '/') ? "a version folder contains a tensor of this name" : why);
}

/* Skips a tensor because another file, which cannot be read now, might contain newer rows for that
 * name. */
static void skip_for_unread(const struct file_scan *scan, const char *name, const char *earlier)
{
    char why[TD_FILE_NAME + 128];
    snprintf(why, sizeof why,
             "%s takes precedence, might contain a tensor of this name, and cannot be served; "
             "repair or remove that file",
             earlier);
    shadowed(scan, name, why);
}

/* Drops a tensor that its file no longer contains. The name must be locked. Returns false, and
 * drops nothing, if a removed file exists again. */
static bool drop_tensor(const struct file_scan *scan, const char *name)
{
    bool ok = true;
    /* `name` points into an array and is never NULL. */
    const size_t length = strlen(name); /* NOLINT(clang-analyzer-core.NonNullParamChecker) */
    struct td_version *current = td_store_current(scan->store, name, length);
    if (current && strcmp(current->file, scan->file) == 0) {
        ok = !scan->vanished || td_data_dir_has_gone(scan->store->dir, scan->file);
        if (ok) {
            td_store_drop(scan->store, name);
            scan->report->removed++;
        }
    } else if (current && scan->vanished && !current->persisted) {
        td_scan_report_skip(scan->report, TD_LOG_WARN, scan->file, name,
                            "the file no longer exists, and no other file contains the current "
                            "data of the tensor; the tensor is served from memory until a "
                            "restart or a DELETE");
    }
    td_buffer_unref(current ? &current->base : NULL);
    return ok;
}

/* Handles a tensor that cannot be served although its file is readable. Drops the previous version
 * if the bytes from which it was made have changed or might have changed. */
static void handle_refusal(const struct file_scan *scan, const char *name,
                           const struct td_error *err)
{
    const bool lacks_room = err->status == TD_MEMORY_EXHAUSTED || err->status == TD_RESOURCE_LIMIT;
    skipped(scan, name, err->message);
    if (scan->overwritten || (scan->touched && !lacks_room))
        drop_tensor(scan, name);
}

/* Publishes the tensor of a file unless another source takes precedence. The name must be locked.
 * Replaces versions with numbers up to `older`, because they are older than the file, and versions
 * from removed folders. Returns false if the tensor should be served but is not. */
static bool serve_tensor(const struct file_scan *scan, const struct td_file_id *id,
                         const struct td_data_tensor *found, uint64_t older)
{
    struct td_store *store = scan->store;
    struct td_version *before = td_store_current(store, found->name, strlen(found->name));
    struct td_error err = { 0 };
    char earlier[TD_FILE_NAME];
    bool ok = true;
    const bool folder_is_gone = before && td_version_folder_has_gone(store, before);
    if (folder_is_gone)
        older = UINT64_MAX;
    const bool again = before && before->number > older && is_stale(scan, before);
    if (before && before->number > older && !again && !is_of_earlier(before, scan->file)) {
        scan->report->unchanged++;
        goto done;
    }
    if (before && !again && !folder_is_gone &&
        (before->number > older || strchr(before->file, '/'))) {
        skip_for_earlier(scan, found->name, before->file);
        goto done;
    }
    switch (find_earlier(scan, found->name, earlier)) {
    case TD_FILE_GONE:
        ok = is_unchanged_since_read(scan, id);
        ok = ok && take_tensor(scan, id, found, before, again, &err) == TD_OK;
        if (err.status != TD_OK)
            handle_refusal(scan, found->name, &err);
        break;
    case TD_FILE_PRESENT:
        skip_for_earlier(scan, found->name, earlier);
        break;
    default:
        skip_for_unread(scan, found->name, earlier);
        ok = false;
    }
done:
    td_buffer_unref(before ? &before->base : NULL);
    return ok;
}

/* ---- one file ------------------------------------------------------------------------------- */

/* True if all tensors of the file are served. A tensor is not served if another file hides it, if
 * it could not be loaded, or if its mapping was lost. While a tensor is not served, each scan reads
 * the file and again reports what it skips. */
static bool all_served(struct td_store *store, const struct td_known_file *known)
{
    bool all = known->n_refused == 0;
    for (int i = 0; i < known->n_names && all; i++) {
        const struct td_known_name *name = &known->names[i];
        struct td_version *current = td_store_current(store, name->name, strlen(name->name));
        all = current != NULL && !name->not_served && !is_of_earlier(current, known->file) &&
              !(strcmp(current->file, known->file) == 0 && td_version_is_lost(current));
        td_buffer_unref(current ? &current->base : NULL);
    }
    return all;
}

/* Locks the name and calls serve_tensor, or drop_tensor if `found` is NULL. */
static bool with_name_locked(const struct file_scan *scan, const char *name,
                             const struct td_file_id *id, const struct td_data_tensor *found,
                             uint64_t older)
{
    struct td_writer writer = { .names = &name, .n_names = 1 };
    const bool lock = !scan->locked_name || strcmp(scan->locked_name, name) != 0;
    if (lock)
        td_writer_wait(scan->store, &writer);
    const bool ok = found ? serve_tensor(scan, id, found, older) : drop_tensor(scan, name);
    if (lock)
        td_writer_leave(scan->store, &writer);
    return ok;
}

/* Returns the number up to which versions of the name are older than the content of the file.
 * Returns 0 if the content was served before. */
static uint64_t last_older(const struct td_known_file *before, const struct td_file_id *id,
                           const char *name)
{
    if (!before || td_known_file_changed(before, id))
        return UINT64_MAX;
    const struct td_known_name *old =
        td_file_id_equal(&before->id, id) ? td_known_file_find(before, name) : NULL;
    return old && !old->not_served ? 0 : before->seen_version;
}

static void tell_inspector(const struct file_scan *scan, const struct td_data_content *content)
{
    const struct td_store_inspector *inspector = scan->store->inspector;
    char keys[TD_FILE_NAME];
    if (!inspector)
        return;
    inspector->read(inspector->context, scan->file, content->count + content->n_unreadable);
    if (content->id.keys_inode && td_data_keys_file(scan->file, keys))
        inspector->keys(inspector->context, keys, scan->file);
}

/* Replaces the tensors of the file's old record with the tensors that the file contains now. If no
 * memory is available for the new record, loads nothing. Without a record, the next scan would load
 * the file again and replace tensors that clients have stored in the meantime. */
static void load_content(const struct file_scan *scan, const struct td_data_content *content,
                         const struct td_known_file *before)
{
    struct td_error err;
    struct td_known_file *known = td_store_reserve_file(
        scan->store, scan->file, content->count + content->n_unreadable, &err);
    if (!known) {
        mark_unread(scan, err.message);
        return;
    }
    known->id = known->seen = content->id;
    known->seen_version = before && !td_known_file_changed(before, &content->id)
                              ? before->seen_version
                              : td_store_last_number(scan->store);
    known->n_refused = content->n_unreadable;
    for (int i = 0; i < content->n_unreadable; i++) {
        skipped(scan, content->unreadable[i].name, content->unreadable[i].why);
        if (td_name_valid(content->unreadable[i].name)) {
            td_known_file_add(known, content->unreadable[i].name, true);
            known->names[known->n_names - 1].unreadable = true;
        }
    }
    for (int i = 0; i < content->count; i++) {
        const struct td_data_tensor *found = &content->tensors[i];
        if (td_data_check_name(scan->file, found->name, &err) != TD_OK) {
            skipped(scan, found->name, err.message);
            known->n_refused++;
            continue;
        }
        const bool ok = with_name_locked(scan, found->name, &content->id, found,
                                         last_older(before, &content->id, found->name));
        td_known_file_add(known, found->name, !ok);
    }
    td_known_file_sort(known);
    if (scan->unserved->count > 0)
        td_known_file_refuse_partly(known, scan->unserved->reason);
    for (int i = 0; before && i < before->n_names; i++)
        if (!td_known_file_find(known, before->names[i].name))
            with_name_locked(scan, before->names[i].name, NULL, NULL, 0);
    td_store_remember_file(scan->store, known);
    tell_inspector(scan, content);
}

/* Marks the current versions of the file as orphaned if a restart would not load them. Otherwise
 * removes the mark. */
static void mark_orphaned(struct td_store *store, const struct td_known_file *known, bool orphaned)
{
    for (int i = 0; i < known->n_names; i++) {
        const char *name = known->names[i].name;
        struct td_version *current = td_store_current(store, name, strlen(name));
        if (current && strcmp(current->file, known->file) == 0)
            atomic_store(&current->orphaned, orphaned);
        td_buffer_unref(current ? &current->base : NULL);
    }
}

/* True if a tensor that was loaded from the file is served. */
static bool any_served(struct td_store *store, const struct td_known_file *known)
{
    bool any = false;
    for (int i = 0; known && i < known->n_names && !any; i++) {
        const char *name = known->names[i].name;
        struct td_version *current = td_store_current(store, name, strlen(name));
        any = current && strcmp(current->file, known->file) == 0;
        td_buffer_unref(current ? &current->base : NULL);
    }
    return any;
}

/* Reports a file that cannot be loaded, and whether the version loaded before is still served.
 * `malformed` is the identity of the malformed content, or NULL if the file cannot be read. */
static void report_failure(const struct file_scan *scan, const struct td_known_file *before,
                           const struct td_file_id *malformed, const char *why)
{
    char reason[sizeof((struct td_error *)0)->message + 80];
    const bool old = any_served(scan->store, before);
    snprintf(reason, sizeof reason, "%s%s", why,
             old ? "; the version loaded before is still served until a restart" : "");
    if (malformed)
        mark_malformed(scan, malformed, reason);
    else
        mark_unread(scan, reason);
}

/* Handles a file that cannot be loaded. Keeps the old tensors if the file is unchanged, or if it
 * has replaced the old file, whose inode is still intact. Drops the old tensors if the file was
 * overwritten. */
static void handle_failure(const struct file_scan *scan, const struct td_known_file *before,
                           bool malformed)
{
    struct td_file_id id;
    const bool rewritten = malformed && scan->touched;
    if (!before || td_data_dir_stat(scan->store->dir, scan->file, &id) != TD_FILE_PRESENT ||
        (td_file_id_equal(&id, &before->id) && !rewritten))
        return;
    if (!td_file_id_overwritten(&before->id, &id) && !rewritten) {
        mark_orphaned(scan->store, before, true);
        return;
    }
    for (int i = 0; i < before->n_names; i++)
        with_name_locked(scan, before->names[i].name, NULL, NULL, 0);
    td_store_forget_file(scan->store, scan->file);
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_listed(const struct keys_files *listed, const char *file)
{
    return listed->count > 0 &&
           bsearch(&file, listed->files, (size_t)listed->count, sizeof file, compare_files);
}

/* True if the folder had a file with the keys of the scanned file when it was listed. */
static bool has_keys_file(const struct file_scan *scan)
{
    char keys[TD_FILE_NAME];
    return scan->keys_files->count > 0 && td_data_keys_file(scan->file, keys) &&
           is_listed(scan->keys_files, keys);
}

static void scan_known(struct file_scan *scan)
{
    struct td_file_id id = td_file_id_unknown;
    struct td_arena arena;
    struct td_data_content content;
    struct td_error err;
    struct td_known_file *before;
    if (td_store_recall_file(scan->store, scan->file, &before, &err) != TD_OK) {
        mark_unread(scan, err.message);
        return;
    }
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    const bool same = before &&
                      td_data_dir_stat(scan->store->dir, scan->file, &id) == TD_FILE_PRESENT &&
                      td_file_id_equal(&id, &before->id);
    scan->touched = same && td_file_id_touched(&before->id, &id);
    scan->overwritten = before && !same && td_file_id_overwritten(&before->id, &id);
    if (same && !scan->touched && all_served(scan->store, before)) {
        if (td_data_dir_check_read(scan->store->dir, scan->file, &err) != TD_OK) {
            report_failure(scan, before, NULL, err.message);
            goto done;
        }
        mark_orphaned(scan->store, before, false);
        td_store_file_seen(scan->store, scan->file, &id, td_store_last_number(scan->store));
        scan->report->unchanged += before->n_names;
        goto done;
    }
    td_status status =
        td_data_dir_load(scan->store->dir, scan->file, has_keys_file(scan), &arena, &content, &err);
    if (status == TD_OK)
        status = td_store_verify_header(scan->store, &content, &err);
    if (status == TD_OK) {
        load_content(scan, &content, before);
        goto done;
    }
    /* A client has deleted the file since the folder was listed. */
    if (td_data_dir_has_gone(scan->store->dir, scan->file))
        goto done;
    handle_failure(scan, before, status == TD_MALFORMED_REQUEST);
    report_failure(scan, before, status == TD_MALFORMED_REQUEST ? &content.id : NULL, err.message);
done:
    td_arena_reset(&arena);
    td_known_file_free(before);
}

/* Reports a file of keys that has no table. Other files of keys are read with the files of their
 * tables. */
static void scan_keys(const struct file_scan *scan, const char *table)
{
    char other[TD_FILE_NAME], why[TD_FILE_NAME + 128];
    if (td_data_table_of_keys_file(table, other))
        snprintf(why, sizeof why,
                 "its name says that it holds the keys of %s, but keys have no keys", table);
    else if (td_data_dir_has_gone(scan->store->dir, table))
        snprintf(why, sizeof why,
                 "its name says that it holds the keys of %s, which does not exist", table);
    else
        return;
    skipped(scan, NULL, why);
}

static void scan_file(struct td_store *store, struct td_scan_report *report,
                      struct unread_files *unread, const struct keys_files *keys_files,
                      const char *file)
{
    struct unserved unserved = { .count = 0 };
    struct file_scan scan = { .store = store,
                              .report = report,
                              .unread = unread,
                              .keys_files = keys_files,
                              .unserved = &unserved,
                              .file = file };
    struct td_writer writer = { .names = &scan.locked_name, .n_names = 1 };
    char table[TD_FILE_NAME], name[TD_TENSOR_NAME];
    if (td_data_table_of_keys_file(file, table)) {
        scan_keys(&scan, table);
        note_unserved(&scan);
        td_scan_report_file(report, file);
        return;
    }
    /* A writer might be writing this file of a single tensor now, so lock the name of that tensor
     * first. */
    scan.locked_name = td_data_only_name(file, name) ? name : NULL;
    if (scan.locked_name)
        td_writer_wait(store, &writer);
    scan_known(&scan);
    note_unserved(&scan);
    if (scan.locked_name)
        td_writer_leave(store, &writer);
    td_scan_report_file(report, file);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Drops the tensors of a removed file. If the file contained only one name, locks that name first,
 * because a failing DELETE might restore the file. */
static void remove_vanished(struct td_store *store, struct td_scan_report *report, const char *file)
{
    struct td_known_file *known;
    struct td_error err;
    struct file_scan scan = { .store = store, .report = report, .file = file, .vanished = true };
    struct td_writer writer = { .names = &scan.locked_name, .n_names = 1 };
    char name[TD_TENSOR_NAME];
    bool ok = true;
    if (td_store_recall_file(store, file, &known, &err) != TD_OK) {
        skipped(&scan, NULL, err.message);
        return;
    }
    if (known && known->n_names == 1)
        scan.locked_name = known->names[0].name;
    else
        scan.locked_name = td_data_only_name(file, name) ? name : NULL;
    if (scan.locked_name)
        td_writer_wait(store, &writer);
    for (int i = 0; known && i < known->n_names; i++)
        ok &= with_name_locked(&scan, known->names[i].name, NULL, NULL, 0);
    if (ok && td_data_dir_has_gone(store->dir, file))
        td_store_forget_file(store, file);
    if (scan.locked_name)
        td_writer_leave(store, &writer);
    td_scan_report_file(report, file);
    td_known_file_free(known);
}

/* True if the file name has an unknown suffix, but the first bytes of the file show that it
 * contains tensors. Writes to `why` the reason why the file is not read. */
static bool recognise(const struct td_store *store, const char *name, char *why, size_t size)
{
    char start[16];
    const size_t bytes = td_data_dir_peek(store->dir, name, start, sizeof start);
    const struct td_foreign *foreign = td_foreign_find(start, bytes);
    const td_format format = td_tensor_io_recognise(start, bytes);
    if (foreign)
        snprintf(why, size, "it is %s; %s", foreign->name, foreign->of_file);
    else if (format == TD_FORMAT_NPY)
        snprintf(why, size, "it is a .npy file, but its name has another suffix");
    else if (format == TD_FORMAT_SAFETENSORS)
        snprintf(why, size,
                 "it is a .safetensors or .tensord file, but its name has another suffix");
    return foreign || format != TD_FORMAT_JSON;
}

/* Reports an entry that is neither a tensor file nor a version folder. */
static void report_other(struct td_store *store, struct td_scan_report *report, const char *name)
{
    char why[200];
    if (td_data_file_wanted(name) || td_version_folder_is_known(store, name))
        return;
    const char *reason = td_scan_other_reason(name);
    if (td_data_dir_is_folder(store->dir, name))
        td_scan_report_skip(report, TD_LOG_INFO, name, NULL,
                            "a folder without manifest.json, or a link to a folder, is not read");
    else if (reason || recognise(store, name, why, sizeof why))
        td_scan_report_skip(report, TD_LOG_WARN, name, NULL, reason ? reason : why);
    else if (store->inspector)
        store->inspector->ignored(store->inspector->context, name);
    else
        report->ignored++;
}

/* Loads the version folders, and reports the entries that are not read. Returns true if a file of
 * keys has appeared since the files were listed, so its table was read without keys. */
static bool scan_others(struct td_store *store, struct td_scan_report *report,
                        const struct keys_files *keys_files)
{
    char(*names)[TD_FILE_NAME], table[TD_FILE_NAME];
    bool new_keys = false;
    int count;
    if (!td_data_dir_list_others(store->dir, &names, &count))
        return false;
    td_version_folders_scan(store, report, names, count);
    for (int i = 0; i < count; i++) {
        report_other(store, report, names[i]);
        new_keys |= td_data_table_of_keys_file(names[i], table) && !is_listed(keys_files, names[i]);
    }
    free(names);
    return new_keys;
}

/* Chooses the files that can hold keys. td_data_dir_list sorts all .npy files by name. Returns
 * false if no memory is available. */
static bool choose_keys_files(char (*files)[TD_FILE_NAME], int count, struct keys_files *out)
{
    char table[TD_FILE_NAME];
    out->files = calloc((size_t)count + 1, sizeof *out->files);
    for (int i = 0; i < count && out->files; i++)
        if (td_data_table_of_keys_file(files[i], table))
            out->files[out->count++] = files[i];
    return out->files != NULL;
}

/* Scans the folder. Sets *new_keys as scan_others. Returns false if the folder cannot be read. */
static bool scan_once(struct td_store *store, bool *new_keys)
{
    char(*files)[TD_FILE_NAME], (*known)[TD_FILE_NAME] = NULL;
    struct unread_files unread = { 0 };
    struct keys_files keys_files = { 0 };
    struct td_scan_report report;
    int count, n_known = 0;
    td_scan_report_begin(&report, store->inspector, store->log);
    td_store_begin_file_problems(store);
    bool readable = td_data_dir_list(store->dir, &files, &count);
    if (readable) {
        known = td_store_known_files(store, &n_known);
        unread.files = calloc((size_t)count + 1, sizeof *unread.files);
        readable = choose_keys_files(files, count, &keys_files) && known && unread.files;
        if (!readable)
            td_scan_report_skip(&report, TD_LOG_WARN, NULL, NULL,
                                "no memory for the names of the files");
    }
    for (int i = 0; i < n_known && readable; i++)
        if (td_data_dir_has_gone(store->dir, known[i]))
            remove_vanished(store, &report, known[i]);
    if (readable)
        td_version_folders_find_gone(store);
    int n_scanned = 0;
    while (n_scanned < count && readable && !td_store_must_stop(store))
        scan_file(store, &report, &unread, &keys_files, files[n_scanned++]);
    td_store_note_damaged(store);
    if (readable && n_scanned == count)
        td_store_end_file_problems(store);
    if (readable) {
        *new_keys = scan_others(store, &report, &keys_files);
        td_scan_report_end(&report);
    }
    free(keys_files.files);
    free(unread.files);
    free(known);
    free(files);
    atomic_store(&store->folder_unread, !readable);
    return readable;
}

/* Scans the folder, and once more if a file of keys appeared during the scan. Call with
 * store->scanning held. */
static bool scan_folder(struct td_store *store)
{
    bool new_keys = false;
    const bool readable = scan_once(store, &new_keys);
    return new_keys && !td_store_must_stop(store) ? scan_once(store, &new_keys) : readable;
}

/* Tries again to store the indices that could not be stored when they were built, for example
 * because another process had the lock of the folder. */
static void store_indices(struct td_store *store)
{
    const struct td_name_range all = { .prefix = "", .after = "" };
    int count;
    struct td_version **versions = td_store_all_current(store, &all, &count);
    for (int i = 0; versions && i < count; i++) {
        if (versions[i]->keys && versions[i]->from_file && !td_store_must_stop(store))
            td_keys_store_index(store, versions[i]->keys);
        td_buffer_unref(&versions[i]->base);
    }
    free(versions);
}

bool td_store_scan(struct td_store *store)
{
    pthread_mutex_lock(&store->scanning);
    const bool readable = scan_folder(store);
    pthread_mutex_unlock(&store->scanning);
    return readable;
}

void td_store_scan_again(struct td_store *store, bool always)
{
    bool changed;
    pthread_mutex_lock(&store->scanning);
    const bool open = td_data_dir_refresh(store->dir, &changed);
    const uint64_t last = td_store_last_number(store);
    if (!open)
        atomic_store(&store->folder_unread, true);
    if (open && (always || changed)) {
        (void)scan_folder(store); /* errors are logged */
        store_indices(store);
        /* Read aliases.json after the versions that it names. */
        if (td_alias_load(store))
            /* An alias was removed, and a file contains a tensor of the same name, so scan
             * again. */
            (void)scan_folder(store);
        td_alias_forget_gone(store);
        td_alias_check_targets(store);
        td_store_retain(store, last);
    }
    pthread_mutex_unlock(&store->scanning);
}
