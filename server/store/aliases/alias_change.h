/* alias_change.h - steps shared by all changes of aliases: flips, reading aliases.json, and version
 * folders. Private to server/store/aliases.
 *
 * A change collects its edits in a list, claims their names, checks them, and publishes the list
 * of all aliases as a whole. If the aliases are persisted, the change writes aliases.json before
 * publishing.
 *
 * Threads    The caller holds the lock on the aliases (writer_queue.h), unless it calls
 *            td_alias_enter. */
#ifndef TD_SERVER_STORE_ALIAS_CHANGE_H
#define TD_SERVER_STORE_ALIAS_CHANGE_H

#include "server/store/aliases/alias_check.h"
#include "server/store/changes/writer_queue.h"
#include "server/store/files/data_dir.h"

/* Waits for the lock on the aliases. Release the lock with td_writer_leave. */
void td_alias_enter(struct td_store *store, struct td_writer *writer);

/* True if this process can write aliases.json, which means that it holds the lock of the store's
 * data folder and the folder is not read-only. */
bool td_alias_may_write(const struct td_store *store);

/* Allocates an empty list with room for `count` aliases. The caller frees edits->aliases. */
TD_MUST_CHECK td_status td_alias_make_room(struct td_alias_list *edits, int count,
                                           struct td_error *err);

/* Appends the edit of one alias to a list, which must have room for it. A NULL target removes the
 * alias. */
void td_alias_edit(struct td_alias_list *edits, const char *name, const char *target);

/* Sorts the edits by name. */
void td_alias_sort(struct td_alias_list *edits);

/* Claims the names in these edits, so no tensor can be stored under a claimed name and no version
 * that the edits name can be deleted. NULL ends the claim. */
void td_alias_claim(struct td_store *store, const struct td_alias_list *claims);

/* Makes the list and the versions of `folder` current at the same time, and ends the claim. The
 * store takes over the list. `folder` is NULL if no folder is published. `source` is the file or
 * folder that caused the change, for the log, or NULL for a request. */
void td_alias_publish(struct td_store *store, const struct td_alias_list *list,
                      const struct td_alias_folder *folder, const char *source);

/* Replaces aliases.json with the aliases of this list. For *done, see td_data_dir_write. */
TD_MUST_CHECK td_status td_alias_write_file(struct td_store *store,
                                            const struct td_alias_list *list, bool *done,
                                            struct td_error *err);

/* Publishes the aliases with these edits applied. The names in the edits must already be claimed.
 * With `persist`, writes aliases.json first. For `source`, see td_alias_publish. */
TD_MUST_CHECK td_status td_alias_apply(struct td_store *store, const struct td_alias_list *edits,
                                       bool persist, const char *source, struct td_error *err);

/* Records whether the aliases in effect match aliases.json. */
void td_alias_note_read(struct td_store *store, bool read);

/* Sets aliases_file or aliases_refused, the store's records of aliases.json. */
void td_alias_set_file(struct td_store *store, struct td_file_id *record,
                       const struct td_file_id *id);

/* Lists the alias as a problem if its target is not served. Otherwise removes the alias from the
 * problems. */
void td_alias_check_target(struct td_store *store, const struct td_alias *alias);

#endif
