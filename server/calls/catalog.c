#include "server/calls/catalog.h"

#include "kernels/name.h"
#include "kernels/shown_text.h"
#include "server/store/aliases/aliases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table to which a name refers: X if the name is "X.keys". */
struct meant {
    const char *name;
    size_t length;
    char table[TD_TENSOR_NAME];
};

static void parse_name(const char *name, size_t length, struct meant *out)
{
    const bool keys = td_table_of_keys(name, length, out->table, &out->length);
    out->name = keys ? out->table : name;
    if (!keys)
        out->length = length;
}

/* Checks that the request is allowed to use the name. For keys, the request must also be allowed to
 * use their table. Otherwise, access to the name of the keys would reveal whether the table has
 * keys. */
static td_status need(const struct td_catalog *catalog, const char *name, size_t length,
                      struct td_error *err)
{
    struct meant meant;
    char program[TD_TENSOR_NAME];
    if (td_table_of_program(name, length, program, &length))
        return td_access_need_table(&catalog->access, program, length, err);
    parse_name(name, length, &meant);
    const td_status status = td_access_need_table(&catalog->access, name, length, err);
    return status != TD_OK ? status
                           : td_access_need_table(&catalog->access, meant.name, meant.length, err);
}

/* Like need, and also refuses the name of a program. */
static td_status need_tensor(const struct td_catalog *catalog, const char *name, size_t length,
                             struct td_error *err)
{
    struct meant meant;
    char program[TD_TENSOR_NAME];
    size_t program_length;
    const td_status status = need(catalog, name, length, err);
    parse_name(name, length, &meant);
    if (status != TD_OK || !td_table_of_program(meant.name, meant.length, program, &program_length))
        return status;
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "'%s' is the name of the program '%s', not of a tensor; use "
                        "/v1/programs/%s",
                        TD_SHOWN(meant.name, meant.length), program, program);
}

static bool has_table(const struct td_catalog *catalog, const char *name)
{
    return td_store_allows(&catalog->access, name, strlen(name));
}

/* Hides other names in the error for an unknown name. The error then suggests only names that the
 * request is allowed to use, as if no other names existed. If the table exists, the error already
 * says that it has no keys. */
static td_status hide(const struct td_catalog *catalog, const char *name, size_t length,
                      td_status status, struct td_error *err)
{
    struct meant meant;
    char table[TD_TENSOR_NAME];
    if (status != TD_TENSOR_NOT_FOUND || catalog->access.n_prefixes == 0)
        return status;
    parse_name(name, length, &meant);
    snprintf(table, sizeof table, "%.*s", (int)meant.length, meant.name);
    if (td_store_knows(catalog->store, table) &&
        (!err->did_you_mean[0] || has_table(catalog, err->did_you_mean)))
        return status;
    return td_store_not_found(catalog->store, meant.name, meant.length, &catalog->access, err);
}

static td_status forbid_target(const struct td_catalog *catalog, const char *name, size_t length,
                               struct td_error *err)
{
    return td_access_forbid(&catalog->access, err,
                            "the token does not allow the version that '%s' names",
                            TD_SHOWN(name, length));
}

/* Returns the error for a tensor that could not be read. For an alias, the store's error reveals
 * the name of the version, its file and whether it has keys. If the request is not allowed to name
 * the version, returns FORBIDDEN instead. */
static td_status refuse(const struct td_catalog *catalog, const char *name, size_t length,
                        td_status status, struct td_error *err)
{
    char target[TD_TENSOR_NAME];
    if (catalog->access.n_prefixes > 0 &&
        td_store_alias_target(catalog->store, name, length, target) && !has_table(catalog, target))
        return forbid_target(catalog, name, length, err);
    return hide(catalog, name, length, status, err);
}

/* Checks that the request is allowed to know that the tensor exists. If `name` is an alias, the
 * tensor's own name differs from it. */
