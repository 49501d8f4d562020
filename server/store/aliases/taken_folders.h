/* taken_folders.h - the folders of versions whose aliases have been set. aliases.json lists them as
 * "taken", so that a restart does not set their aliases again, over a flip. Private to
 * server/store/aliases.
 *
 * Threads    The writer of the aliases has entered. */
#ifndef TD_SERVER_STORE_TAKEN_FOLDERS_H
#define TD_SERVER_STORE_TAKEN_FOLDERS_H

#include "api/json/string_map.h"
#include "kernels/status.h"

struct td_store;

/* Maximum number of folders that are remembered after they are gone. A folder that is brought back
 * does not set its aliases again, over a rollback. */
enum { TD_TAKEN_KEPT = 4096 };

/* Returns the position of the folder in store->taken, or store->n_taken if it is not there. */
int td_taken_place(const struct td_store *store, const char *name);

/* True if the folder has been taken with this digest of its manifest. */
bool td_taken_has(const struct td_store *store, const char *name, const char *digest);

/* True if the list that was read from aliases.json has the folder. */
bool td_taken_in_file(const struct td_string_map *read, const char *folder);

/* Adds the folder as the last one, in place of an entry of the same name. */
TD_MUST_CHECK td_status td_taken_note(struct td_store *store, const char *name, const char *digest,
                                      struct td_error *err);

/* Removes the folder, if it is there. */
void td_taken_forget(struct td_store *store, const char *name);

/* Removes the folders that are gone, those taken first before others, until TD_TAKEN_KEPT of them
 * are left. True if it removed any. */
bool td_taken_forget_oldest(struct td_store *store);

/* Takes over the list that was read from aliases.json, and keeps the folders that it lacks: a
 * person, or an earlier process, wrote the file without them, but their aliases have been set. */
td_status td_taken_set(struct td_store *store, const struct td_string_map *read,
                       struct td_error *err);

/* Warns that aliases.json names `from`, but that the folder, which the file does not list, sets the
 * alias to `to`. */
void td_taken_warn(const struct td_store *store, const char *name, const char *from, const char *to,
                   const char *folder);

#endif
