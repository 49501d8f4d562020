#include "server/store/scan/version_folders.h"

#include "server/config/read_error.h"
#include "server/store/entries.h"
#include "server/store/scan/problems.h"
#include "server/store/scan/verify.h"
#include "server/store/scan/version_folder_check.h"
#include "server/store/scan/version_folder_record.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void td_version_folders_free(struct td_store *store)
{
    while (store->folders) {
        struct td_version_folder *folder = store->folders;
        store->folders = folder->next;
        td_folder_free(folder);
    }
}

static struct td_version_folder *find_folder(const struct td_store *store, const char *name)
{
    struct td_version_folder *folder = store->folders;
    while (folder && strcmp(folder->name, name) != 0)
        folder = folder->next;
    return folder;
}

bool td_version_folder_is_known(const struct td_store *store, const char *name)
{
    return find_folder(store, name) != NULL;
}

static void report_unreadable(struct td_scan_report *report, const char *file,
                              const struct td_data_content *content)
{
    for (int i = 0; i < content->n_unreadable; i++)
        td_scan_report_skip(report, TD_LOG_WARN, file, content->unreadable[i].name,
                            content->unreadable[i].why);
}

/* Reports tensor files that are in a version folder but not in its manifest. */
static void report_unlisted(struct td_scan_report *report, const struct td_version_folder *folder,
                            int descriptor)
{
    char(*files)[TD_FILE_NAME], file[2 * TD_FILE_NAME];
    int count;
    if (!td_sub_folder_list(descriptor, &files, &count))
        return;
    for (int i = 0; i < count; i++) {
        if (td_folder_lists(folder, files[i]))
            continue;
        snprintf(file, sizeof file, "%s/%s", folder->name, files[i]);
        td_scan_report_skip(report, TD_LOG_WARN, file, NULL,
                            TD_MANIFEST_FILE
                            " of this version does not list it; put the file beside the folder, or "
                            "use the importer to make a version that includes it");
    }
    free(files);
}

/* Adds a loaded folder to the list of problems if some of its tensors cannot be served. Otherwise
 * removes the folder from the list. */
static void note_unreadable(struct td_store *store, const struct td_version_folder *folder)
{
    char reason[sizeof folder->unreadable + 64];
    snprintf(reason, sizeof reason, "%s", folder->unreadable);
    if (folder->n_unreadable > 1)
        snprintf(reason, sizeof reason, "%s; and %d more tensors", folder->unreadable,
                 folder->n_unreadable - 1);
    if (folder->n_unreadable > 0)
        td_store_note_problem(store, folder->name, reason);
    else
        td_store_solve_problem(store, folder->name);
}

static void report_files(const struct td_folder_load *load, struct td_scan_report *report)
{
    const struct td_store_inspector *inspector = load->store->inspector;
    char file[TD_FILE_NAME], table[TD_FILE_NAME];
    for (int i = 0; i < load->manifest.n_files; i++) {
        const struct td_manifest_file *of = &load->manifest.files[i];
        const struct td_data_content *content = &load->contents[i];
        snprintf(file, sizeof file, "%s/%.180s", load->name, of->name);
        report_unreadable(report, file, content);
        if (inspector && td_data_table_of_keys_file(of->name, table))
            inspector->keys(inspector->context, file, table);
        else if (inspector)
            inspector->read(inspector->context, file, content->count + content->n_unreadable);
    }
}

static td_status take(struct td_folder_load *load, struct td_version_folder *folder,
                      struct td_error *err)
{
    td_status status = td_folder_read(load, err);
    if (status == TD_OK)
        status = td_folder_record(load, folder, err);
    if (status == TD_OK)
        status = td_folder_make_versions(load, err);
    if (status == TD_OK)
        status = td_folder_publish(load, err);
    return status;
}

/* Adds the folder to the list of problems. The reason says why the folder is not served or, if it
 * is still served, why a restart would not serve it. */
static void refuse(struct td_store *store, const struct td_version_folder *folder,
                   const char *reason)
{
    td_store_report_folder(store, folder->name, folder->taken, reason);
}

