/* writers.h - the writers of the store: one at a time for a name, and what all of them do.
 *
 *     check ─► enter ─► prepare: all that reveal needs ─► fill: number, bytes or a file, tag
 *           ─► reveal: make current, or abandon ─► leave
 *
 * Ownership  A writer is its caller's and stays where it is from enter to leave, and so does its
 *            name.
 * Threads    Any; a writer leaves on the thread that entered, an update ends on the one that began.
 *            None but `writing` is held, and that not from enter to leave, so a writer may take as
 *            long as a disk does. */
#ifndef TD_SERVER_STORE_WRITERS_H
#define TD_SERVER_STORE_WRITERS_H

#include "server/store/store.h"
#include "server/store/version.h"

struct writer {
    struct writer *next;
    const char *name;
};

/* What every writer asks for first: a good name, a folder if it is to be persisted.
 * INVALID_ARGUMENT. */
TD_MUST_CHECK td_status td_store_check_write(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_error *err);

/* Keeps other writers from `name` until td_writer_leave. QUEUE_FULL where waiting could be forever:
 * see store.h. */
TD_MUST_CHECK td_status td_writer_enter(struct td_store *store, struct writer *writer,
                                        const char *name, struct td_error *err);
void td_writer_leave(struct td_store *store, struct writer *writer);

/* This thread begins and ends an update. */
void td_writer_begins_update(void);
void td_writer_ends_update(void);

/* The next version of a name, of its writer: known to the arena, with room for its name, so that
 * td_version_reveal cannot fail. RESOURCE_LIMIT, MEMORY_EXHAUSTED. Ends with reveal or abandon. */
TD_MUST_CHECK td_status td_version_prepare(struct td_store *store, const char *name,
                                           struct td_arena *arena, struct version **out,
                                           struct td_error *err);

/* Writes the tensor into the folder and makes the file the one behind the version; where `serve`,
 * what is served is the mapped file. As td_data_dir_write: version->persisted is its *done, and such a
 * version is to be revealed even where this fails. */
TD_MUST_CHECK td_status td_version_persist(struct td_store *store, struct version *version,
                                           const struct td_tensor *tensor, bool serve,
                                           struct td_error *err);

/* Numbers the version, gives it the tensor's bytes, reserved, and its tag. As td_version_persist. */
TD_MUST_CHECK td_status td_version_fill(struct td_store *store, struct version *version,
                                        const struct version *before,
                                        const struct td_tensor *tensor, bool persist,
                                        struct td_error *err);

/* Makes it current, tells of it, and returns what it replaces, as td_store_publish. */
struct version *td_version_reveal(struct td_store *store, struct version *version,
                                  struct td_tensor_listing *out);

/* Gives back what it reserved, and the reference. NULL is fine. */
void td_version_abandon(struct td_store *store, struct version *version);

#endif
