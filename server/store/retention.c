#include "server/store/retention.h"

#include "server/store/entries.h"
#include "server/store/state.h"
#include "server/store/verify.h"
#include "server/store/writers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether it may be removed; its files are looked at again when it is. */
static bool is_ours(const struct td_store *store, const struct td_version *version)
{
    char own[TD_FILE_NAME];
    snprintf(own, sizeof own, "%s.tensord", version->name);
    return !version->file[0] || (strcmp(version->file, own) == 0 && !store->read_only &&
                                 td_data_dir_is_locked(store->dir));
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
        return; /* the version is being deleted, or gets keys; the next change looks at it again */
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
    return td_table_version_order(td_table_version(other->name), td_table_version(one->name));
}

/* `versions` are those of one table. One in a file gives way only to others in files: those in
 * memory are gone after a restart. */
static void retain_newest(struct td_store *store, struct td_version **versions, int count,
                          const struct td_writer *caller)
{
    int64_t kept = 0, kept_in_files = 0;
    qsort(versions, (size_t)count, sizeof *versions, newest_first);
    for (int i = 0; i < count; i++) {
        const bool in_file = versions[i]->file[0];
        if (td_version_check(versions[i], NULL) != TD_OK)
            continue;
        if ((in_file ? kept_in_files : kept) < store->keep_versions) {
            kept++;
            kept_in_files += in_file;
        } else if (is_ours(store, versions[i])) {
            remove_version(store, versions[i], caller);
        }
    }
}

/* How many of the versions, sorted by name, are of the table of the first one; 1 if it has no
 * VERSION. */
static int count_versions(struct td_version *const *versions, int count)
{
    const char *name = versions[0]->name;
    const size_t prefix = td_table_base(name) + 1; /* with its '@' */
    int n = 1;
    while (td_table_version(name) && n < count && strncmp(versions[n]->name, name, prefix) == 0)
        n++;
    return n;
}

/* Looks at the versions whose names begin with the prefix. */
static void retain(struct td_store *store, const char *prefix, const struct td_writer *caller)
{
    int count;
    if (store->keep_versions == 0 || store->inspector || td_store_must_stop(store) ||
        /* Aliases that are not known may name versions. */
        td_store_check_aliases(store, NULL) != TD_OK || td_alias_check_file(store, NULL) != TD_OK)
        return;
    struct td_version **versions = td_store_all_current(
        store, &(struct td_name_range){ .prefix = prefix, .after = "" }, &count);
    if (!versions)
        return; /* without memory: the next time */
    for (int i = 0, n; i < count; i += n) {
        n = count_versions(versions + i, count - i);
        if (n > store->keep_versions)
            retain_newest(store, versions + i, n, caller);
    }
    for (int i = 0; i < count; i++)
        td_buffer_unref(&versions[i]->base);
    free(versions);
}

void td_store_retain(struct td_store *store)
{
    retain(store, "", NULL);
}

void td_store_retain_beside(struct td_store *store, const char *name,
                            const struct td_writer *caller)
{
    char prefix[TD_TENSOR_NAME];
    if (!td_table_version(name))
        return;
    snprintf(prefix, sizeof prefix, "%.*s@", (int)td_table_base(name), name);
    retain(store, prefix, caller);
}
