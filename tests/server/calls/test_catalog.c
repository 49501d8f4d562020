/* The resident tensors that a call finds were current at one moment. */
#include "server/calls/catalog.h"
#include "server/store/aliases/aliases.h"
#include "tests/server/folder.h"
#include "tests/support/expect.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
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

/* As with a program that was replaced and now names other tables. */
TD_TEST(a_request_that_names_other_tensors_when_it_is_decoded_again_gets_those)
{
    put("c", "int32[1] 1");
    ck_assert_int_eq(resolved("a"), 1);
    ck_assert_int_eq(resolved("b"), 1);
    put("a", "int32[1] 2");
    ck_assert(must_decode_again());
    ck_assert_int_eq(resolved("a"), 2);
    put("c", "int32[1] 3");
    ck_assert_int_eq(resolved("c"), 3);
    /* c was found after a had been agreed on, and names have changed in between. */
    put("a", "int32[1] 4");
    ck_assert(must_decode_again());
    put("c", "int32[1] 5");
    ck_assert_int_eq(resolved("c"), 3);
    ck_assert_int_eq(resolved("a"), 4);
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

/* ---- programs -------------------------------------------------------------------------------- */

static const char *const of_programs[] = { "p.program", "p.program@1", "p.program.keys",
                                           "none.program" };

TD_TEST_EACH(the_name_of_a_program_is_not_the_name_of_a_tensor, of_programs)
{
    const char *name = of_programs[_i];
    struct td_tensor_listing listing;
    struct td_tensor t;
    put("p.program", "uint8[2] 123 125");
    put("p.program@1", "uint8[2] 123 125");
    catalog.access.role = TD_ACCESS_WRITE;
    const td_status statuses[] = {
        td_catalog_may_name(&catalog, name, &err),
        td_catalog_may_write(&catalog, name, &err),
        td_catalog_get(&catalog, name, &test_arena, &listing, &err),
        td_resolve(&catalog.resolver, name, strlen(name), &test_arena, &t, &err),
    };
    for (int i = 0; i < COUNT_OF(statuses); i++)
        ck_assert_int_eq(statuses[i], TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "not of a tensor; use /v1/programs/");
    ck_assert(!td_catalog_has_table(&catalog, name));
}

TD_TEST(the_error_names_the_program)
{
    ck_assert_int_eq(td_catalog_may_name(&catalog, "score.program@2", &err), TD_INVALID_ARGUMENT);
    ck_assert_str_eq(err.message, "'score.program@2' is the name of the program 'score@2', not of "
                                  "a tensor; use /v1/programs/score@2");
}

/* The names in the list, "a b". */
static const char *names_of(const struct td_tensor_listing *list, int count)
{
    static char text[256];
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 list[i].name);
    return text;
}

TD_TEST(lists_have_tensors_or_programs)
{
    struct td_tensor_listing *list;
    int count;
    bool more;
    const struct td_name_range range = { .prefix = "", .after = "b", .limit = 3 };
    static const char *const names[] = { "p.program", "p.program@1", "p-q.program", "p", "q" };
    for (int i = 0; i < COUNT_OF(names); i++)
        put(names[i], "uint8[2] 123 125");
    EXPECT_OK(td_catalog_list(&catalog, &range, &test_arena, &list, &count, &more, &err), &err);
    ck_assert_str_eq(names_of(list, count), "p q");
    ck_assert(!more);
    EXPECT_OK(td_catalog_list_programs(&catalog, &range, &test_arena, &list, &count, &more, &err),
              &err);
    ck_assert_str_eq(names_of(list, count), "p p-q p@1");
    ck_assert(!more);
}

static const struct {
    const char *prefix, *after;
    int limit;
    const char *token; /* its prefix, or NULL */
    const char *names;
    bool more;
} ranges[] = {
    { "", "", 0, NULL, "p p-q p@1 pp@2", false },
    { "", "", 2, NULL, "p p-q", true },
    { "", "p-q", 2, NULL, "p@1 pp@2", false },
    { "p@", "", 0, NULL, "p@1", false },
    { "pp", "", 0, NULL, "pp@2", false },
    { "p.", "", 0, NULL, "", false },
    { "", "", 1, "p@", "p@1", false },
    { "", "", 0, "p.program", "", false },
};

TD_TEST_EACH(programs_are_listed_by_their_own_names, ranges)
{
    struct td_tensor_listing *list;
    int count;
    bool more;
    const char *token = ranges[_i].token;
    const struct td_prefix prefixes[] = { { token, token ? strlen(token) : 0 } };
    const struct td_name_range range = { .prefix = ranges[_i].prefix,
                                         .after = ranges[_i].after,
                                         .limit = ranges[_i].limit };
    static const char *const names[] = { "p.program", "p.program@1", "p-q.program", "pp.program@2",
                                         "pq" };
    for (int i = 0; i < COUNT_OF(names); i++)
        put(names[i], "uint8[2] 123 125");
    catalog.access = (struct td_access){ .n_prefixes = token != NULL, .prefixes = prefixes };
    EXPECT_OK(td_catalog_list_programs(&catalog, &range, &test_arena, &list, &count, &more, &err),
              &err);
    ck_assert_str_eq(names_of(list, count), ranges[_i].names);
    ck_assert(more == ranges[_i].more);
}

