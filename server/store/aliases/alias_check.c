#include "server/store/aliases/alias_check.h"

#include "api/text/sorted_names.h"
#include "kernels/op.h"
#include "server/auth/access.h"
#include "server/store/entries.h"
#include "server/store/lookup_errors.h"
#include "server/store/state.h"

#include <stdio.h>
#include <string.h>

/* True if the token grants the name. `access` is NULL for a request that needs no token. */
static bool may_know(const struct td_access *access, const char *name)
{
    return td_store_allows(access, name, strlen(name));
}

/* ---- one alias ------------------------------------------------------------------------------- */

static td_status check_wanted(const struct td_store *store, const struct td_alias_change *wanted,
                              struct td_error *err)
{
    const struct td_alias *alias = td_alias_find_locked(store, wanted->name, strlen(wanted->name));
    const struct td_version *version = NULL;
    if (alias ? wanted->target && strcmp(alias->target, wanted->target) == 0 : !wanted->target)
        return TD_OK;
    /* The error does not reveal the target, because the token might be valid only for the alias. */
    if (wanted->target)
        td_error_set(err, TD_PRECONDITION_FAILED, "the alias '%.140s' does not %s '%.140s'%s",
                     wanted->name, alias ? "name" : "exist, so it does not name", wanted->target,
                     alias ? " now; GET /v1/aliases lists its target" : "");
    else
        td_error_set(err, TD_PRECONDITION_FAILED,
                     "the alias '%.140s' exists; expected no such alias", wanted->name);
    if (alias)
        (void)td_store_use_locked(store, alias->target, &version);
    if (version && err)
        snprintf(err->etag, sizeof err->etag, "%s", version->etag);
    td_error_etag_of(err, alias ? alias->target : "");
    return td_error_at_attribute(err, TD_PRECONDITION_FAILED, "if");
}

/* Sets the error for a target without an '@'. */
static td_status refuse_unversioned(const struct td_store *store, const struct td_alias *alias,
                                    enum td_name_use use, struct td_error *err)
{
    const char *version = td_is_program_name(alias->target, strlen(alias->target))
                              ? "NAME.program@VERSION"
                              : "NAME@VERSION";
    if (td_alias_claims_locked(store, alias->target))
        return td_error_set(
            err, TD_CONFLICT,
            "the alias '%s' cannot name '%s', which is an alias; expected a version, %s",
            alias->name, alias->target, version);
    return use == TD_NAME_CURRENT
               ? td_error_set(err, TD_INVALID_ARGUMENT,
                              "the alias '%s' cannot name '%s', which is not a version; expected "
                              "%s",
                              alias->name, alias->target, version)
               : td_error_set(err, TD_TENSOR_NOT_FOUND,
                              "the alias '%s' cannot name '%s', which does not exist; expected a "
                              "version, %s",
                              alias->name, alias->target, version);
}

static const char *name_at(const void *folder, int i)
{
    return ((const struct td_alias_folder *)folder)->versions[i]->name;
}

/* True if the alias names a version in the folder, which is not published yet. `folder` can be
 * NULL. */
static bool is_in_folder(const struct td_alias_folder *folder, const char *target)
{
    bool found = false;
    if (folder)
        (void)td_sorted_find(folder, folder->n_versions, name_at, target, strlen(target), &found);
    return found;
}

/* Returns CONFLICT unless the version that the alias names would survive a restart. The error says
 * which request persists the version, because a version's rows cannot be put again, but its keys
 * can. */
static td_status check_persisted(const struct td_alias *alias, const struct td_version *version,
                                 struct td_error *err)
{
    char keys[TD_KEYS_NAME];
    td_table_keys_name(alias->target, keys);
    if (version->persisted && atomic_load(&version->orphaned))
        return td_error_set(err, TD_CONFLICT,
                            "the alias '%s' cannot name '%s': a restart would not find it, because "
                            "%s cannot be read; repair the file and send SIGHUP",
                            alias->name, alias->target, version->file);
    if (version->persisted)
        return TD_OK;
    if (td_is_program_name(alias->target, strlen(alias->target)))
        return td_error_set(err, TD_CONFLICT,
                            "the alias '%s' cannot name '%s': aliases are kept in the data folder, "
                            "and this version is in memory only; put the program with ?persist=1 "
                            "as another version",
                            alias->name, alias->target);
    return version->keys
               ? td_error_set(
                     err, TD_CONFLICT,
                     "the alias '%s' cannot name '%s': aliases are kept in the data folder, "
                     "and the keys of this version are in memory only; PUT "
                     "/v1/tensors/%s/keys?persist=1 with {\"ref\": \"%s\"} persists both",
                     alias->name, alias->target, alias->target, keys)
               : td_error_set(
                     err, TD_CONFLICT,
                     "the alias '%s' cannot name '%s': aliases are kept in the data folder, "
                     "and this version is in memory only; PUT "
                     "/v1/tensors/NAME@VERSION?persist=1 with {\"ref\": \"%s\"} makes "
                     "a copy in a file, which the alias can name",
                     alias->name, alias->target, alias->target);
}

