/* aliases.h - other names of versions: alias "movies" names the version "movies@20261122".
 *
 *     alias ─► version ─► tensor        a lookup resolves an alias once
 *
 * A flip sets and removes any number of aliases at once: a reader sees all of it or nothing. A name
 * is an alias or a tensor, never both; an alias names a version, never another alias.
 *
 * Persisting  Each alias has a target now and perhaps one in aliases.json, from which a start takes
 *             it. A flip without `persist` changes the former only. The file is replaced as a
 *             persisted tensor's is: after a crash at any point it has all of a flip or nothing.
 * Deleting    A version that an alias names, now or after a restart, cannot be deleted. If its file
 *             is removed from the folder nevertheless, the alias stays, and its requests get
 *             DEVICE_UNAVAILABLE until the version is there again.
 * Ownership   Borrows what it is given for the call.
 * Threads     Any. Flips are made one after the other. One with `persist` may block for as long as
 *             the disk takes, so it has no place on an I/O thread or a worker. */
#ifndef TD_SERVER_STORE_ALIASES_H
#define TD_SERVER_STORE_ALIASES_H

#include "server/store/store.h"
#include "server/store/table_name.h"

struct td_alias_change {
    const char *name;
    const char *target; /* NULL: no alias */
};

struct td_alias_flip {
    const struct td_alias_change *set;    /* no name twice */
    const struct td_alias_change *wanted; /* what the aliases must be before */
    int n_set, n_wanted;
    bool persist;
    const struct td_access *access; /* names that its token is for; NULL: all */
    /* That has entered with the aliases, as td_store_plan_flip describes it; NULL: the flip waits
     * for other flips, and blocks its thread meanwhile. */
    struct td_writer *writer;
};

/* Describes the writer that the flip needs, except for its deadline and ready(). True if the flip
 * may wait for a disk. */
bool td_store_plan_flip(const struct td_alias_flip *flip, struct td_writer *writer);

/* INVALID_ARGUMENT for a name that cannot be an alias or a target that is no version,
 * FORBIDDEN for the scales or offsets of a table that `access` does not have, or whose alias names
 * a version that it does not have; PRECONDITION_FAILED, TENSOR_NOT_FOUND for a target that is not
 * there, CONFLICT for a name that is a tensor, a target that is an alias, or one to persist that is
 * not persisted; RESOURCE_LIMIT (aliases, disk_bytes), and errors of persisting. */
TD_MUST_CHECK td_status td_store_flip(struct td_store *store, const struct td_alias_flip *flip,
                                      struct td_error *err);

struct td_alias_listing {
    const char *name;
    const char *target; /* NULL: none now, but after a restart */
    const char *stored; /* that a restart gives it; NULL: none */
};

/* All aliases, sorted by name, in the arena. */
TD_MUST_CHECK td_status td_store_list_aliases(struct td_store *store, struct td_arena *arena,
                                              struct td_alias_listing **list, int *count,
                                              struct td_error *err);

int td_store_count_aliases(struct td_store *store);

/* The version that the name, or the table of the keys of this name, stands for now; false if that
 * is no alias. */
bool td_store_alias_target(struct td_store *store, const char *name, size_t length,
                           char target[TD_TENSOR_NAME]);

/* What in the data folder was refused or is damaged, sorted by source; in the arena. *others: how
 * many there are besides those in the list. */
enum { TD_PROBLEMS_LISTED = 64 };
struct td_problem_listing {
    const char *source; /* file or folder of the data folder, or alias */
    const char *reason;
};
TD_MUST_CHECK td_status td_store_list_problems(struct td_store *store, struct td_arena *arena,
                                               struct td_problem_listing **list, int *count,
                                               int *others, struct td_error *err);

#endif
