#include "server/store/aliases/alias_list.h"
#include "server/store/aliases/aliases.h"
#include "server/store/entries.h"
#include "server/store/lookup_errors.h"
#include "server/store/state.h"
#include "server/store/table_name.h"

#include <stdlib.h>
#include <string.h>

/* Tensor that a name refers to or, if the name has the suffix ".keys", the keys of the tensor. */
struct wanted {
    const char *name;
    size_t length;
    bool keys;
    char table[TD_TENSOR_NAME];
};

static void parse_name(struct wanted *wanted, const char *name, size_t length)
{
    wanted->keys = td_table_of_keys(name, length, wanted->table, &wanted->length);
    wanted->name = wanted->keys ? wanted->table : name;
    if (!wanted->keys)
        wanted->length = length;
}

static td_status pick(const struct wanted *wanted, const struct td_version *version,
                      const struct td_tensor **out, struct td_error *err)
{
    *out = wanted->keys ? &version->key_vector : &version->tensor;
    return wanted->keys && !version->keys ? td_store_no_keys(version->name, err) : TD_OK;
}

td_status td_store_get(struct td_store *store, const char *name, size_t length,
                       struct td_arena *arena, struct td_tensor_listing *out, struct td_error *err)
{
    struct td_version *version;
    struct wanted wanted;
    const struct td_tensor *tensor;
    parse_name(&wanted, name, length);
    td_status status = td_store_need(store, wanted.name, wanted.length, &version, err);
    if (status == TD_OK)
        status = td_version_keep(version, arena, err);
    if (status == TD_OK)
        status = pick(&wanted, version, &tensor, err);
    if (status != TD_OK)
        return status;
    *out = td_version_listing(version);
    if (!wanted.keys)
        return TD_OK;
    out->tensor = tensor;
    out->keys = NULL;
    out->source = version->keys->mapped > 0 ? out->source : NULL;
    char shown[TD_KEYS_NAME];
    td_table_keys_name(version->name, shown);
    out->name = td_arena_text(arena, shown, strlen(shown), err);
    return out->name ? TD_OK : TD_MEMORY_EXHAUSTED;
}

bool td_store_alias_target(struct td_store *store, const char *name, size_t length,
                           char target[TD_TENSOR_NAME])
{
    struct wanted wanted;
    parse_name(&wanted, name, length);
    return td_alias_target(store, wanted.name, wanted.length, target);
}

td_status td_store_check(const struct td_tensor_listing *listing, struct td_error *err)
{
    const struct td_tensor *tensor = listing->tensor;
    const struct td_version *version = td_version_of(tensor);
    if (!version)
        return TD_OK;
    /* When the kernel sends mapped pages, this process sees no fault, so the check compares the
     * size of the file. */
    return td_version_check(version, err);
}

bool td_store_is_replaced(struct td_buffer *owner)
{
    const struct td_version *version = td_version_of(&(struct td_tensor){ .owner = owner });
    return version && atomic_load(&version->replaced);
}

bool td_store_is_cut(struct td_buffer *owner)
{
    const struct td_version *version = td_version_of(&(struct td_tensor){ .owner = owner });
    return version && td_version_is_cut(version);
}

bool td_store_is_mapped(const struct td_tensor *tensor)
{
    const struct td_version *version = td_version_of(tensor);
    return version && td_version_part(version, tensor).mapped > 0;
}

atomic_int *td_store_place_of(const struct td_tensor *tensor, const char **name)
{
    /* Readers share the version and change only this member. */
    struct td_version *version = (struct td_version *)(uintptr_t)td_version_of(tensor);
    *name = version ? version->name : NULL;
    return version ? &version->place : NULL;
}

bool td_store_identity(const struct td_tensor *tensor, const char **name, uint64_t *number)
{
    const struct td_version *version = td_version_of(tensor);
    *name = version ? version->name : NULL;
    *number = version ? version->number : 0;
    return version != NULL;
}

td_status td_store_resolve(struct td_resolver *resolver, const char *name, size_t length,
                           struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    struct td_version *version;
    struct wanted wanted;
    const struct td_tensor *tensor;
    parse_name(&wanted, name, length);
    td_status status = td_store_need((struct td_store *)(void *)resolver, wanted.name,
                                     wanted.length, &version, err);
    if (status == TD_OK)
        status = td_version_keep(version, arena, err);
    if (status == TD_OK)
        status = pick(&wanted, version, &tensor, err);
    if (status == TD_OK)
        *out = *tensor;
    return status;
}

td_status td_store_resolve_all(struct td_store *store, const struct td_store_name *names, int count,
                               struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    struct td_version **versions = td_arena_alloc(arena, (size_t)count, sizeof(void *), err);
    struct wanted *wanted = td_arena_alloc(arena, (size_t)count, sizeof *wanted, err);
    struct td_store_name *tables = td_arena_alloc(arena, (size_t)count, sizeof *tables, err);
    if (!versions || !wanted || !tables)
        return err->status;
    for (int i = 0; i < count; i++) {
        parse_name(&wanted[i], names[i].text, names[i].length);
        tables[i] = (struct td_store_name){ wanted[i].name, wanted[i].length };
    }
    td_store_resolve_names(store, tables, count, versions);
    td_status status = TD_OK;
    for (int i = 0; i < count; i++) {
        const struct td_tensor *tensor = NULL;
        if (status == TD_OK)
            status =
                td_store_check_found(store, tables[i].text, tables[i].length, versions[i], err);
        if (status == TD_OK) {
            status = td_version_keep(versions[i], arena, err);
            if (status == TD_OK)
                status = pick(&wanted[i], versions[i], &tensor, err);
            if (status == TD_OK)
                out[i] = *tensor;
        } else if (versions[i]) {
            td_buffer_unref(&versions[i]->base);
        }
    }
    return status;
}

struct td_resolver *td_store_resolver(struct td_store *store)
{
    return &store->resolver;
}

td_status td_store_list(struct td_store *store, struct td_arena *arena,
                        struct td_tensor_listing **list, int *count, struct td_error *err)
{
    const struct td_name_range all = { .prefix = "", .after = "" };
    return td_store_list_range(store, &all, arena, list, count, err);
}

td_status td_store_list_range(struct td_store *store, const struct td_name_range *range,
                              struct td_arena *arena, struct td_tensor_listing **list, int *count,
                              struct td_error *err)
{
    struct td_version **versions = td_store_all_current(store, range, count);
    if (!versions)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the list of tensors");
    *list = td_arena_alloc(arena, (size_t)*count, sizeof **list, err);
    td_status status = *list ? TD_OK : TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < *count; i++) {
        if (status == TD_OK)
            (*list)[i] = td_version_listing(versions[i]);
        if (status == TD_OK)
            status = td_version_keep(versions[i], arena, err);
        else
            td_buffer_unref(&versions[i]->base);
    }
    free(versions);
    return status;
}
