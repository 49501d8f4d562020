/* version_folder_check.h - whether a restart would serve a loaded version folder as it is served
 * now.
 *
 * Threads    As in scan.h, with `scanning` held. */
#ifndef TD_SERVER_STORE_VERSION_FOLDER_CHECK_H
#define TD_SERVER_STORE_VERSION_FOLDER_CHECK_H

#include "server/store/files/data_dir.h"

struct td_store;
struct td_version_folder;

/* Reason that a restart would not serve a folder with its current content, or "". A file that was
 * written in place takes precedence over other reasons. */
struct td_folder_change {
    char reason[TD_FILE_NAME + 400];
    /* True if the mapped bytes have changed. */
    bool in_place;
};

/* Checks the manifest and the files of a loaded folder, and reads only those of its files that
 * might have changed. Also checks that no file in the data folder itself has one of the folder's
 * names. Sets change->reason. Returns true if the folder's own content is unchanged. */
bool td_folder_check(struct td_store *store, struct td_version_folder *folder, int descriptor,
                     struct td_folder_change *change);

#endif
