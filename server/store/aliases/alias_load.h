/* alias_load.h - reads aliases.json and puts its aliases into effect. Private to server/store.
 *
 * Threads    td_alias_load: same as for a scan. The callers of the other functions hold the lock on
 *            the aliases (writer_queue.h). */
#ifndef TD_SERVER_STORE_ALIAS_LOAD_H
#define TD_SERVER_STORE_ALIAS_LOAD_H

#include "server/store/aliases/alias_check.h"
#include "server/store/aliases/alias_file.h"
#include "server/store/files/data_dir.h"

/* Reads aliases.json unless it is unchanged since it was last read or written. Its aliases replace
 * the aliases in effect. If the file is damaged, or if it disappears after it could not be read, no
 * alias changes, and the problem is logged and listed. Returns true if an alias has been removed
 * since the last call and a file contains a tensor of the same name, which a scan would then
 * serve. */
bool td_alias_load(struct td_store *store);

/* Like td_alias_load, for a caller that holds the lock on the aliases. Returns true if the aliases
 * of the file are in effect. `folder` is NULL, or a folder that is being published. The file is
 * allowed to name its versions. */
bool td_alias_load_entered(struct td_store *store, const struct td_alias_folder *folder);

/* Reads the file into the arena and sets *id. Does not put the aliases into effect. */
TD_MUST_CHECK td_status td_alias_read_file(const struct td_store *store, struct td_arena *arena,
                                           struct td_alias_file *read, struct td_file_id *id,
                                           struct td_error *err);

#endif