static td_status check_target(const struct td_catalog *catalog, const char *name, size_t length,
                              const struct td_tensor *tensor, struct td_error *err)
{
    const char *target;
    (void)td_store_place_of(tensor, &target);
    if (!target || has_table(catalog, target))
        return TD_OK;
    return forbid_target(catalog, name, length, err);
}

/* ---- consistent lookups ---------------------------------------------------------------------- */

/* A tensor to which the request refers. */
struct td_found_table {
    struct td_found_table *next;
    struct td_store_name name;
    const struct td_buffer *owner; /* version of the tensor, kept alive by the call's arena */
    /* The tensor that was current at the same time as the other tensors, or NULL before
     * td_catalog_agree. */
    const struct td_tensor *agreed;
};

/* Records a found tensor for td_catalog_agree. */
static td_status note(struct td_catalog *catalog, struct td_store_name name,
                      const struct td_tensor *tensor, struct td_arena *arena, struct td_error *err)
{
    struct td_found_table *found = td_arena_alloc(arena, 1, sizeof *found, err);
    if (!found)
        return TD_MEMORY_EXHAUSTED;
    *found = (struct td_found_table){ .name = name, .owner = tensor->owner };
    *catalog->last = found;
    catalog->last = &found->next;
    catalog->n_found++;
    return TD_OK;
}

static td_status look_up(struct td_catalog *catalog, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    if (!catalog->agreed && catalog->n_found == 0)
        catalog->changes = td_store_changes(catalog->store);
    catalog->looked_up = true;
    const td_status status =
        td_resolve(td_store_resolver(catalog->store), name, length, arena, out, err);
    return status != TD_OK ? refuse(catalog, name, length, status, err)
                           : note(catalog, (struct td_store_name){ name, length }, out, arena, err);
}

/* Returns the tensor of this name that the request has agreed on, or NULL: the new version of a
 * replaced program can name tables that are not among the agreed ones. */
static const struct td_tensor *agreed_of(const struct td_catalog *catalog, const char *name,
                                         size_t length)
{
    for (const struct td_found_table *found = catalog->agreed; found; found = found->next)
        if (found->name.length == length && memcmp(found->name.text, name, length) == 0)
            return found->agreed;
    return NULL;
}

/* Finds a tensor that the request is allowed to name. The name must live as long as the arena. */
static td_status find(struct td_catalog *catalog, const char *name, size_t length,
                      struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    const struct td_tensor *agreed = agreed_of(catalog, name, length);
    td_status status;
    if (agreed) {
        *out = *agreed;
        status = note(catalog, (struct td_store_name){ name, length }, out, arena, err);
    } else {
        status = look_up(catalog, name, length, arena, out, err);
    }
    return status == TD_OK ? check_target(catalog, name, length, out, err) : status;
}

static td_status resolve(struct td_resolver *resolver, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    struct td_catalog *catalog = (struct td_catalog *)(void *)resolver;
    const td_status status = need_tensor(catalog, name, length, err);
    return status == TD_OK ? find(catalog, name, length, arena, out, err) : status;
}

bool td_catalog_name_of(const struct td_catalog *catalog, const struct td_tensor *tensor,
                        char name[TD_KEYS_NAME])
{
    for (const struct td_found_table *found = catalog->first; found; found = found->next)
        if (found->owner == tensor->owner) {
            snprintf(name, TD_KEYS_NAME, "%.*s", (int)found->name.length, found->name.text);
            return true;
        }
    return false;
}

void td_catalog_init(struct td_catalog *catalog, struct td_store *store)
{
    *catalog =
        (struct td_catalog){ .resolver.resolve = resolve, .store = store, .last = &catalog->first };
}

