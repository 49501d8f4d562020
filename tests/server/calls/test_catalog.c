/* The resident tensors that a call finds were current at one moment. */
#include "server/calls/catalog.h"
#include "server/store/aliases/aliases.h"
#include "tests/server/folder.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static struct td_store *store;
static struct td_catalog catalog;
static struct td_error err;

static void put(const char *name, const char *values)
{
    const struct td_store_write write = { .name = name };
    const struct td_tensor t = tensor(values);
    struct td_tensor_listing listing;
    bool created;
    ck_assert_int_eq(td_store_put(store, &write, &t, &test_arena, &listing, &created, &err), TD_OK);
}

static void drop(const char *name)
{
    const struct td_store_write write = { .name = name };
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
}

/* As a decoder asks for a ref. */
static int32_t resolved(const char *name)
{
    struct td_tensor t;
    ck_assert_int_eq(td_resolve(&catalog.resolver, name, strlen(name), &test_arena, &t, &err),
                     TD_OK);
    return value_of(&t, 0);
}

static bool must_decode_again(void)
{
    bool again;
    ck_assert_int_eq(td_catalog_agree(&catalog, &test_arena, &again, &err), TD_OK);
    return again;
}

static void begin(void)
{
    folder_open();
    store = open_at("");
    td_catalog_init(&catalog, store);
    put("a", "int32[1] 1");
    put("b", "int32[1] 1");
}

static void end(void)
{
    td_arena_reset(&test_arena);
    td_store_free(store);
    folder_close();
}

TD_TEST(tensors_that_have_not_changed_were_current_together)
{
    ck_assert_int_eq(resolved("a"), 1);
    ck_assert_int_eq(resolved("b"), 1);
    ck_assert(!must_decode_again());
}

TD_TEST(changes_of_other_names_do_not_matter)
{
    ck_assert_int_eq(resolved("a"), 1);
    put("c", "int32[1] 1");
    ck_assert_int_eq(resolved("b"), 1);
    ck_assert(!must_decode_again());
}

TD_TEST(one_tensor_is_current_with_itself)
{
    ck_assert_int_eq(resolved("a"), 1);
    put("a", "int32[1] 2");
    ck_assert(!must_decode_again());
}

TD_TEST(tensors_of_different_moments_are_found_again_together)
{
    ck_assert_int_eq(resolved("a"), 1);
    put("a", "int32[1] 2"); /* before b: no moment has the old a and the new b */
    put("b", "int32[1] 2");
    ck_assert_int_eq(resolved("b"), 2);
    ck_assert_int_eq(resolved("a"), 2); /* one request may name one twice */
    ck_assert(must_decode_again());
    put("a", "int32[1] 3"); /* later changes are not seen */
    ck_assert_int_eq(resolved("a"), 2);
    ck_assert_int_eq(resolved("b"), 2);
    ck_assert_int_eq(resolved("a"), 2);
    ck_assert(!must_decode_again());
}

TD_TEST(the_name_of_a_tensor_that_is_found_again_is_known)
{
    struct td_tensor a;
    char name[TD_KEYS_NAME];
    ck_assert_int_eq(resolved("a"), 1);
    put("a", "int32[1] 2");
    put("b", "int32[1] 2");
    ck_assert_int_eq(resolved("b"), 2);
    ck_assert(must_decode_again());
    ck_assert_int_eq(td_resolve(&catalog.resolver, "a", 1, &test_arena, &a, &err), TD_OK);
    ck_assert(td_catalog_name_of(&catalog, &a, name));
    ck_assert_str_eq(name, "a");
}

TD_TEST(a_part_of_a_table_is_found_or_not)
{
    char name[TD_TENSOR_NAME];
    const struct td_tensor *found;
    put("a.scale", "float32[1] 1");
    ck_assert_int_eq(td_catalog_find_part(&catalog, "a", "scale", &test_arena, name, &found, &err),
                     TD_OK);
    ck_assert(found && found->shape.rank == 1);
    ck_assert_str_eq(name, "a.scale");
    ck_assert_int_eq(td_catalog_find_part(&catalog, "a", "offset", &test_arena, name, &found, &err),
                     TD_OK);
    ck_assert(!found);
}

static td_status newest(const char *table, const char **name)
{
    struct td_tensor_listing listing = { 0 };
    const td_status status = td_catalog_newest(&catalog, table, &test_arena, &listing, &err);
    *name = listing.name;
    return status;
}