static td_status check_target(const struct td_store *store, const struct td_alias *alias,
                              bool persist, struct td_error *err)
{
    const struct td_version *version;
    const enum td_name_use use = td_store_use_locked(store, alias->target, &version);
    if (!td_table_version(alias->target))
        return refuse_unversioned(store, alias, use, err);
    if (use == TD_NAME_LEAVING)
        return td_error_set(err, TD_CONFLICT,
                            "the alias '%s' cannot name '%s': it is being deleted", alias->name,
                            alias->target);
    if (use != TD_NAME_CURRENT)
        return td_error_set(err, TD_TENSOR_NOT_FOUND,
                            "the alias '%s' cannot name '%s', which does not exist", alias->name,
                            alias->target);
    return persist ? check_persisted(alias, version, err) : TD_OK;
}

static td_status check_alias(const struct td_store *store, const struct td_alias *alias,
                             bool persist, const struct td_alias_folder *folder,
                             struct td_error *err)
{
    const struct td_version *version;
    const bool known = td_alias_in(&store->aliases, alias->name, strlen(alias->name)) != NULL;
    const char *kind = td_named_kind(alias->name);
    /* A hidden alias can be removed even though a tensor has its name. */
    if (!alias->target[0] && known)
        return TD_OK;
    if (td_store_use_locked(store, alias->name, &version) != TD_NAME_FREE)
        return td_error_set(
            err, TD_CONFLICT,
            "'%s' is a %s, so it cannot be an alias. Choose another name, or first delete the %s, "
            "which also removes its file",
            alias->name, kind, kind);
    return !alias->target[0] || is_in_folder(folder, alias->target)
               ? TD_OK
               : check_target(store, alias, persist, err);
}

/* ---- a table and its parts ------------------------------------------------------------------- */

/* A flip that is being checked. */
struct plan {
    const struct td_store *store;
    const struct td_alias_list *edits;
    const struct td_alias_folder *folder; /* folder published with the flip, or NULL */
    const struct td_access *access;       /* access of the request, or NULL for all names */
};

/* Returns the alias as it will be after the flip, or NULL if it will not be served. */
static const struct td_alias *planned(const struct plan *plan, const char *name)
{
    const struct td_alias *alias = td_alias_in(plan->edits, name, strlen(name));
    if (!alias)
        alias = td_alias_in(&plan->store->aliases, name, strlen(name));
    return td_alias_is_served(alias) ? alias : NULL;
}

bool td_alias_version_comes_locked(const struct td_store *store,
                                   const struct td_alias_folder *folder, const char *version)
{
    const struct td_version *unused;
    return is_in_folder(folder, version) ||
           td_store_use_locked(store, version, &unused) == TD_NAME_CURRENT;
}

bool td_alias_are_versions_of_one(const char *a, const char *b)
{
    const size_t length = strcspn(a, "@");
    return length == strcspn(b, "@") && strncmp(a, b, length) == 0;
}

/* Checks that the alias of a table of integers and the alias of a part, such as the scales, name
 * the same version. Using the rows of one version with the scales of another would give wrong sums.
 * `set` is the alias that the flip sets. The error does not reveal the target of the other alias,
 * because the token might not be valid for that version. */
static td_status check_pair(const struct plan *plan, const struct td_alias *rows,
                            const char *part_name, const struct td_alias *set, struct td_error *err)
{
    char name[TD_TENSOR_NAME], target[TD_TENSOR_NAME];
    const struct td_alias *part =
        td_table_part_name(rows->name, part_name, name) ? planned(plan, name) : NULL;
    if (!part || !td_table_part_name(rows->target, part_name, target) ||
        strcmp(part->target, target) == 0)
        return TD_OK;
    const bool exists = td_alias_version_comes_locked(plan->store, plan->folder, target);
    if (!exists && !td_alias_are_versions_of_one(part->target, target))
        return TD_OK; /* the user chose this part for rows that have no such part */
    if (!exists && set == rows)
        return td_error_set(err, TD_CONFLICT,
                            "the alias '%.128s' cannot name '%.128s', which has no %s, while the "
                            "alias '%.128s' exists. Set that alias to null in the same request",
                            rows->name, rows->target, part_name, name);
    if (!exists)
        return td_error_set(err, TD_CONFLICT,
                            "the alias '%.128s' cannot be set: the version that '%.128s' names has "
                            "no %s",
                            set->name, rows->name, part_name);
    return td_error_set(
        err, TD_CONFLICT,
        "the alias '%.128s' cannot name '%.128s' while '%.128s' names another version. Rows and "
        "their scales must change together; set both",
        set->name, set->target, set == rows ? name : rows->name);
}

