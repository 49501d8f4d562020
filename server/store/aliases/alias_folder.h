/* alias_folder.h - the aliases that folders of versions set. Private to server/store.
 *
 * Threads    As of a scan. */
#ifndef TD_SERVER_STORE_ALIAS_FOLDER_H
#define TD_SERVER_STORE_ALIAS_FOLDER_H

#include "server/store/aliases/alias_check.h"

/* Publishes the versions of the folder, whose references it takes, and sets the folder's aliases,
 * at once. The aliases are persisted if this process may write aliases.json and the file is not
 * damaged; otherwise as soon as both are true. Aliases that a folder of this name and digest has
 * set before are not set again. If it fails, nothing has changed. */
TD_MUST_CHECK td_status td_alias_take_folder(struct td_store *store,
                                             const struct td_alias_folder *folder,
                                             struct td_error *err);

/* True if the aliases of the folder with this name and digest have been set. */
bool td_alias_folder_is_taken(struct td_store *store, const char *name, const char *digest);

/* Called after a scan. Forgets the oldest folders that are gone, beyond TD_TAKEN_KEPT, and writes
 * aliases.json if it lacks folders or aliases and this process may write it. */
void td_alias_forget_gone(struct td_store *store);

#endif
