/* alias_flip.h - changes of the aliases of a store. Defines td_store_flip and td_store_list_aliases
 * of aliases.h. Private to server/store.
 *
 * Threads    As of td_store_flip; load as of a scan. */
#ifndef TD_SERVER_STORE_ALIAS_FLIP_H
#define TD_SERVER_STORE_ALIAS_FLIP_H

#include "server/store/aliases/alias_check.h"
#include "server/store/aliases/aliases.h"

/* DELETE of an alias: also in aliases.json, and then *persisted. Its condition is
 * compared with the ETag of its target. */
TD_MUST_CHECK td_status td_alias_delete(struct td_store *store, const struct td_store_write *write,
                                        bool *persisted, struct td_error *err);

/* Reports the aliases whose version is not there, after the files have been read. */
void td_alias_check_targets(struct td_store *store);

/* Reads aliases.json if it is not as it was read or written last. An alias gets its target there
 * if that has changed. A file that is damaged or cannot be read is logged and listed; then no
 * alias changes, nor when it is gone afterwards. True if since the last call, or the scan, an
 * alias has given up the name of a tensor in a file, so that a scan would serve that. */
bool td_alias_load(struct td_store *store);

/* Publishes the versions, whose references it takes, and lets the aliases name what the folder
 * says, at once; these are persisted if this process may change the data folder and aliases.json
 * is not damaged, else as soon as that is so. If they have been set before, for a folder of this
 * name and digest, they are not set again. On failure nothing has changed. */
TD_MUST_CHECK td_status td_alias_take_folder(struct td_store *store,
                                             const struct td_alias_folder *folder,
                                             struct td_error *err);

/* Whether aliases.json says that the aliases of this folder have been set. */
bool td_alias_folder_is_taken(struct td_store *store, const char *name, const char *digest);

/* Folders that are gone, and remembered: one that is brought back does not set its aliases again,
 * over a rollback. */
enum { TD_TAKEN_KEPT = 4096 };

/* Forgets those that were taken first beyond these, in aliases.json too if this process may write
 * it. Writes the folders that the file lacks, with their aliases that could not be written. To be
 * called after a scan. */
void td_alias_forget_gone(struct td_store *store);

/* Frees the aliases; for td_store_free. */
void td_alias_free(struct td_store *store);

#endif