/* Looks up all recorded names at one moment. */
static td_status find_together(struct td_catalog *catalog, struct td_arena *arena,
                               struct td_error *err)
{
    const size_t count = (size_t)catalog->n_found;
    catalog->changes = td_store_changes(catalog->store);
    struct td_store_name *names = td_arena_alloc(arena, count, sizeof *names, err);
    struct td_tensor *tensors = names ? td_arena_alloc(arena, count, sizeof *tensors, err) : NULL;
    if (!tensors)
        return err->status;
    struct td_store_name *name = names;
    for (const struct td_found_table *found = catalog->first; found; found = found->next)
        *name++ = found->name;
    memset(tensors, 0, count * sizeof *tensors);
    const td_status status =
        td_store_resolve_all(catalog->store, names, catalog->n_found, arena, tensors, err);
    for (struct td_found_table *found = catalog->first; found; found = found->next)
        found->agreed = tensors++;
    const struct td_found_table *gone = catalog->first;
    while (status != TD_OK && gone && gone->agreed->owner)
        gone = gone->next;
    return status == TD_OK || !gone
               ? status
               : refuse(catalog, gone->name.text, gone->name.length, status, err);
}

td_status td_catalog_agree(struct td_catalog *catalog, struct td_arena *arena, bool *again,
                           struct td_error *err)
{
    *again = false;
    if (catalog->n_found < 2 || !catalog->looked_up ||
        td_store_changes(catalog->store) == catalog->changes)
        return TD_OK;
    const td_status status = find_together(catalog, arena, err);
    if (status != TD_OK)
        return status;
    for (const struct td_found_table *found = catalog->first; found; found = found->next)
        *again |= found->agreed->owner != found->owner;
    if (!*again)
        return TD_OK;
    catalog->agreed = catalog->first;
    catalog->first = NULL;
    catalog->last = &catalog->first;
    catalog->n_found = 0;
    catalog->looked_up = false;
    return TD_OK;
}

/* ---- single names ---------------------------------------------------------------------------- */

td_status td_catalog_may_name(const struct td_catalog *catalog, const char *name,
                              struct td_error *err)
{
    return need_tensor(catalog, name, strlen(name), err);
}

td_status td_catalog_may_write(const struct td_catalog *catalog, const char *name,
                               struct td_error *err)
{
    const td_status status = td_access_need_role(&catalog->access, TD_ACCESS_WRITE, err);
    return status != TD_OK ? status : td_catalog_may_name(catalog, name, err);
}

td_status td_catalog_may_name_alias(const struct td_catalog *catalog, const char *name,
                                    struct td_error *err)
{
    return need(catalog, name, strlen(name), err);
}

td_status td_catalog_may_write_alias(const struct td_catalog *catalog, const char *name,
                                     struct td_error *err)
{
    const td_status status = td_access_need_role(&catalog->access, TD_ACCESS_WRITE, err);
    return status != TD_OK ? status : td_catalog_may_name_alias(catalog, name, err);
}

/* Gets a tensor that the request is allowed to name. */
static td_status get(const struct td_catalog *catalog, const char *name, struct td_arena *arena,
                     struct td_tensor_listing *out, struct td_error *err)
{
    const size_t length = strlen(name);
    const td_status status = td_store_get(catalog->store, name, length, arena, out, err);
    return status == TD_OK ? check_target(catalog, name, length, out->tensor, err)
                           : refuse(catalog, name, length, status, err);
}

td_status td_catalog_get(const struct td_catalog *catalog, const char *name, struct td_arena *arena,
                         struct td_tensor_listing *out, struct td_error *err)
{
    const td_status status = td_catalog_may_name(catalog, name, err);
    return status == TD_OK ? get(catalog, name, arena, out, err) : status;
}

bool td_catalog_know(const struct td_catalog *catalog, const char *name)
{
    return td_store_knows(catalog->store, name);
}

bool td_catalog_has_table(const struct td_catalog *catalog, const char *name)
{
    return !td_is_program_name(name, strlen(name)) &&
           td_store_has_table(catalog->store, name, &catalog->access);
}

