/* alias_folder.h - aliases set by version folders. Private to server/store.
 *
 * Threads    Same as for a scan. */
#ifndef TD_SERVER_STORE_ALIAS_FOLDER_H
#define TD_SERVER_STORE_ALIAS_FOLDER_H

#include "server/store/aliases/alias_check.h"

/* Publishes the versions of the folder and sets the folder's aliases, all at once. Takes over the
 * references to the versions. Persists the aliases if this process is allowed to write aliases.json
 * and the file is not damaged; otherwise, the server persists them as soon as both conditions hold.
 * Does not set the aliases if a folder with this name and digest has set them before. Changes
 * nothing on failure. */
TD_MUST_CHECK td_status td_alias_take_folder(struct td_store *store,
                                             const struct td_alias_folder *folder,
                                             struct td_error *err);

/* True if the aliases of the folder with this name and digest have been set. */
bool td_alias_folder_is_taken(struct td_store *store, const char *name, const char *digest);

/* Forgets folders that no longer exist, oldest first, until at most TD_TAKEN_KEPT of them are left.
 * Writes aliases.json if folders or aliases are missing from it and this process is allowed to
 * write it. Called after a scan. */
void td_alias_forget_gone(struct td_store *store);

#endif
