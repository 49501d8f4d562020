/* alias_table.h - the aliases of a store, and those that a flip is about to make. Private to
 * server/store.
 *
 * A flip claims its names before it looks at them, so that what it has checked remains true until
 * it is done: meanwhile no tensor gets a claimed name, and no claimed target is deleted.
 *
 * Threads    Functions named _locked are called with store->lock held, for reading at least. */
#ifndef TD_SERVER_STORE_ALIAS_TABLE_H
#define TD_SERVER_STORE_ALIAS_TABLE_H

#include "kernels/status.h"
#include "server/store/table_name.h"

#include <stdbool.h>

struct td_store;

struct td_alias {
    char name[TD_TENSOR_NAME];
    char target[TD_TENSOR_NAME];   /* "": none now */
    char stored[TD_TENSOR_NAME];   /* that a restart gives it, from aliases.json; "": none */
    char folder[TD_TABLE_VERSION]; /* that set `stored` while the file could not be written; "" */
    bool hidden;                   /* by a tensor of its name, when it was read; then no target */
};

/* Sorted by name; never changed, only replaced. */
struct td_alias_table {
    struct td_alias *aliases;
    int count;
};

/* The alias of this name, NULL for none. */
const struct td_alias *td_alias_in(const struct td_alias_table *table, const char *name,
                                   size_t length);

/* The alias of this name that has a target now, NULL for none. */
const struct td_alias *td_alias_find_locked(const struct td_store *store, const char *name,
                                            size_t length);

/* Whether no tensor may get this name: it is an alias, or becomes one. */
bool td_alias_claims_locked(const struct td_store *store, const char *name);

/* Whether an alias names this version, now, after a restart, or soon. */
bool td_alias_names_locked(const struct td_store *store, const char *version);

/* True if an alias in aliases.json names this version. */
bool td_alias_stores_locked(const struct td_store *store, const char *version);

/* The target of an alias, copied; false if there is no such alias now. */
bool td_alias_target(struct td_store *store, const char *name, size_t length,
                     char target[TD_TENSOR_NAME]);

/* The error of writing to an alias. check_name: CONFLICT if the name is one. */
td_status td_alias_conflict(const char *name, struct td_error *err);
TD_MUST_CHECK td_status td_alias_check_name(struct td_store *store, const char *name,
                                            struct td_error *err);

/* CONFLICT if aliases.json has an alias of this name, perhaps one without a target now: after a
 * restart it would hide the file of a tensor. */
TD_MUST_CHECK td_status td_alias_check_stored(struct td_store *store, const char *name,
                                              struct td_error *err);

/* CONFLICT unless aliases.json is as this process read or wrote it last, is being written by it, or
 * is absent: otherwise it may set aliases, and name versions, that are unknown here. */
TD_MUST_CHECK td_status td_alias_check_file(struct td_store *store, struct td_error *err);

/* *out is `table` with the aliases of `edits` in place of those of the same names; those without
 * any target are left out. malloc'ed. RESOURCE_LIMIT (aliases), MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_alias_merge(const struct td_alias_table *table,
                                       const struct td_alias_table *edits,
                                       struct td_alias_table *out, struct td_error *err);

#endif
