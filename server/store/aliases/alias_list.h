/* alias_list.h - the aliases of a store, and the names that a flip has claimed. Private to
 * server/store.
 *
 * A flip claims its names before it checks them. Until the flip ends, no tensor can be stored under
 * a claimed name and no claimed target can be deleted, so the results of the checks remain true.
 *
 * Threads    Functions named _locked are called with store->lock held, at least for reading. */
#ifndef TD_SERVER_STORE_ALIAS_LIST_H
#define TD_SERVER_STORE_ALIAS_LIST_H

#include "kernels/status.h"
#include "server/store/table_name.h"

#include <stdbool.h>

struct td_store;

struct td_alias {
    char name[TD_TENSOR_NAME];
    /* Version that the alias names, or "" in an edit that removes the alias. */
    char target[TD_TENSOR_NAME];
    /* Version folder that set the alias while aliases.json could not be written, or "". */
    char folder[TD_TABLE_VERSION];
    /* True if a tensor had the name of the alias when aliases.json was read. The store then serves
     * the tensor instead of the alias. */
    bool hidden;
};

/* True if the alias is served: it is not NULL, has a target, and is not hidden. */
static inline bool td_alias_is_served(const struct td_alias *alias)
{
    return alias && alias->target[0] && !alias->hidden;
}

/* Aliases sorted by name. A list is never changed, only replaced. */
struct td_alias_list {
    struct td_alias *aliases;
    int count;
};

/* Returns the alias of this name, or NULL if there is none. */
const struct td_alias *td_alias_in(const struct td_alias_list *list, const char *name,
                                   size_t length);

/* Returns the alias of this name if it is served, otherwise NULL. */
const struct td_alias *td_alias_find_locked(const struct td_store *store, const char *name,
                                            size_t length);

/* True if no tensor can be stored under this name, because it is an alias or a flip is adding an
 * alias of this name. */
bool td_alias_claims_locked(const struct td_store *store, const char *name);

/* True if an alias names this version, or a flip is setting an alias to it. */
bool td_alias_names_locked(const struct td_store *store, const char *version);

/* Copies the target of an alias. Returns false if no alias of this name is served. */
bool td_alias_target(struct td_store *store, const char *name, size_t length,
                     char target[TD_TENSOR_NAME]);

/* td_alias_conflict sets the error of a write to an alias. td_alias_check_name returns this error
 * if `name` is an alias. */
td_status td_alias_conflict(const char *name, struct td_error *err);
TD_MUST_CHECK td_status td_alias_check_name(struct td_store *store, const char *name,
                                            struct td_error *err);

/* Returns CONFLICT if a tensor hides an alias of this name, because a restart would serve the alias
 * instead of the tensor's file. */
TD_MUST_CHECK td_status td_alias_check_hidden(struct td_store *store, const char *name,
                                              struct td_error *err);

/* Returns CONFLICT if another process has changed aliases.json since this process read or wrote it.
 * The changed file might set aliases and name versions that this process does not know. */
TD_MUST_CHECK td_status td_alias_check_file(struct td_store *store, struct td_error *err);

/* Sets *out to `list` with the edits applied. Each edit replaces the alias of the same name, and
 * aliases without a target are left out. The caller frees out->aliases. Returns RESOURCE_LIMIT
 * (aliases) or MEMORY_EXHAUSTED on failure. */
TD_MUST_CHECK td_status td_alias_merge(const struct td_alias_list *list,
                                       const struct td_alias_list *edits, struct td_alias_list *out,
                                       struct td_error *err);

#endif
