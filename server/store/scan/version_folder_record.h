/* version_folder_record.h - what a scan remembers of a version folder: its files, and the names of
 * its tensors. Private to version_folders.c and version_folder_check.c.
 *
 * Threads    As in scan.h, with `scanning` held. */
#ifndef TD_SERVER_STORE_VERSION_FOLDER_RECORD_H
#define TD_SERVER_STORE_VERSION_FOLDER_RECORD_H

#include "server/store/scan/version_folder_load.h"

/* File of a loaded folder. */
struct td_folder_file {
    char name[TD_FILE_NAME];
    struct td_file_id id;
    unsigned char sha256[TD_SHA256_BYTES];
    /* True if the SHA-256 of the file is correct again but its identity differs from the mapped
     * file. */
    bool restored;
};

/* A folder with a manifest. */
struct td_version_folder {
    struct td_version_folder *next;
    char name[TD_FILE_NAME];
    /* Digest of the manifest when the folder was loaded. */
    char digest[TD_MANIFEST_DIGEST];
    /* True if this scan has seen the folder. */
    bool seen;
    /* True if the folder is loaded, false if it is refused. */
    bool taken;
    /* True if the folder has been loaded at least once since the server started. */
    bool was_taken;
    /* The result of td_version_folders_find_gone. */
    bool gone;
    struct td_folder_file *files;
    char (*tensors)[TD_TENSOR_NAME];
    int n_files, n_tensors;
    /* Number of tensors in the folder's files that cannot be served. */
    int n_unreadable;
    /* Reason that the first of these tensors cannot be served. */
    char unreadable[512];
};

/* Fills the record of the folder before the folder is loaded, so a lack of memory cannot leave the
 * record incomplete later. */
TD_MUST_CHECK td_status td_folder_record(struct td_folder_load *load,
                                         struct td_version_folder *folder, struct td_error *err);

/* Records how many tensors of the folder cannot be served, and the reason for the first of these
 * tensors. */
void td_folder_count_unreadable(const struct td_folder_load *load,
                                struct td_version_folder *folder);

/* True if the manifest of a loaded folder lists the file. */
bool td_folder_lists(const struct td_version_folder *folder, const char *file);

/* td_folder_forget removes the files and names from a record. td_folder_free frees the record. */
void td_folder_forget(struct td_version_folder *folder);
void td_folder_free(struct td_version_folder *folder);

#endif
