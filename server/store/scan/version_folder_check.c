#include "server/store/scan/version_folder_check.h"

#include "server/store/scan/known_files.h"
#include "server/store/scan/version_folder_digest.h"
#include "server/store/scan/version_folder_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note_change(struct td_folder_change *change, const char *file, bool in_place)
{
    if (change->reason[0] && (change->in_place || !in_place))
        return;
    change->in_place = in_place;
    snprintf(change->reason, sizeof change->reason,
             "%.200s %s. A restart would read the folder again, but would verify the files of a "
             "known manifest only with --verify start. A version never changes: restore the "
             "folder, and put the new content into a folder for another version",
             file,
             in_place ? "was written in place since the folder was taken, so its new content might "
                        "already be served"
                      : "has changed since the folder was taken; the versions loaded before are "
                        "still served until a restart");
}

static void note_closed(struct td_folder_change *change, const char *why)
{
    if (!change->reason[0])
        snprintf(change->reason, sizeof change->reason,
                 "%.400s; the versions loaded before are still served until a restart; let the "
                 "server read the file and send SIGHUP",
                 why);
}

/* Checks that the manifest still has its digest. Reads the manifest again, because it is small. */
static void check_manifest(const struct td_version_folder *folder, int descriptor,
                           struct td_folder_change *change)
{
    char *text, digest[TD_MANIFEST_DIGEST] = "";
    size_t bytes;
    struct td_file_id unused;
    struct td_error err;
    const td_status status = td_sub_folder_read_text(
        descriptor, TD_MANIFEST_FILE, TD_MANIFEST_BYTES, &text, &bytes, &unused, &err);
    if (text)
        td_folder_digest(text, bytes, digest);
    free(text);
    if (status == TD_DEVICE_UNAVAILABLE || status == TD_MEMORY_EXHAUSTED)
        note_closed(change, err.message);
    else if (strcmp(digest, folder->digest) != 0)
        note_change(change, TD_MANIFEST_FILE, false);
}

/* Checks that a file still has the size and the SHA-256 that it had when the folder was loaded. */
static td_status compare_file(const struct td_store *store, struct td_folder_file *file,
                              int descriptor, struct td_error *err)
{
    struct td_arena arena;
    struct td_data_content content;
    struct td_mapped_bytes bytes;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_status status = td_sub_folder_load(descriptor, file->name, file->name, file->id.size, &arena,
                                          &content, &bytes, err);
    if (status == TD_OK)
        status = td_folder_check_digest(store, file->sha256, &bytes, err);
    if (status == TD_OK) {
        file->id = content.id;
        file->restored = true;
    }
    td_arena_reset(&arena);
    return status;
}

static void check_file(const struct td_store *store, struct td_folder_file *file, int descriptor,
                       struct td_folder_change *change)
{
    struct td_file_id id;
    struct td_error err = { 0 };
    char why[TD_FILE_NAME + 200];
    const bool there = td_sub_folder_stat(descriptor, file->name, &id) == TD_FILE_PRESENT,
               same = there && td_file_id_equal(&id, &file->id),
               in_place = there && (same || td_file_id_overwritten(&file->id, &id));
    const td_status status = same && !td_file_id_touched(&file->id, &id)
                                 ? td_sub_folder_check_read(descriptor, file->name, &err)
                                 : compare_file(store, file, descriptor, &err);
    snprintf(why, sizeof why, "%.200s: %.200s", file->name, err.message);
    if (status == TD_MALFORMED_REQUEST || !there)
        note_change(change, file->name, in_place);
    else if (status != TD_OK && status != TD_DRAINING)
        note_closed(change, why);
}

/* Checks that no file in the data folder itself contains one of the folder's names. Otherwise, a
 * restart would refuse the folder, because the server reads the files before the folders. */
static void check_names(struct td_store *store, const struct td_version_folder *folder,
                        struct td_folder_change *change)
{
    char file[TD_FILE_NAME];
    for (int i = 0; i < folder->n_tensors && !change->reason[0]; i++)
        if (td_store_find_file(store, folder->tensors[i], file))
            snprintf(change->reason, sizeof change->reason,
                     "'%s' is also in %s. The folder is served until a restart, which would refuse "
                     "all of it; remove that file or the folder, and send SIGHUP",
                     folder->tensors[i], file);
}

bool td_folder_check(struct td_store *store, struct td_version_folder *folder, int descriptor,
                     struct td_folder_change *change)
{
    *change = (struct td_folder_change){ .reason = "" };
    check_manifest(folder, descriptor, change);
    for (int i = 0; i < folder->n_files; i++)
        check_file(store, &folder->files[i], descriptor, change);
    const bool unchanged = !change->reason[0];
    check_names(store, folder, change);
    return unchanged;
}
