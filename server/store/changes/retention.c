#include "server/store/changes/retention.h"

#include "server/store/changes/writers.h"
#include "server/store/entries.h"
#include "server/store/scan/verify.h"
#include "server/store/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True if the server is allowed to remove the version. The files of the version are checked again
 * on removal. */
static bool is_ours(const struct td_store *store, const struct td_version *version)
{
    char own[TD_FILE_NAME];
    td_data_own_file(version->name, own);
    return !version->file[0] ||
           (strcmp(version->file, own) == 0 &&
            (store->inspector || (!store->read_only && td_data_dir_is_locked(store->dir))));
}

static bool has_entered(const struct td_writer *writer, const char *name)
{
    for (int i = 0; writer && i < writer->n_names; i++)
        if (strcmp(writer->names[i], name) == 0)
            return true;
    return false;
}

static void remove_version(struct td_store *store, const struct td_version *version,
                           const struct td_writer *caller)
{
    const char *name = version->name;
    const bool is_callers = has_entered(caller, name);
    struct td_writer writer = { .names = &name, .n_names = 1 };
    struct td_error err;
    bool had_file;
    if (!is_callers && !td_writer_try(store, &writer))
        /* Another writer is deleting the version or changing its keys. The next change checks the
         * version again. */
        return;
    struct td_version *current = td_store_current(store, version->name, strlen(version->name));
    const td_status status =
        current == version ? td_version_delete(store, version->name, version, true, &had_file, &err)
                           : TD_TENSOR_NOT_FOUND;
    td_buffer_unref(current ? &current->base : NULL);
    if (!is_callers)
        td_writer_leave(store, &writer);
    if (status == TD_OK)
        td_log(store->log, TD_LOG_INFO, "version_removed", TD_TEXT("tensor", version->name));
    else if (current == version && status != TD_CONFLICT && status != TD_FORBIDDEN)
        td_log(store->log, TD_LOG_WARN, "version_not_removed", TD_TEXT("tensor", version->name),
               TD_TEXT("reason", err.message));
}

static int newest_first(const void *a, const void *b)
{
    const struct td_version *one = *(struct td_version *const *)a,
                            *other = *(struct td_version *const *)b;
    return td_version_name_order(td_table_version(other->name), td_table_version(one->name));
}

/* Number of a table's versions that have been kept so far, in total and in files. */
struct kept {
    int64_t all, in_files;
};

/* Returns true, and counts the version, if the version is kept. Only other versions in files can
 * displace a version in a file, because versions in memory are lost at a restart. */
static bool keep(const struct td_store *store, struct kept *kept, bool in_file)
{
    if ((in_file ? kept->in_files : kept->all) >= store->keep_versions)
        return false;
    kept->all++;
    kept->in_files += in_file;
    return true;
}

static bool is_named(struct td_store *store, const char *version)
{
    pthread_rwlock_rdlock(&store->lock);
    const bool named = td_alias_names_locked(store, version);
    pthread_rwlock_unlock(&store->lock);
    return named;
}

/* Versions to consider, which are the versions whose names start with the prefix. */
struct scope {
    const char *prefix;
    const struct td_writer *caller;
    /* Versions with higher numbers are kept, because a scan has just found their files. */
    uint64_t last;
};

static void remove_surplus(struct td_store *store, const struct td_version *version,
                           const struct scope *scope)
{
    if (store->inspector)
        store->inspector->skipped(
            store->inspector->context, version->file, version->name,
            "the server would remove its file at startup, because --keep-versions keeps only newer "
            "versions and no alias names this version");
    else if (version->number > scope->last)
        td_log(store->log, TD_LOG_WARN, "version_not_removed", TD_TEXT("tensor", version->name),
               TD_TEXT("reason", "its file was put into the folder; --keep-versions removes it at "
                                 "the next change or SIGHUP unless an alias names it"));
    else
        remove_version(store, version, scope->caller);
}

