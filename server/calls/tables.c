#include "server/calls/tables.h"

#include "kernels/name.h"

#include <string.h>

static td_status hide(const struct td_tables *tables, const char *name, size_t length,
                      td_status status, struct td_error *err)
{
    if (status != TD_TENSOR_NOT_FOUND || !err ||
        td_access_has_table(&tables->access, err->did_you_mean, strlen(err->did_you_mean)))
        return status;
    return td_error_set(err, status, "there is no resident tensor '%s'; GET /v1/tensors lists them",
                        TD_SHOWN(name, length));
}

static td_status resolve(struct td_resolver *resolver, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    const struct td_tables *tables = (const struct td_tables *)(void *)resolver;
    const td_status status = td_access_need_table(&tables->access, name, length, err);
    return status != TD_OK
               ? status
               : hide(tables, name, length,
                      td_resolve(td_store_resolver(tables->store), name, length, arena, out, err),
                      err);
}

void td_tables_init(struct td_tables *tables, struct td_store *store)
{
    *tables = (struct td_tables){ .resolver.resolve = resolve, .store = store };
}

td_status td_tables_may_name(const struct td_tables *tables, const char *name, struct td_error *err)
{
    return td_access_need_table(&tables->access, name, strlen(name), err);
}

td_status td_tables_may_write(const struct td_tables *tables, const char *name,
                              struct td_error *err)
{
    const td_status status = td_access_need_role(&tables->access, TD_ACCESS_WRITE, err);
    return status != TD_OK ? status : td_tables_may_name(tables, name, err);
}

td_status td_tables_get(const struct td_tables *tables, const char *name, struct td_arena *arena,
                        struct td_tensor_listing *out, struct td_error *err)
{
    const td_status status = td_tables_may_name(tables, name, err);
    return status != TD_OK
               ? status
               : td_tables_hide(tables, name,
                                td_store_get(tables->store, name, strlen(name), arena, out, err),
                                err);
}

td_status td_tables_list(const struct td_tables *tables, struct td_arena *arena,
                         struct td_tensor_listing **list, int *count, struct td_error *err)
{
    int all;
    const td_status status = td_store_list(tables->store, arena, list, &all, err);
    *count = 0;
    for (int i = 0; status == TD_OK && i < all; i++)
        if (td_access_has_table(&tables->access, (*list)[i].name, strlen((*list)[i].name)))
            (*list)[(*count)++] = (*list)[i];
    return status;
}

td_status td_tables_hide(const struct td_tables *tables, const char *name, td_status status,
                         struct td_error *err)
{
    return hide(tables, name, strlen(name), status, err);
}