static void take_folder(struct td_store *store, struct td_scan_report *report,
                        struct td_version_folder *folder, int descriptor)
{
    struct td_error err;
    struct td_folder_load load = { .store = store, .name = folder->name, .folder = descriptor };
    td_arena_init(&load.arena, NULL, 0, td_memory_heap());
    folder->taken = take(&load, folder, &err) == TD_OK;
    if (folder->taken) {
        folder->was_taken = true;
        report->added += load.n_tensors;
        td_folder_count_unreadable(&load, folder);
        note_unreadable(store, folder);
        report_files(&load, report);
    } else {
        td_folder_forget(folder);
        refuse(store, folder, err.message);
        report->skipped++;
    }
    td_scan_report_file(report, folder->name);
    td_folder_release(&load);
}

/* ---- folders that were loaded before --------------------------------------------------------- */

/* True if the versions of an unchanged folder must be made again. This is necessary if a mapping
 * was lost. It is also necessary if a file matches the manifest but the mapped file, possibly
 * another inode, might have been written after it was mapped. */
static bool is_stale(struct td_store *store, const struct td_version_folder *folder)
{
    bool any = false;
    for (int i = 0; i < folder->n_files && !any; i++)
        any = folder->files[i].restored;
    for (int i = 0; i < folder->n_tensors && !any; i++) {
        const char *name = folder->tensors[i];
        struct td_version *current = td_store_current(store, name, strlen(name));
        any =
            current && td_folder_has_version(current, folder->name) && td_version_is_lost(current);
        td_buffer_unref(current ? &current->base : NULL);
    }
    return any;
}

/* Makes the versions of an unchanged folder again from its files. */
static void take_again(struct td_store *store, struct td_version_folder *folder, int descriptor)
{
    struct td_error err;
    struct td_folder_load load = {
        .store = store, .name = folder->name, .folder = descriptor, .again = true
    };
    td_arena_init(&load.arena, NULL, 0, td_memory_heap());
    td_status status = td_folder_read(&load, &err);
    if (status == TD_OK)
        status = td_folder_make_versions(&load, &err);
    for (int i = 0; i < load.n_tensors && status == TD_OK; i++) {
        struct td_version *replaced = td_store_publish(store, load.tensors[i].version);
        load.tensors[i].version = NULL; /* published */
        td_buffer_unref(replaced ? &replaced->base : NULL);
    }
    for (int i = 0; i < folder->n_files && status == TD_OK; i++)
        folder->files[i].restored = false;
    if (status != TD_OK)
        refuse(store, folder, err.message);
    td_folder_release(&load);
}

/* Checks a loaded folder, and reads only those of its files that might have changed. If a restart
 * would not serve the folder with its current content, adds the folder to the list of problems. */
static void check_unchanged(struct td_store *store, struct td_version_folder *folder,
                            int descriptor)
{
    struct td_folder_change change;
    const bool unchanged = td_folder_check(store, folder, descriptor, &change);
    if (change.reason[0])
        refuse(store, folder, change.reason);
    else
        note_unreadable(store, folder);
    if (unchanged && is_stale(store, folder))
        take_again(store, folder, descriptor);
}

/* Drops the versions of a removed folder. */
static void drop_folder(struct td_store *store, struct td_scan_report *report,
                        const struct td_version_folder *folder)
{
    for (int i = 0; i < folder->n_tensors; i++) {
        const char *name = folder->tensors[i];
        struct td_writer writer = { .names = &name, .n_names = 1 };
        td_writer_wait(store, &writer);
        struct td_version *current = td_store_current(store, name, strlen(name));
        if (current && td_folder_has_version(current, folder->name)) {
            td_store_drop(store, name);
            report->removed++;
        }
        td_buffer_unref(current ? &current->base : NULL);
        td_writer_leave(store, &writer);
    }
    td_store_solve_problem(store, folder->name);
    td_scan_report_file(report, folder->name);
}

static void drop_vanished(struct td_store *store, struct td_scan_report *report)
{
    struct td_version_folder **link = &store->folders;
    while (*link) {
        struct td_version_folder *folder = *link;
        if (folder->seen) {
            link = &folder->next;
            continue;
        }
        drop_folder(store, report, folder);
        *link = folder->next;
        td_folder_free(folder);
    }
}

/* ---- folders that are gone ------------------------------------------------------------------- */

