/* alias_check.h - checks of flips and of the DELETE of an alias. Private to server/store.
 *
 * Threads    The writer of the aliases has entered and the names of the flip are claimed, so what
 *            was checked remains true. The function named _locked is called with store->lock held,
 *            the others without it. */
#ifndef TD_SERVER_STORE_ALIAS_CHECK_H
#define TD_SERVER_STORE_ALIAS_CHECK_H

#include "server/store/aliases/alias_table.h"
#include "server/store/aliases/aliases.h"

struct td_version;

/* A folder of versions that a scan takes. Its versions are reserved, and their names locked. */
struct td_alias_folder {
    const char *name;
    const char *digest;           /* of the manifest */
    struct td_version **versions; /* sorted by name */
    const struct td_alias_change *set;
    int n_versions, n_set;
};

/* Checks the conditions of a flip, then the names and targets of its edits, and that tables and
 * their parts name the same versions. `folder` is published with the flip; NULL: no folder. Errors
 * as of td_store_flip. */
TD_MUST_CHECK td_status td_alias_check_flip(struct td_store *store,
                                            const struct td_alias_flip *flip,
                                            const struct td_alias_table *edits,
                                            const struct td_alias_folder *folder,
                                            struct td_error *err);

/* True if the version is current, or in the folder. NULL: no folder. */
bool td_alias_version_comes_locked(const struct td_store *store,
                                   const struct td_alias_folder *folder, const char *version);

/* True if both names are the same up to the version. */
bool td_alias_are_versions_of_one(const char *a, const char *b);

/* Returns FORBIDDEN if the write has a condition and its token is not for the target of the alias:
 * the condition is compared with the ETag of the target, so the reply would tell whether it
 * exists. */
TD_MUST_CHECK td_status td_alias_check_condition(const struct td_store_write *write,
                                                 const char *target, struct td_error *err);

#endif