/* A part that is deleted between the two lookups counts as nonexistent. */
td_status td_catalog_find_part(const struct td_catalog *catalog, const char *table,
                               const char *part, struct td_arena *arena, char name[TD_TENSOR_NAME],
                               const struct td_tensor **found, struct td_error *err)
{
    struct td_tensor_listing listing;
    struct td_error why;
    *found = NULL;
    if (!td_table_part_name(table, part, name))
        return TD_OK;
    td_status status = td_catalog_may_name(catalog, name, err);
    if (status != TD_OK || !td_store_knows(catalog->store, name))
        return status;
    status = td_catalog_get(catalog, name, arena, &listing, &why);
    *found = status == TD_OK ? listing.tensor : NULL;
    if (status == TD_OK || status == TD_TENSOR_NOT_FOUND)
        return TD_OK;
    *err = why;
    return status;
}

/* Asks for one tensor more than the limit, to find out whether more exist. If the token is limited
 * to prefixes, asks for the whole range, because the number of allowed names is not known
 * beforehand. */
td_status td_catalog_list(const struct td_catalog *catalog, const struct td_name_range *range,
                          struct td_arena *arena, struct td_tensor_listing **list, int *count,
                          bool *more, struct td_error *err)
{
    const int limit = range->limit;
    struct td_name_range asked = *range;
    int n;
    asked.kind = TD_NAMES_TENSORS;
    asked.limit = limit && catalog->access.n_prefixes == 0 ? limit + 1 : 0;
    const td_status status = td_store_list_range(catalog->store, &asked, arena, list, &n, err);
    *count = 0;
    *more = false;
    for (int i = 0; status == TD_OK && i < n && !*more; i++)
        if (has_table(catalog, (*list)[i].name)) {
            *more = limit && *count == limit;
            if (!*more)
                (*list)[(*count)++] = (*list)[i];
        }
    return status;
}

td_status td_catalog_list_versions(const struct td_catalog *catalog, const char *name,
                                   bool of_program, struct td_arena *arena,
                                   struct td_tensor_listing **list, int *count,
                                   struct td_error *err)
{
    char prefix[TD_TENSOR_NAME + 1];
    bool more;
    snprintf(prefix, sizeof prefix, "%.*s@", TD_TENSOR_NAME - 1, name);
    const struct td_name_range versions = { .prefix = prefix, .after = "" };
    return (of_program ? td_catalog_list_programs : td_catalog_list)(catalog, &versions, arena,
                                                                     list, count, &more, err);
}

td_status td_catalog_newest(const struct td_catalog *catalog, const char *table,
                            struct td_arena *arena, struct td_tensor_listing *out,
                            struct td_error *err)
{
    struct td_tensor_listing *list;
    int count, newest = 0;
    const td_status status =
        td_catalog_list_versions(catalog, table, false, arena, &list, &count, err);
    if (status != TD_OK)
        return status;
    if (count == 0)
        return td_store_not_found(catalog->store, table, strlen(table), &catalog->access, err);
    for (int i = 1; i < count; i++)
        if (td_version_name_order(td_table_version(list[i].name),
                                  td_table_version(list[newest].name)) > 0)
            newest = i;
    *out = list[newest];
    return TD_OK;
}

/* ---- programs -------------------------------------------------------------------------------- */

td_status td_catalog_may_name_program(const struct td_catalog *catalog, const char *program,
                                      struct td_error *err)
{
    return td_access_need_table(&catalog->access, program, strlen(program), err);
}

td_status td_catalog_may_write_program(const struct td_catalog *catalog, const char *program,
                                       struct td_error *err)
{
    const td_status status = td_access_need_role(&catalog->access, TD_ACCESS_WRITE, err);
    return status != TD_OK ? status : td_catalog_may_name_program(catalog, program, err);
}

/* Checks that the request is allowed to name the program, and writes the name of its tensor. No
 * program has a name that is too long. */
static td_status name_program(const struct td_catalog *catalog, const char *program,
                              char name[TD_TENSOR_NAME], struct td_error *err)
{
    const td_status status = td_catalog_may_name_program(catalog, program, err);
    if (status != TD_OK || td_program_name(program, name))
        return status;
    return td_error_set(err, TD_TENSOR_NOT_FOUND, "there is no program '%s'",
                        TD_SHOWN(program, strlen(program)));
}

