/* retention.h - --keep-versions: of each table the newest versions stay, and those that an alias
 * names.
 *
 * The newest are the last in natural order of VERSION, whenever they were made. A version that
 * cannot be read counts as none, so that it does not displace one that can. Of files only those
 * that the server wrote are removed; the versions of other files stay, and count. While
 * aliases.json cannot be read nothing is removed: it may name any version.
 *
 * Threads    As of a DELETE: names are locked, files removed. Calls in flight keep their versions.
 * Errors     What cannot be removed is logged and stays until the next time. */
#ifndef TD_SERVER_STORE_RETENTION_H
#define TD_SERVER_STORE_RETENTION_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

struct td_store;
struct td_writer;

/* Looks at all tables: after a scan and after a flip. Versions with numbers after `last` stay, with
 * a warning: a scan has just found their files, which a person restored. An inspector of the store
 * is told what would be removed. */
void td_store_retain(struct td_store *store, uint64_t last);

/* Before a version is put under a new name, in a file or in memory: CONFLICT if it is older than
 * all that would stay. */
TD_MUST_CHECK td_status td_store_check_retained(struct td_store *store, const char *name,
                                                bool in_file, struct td_error *err);

/* Looks at the table of this name, if it is that of a version: after it was put. `caller` is the
 * writer with which the caller has entered, NULL for none: it may remove what it has put. */
void td_store_retain_beside(struct td_store *store, const char *name,
                            const struct td_writer *caller);

#endif