void td_version_folders_find_gone(struct td_store *store)
{
    for (struct td_version_folder *folder = store->folders; folder; folder = folder->next) {
        int descriptor, reason;
        folder->gone = td_data_dir_open_sub_folder(store->dir, folder->name, TD_MANIFEST_FILE,
                                                   &descriptor, &reason) == TD_FILE_GONE;
        if (descriptor >= 0)
            close(descriptor);
    }
}

bool td_version_folder_has_gone(const struct td_store *store, const struct td_version *version)
{
    const struct td_version_folder *folder = store->folders;
    while (folder && !td_folder_has_version(version, folder->name))
        folder = folder->next;
    return folder && folder->gone;
}

/* ---- the scan -------------------------------------------------------------------------------- */

static int in_order(const void *a, const void *b)
{
    return td_version_name_order(a, b);
}

/* Returns the record of a folder. Makes the record if it does not exist. Returns NULL if no memory
 * is available. */
static struct td_version_folder *recall(struct td_store *store, const char *name)
{
    struct td_version_folder *folder = find_folder(store, name);
    if (folder)
        return folder;
    folder = calloc(1, sizeof *folder);
    if (!folder) {
        td_store_report_folder(store, name, false, "no memory for its name");
        return NULL;
    }
    snprintf(folder->name, sizeof folder->name, "%s", name);
    folder->next = store->folders;
    store->folders = folder;
    return folder;
}

/* Reports a folder that cannot be read. Versions that were loaded from it before are still
 * served. */
static void refuse_unreadable(struct td_store *store, struct td_scan_report *report,
                              const struct td_version_folder *folder, int reason)
{
    char why[TD_READ_ERROR], text[TD_READ_ERROR + 80];
    snprintf(text, sizeof text, "it cannot be read: %s%s", td_read_error(NULL, reason, why),
             folder->taken ? "; the versions loaded before are still served" : "");
    refuse(store, folder, text);
    report->skipped += !folder->taken;
    td_scan_report_file(report, folder->name);
}

/* Handles a loaded folder that still exists but no longer contains a manifest. Keeps the record, so
 * the problem remains listed. */
static void lose_manifest(struct td_store *store, struct td_scan_report *report,
                          struct td_version_folder *folder)
{
    int descriptor, reason;
    if (td_data_dir_open_sub_folder(store->dir, folder->name, ".", &descriptor, &reason) !=
        TD_FILE_PRESENT)
        return;
    close(descriptor);
    if (folder->taken)
        drop_folder(store, report, folder);
    td_folder_forget(folder);
    folder->taken = false;
    folder->seen = true;
    refuse(store, folder,
           "its " TD_MANIFEST_FILE
           " is missing, so its versions are not served; put the file back, or "
           "remove the folder, and send SIGHUP");
    report->skipped++;
    td_scan_report_file(report, folder->name);
}

static void scan_folder(struct td_store *store, struct td_scan_report *report, const char *name)
{
    int descriptor, reason;
    const td_file_state state =
        td_data_dir_open_sub_folder(store->dir, name, TD_MANIFEST_FILE, &descriptor, &reason);
    if (state == TD_FILE_GONE) {
        struct td_version_folder *before = find_folder(store, name);
        if (before && before->was_taken)
            lose_manifest(store, report, before);
        return;
    }
    struct td_version_folder *folder = recall(store, name);
    if (folder)
        folder->seen = true;
    if (folder && state == TD_FILE_UNKNOWN)
        refuse_unreadable(store, report, folder, reason);
    if (folder && descriptor >= 0) {
        if (folder->taken) {
            check_unchanged(store, folder, descriptor);
            report->unchanged += folder->n_tensors;
            /* The log already reported these tensors when the folder was loaded. */
            report->skipped += folder->n_unreadable;
        } else {
            take_folder(store, report, folder, descriptor);
        }
        if (folder->taken)
            report_unlisted(report, folder, descriptor);
    }
    if (descriptor >= 0)
        close(descriptor);
}

void td_version_folders_scan(struct td_store *store, struct td_scan_report *report,
                             char (*names)[TD_FILE_NAME], int count)
{
    for (struct td_version_folder *folder = store->folders; folder; folder = folder->next)
        folder->seen = false;
    qsort(names, (size_t)count, sizeof *names, in_order);
    for (int i = 0; i < count && !td_store_must_stop(store); i++)
        scan_folder(store, report, names[i]);
    if (!td_store_must_stop(store))
        drop_vanished(store, report);
}