static td_status get_program(const char *program, struct td_tensor_listing *listing)
{
    return td_catalog_get_program(&catalog, program, &test_arena, listing, &err);
}

TD_TEST(a_program_is_found_by_its_name)
{
    struct td_tensor_listing listing;
    put("score.program@1", "uint8[1] 1");
    put("rank.program", "uint8[1] 2");
    set_alias("score.program", "score.program@1");
    EXPECT_OK(get_program("score@1", &listing), &err);
    ck_assert_str_eq(listing.name, "score@1");
    EXPECT_OK(get_program("score", &listing), &err);
    ck_assert_str_eq(listing.name, "score@1");
    EXPECT_OK(get_program("rank", &listing), &err);
    ck_assert_str_eq(listing.name, "rank");
    ck_assert_uint_eq(listing.tensor->bytes, 1);
}

TD_TEST(a_program_that_does_not_exist_is_a_program_in_the_error)
{
    struct td_tensor_listing listing;
    char name[2 * TD_TENSOR_NAME] = "";
    put("score.program", "uint8[1] 1");
    put("scores", "uint8[1] 1");
    ck_assert_int_eq(get_program("scores", &listing), TD_TENSOR_NOT_FOUND);
    ck_assert_str_eq(err.message, "there is no program 'scores' (did you mean 'score'?); GET "
                                  "/v1/programs lists them");
    ck_assert_str_eq(err.did_you_mean, "score");
    memset(name, 'x', sizeof name - 1);
    ck_assert_int_eq(get_program(name, &listing), TD_TENSOR_NOT_FOUND);
    /* Nor is a program suggested for a tensor. */
    ck_assert_int_eq(td_catalog_get(&catalog, "scor", &test_arena, &listing, &err),
                     TD_TENSOR_NOT_FOUND);
    ck_assert_str_eq(err.did_you_mean, "");
}

TD_TEST(the_prefixes_of_a_token_apply_to_the_name_of_a_program)
{
    static const struct td_prefix prefixes[] = { { "mine", 4 }, { "other.p", 7 } };
    struct td_tensor_listing listing;
    put("mine.program", "uint8[1] 1");
    put("mine2.program@1", "uint8[1] 1");
    put("other.program", "uint8[1] 1");
    put("other.program@1", "uint8[1] 1");
    set_alias("mine3.program", "other.program@1");
    catalog.access =
        (struct td_access){ .role = TD_ACCESS_READ, .n_prefixes = 2, .prefixes = prefixes };
    EXPECT_OK(get_program("mine", &listing), &err);
    EXPECT_OK(get_program("mine2@1", &listing), &err);
    ck_assert_int_eq(get_program("other", &listing), TD_FORBIDDEN);
    ck_assert_int_eq(get_program("mine3", &listing), TD_FORBIDDEN);
    ck_assert_int_eq(get_program("mine4", &listing), TD_TENSOR_NOT_FOUND);
    ck_assert_int_eq(td_catalog_may_name_alias(&catalog, "mine.program", &err), TD_OK);
    ck_assert_int_eq(td_catalog_may_name_alias(&catalog, "other.program", &err), TD_FORBIDDEN);
    ck_assert_int_eq(td_catalog_may_write_program(&catalog, "mine", &err), TD_FORBIDDEN);
    catalog.access.role = TD_ACCESS_WRITE;
    EXPECT_OK(td_catalog_may_write_program(&catalog, "mine", &err), &err);
    ck_assert_int_eq(td_catalog_may_write_program(&catalog, "other", &err), TD_FORBIDDEN);
    /* The name of a tensor is refused for the same reason, whether or not there is a program. */
    ck_assert_int_eq(td_catalog_may_name(&catalog, "other.program", &err), TD_FORBIDDEN);
}

static int32_t resolved_program(const char *program)
{
    struct td_tensor t;
    EXPECT_OK(td_catalog_resolve_program(&catalog, program, &test_arena, &t, &err), &err);
    return ((const uint8_t *)t.data)[0];
}

TD_TEST(a_program_and_its_tables_are_found_together)
{
    put("p.program", "uint8[1] 1");
    ck_assert_int_eq(resolved_program("p"), 1);
    put("p.program", "uint8[1] 2"); /* before a: no moment has the old p and the new a */
    put("a", "int32[1] 2");
    ck_assert_int_eq(resolved("a"), 2);
    ck_assert(must_decode_again());
    ck_assert_int_eq(resolved_program("p"), 2);
    ck_assert_int_eq(resolved("a"), 2);
    ck_assert(!must_decode_again());
}

TD_TEST(a_program_that_is_gone_by_then_is_not_found)
{
    bool again;
    put("p.program", "uint8[1] 1");
    ck_assert_int_eq(resolved_program("p"), 1);
    drop("p.program");
    ck_assert_int_eq(resolved("a"), 1);
    ck_assert_int_eq(td_catalog_agree(&catalog, &test_arena, &again, &err), TD_TENSOR_NOT_FOUND);
    EXPECT_MESSAGE(&err, "there is no program 'p'");
}

TD_FIXTURE(begin, end);
