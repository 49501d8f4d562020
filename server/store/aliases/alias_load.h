/* alias_load.h - reads aliases.json and puts its aliases in force. Private to server/store.
 *
 * Threads    td_alias_load as of a scan. The writer of the aliases has entered for the others. */
#ifndef TD_SERVER_STORE_ALIAS_LOAD_H
#define TD_SERVER_STORE_ALIAS_LOAD_H

#include "server/store/aliases/alias_check.h"
#include "server/store/aliases/alias_file.h"
#include "server/store/files/data_dir.h"

/* Reads aliases.json unless it is unchanged since it was read or written last. Its aliases replace
 * those in force. If the file is damaged, or vanishes after it could not be read, no alias changes,
 * and the problem is logged and listed. Returns true if an alias has given up the name of a tensor
 * in a file since the last call, so that a scan would serve that tensor. */
bool td_alias_load(struct td_store *store);

/* Does the same. Returns true if the aliases of the file are in force. `folder` is a folder that is
 * being taken, whose versions the file may name; NULL: no folder. */
bool td_alias_load_entered(struct td_store *store, const struct td_alias_folder *folder);

/* Reads the file into the arena, and sets *id. Puts nothing in force. */
TD_MUST_CHECK td_status td_alias_read_file(const struct td_store *store, struct td_arena *arena,
                                           struct td_alias_file *read, struct td_file_id *id,
                                           struct td_error *err);

#endif