TD_TEST(the_newest_version_is_the_last_in_natural_order_that_may_be_named)
{
    static const struct td_prefix prefixes[] = { { "m@9", 3 } };
    static const char *const names[] = { "m@9", "m@10", "m", "m:w@11", "mm@12" };
    const char *name;
    for (int i = 0; i < COUNT_OF(names); i++)
        put(names[i], "int32[1] 1");
    ck_assert_int_eq(newest("m", &name), TD_OK);
    ck_assert_str_eq(name, "m@10");
    ck_assert_int_eq(newest("n", &name), TD_TENSOR_NOT_FOUND);
    catalog.access = (struct td_access){ .n_prefixes = 1, .prefixes = prefixes };
    ck_assert_int_eq(newest("m", &name), TD_OK);
    ck_assert_str_eq(name, "m@9");
    ck_assert_int_eq(newest("mm", &name), TD_TENSOR_NOT_FOUND);
}

static void set_alias(const char *name, const char *target)
{
    const struct td_alias_change change = { name, target };
    const struct td_alias_flip flip = { .set = &change, .n_set = 1 };
    ck_assert_int_eq(td_store_flip(store, &flip, &err), TD_OK);
}

static const struct {
    const char *description, *name;
    const char *prefix; /* of the token; NULL: it may name every tensor */
    bool is_table;
} tables[] = {
    { "a tensor that has rows", "rows", NULL, true },
    { "versions of a tensor", "versions", NULL, true },
    { "versions, only one of which has rows", "mixed", NULL, true },
    { "an alias", "alias", NULL, true },
    { "a scalar", "scalar", NULL, false },
    { "versions of a scalar", "scalars", NULL, false },
    { "an alias of a scalar", "of-scalar", NULL, false },
    { "no tensor", "none", NULL, false },
    { "a shorter name", "row", NULL, false },
    { "a longer name", "rows.of", NULL, false },
    { "a name that may be named", "rows", "ro", true },
    { "a name that may not", "rows", "rows@", false },
    { "an alias that may not be named, although its version may", "alias", "versions", false },
    { "an alias that may be named, although its version may not", "alias", "alias", true },
    { "versions of which one may be named", "versions", "versions@2", true },
    { "versions of which none may be named", "versions", "versions@3", false },
    { "a version that may be named, but has no rows", "mixed", "mixed@1", false },
};

TD_TEST_EACH(a_name_is_that_of_a_table_or_not, tables)
{
    static const char *const names[] = { "rows", "rows-of", "versions@1", "versions@2", "mixed@2" };
    static const char *const scalars[] = { "scalar", "scalars@1", "mixed@1" };
    const char *prefix = tables[_i].prefix;
    const struct td_prefix prefixes[] = { { prefix, prefix ? strlen(prefix) : 0 } };
    for (int i = 0; i < COUNT_OF(names); i++)
        put(names[i], "int32[1] 1");
    for (int i = 0; i < COUNT_OF(scalars); i++)
        put(scalars[i], "int32[] 1");
    set_alias("alias", "versions@2");
    set_alias("of-scalar", "scalars@1");
    catalog.access = (struct td_access){ .n_prefixes = prefix != NULL, .prefixes = prefixes };
    ck_assert_msg(td_catalog_has_table(&catalog, tables[_i].name) == tables[_i].is_table, "%s: %s",
                  tables[_i].description, tables[_i].name);
}

TD_TEST(a_name_may_be_as_long_as_any_text)
{
    char name[2 * TD_TENSOR_NAME];
    for (int length = TD_TENSOR_NAME - 3; length < COUNT_OF(name); length++) {
        memset(name, 'x', (size_t)length);
        name[length] = '\0';
        ck_assert(!td_catalog_has_table(&catalog, name));
    }
}

TD_TEST(a_name_that_may_not_be_named_is_not_suggested_once_a_tensor_is_gone)
{
    static const struct td_prefix prefixes[] = { { "rows", 4 }, { "b", 1 } };
    bool again;
    put("rows", "int32[1] 1");
    put("row", "int32[1] 1");
    put("rows-of-all", "int32[1] 1");
    catalog.access = (struct td_access){ .n_prefixes = 2, .prefixes = prefixes };
    ck_assert_int_eq(resolved("rows"), 1);
    drop("rows");
    ck_assert_int_eq(resolved("b"), 1);
    ck_assert_int_eq(td_catalog_agree(&catalog, &test_arena, &again, &err), TD_TENSOR_NOT_FOUND);
    EXPECT_MESSAGE(&err, "'rows'");
    ck_assert_str_eq(err.did_you_mean, "");
}

TD_TEST(a_tensor_that_is_gone_by_then_is_not_found)
{
    bool again;
    ck_assert_int_eq(resolved("a"), 1);
    drop("a");
    ck_assert_int_eq(resolved("b"), 1);
    ck_assert_int_eq(td_catalog_agree(&catalog, &test_arena, &again, &err), TD_TENSOR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "'a'"));
}

TD_FIXTURE(begin, end);
