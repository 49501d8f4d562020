/* retention.h - --keep-versions: removes old versions of a table, except for versions that an alias
 * names.
 *
 * The newest versions are the last versions in natural order of VERSION, regardless of when they
 * were made. A version that cannot be read does not count, so it does not displace a readable
 * version. Only files that the server wrote are removed; versions in other files are kept, and
 * count. Nothing is removed while aliases.json cannot be read, because it might name any version.
 *
 * Threads    As for a DELETE: the functions lock names and remove files. Calls in flight keep their
 *            versions.
 * Errors     A version that cannot be removed is logged, and kept until the next attempt. */
#ifndef TD_SERVER_STORE_RETENTION_H
#define TD_SERVER_STORE_RETENTION_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

struct td_store;
struct td_writer;

/* Removes old versions of all tables. Called after a scan and after a flip. Keeps versions with
 * numbers above `last`, and logs a warning, because a scan has just found their files, which a
 * person must have restored. An inspector of the store is told which versions would be removed. */
void td_store_retain(struct td_store *store, uint64_t last);

/* Returns CONFLICT if the new version would be older than all versions that are kept. Called before
 * a version with a new name is put, in a file or in memory. */
TD_MUST_CHECK td_status td_store_check_retained(struct td_store *store, const char *name,
                                                bool in_file, struct td_error *err);

/* If `name` is a version, removes old versions of its table. Called after the version was put.
 * `caller` is the writer that holds the lock on `name`, or NULL if no lock is held. The version
 * that was just put can be removed only if `caller` is given. */
void td_store_retain_beside(struct td_store *store, const char *name,
                            const struct td_writer *caller);

#endif
