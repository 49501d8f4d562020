/* taken_folders.h - version folders whose aliases have been set. aliases.json lists these folders
 * as "taken", so a restart does not set their aliases again and undo a flip. Private to
 * server/store/aliases.
 *
 * Threads    The caller holds the lock on the aliases (writer_queue.h). */
#ifndef TD_SERVER_STORE_TAKEN_FOLDERS_H
#define TD_SERVER_STORE_TAKEN_FOLDERS_H

#include "api/json/string_map.h"
#include "kernels/status.h"

struct td_store;

/* Maximum number of folders to remember after they are removed. If a remembered folder returns, it
 * does not set its aliases again, because that could undo a rollback. */
enum { TD_TAKEN_KEPT = 4096 };

/* Returns the index of the folder in store->taken, or store->n_taken if it is not in the list. */
int td_taken_place(const struct td_store *store, const char *name);

/* True if the list contains the folder with this digest of its manifest. */
bool td_taken_has(const struct td_store *store, const char *name, const char *digest);

/* True if the list that was read from aliases.json contains the folder. */
bool td_taken_in_file(const struct td_string_map *read, const char *folder);

/* Adds the folder at the end of the list. Replaces an entry with the same name. */
TD_MUST_CHECK td_status td_taken_note(struct td_store *store, const char *name, const char *digest,
                                      struct td_error *err);

/* Removes the folder if it is in the list. */
void td_taken_forget(struct td_store *store, const char *name);

/* Removes folders that no longer exist, oldest first, until at most TD_TAKEN_KEPT of them are left.
 * Returns true if it removed any. */
bool td_taken_forget_oldest(struct td_store *store);

/* Takes over the list that was read from aliases.json, but keeps known folders that are missing
 * from it. A person or an earlier process wrote the file without these folders, but their aliases
 * have been set. */
td_status td_taken_set(struct td_store *store, const struct td_string_map *read,
                       struct td_error *err);

/* Warns that aliases.json sets the alias to `from`, but a folder that the file does not list sets
 * it to `to`. */
void td_taken_warn(const struct td_store *store, const char *name, const char *from, const char *to,
                   const char *folder);

#endif
