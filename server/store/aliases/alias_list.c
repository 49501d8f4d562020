#include "server/store/aliases/alias_list.h"

#include "api/text/sorted_names.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name_at(const void *list, int i)
{
    return ((const struct td_alias_list *)list)->aliases[i].name;
}

const struct td_alias *td_alias_in(const struct td_alias_list *list, const char *name,
                                   size_t length)
{
    bool found;
    const int place = td_sorted_find(list, list->count, name_at, name, length, &found);
    return found ? &list->aliases[place] : NULL;
}

const struct td_alias *td_alias_find_locked(const struct td_store *store, const char *name,
                                            size_t length)
{
    const struct td_alias *alias = td_alias_in(&store->aliases, name, length);
    return td_alias_is_served(alias) ? alias : NULL;
}

bool td_alias_claims_locked(const struct td_store *store, const char *name)
{
    const size_t length = strlen(name);
    const struct td_alias *claimed =
        store->claims ? td_alias_in(store->claims, name, length) : NULL;
    return td_alias_is_served(claimed) || td_alias_find_locked(store, name, length);
}

/* True if an alias in the list names the version. A linear search is sufficient, because versions
 * are deleted rarely. */
static bool names(const struct td_alias_list *list, const char *version)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->aliases[i].target, version) == 0)
            return true;
    return false;
}

bool td_alias_names_locked(const struct td_store *store, const char *version)
{
    return (store->claims && names(store->claims, version)) || names(&store->aliases, version);
}

bool td_alias_target(struct td_store *store, const char *name, size_t length,
                     char target[TD_TENSOR_NAME])
{
    pthread_rwlock_rdlock(&store->lock);
    const struct td_alias *alias = td_alias_find_locked(store, name, length);
    if (alias)
        snprintf(target, TD_TENSOR_NAME, "%s", alias->target);
    pthread_rwlock_unlock(&store->lock);
    return alias != NULL;
}

td_status td_alias_conflict(const char *name, struct td_error *err)
{
    if (td_is_program_name(name, strlen(name)))
        return td_error_set(err, TD_CONFLICT,
                            "%s is an alias, which has no text of its own; store a version, "
                            "NAME@VERSION, and let the alias name it",
                            TD_NAMED(name));
    return td_error_set(err, TD_CONFLICT,
                        "'%s' is an alias, which has no data of its own; store a version, with its "
                        "keys as {\"tensor\": [...], \"keys\": [...]}, and let the alias name it",
                        name);
}

td_status td_alias_check_name(struct td_store *store, const char *name, struct td_error *err)
{
    pthread_rwlock_rdlock(&store->lock);
    const bool claimed = td_alias_claims_locked(store, name);
    pthread_rwlock_unlock(&store->lock);
    return claimed ? td_alias_conflict(name, err) : TD_OK;
}

td_status td_alias_check_hidden(struct td_store *store, const char *name, struct td_error *err)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct td_alias *alias = td_alias_in(&store->aliases, name, strlen(name));
    const bool hidden = alias && alias->hidden;
    pthread_rwlock_unlock(&store->lock);
    return hidden
               ? td_error_set(err, TD_CONFLICT,
                              "'%s' is an alias in %s, which a restart would serve instead of the "
                              "%s: remove it by POST /v1/aliases with {\"set\": "
                              "{\"%s\": null}} first",
                              name, TD_ALIASES_FILE, td_named_kind(name), name)
               : TD_OK;
}

static void append(struct td_alias_list *list, const struct td_alias *alias)
{
    if (alias->target[0])
        list->aliases[list->count++] = *alias;
}

enum aliases_file { KNOWN, REFUSED, CHANGED };

/* Compares aliases.json with the store's records of the file. Call with aliases_file_mutex held,
 * while this process is not writing the file. */
static enum aliases_file compare_id(const struct td_store *store)
{
    struct td_file_id id;
    const td_file_state state = td_data_dir_stat(store->dir, TD_ALIASES_FILE, &id);
    if (state == TD_FILE_GONE)
        return KNOWN;
    if (state == TD_FILE_UNKNOWN)
        return REFUSED; /* for example a dangling link, which cannot be read */
    return td_file_id_equal(&id, &store->aliases_file)      ? KNOWN
           : td_file_id_equal(&id, &store->aliases_refused) ? REFUSED
                                                            : CHANGED;
}

static enum aliases_file compare_file(struct td_store *store)
{
    pthread_mutex_lock(&store->aliases_file_mutex);
    const enum aliases_file found =
        store->dir && !store->writes_aliases_file ? compare_id(store) : KNOWN;
    pthread_mutex_unlock(&store->aliases_file_mutex);
    return found;
}

td_status td_alias_check_file(struct td_store *store, struct td_error *err)
{
    switch (compare_file(store)) {
    case KNOWN:
        return TD_OK;
    case REFUSED:
        return td_error_set(
            err, TD_CONFLICT,
            "%s in the data folder cannot be read, is damaged, or names a version that does not "
            "exist; GET /v1/aliases says which. Put a correct file in its place%s",
            TD_ALIASES_FILE,
            atomic_load(&store->aliases_known)
                ? ", or move it away, and send SIGHUP, which then writes the persisted aliases "
                  "again"
                : " and send SIGHUP. This server has not read the aliases. Without the file, the "
                  "aliases are lost, and --keep-versions removes the versions that only they name");
    default:
        return td_error_set(
            err, TD_CONFLICT,
            "%s in the data folder has changed since this server last read or wrote it; send "
            "SIGHUP so that the server reads it",
            TD_ALIASES_FILE);
    }
}

td_status td_alias_merge(const struct td_alias_list *list, const struct td_alias_list *edits,
                         struct td_alias_list *out, struct td_error *err)
{
    const size_t most = (size_t)list->count + (size_t)edits->count;
    int i = 0, j = 0;
    *out = (struct td_alias_list){ .aliases = calloc(most + 1, sizeof *out->aliases) };
    if (!out->aliases)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for %zu aliases", most);
    while (i < list->count || j < edits->count) {
        const int order = i == list->count ? 1
                          : j == edits->count
                              ? -1
                              : strcmp(list->aliases[i].name, edits->aliases[j].name);
        append(out, order < 0 ? &list->aliases[i] : &edits->aliases[j]);
        i += order <= 0;
        j += order >= 0;
    }
    if (out->count <= TD_STORE_TENSORS)
        return TD_OK;
    const uint64_t needed = (uint64_t)out->count;
    free(out->aliases);
    *out = (struct td_alias_list){ 0 };
    return td_error_resource(err, "aliases", needed, TD_STORE_TENSORS, "the store with these");
}

td_status td_store_check_aliases(const struct td_store *store, struct td_error *err)
{
    return !atomic_load(&store->aliases_unread) || atomic_load(&store->aliases_known)
               ? TD_OK
               : td_error_set(err, TD_DEVICE_UNAVAILABLE,
                              TD_ALIASES_FILE
                              " in the data folder could not be read at startup. Aliases that "
                              "requests set are missing, and aliases that version folders set "
                              "might be wrong. Repair the file, let uid %u read it, or restore "
                              "it from a backup, and send SIGHUP; the log says why the file "
                              "cannot be read. Without the file, only the aliases that the "
                              "folders set remain, and --keep-versions removes the versions that "
                              "the other aliases named",
                              (unsigned)geteuid());
}
