/* alias_check.h - checks of flips, of the DELETE of an alias, and of the DELETE of a version that
 * an alias might name. Private to server/store.
 *
 * Threads    For a flip, the caller holds the lock on the aliases and has claimed the names of the
 *            flip, so the result of a check remains true. For the DELETE of a version, the caller
 *            has locked the version's name. The function named _locked is called with store->lock
 *            held; the other functions are called without it. */
#ifndef TD_SERVER_STORE_ALIAS_CHECK_H
#define TD_SERVER_STORE_ALIAS_CHECK_H

#include "server/store/aliases/alias_list.h"
#include "server/store/aliases/aliases.h"

struct td_version;

/* A version folder that a scan is publishing. Its versions are reserved, and their names are
 * locked. */
struct td_alias_folder {
    const char *name;
    const char *digest;           /* of the manifest */
    struct td_version **versions; /* sorted by name */
    const struct td_alias_change *set;
    int n_versions, n_set;
};

/* Checks the conditions of a flip, then the names and targets of its edits, and finally that tables
 * and their parts name the same versions. `folder` is published with the flip, or NULL. Errors:
 * same as for td_store_flip. */
TD_MUST_CHECK td_status td_alias_check_flip(struct td_store *store,
                                            const struct td_alias_flip *flip,
                                            const struct td_alias_list *edits,
                                            const struct td_alias_folder *folder,
                                            struct td_error *err);

/* True if the version is current or is in the folder. `folder` can be NULL. */
bool td_alias_version_comes_locked(const struct td_store *store,
                                   const struct td_alias_folder *folder, const char *version);

/* True if both names have the same BASE. */
bool td_alias_are_versions_of_one(const char *a, const char *b);

/* Returns FORBIDDEN if the write has a condition but its token is not valid for the target of the
 * alias. The condition is compared with the target's ETag, so the reply would reveal whether the
 * target exists. */
TD_MUST_CHECK td_status td_alias_check_condition(const struct td_store_write *write,
                                                 const char *target, struct td_error *err);

/* Call td_alias_begin_delete before removing the files of a version. It returns CONFLICT if an
 * alias names the version. Afterwards, no alias can name the version until td_store_drop or
 * td_alias_cancel_delete is called. */
TD_MUST_CHECK td_status td_alias_begin_delete(struct td_store *store, const char *name,
                                              struct td_error *err);
void td_alias_cancel_delete(struct td_store *store, const char *name);

#endif
