/* alias_check.h - what a flip, or the DELETE of an alias, may do. Private to server/store.
 *
 * Threads    The writer of the aliases has entered, and the names of the flip are claimed, so that
 *            what was checked remains true. The function named _locked is called with store->lock
 *            held, the others without it. */
#ifndef TD_SERVER_STORE_ALIAS_CHECK_H
#define TD_SERVER_STORE_ALIAS_CHECK_H

#include "server/store/aliases/alias_table.h"
#include "server/store/aliases/aliases.h"

struct td_version;

/* A folder of versions that a scan takes. Its versions are reserved, their names locked. */
struct td_alias_folder {
    const char *name, *digest;    /* and that of its manifest */
    struct td_version **versions; /* sorted by name */
    const struct td_alias_change *set;
    int n_versions, n_set;
};

/* The conditions of a flip, then the edits that it makes: their names and targets, and tables with
 * their parts. `folder`, NULL for none, comes with it. Errors as of td_store_flip. */
TD_MUST_CHECK td_status td_alias_check_flip(struct td_store *store,
                                            const struct td_alias_flip *flip,
                                            const struct td_alias_table *edits,
                                            const struct td_alias_folder *folder,
                                            struct td_error *err);

/* Whether the version is current, or comes with the folder, NULL for none. */
bool td_alias_version_comes_locked(const struct td_store *store,
                                   const struct td_alias_folder *folder, const char *version);

/* True if both names are the same up to the version. */
bool td_alias_are_versions_of_one(const char *a, const char *b);

/* FORBIDDEN if the write has a condition, which would be compared with the ETag of the target of an
 * alias that its token is not for: the answer would tell whether there is such a version. */
TD_MUST_CHECK td_status td_alias_check_condition(const struct td_store_write *write,
                                                 const char *target, struct td_error *err);

#endif
