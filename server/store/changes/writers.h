/* writers.h - the steps that are common to all changes of a name.
 *
 *     check ─► enter (writer_queue.h) ─► prepare: reserve what publish needs
 *           ─► fill: number, bytes or file, ETag ─► publish, or abandon ─► leave
 *
 * Threads    Any. A writer that has entered may block on a disk. */
#ifndef TD_SERVER_STORE_WRITERS_H
#define TD_SERVER_STORE_WRITERS_H

#include "server/store/changes/writer_queue.h"
#include "server/store/store.h"
#include "server/store/version.h"

/* INVALID_ARGUMENT unless the name is valid and, to persist, there is a data folder, CONFLICT if
 * the name is an alias, unless the write removes it; then errors of td_data_dir_check_change. */
TD_MUST_CHECK td_status td_store_check_write(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_error *err);

/* CONFLICT if the name is that of a version, which `before` (NULL for none) is, and so may not be
 * changed. One that cannot be read may be replaced, which repairs it. */
TD_MUST_CHECK td_status td_store_check_replace(const struct td_store_write *write,
                                               const struct td_version *before,
                                               struct td_error *err);

/* Returns the writer that the caller has entered for this change, or enters with `own`, for which
 * it waits. */
struct td_writer *td_store_enter(struct td_store *store, const struct td_store_write *write,
                                 struct td_writer *own);

/* Leaves with `own` if td_store_enter has entered with it. */
void td_store_leave(struct td_store *store, const struct td_store_write *write,
                    struct td_writer *own);

/* The next version of a name whose writer has entered: kept by the arena, with its name reserved,
 * so that td_version_publish cannot fail. Ends with publish or abandon. RESOURCE_LIMIT,
 * MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_version_prepare(struct td_store *store, const char *name,
                                           struct td_arena *arena, struct td_version **out,
                                           struct td_error *err);

/* Writes the tensor into the folder and makes it the version's file; if `serve`, the version's
 * tensor is mapped from it. version->persisted is set to *done of td_data_dir_write; if it is
 * true, publish the version even if this fails. */
TD_MUST_CHECK td_status td_version_persist(struct td_store *store, struct td_version *version,
                                           const struct td_tensor *tensor, bool serve,
                                           const struct td_stop *stop, struct td_error *err);

/* Sets the version's number, bytes (reserved, with those of its keys, which are set before) and
 * ETag. Errors as td_version_persist. */
TD_MUST_CHECK td_status td_version_fill(struct td_store *store, struct td_version *version,
                                        const struct td_version *before,
                                        const struct td_tensor *tensor, bool persist,
                                        const struct td_stop *stop, struct td_error *err);

/* Describes the version in *out, makes it current, and returns what it replaces, as
 * td_store_publish. */
struct td_version *td_version_publish(struct td_store *store, struct td_version *version,
                                      struct td_tensor_listing *out);

/* FORBIDDEN if the version (NULL for none) is one of a folder, whose files are not changed. */
TD_MUST_CHECK td_status td_version_check_folder(const struct td_version *version,
                                                struct td_error *err);

/* Deletes a name whose writer has entered; `before` is its version, NULL if its file is damaged.
 * FORBIDDEN if it comes from a folder of versions, or `own_only` and a file that the server did not
 * write has it; CONFLICT if an alias names it; errors of td_data_dir_remove. *had_file: files of
 * the data folder were removed. */
TD_MUST_CHECK td_status td_version_delete(struct td_store *store, const char *name,
                                          const struct td_version *before, bool own_only,
                                          bool *had_file, struct td_error *err);

/* Releases what it reserved, and the reference. NULL is fine. */
void td_version_abandon(struct td_store *store, struct td_version *version);

#endif