/* Returns FORBIDDEN unless the token is valid for the table to which `part` belongs and for the
 * version that the table's alias names, whether or not they exist. */
static td_status check_rows_known(const struct plan *plan, const char *table,
                                  const struct td_alias *rows, const struct td_alias *part,
                                  struct td_error *err)
{
    if (!may_know(plan->access, table))
        return td_access_forbid(plan->access, err,
                                "the alias '%.128s' is a part of the table '%.128s', for which "
                                "the token is not valid. Rows and their scales must change "
                                "together",
                                part->name, table);
    return !rows || may_know(plan->access, rows->target)
               ? TD_OK
               : td_access_forbid(plan->access, err,
                                  "the alias '%.128s' is a part of the table '%.128s', and the "
                                  "token is not valid for the version that this table's alias "
                                  "names. Rows and their scales must change together",
                                  part->name, table);
}

static td_status check_parts(const struct plan *plan, const struct td_alias *alias,
                             struct td_error *err)
{
    td_status status = TD_OK;
    const char *part;
    for (int i = 0; alias->target[0] && status == TD_OK && (part = td_op_table_part(i)); i++) {
        char table[TD_TENSOR_NAME];
        const bool is_part = td_table_of_part(alias->name, part, table);
        const struct td_alias *rows = is_part ? planned(plan, table) : NULL;
        if (is_part)
            status = check_rows_known(plan, table, rows, alias, err);
        if (status == TD_OK)
            status = check_pair(plan, alias, part, alias, err);
        if (status == TD_OK && rows)
            status = check_pair(plan, rows, part, alias, err);
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

td_status td_alias_check_flip(struct td_store *store, const struct td_alias_flip *flip,
                              const struct td_alias_list *edits,
                              const struct td_alias_folder *folder, struct td_error *err)
{
    const struct plan plan = { store, edits, folder, flip->access };
    /* A read-only process keeps the aliases of a folder in memory. */
    const bool persist = td_store_persists_aliases(store) && !store->read_only;
    const char *missing = NULL; /* target that does not exist */
    td_status status = TD_OK;
    pthread_rwlock_rdlock(&store->lock);
    for (int i = 0; i < flip->n_wanted && status == TD_OK; i++)
        status = check_wanted(store, &flip->wanted[i], err);
    for (int i = 0; i < edits->count && status == TD_OK; i++) {
        status = check_alias(store, &edits->aliases[i], persist, folder, err);
        if (status == TD_TENSOR_NOT_FOUND)
            missing = edits->aliases[i].target;
        if (status == TD_OK)
            status = check_parts(&plan, &edits->aliases[i], err);
        if (status != TD_OK)
            status = td_error_at_attribute(err, status, "set");
    }
    pthread_rwlock_unlock(&store->lock);
    /* A lookup of the missing version gets the same error. A folder is refused with the first
     * error, because it might itself be the refused folder. */
    if (missing && !folder && td_table_version(missing) &&
        td_store_check_refused(store, missing, err) != TD_OK)
        status = td_error_at_attribute(err, TD_DEVICE_UNAVAILABLE, "set");
    return status;
}

td_status td_alias_check_condition(const struct td_store_write *write, const char *target,
                                   struct td_error *err)
{
    const char *header = write->condition.if_match        ? "If-Match"
                         : write->condition.if_none_match ? "If-None-Match"
                                                          : NULL;
    if (!header || may_know(write->access, target))
        return TD_OK;
    return td_access_forbid(write->access, err,
                            "the token is not valid for the version that %s names, so %s "
                            "cannot be compared with its ETag; leave %s out",
                            TD_NAMED(write->name), header, header);
}

/* ---- DELETE of a version --------------------------------------------------------------------- */

td_status td_alias_begin_delete(struct td_store *store, const char *name, struct td_error *err)
{
    pthread_rwlock_wrlock(&store->lock);
    const bool named = td_alias_names_locked(store, name);
    if (!named)
        td_store_set_leaving_locked(store, name, true);
    pthread_rwlock_unlock(&store->lock);
    return named ? td_error_set(err, TD_CONFLICT,
                                "an alias names %s: let the alias name another version, or "
                                "remove it, by POST /v1/aliases with {\"set\": {\"ALIAS\": "
                                "\"NAME@VERSION\" or null}}; GET /v1/aliases lists the aliases",
                                TD_NAMED(name))
                 : TD_OK;
}

void td_alias_cancel_delete(struct td_store *store, const char *name)
{
    pthread_rwlock_wrlock(&store->lock);
    td_store_set_leaving_locked(store, name, false);
    pthread_rwlock_unlock(&store->lock);
}