/* Replaces the name of a program's tensor in a listing with the name of the program. */
static td_status show_program(struct td_tensor_listing *listing, struct td_arena *arena,
                              struct td_error *err)
{
    char program[TD_TENSOR_NAME];
    size_t length = 0;
    (void)td_table_of_program(listing->name, strlen(listing->name), program, &length);
    listing->name = td_arena_text(arena, program, length, err);
    return listing->name ? TD_OK : TD_MEMORY_EXHAUSTED;
}

td_status td_catalog_get_program(const struct td_catalog *catalog, const char *program,
                                 struct td_arena *arena, struct td_tensor_listing *out,
                                 struct td_error *err)
{
    char name[TD_TENSOR_NAME];
    td_status status = name_program(catalog, program, name, err);
    if (status == TD_OK)
        status = get(catalog, name, arena, out, err);
    return status == TD_OK ? show_program(out, arena, err) : status;
}

td_status td_catalog_resolve_program(struct td_catalog *catalog, const char *program,
                                     struct td_arena *arena, struct td_tensor *out,
                                     struct td_error *err)
{
    char name[TD_TENSOR_NAME];
    const td_status status = name_program(catalog, program, name, err);
    const char *kept = status == TD_OK ? td_arena_text(arena, name, strlen(name), err) : NULL;
    if (!kept)
        return err->status;
    return find(catalog, kept, strlen(kept), arena, out, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_tensor_listing *)a)->name,
                  ((const struct td_tensor_listing *)b)->name);
}

static bool is_in(const struct td_name_range *range, const char *name)
{
    return td_name_begins(range->prefix, name, strlen(name)) && strcmp(name, range->after) > 0;
}

static td_status list_programs(const struct td_catalog *catalog, struct td_arena *arena,
                               struct td_tensor_listing **list, int *count, struct td_error *err)
{
    const struct td_name_range all = { .prefix = "", .after = "", .kind = TD_NAMES_PROGRAMS };
    return td_store_list_range(catalog->store, &all, arena, list, count, err);
}

td_status td_catalog_count_programs(const struct td_catalog *catalog, struct td_arena *arena,
                                    int *count, struct td_error *err)
{
    struct td_tensor_listing *list;
    return list_programs(catalog, arena, &list, count, err);
}

/* Lists all programs, because their order differs from the order of their tensors: "a" comes before
 * "a-b", but "a-b.program" before "a.program". */
td_status td_catalog_list_programs(const struct td_catalog *catalog,
                                   const struct td_name_range *range, struct td_arena *arena,
                                   struct td_tensor_listing **list, int *count, bool *more,
                                   struct td_error *err)
{
    int n;
    td_status status = list_programs(catalog, arena, list, &n, err);
    *count = 0;
    *more = false;
    for (int i = 0; status == TD_OK && i < n; i++) {
        struct td_tensor_listing *next = &(*list)[*count];
        *next = (*list)[i];
        status = show_program(next, arena, err);
        *count += status == TD_OK && is_in(range, next->name) &&
                  td_access_has_table(&catalog->access, next->name, strlen(next->name));
    }
    if (status != TD_OK)
        return status;
    qsort(*list, (size_t)*count, sizeof **list, by_name);
    *more = range->limit && *count > range->limit;
    if (*more)
        *count = range->limit;
    return TD_OK;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Checks the name that the tensor had when the ETag was read, because by now an alias might name
 * another version. */
void td_catalog_hide_etag(const struct td_catalog *catalog, struct td_error *err)
{
    if (err->etag[0] && !has_table(catalog, err->etag_of))
        err->etag[0] = '\0';
}

td_status td_catalog_hide(const struct td_catalog *catalog, const char *name, td_status status,
                          struct td_error *err)
{
    return hide(catalog, name, strlen(name), status, err);
}
