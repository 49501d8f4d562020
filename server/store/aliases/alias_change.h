/* alias_change.h - the steps that every change of aliases shares: a flip, the reading of
 * aliases.json, and a folder of versions. Private to server/store/aliases.
 *
 * A change collects its edits in a table, claims their names, checks them, and publishes the table
 * of all aliases as a whole. If the aliases are persisted, aliases.json is written before.
 *
 * Threads    The writer of the aliases has entered, except where td_alias_enter is called. */
#ifndef TD_SERVER_STORE_ALIAS_CHANGE_H
#define TD_SERVER_STORE_ALIAS_CHANGE_H

#include "server/store/aliases/alias_check.h"
#include "server/store/changes/writer_queue.h"
#include "server/store/files/data_dir.h"

/* Waits until no other writer changes aliases, and enters. td_writer_leave ends it. */
void td_alias_enter(struct td_store *store, struct td_writer *writer);

/* True if this process may write aliases.json: the store has a data folder, which is not read-only,
 * and holds its lock. */
bool td_alias_may_write(const struct td_store *store);

/* Allocates an empty table with room for `count` aliases. The caller frees edits->aliases. */
TD_MUST_CHECK td_status td_alias_make_room(struct td_alias_table *edits, int count,
                                           struct td_error *err);

/* Appends the edit of one alias to a table that has room for it. With target NULL the edit removes
 * the alias. */
void td_alias_edit(struct td_alias_table *edits, const char *name, const char *target);

/* Sorts the edits by name. */
void td_alias_sort(struct td_alias_table *edits);

/* Lets no tensor take the names of these edits, and no version that they name be deleted. NULL ends
 * the claim. */
void td_alias_claim(struct td_store *store, const struct td_alias_table *claims);

/* Makes the table, which the store takes over, and the versions of `folder` (NULL: no folder)
 * current at once, and ends the claim. `source` is the file or folder whose reading changed the
 * aliases, for the log; NULL for a request. */
void td_alias_publish(struct td_store *store, const struct td_alias_table *table,
                      const struct td_alias_folder *folder, const char *source);

/* Replaces aliases.json by this table. *done as of td_data_dir_write. */
TD_MUST_CHECK td_status td_alias_write_file(struct td_store *store,
                                            const struct td_alias_table *table, bool *done,
                                            struct td_error *err);

/* Publishes the aliases with these edits, whose names are claimed. With `persist` it writes
 * aliases.json first. `source` as of td_alias_publish. */
TD_MUST_CHECK td_status td_alias_apply(struct td_store *store, const struct td_alias_table *edits,
                                       bool persist, const char *source, struct td_error *err);

/* Notes whether the aliases in force are those of aliases.json. */
void td_alias_note_read(struct td_store *store, bool read);

/* Sets one of the store's records of aliases.json: aliases_file or aliases_refused. */
void td_alias_set_file(struct td_store *store, struct td_file_id *record,
                       const struct td_file_id *id);

/* Lists the alias among the problems if the version that it names is not served; otherwise removes
 * it from the problems. */
void td_alias_check_target(struct td_store *store, const struct td_alias *alias);

#endif
