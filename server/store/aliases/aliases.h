/* aliases.h - aliases, which are other names of versions: "movies" names "movies@20261122".
 *
 *     alias ─► version ─► tensor        a lookup resolves an alias once
 *
 * A flip sets and removes any number of aliases at once. A reader sees all of the flip or none of
 * it. A name is an alias or a tensor, never both. An alias names a version, never another alias.
 *
 * Persisting  With a data folder, every flip is persisted: aliases.json is replaced before the
 *             aliases change. After a crash at any point, the file contains all of the flip or none
 *             of it. If this process cannot write the folder, the flip fails. Without a data
 *             folder, flips last until the process ends.
 * Deleting    A version that an alias names cannot be deleted. If somebody removes its file from
 *             the folder, the alias remains, and requests that use it get DEVICE_UNAVAILABLE until
 *             the version exists again.
 * Ownership   Functions borrow their arguments for the call.
 * Threads     Any. Flips run one at a time. A persisted flip can wait for the disk, so it must not
 *             run on an I/O thread or a worker. */
#ifndef TD_SERVER_STORE_ALIASES_H
#define TD_SERVER_STORE_ALIASES_H

#include "server/store/store.h"
#include "server/store/table_name.h"

struct td_alias_change {
    const char *name;
    const char *target; /* NULL to remove the alias, or to require that it does not exist */
};

struct td_alias_flip {
    const struct td_alias_change *set;    /* changes to make, with each name at most once */
    const struct td_alias_change *wanted; /* required state of these aliases before the flip */
    int n_set, n_wanted;
    bool persist;                   /* makes the flip fail if it would not be persisted */
    const struct td_access *access; /* names that the token grants, or NULL for all names */
    /* Writer that holds the lock on the aliases (td_store_plan_flip). If it is NULL, the flip
     * blocks its thread until other flips have ended. */
    struct td_writer *writer;
};

/* True if every flip is persisted, because the store has a data folder. */
bool td_store_persists_aliases(const struct td_store *store);

/* Fills in the writer that a flip needs, except for its deadline and ready(). Returns true if the
 * flip might wait for the disk. */
bool td_store_plan_flip(const struct td_store *store, struct td_writer *writer);

/* Makes the flip. Errors:
 * INVALID_ARGUMENT     a name cannot be an alias, or a target is not a version
 * FORBIDDEN            `access` does not include the table of a part such as the scales, or the
 *                      version that the alias of that table names
 * PRECONDITION_FAILED  an alias does not match `wanted`
 * TENSOR_NOT_FOUND     a target does not exist
 * DEVICE_UNAVAILABLE   a target does not exist, but a refused file or folder might define it
 * CONFLICT             a name is a tensor, a target is an alias, a target of a persisted flip is
 *                      not persisted, or aliases.json was changed by another process
 * RESOURCE_LIMIT       aliases, disk_bytes
 * and the errors of writing aliases.json. */
TD_MUST_CHECK td_status td_store_flip(struct td_store *store, const struct td_alias_flip *flip,
                                      struct td_error *err);

/* Lists the aliases that are served, sorted by name, in the arena. */
TD_MUST_CHECK td_status td_store_list_aliases(struct td_store *store, struct td_arena *arena,
                                              struct td_alias_change **list, int *count,
                                              struct td_error *err);

int td_store_count_aliases(struct td_store *store);

/* Copies the target of the alias `name`. For ALIAS.keys, the name of an alias's keys, copies the
 * target of ALIAS. Returns false if the alias does not exist. */
bool td_store_alias_target(struct td_store *store, const char *name, size_t length,
                           char target[TD_TENSOR_NAME]);

/* Lists the problems of the data folder, sorted by source, in the arena. Sets *others to the number
 * of problems that are left out of the list (problems.h). */
struct td_problem_listing {
    const char *source; /* file or folder of the data folder, or an alias */
    const char *reason;
};
TD_MUST_CHECK td_status td_store_list_problems(struct td_store *store, struct td_arena *arena,
                                               struct td_problem_listing **list, int *count,
                                               int *others, struct td_error *err);

#endif
