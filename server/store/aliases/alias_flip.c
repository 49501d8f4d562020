#include "server/store/aliases/alias_flip.h"

#include "server/store/aliases/alias_change.h"
#include "server/store/aliases/alias_file.h"
#include "server/store/changes/retention.h"
#include "server/store/entries.h"
#include "server/store/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- flips ----------------------------------------------------------------------------------- */

static td_status at_set(td_status status, struct td_error *err)
{
    return td_error_at_attribute(err, status, "set");
}

/* Checks the number of edits and conditions. A flip can remove all aliases and set the maximum
 * number of new aliases, but no more. Each edit takes 323 bytes, which do not count against any
 * memory limit, and all edits are checked under the lock. */
static td_status check_size(const struct td_alias_flip *flip, struct td_error *err)
{
    enum { MOST = 2 * TD_STORE_TENSORS };
    if (flip->n_set > MOST)
        return at_set(td_error_resource(err, "aliases", (uint64_t)flip->n_set, MOST, "the flip"),
                      err);
    if (flip->n_wanted > MOST)
        return td_error_at_attribute(
            err, td_error_resource(err, "aliases", (uint64_t)flip->n_wanted, MOST, "the flip"),
            "if");
    return TD_OK;
}

static td_status make_edits(const struct td_alias_flip *flip, struct td_alias_list *edits,
                            struct td_error *err)
{
    td_status status = check_size(flip, err);
    if (status == TD_OK)
        status = td_alias_make_room(edits, flip->n_set, err);
    for (int i = 0; i < flip->n_set && status == TD_OK; i++) {
        const struct td_alias_change *set = &flip->set[i];
        status = td_alias_check(set->name, NULL, err);
        if (status == TD_OK && set->target)
            status = td_name_check(set->target, err);
        if (status == TD_OK && set->target)
            status = td_alias_check_kind(set->name, set->target, err);
        if (status != TD_OK)
            return at_set(status, err);
        td_alias_edit(edits, set->name, set->target);
    }
    if (status == TD_OK)
        td_alias_sort(edits);
    return status;
}

/* Makes the flip. The caller holds the lock on the aliases. */
static td_status flip_entered(struct td_store *store, const struct td_alias_flip *flip,
                              struct td_error *err)
{
    struct td_alias_list edits = { 0 };
    /* If this process is not allowed to write the file, the write returns the reason. */
    td_status status = td_alias_may_write(store) ? td_alias_check_file(store, err) : TD_OK;
    if (status == TD_OK)
        status = make_edits(flip, &edits, err);
    if (status == TD_OK) {
        td_alias_claim(store, &edits);
        status = td_alias_check_flip(store, flip, &edits, NULL, err);
    }
    if (status == TD_OK)
        status = td_alias_apply(store, &edits, td_store_persists_aliases(store), NULL, err);
    td_alias_claim(store, NULL);
    for (int i = 0; i < edits.count && status == TD_OK; i++)
        td_alias_check_target(store, &edits.aliases[i]);
    free(edits.aliases);
    return status;
}

bool td_store_plan_flip(const struct td_store *store, struct td_writer *writer)
{
    *writer = (struct td_writer){ .aliases = true };
    return td_store_persists_aliases(store);
}

td_status td_store_flip(struct td_store *store, const struct td_alias_flip *flip,
                        struct td_error *err)
{
    struct td_writer writer;
    if (flip->persist && !td_store_persists_aliases(store))
        return td_store_no_folder(err);
    if (!flip->writer)
        td_alias_enter(store, &writer);
    const td_status status = flip_entered(store, flip, err);
    if (!flip->writer)
        td_writer_leave(store, &writer);
    if (status == TD_OK)
        td_store_retain(store, UINT64_MAX);
    return status;
}

/* ---- DELETE of an alias ---------------------------------------------------------------------- */

/* Deletes the alias. The caller holds the lock on the aliases. */
static td_status delete_entered(struct td_store *store, const struct td_store_write *write,
                                bool *persisted, struct td_error *err)
{
    const struct td_store_name name = { write->name, strlen(write->name) };
    const struct td_alias_change set = { .name = write->name };
    struct td_version *version;
    char target[TD_TENSOR_NAME];
    *persisted = td_store_persists_aliases(store);
    if (!td_alias_target(store, name.text, name.length, target))
        return td_store_not_found(store, name.text, name.length, NULL, err);
    td_store_resolve_names(store, &name, 1, &version);
    td_status status = td_alias_check_condition(write, target, err);
    if (status == TD_OK)
        status =
            td_condition_check(&write->condition, name.text, version ? version->etag : NULL, err);
    if (status == TD_PRECONDITION_FAILED)
        td_error_etag_of(err, target);
    td_buffer_unref(version ? &version->base : NULL);
    const struct td_alias_flip flip = { .set = &set, .n_set = 1 };
    return status == TD_OK ? flip_entered(store, &flip, err) : status;
}

td_status td_alias_delete(struct td_store *store, const struct td_store_write *write,
                          bool *persisted, struct td_error *err)
{
    struct td_writer writer;
    if (write->writer && !write->writer->aliases)
        return td_error_set(
            err, TD_CONFLICT,
            "'%s' was a %s when the request arrived, but is now an alias; to delete the "
            "alias, repeat the request",
            write->name, td_named_kind(write->name));
    if (!write->writer)
        td_alias_enter(store, &writer);
    const td_status status = delete_entered(store, write, persisted, err);
    if (!write->writer)
        td_writer_leave(store, &writer);
    if (status == TD_OK)
        td_store_retain(store, UINT64_MAX);
    return status;
}

void td_alias_check_targets(struct td_store *store)
{
    struct td_writer writer;
    td_alias_enter(store, &writer);
    for (int i = 0; i < store->aliases.count; i++)
        if (td_alias_is_served(&store->aliases.aliases[i]))
            td_alias_check_target(store, &store->aliases.aliases[i]);
    td_writer_leave(store, &writer);
}

/* ---- the list -------------------------------------------------------------------------------- */

static const char *copy_name(const char *name, struct td_arena *arena, td_status *status,
                             struct td_error *err)
{
    const char *copy = *status == TD_OK ? td_arena_text(arena, name, strlen(name), err) : NULL;
    *status = copy ? TD_OK : TD_MEMORY_EXHAUSTED;
    return copy;
}

td_status td_store_list_aliases(struct td_store *store, struct td_arena *arena,
                                struct td_alias_change **list, int *count, struct td_error *err)
{
    td_status status = TD_OK;
    pthread_rwlock_rdlock(&store->lock);
    const struct td_alias_list *all = &store->aliases;
    *count = 0;
    *list = td_arena_alloc(arena, (size_t)all->count, sizeof **list, err);
    if (!*list)
        status = TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < all->count && status == TD_OK; i++) {
        const struct td_alias *alias = &all->aliases[i];
        if (td_alias_is_served(alias))
            (*list)[(*count)++] =
                (struct td_alias_change){ .name = copy_name(alias->name, arena, &status, err),
                                          .target = copy_name(alias->target, arena, &status, err) };
    }
    pthread_rwlock_unlock(&store->lock);
    return status;
}

int td_store_count_aliases(struct td_store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    const int count = store->aliases.count;
    pthread_rwlock_unlock(&store->lock);
    return count;
}

void td_alias_free(struct td_store *store)
{
    free(store->aliases.aliases);
    free(store->taken);
}