/* Removes the surplus versions among `versions`, which all belong to one table. */
static void retain_newest(struct td_store *store, struct td_version **versions, int count,
                          const struct scope *scope)
{
    struct kept kept = { 0 };
    qsort(versions, (size_t)count, sizeof *versions, newest_first);
    for (int i = 0; i < count; i++)
        if (td_version_check(versions[i], TD_IGNORED) == TD_OK &&
            !keep(store, &kept, versions[i]->file[0]) && is_ours(store, versions[i]) &&
            !is_named(store, versions[i]->name))
            remove_surplus(store, versions[i], scope);
}

/* Returns how many versions at the start of the sorted array belong to the table of the first
 * version. Returns 1 if the first name has no VERSION. */
static int count_versions(struct td_version *const *versions, int count)
{
    const char *name = versions[0]->name;
    const size_t prefix = td_table_base(name) + 1; /* including the '@' */
    int n = 1;
    while (td_table_version(name) && n < count && strncmp(versions[n]->name, name, prefix) == 0)
        n++;
    return n;
}

/* True if versions can be removed now. Unknown aliases prevent removal, because they might name any
 * version. */
static bool removes_versions(struct td_store *store)
{
    return store->keep_versions > 0 && !td_store_must_stop(store) &&
           td_store_check_aliases(store, TD_IGNORED) == TD_OK &&
           td_alias_check_file(store, TD_IGNORED) == TD_OK;
}

static void retain(struct td_store *store, const struct scope *scope)
{
    int count;
    if (!removes_versions(store))
        return;
    struct td_version **versions = td_store_all_current(
        store, &(struct td_name_range){ .prefix = scope->prefix, .after = "" }, &count);
    if (!versions)
        /* If no memory is available, the next call removes the versions. */
        return;
    for (int i = 0, n; i < count; i += n) {
        n = count_versions(versions + i, count - i);
        if (n > store->keep_versions)
            retain_newest(store, versions + i, n, scope);
    }
    for (int i = 0; i < count; i++)
        td_buffer_unref(&versions[i]->base);
    free(versions);
}

/* Sets `prefix` to the common prefix of all versions of this version's table. */
static void set_prefix(const char *version, char prefix[TD_TENSOR_NAME])
{
    snprintf(prefix, TD_TENSOR_NAME, "%.*s@", (int)td_table_base(version), version);
}

void td_store_retain(struct td_store *store, uint64_t last)
{
    retain(store, &(struct scope){ .prefix = "", .last = last });
}

void td_store_retain_beside(struct td_store *store, const char *name,
                            const struct td_writer *caller)
{
    char prefix[TD_TENSOR_NAME];
    if (!td_table_version(name))
        return;
    set_prefix(name, prefix);
    retain(store, &(struct scope){ .prefix = prefix, .caller = caller, .last = UINT64_MAX });
}

td_status td_store_check_retained(struct td_store *store, const char *name, bool in_file,
                                  struct td_error *err)
{
    char prefix[TD_TENSOR_NAME];
    struct kept kept = { 0 };
    int count;
    if (!td_table_version(name) || !removes_versions(store) || is_named(store, name))
        return TD_OK;
    set_prefix(name, prefix);
    struct td_version **versions = td_store_all_current(
        store, &(struct td_name_range){ .prefix = prefix, .after = "" }, &count);
    if (!versions)
        return TD_OK;
    qsort(versions, (size_t)count, sizeof *versions, newest_first);
    for (int i = 0; i < count; i++)
        if (td_version_name_order(td_table_version(versions[i]->name), td_table_version(name)) >
                0 &&
            td_version_check(versions[i], TD_IGNORED) == TD_OK)
            keep(store, &kept, versions[i]->file[0]);
    const td_status status =
        keep(store, &kept, in_file)
            ? TD_OK
            : td_error_set(err, TD_CONFLICT,
                           "%s would be removed at once, because --keep-versions keeps %" PRId64
                           " versions and all of these are newer; use a version that sorts after "
                           "%s (numbers are compared by value), or start the daemon with a "
                           "larger --keep-versions",
                           TD_NAMED(name), store->keep_versions, TD_NAMED(versions[0]->name));
    for (int i = 0; i < count; i++)
        td_buffer_unref(&versions[i]->base);
    free(versions);
    return status;
}
