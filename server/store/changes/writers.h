/* writers.h - steps common to all changes of a name.
 *
 *     check (write_check.h) ─► enter (writer_queue.h) ─► prepare: reserve what publish needs
 *           ─► fill: number, bytes or file, ETag ─► publish, or abandon ─► leave
 *
 * Threads    Any. A thread can wait for a disk while its writer holds names. */
#ifndef TD_SERVER_STORE_WRITERS_H
#define TD_SERVER_STORE_WRITERS_H

#include "server/store/changes/writer_queue.h"
#include "server/store/store.h"
#include "server/store/version.h"

/* Returns the writer that holds the lock on the name: write->writer if the caller has already
 * locked the name, or else `own`, after waiting for the lock. */
struct td_writer *td_store_enter(struct td_store *store, const struct td_store_write *write,
                                 struct td_writer *own);

/* Releases the name if td_store_enter has locked it with `own`. */
void td_store_leave(struct td_store *store, const struct td_store_write *write,
                    struct td_writer *own);

/* Makes the next version of a name that the caller has locked. The arena keeps the version.
 * Reserves the name, so td_version_publish cannot fail. The caller ends with td_version_publish or
 * td_version_abandon. Returns the errors of td_store_reserve_name. */
TD_MUST_CHECK td_status td_version_prepare(struct td_store *store, const char *name,
                                           struct td_arena *arena, struct td_version **out,
                                           struct td_error *err);

/* Writes the tensor to a file in the data folder, which becomes the file of the version. If `serve`
 * is true, maps the version's tensor from the file. Sets version->persisted to *done of
 * td_data_dir_write. If version->persisted is true, the caller must publish the version even if
 * this function fails. */
TD_MUST_CHECK td_status td_version_persist(struct td_store *store, struct td_version *version,
                                           const struct td_tensor *tensor, bool serve,
                                           const struct td_stop *stop, struct td_error *err);

/* Sets the version's number, bytes and ETag. Reserves the bytes, including the bytes of the
 * version's keys, which must be set before. Returns the errors of td_store_reserve and
 * td_version_persist. */
TD_MUST_CHECK td_status td_version_fill(struct td_store *store, struct td_version *version,
                                        const struct td_version *before,
                                        const struct td_tensor *tensor, bool persist,
                                        const struct td_stop *stop, struct td_error *err);

/* Describes the version in *out and makes the version current. Like td_store_publish, returns the
 * version that it replaces. */
struct td_version *td_version_publish(struct td_store *store, struct td_version *version,
                                      struct td_tensor_listing *out);

/* Returns FORBIDDEN if the version comes from a version folder, whose files never change. The
 * version can be NULL. */
TD_MUST_CHECK td_status td_version_check_folder(const struct td_version *version,
                                                struct td_error *err);

/* Deletes a name that the caller has locked. `before` is the current version, or NULL if the file
 * of the name is damaged. Returns FORBIDDEN if the version comes from a version folder. With
 * `own_only`, also returns FORBIDDEN if the server did not write the file that contains the name.
 * Returns CONFLICT if an alias names the version, or if a file that contains the name has changed
 * since the last scan. Also returns the errors of td_data_dir_remove. *had_file is true if files
 * were removed from the data folder. */
TD_MUST_CHECK td_status td_version_delete(struct td_store *store, const char *name,
                                          const struct td_version *before, bool own_only,
                                          bool *had_file, struct td_error *err);

/* Releases the version's reservations and the reference to the version. NULL is allowed. */
void td_version_abandon(struct td_store *store, struct td_version *version);

#endif
