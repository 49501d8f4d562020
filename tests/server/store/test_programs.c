/* Stored programs: the tensor NAME.program[@V], and its file NAME[@V].program.json. */
#include "server/store/aliases/aliases.h"
#include "server/store/state.h"
#include "server/store/version.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM(op)                                                                                \
    "{\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[2]}},"                                   \
    "\"steps\":[{\"op\":\"" op "\",\"x\":\"$x\",\"as\":\"y\"}],\"outputs\":[\"y\"]}"

#define ONE PROGRAM("exp")
#define TWO PROGRAM("negative")

static struct td_error err; /* of the last call */

static struct td_tensor text_tensor(const char *text)
{
    const int64_t n = (int64_t)strlen(text);
    return (struct td_tensor){ .dtype = TD_DTYPE_UINT8,
                               .shape = { 1, { n } },
                               .numel = n,
                               .data = (void *)(uintptr_t)text,
                               .bytes = (size_t)n };
}

static td_status put(const char *name, const char *text, bool persist)
{
    const struct td_tensor t = text_tensor(text);
    return put_tensor(store, name, &t, persist, &err);
}

static td_status drop(const char *name)
{
    return td_store_delete(store, &(struct td_store_write){ .name = name, .removes = true },
                           &(bool){ false }, &err);
}

static td_status flip(const char *name, const char *target)
{
    const struct td_alias_change set = { name, target };
    return td_store_flip(store, &(struct td_alias_flip){ .set = &set, .n_set = 1 }, &err);
}

/* The name can be an alias. */
static void expect_text(const char *name, const char *text)
{
    struct td_tensor_listing listing;
    EXPECT_OK(td_store_get(store, name, strlen(name), &test_arena, &listing, &err), &err);
    const struct td_tensor *t = listing.tensor;
    ck_assert_int_eq(t->dtype, TD_DTYPE_UINT8);
    ck_assert_int_eq(t->shape.rank, 1);
    EXPECT(t->bytes == strlen(text) && memcmp(t->data, text, t->bytes) == 0, "%s is '%.*s'", name,
           (int)t->bytes, (const char *)t->data);
}

static void expect_file(const char *file, const char *text)
{
    char content[256] = "";
    FILE *opened = fopen(path_of(file), "r");
    ck_assert_msg(opened != NULL, "%s", file);
    content[fread(content, 1, sizeof content - 1, opened)] = '\0';
    fclose(opened);
    ck_assert_str_eq(content, text);
}

static bool exists(const char *file)
{
    return access(path_of(file), F_OK) == 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

TD_TEST(a_file_is_read_as_the_text_of_a_program)
{
    put_text("score.program.json", ONE);
    put_text("m:w@2.program.json", "\n" TWO "\n");
    store = open_folder();
    expect_names(store, "m:w.program@2 score.program");
    expect_text("score.program", ONE);
    expect_text("m:w.program@2", "\n" TWO "\n");
    const struct td_tensor_listing *listed = found(store, "score.program");
    ck_assert_str_eq(listed->source, "score.program.json");
    ck_assert(listed->persisted);
    ck_assert_str_eq(problems_of(store), "");
}

static const struct {
    const char *text, *reason;
} malformed[] = {
    { "", "it is empty or not a regular file" },
    { "[1]", "" },
    { "{}", "" },
    { PROGRAM("no_op"), "/steps/0/op: there is no op 'no_op'" },
    { ONE " x", "" },
};

TD_TEST_EACH(a_file_that_holds_no_program_is_refused, malformed)
{
    char problem[256];
    put_text("score.program.json", malformed[_i].text);
    store = open_folder();
    expect_names(store, "");
    snprintf(problem, sizeof problem, "score.program.json: ");
    ck_assert_ptr_nonnull(strstr(problems_of(store), problem));
    ck_assert_ptr_nonnull(strstr(problems_of(store), malformed[_i].reason));
    /* A lookup says that the program might be in that file. */
    struct td_tensor_listing listing;
    ck_assert_int_eq(td_store_get(store, "score.program", 13, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "score.program.json");
    put_text("score.program.json", ONE);
    td_store_rescan(store);
    expect_text("score.program", ONE);
    ck_assert_str_eq(problems_of(store), "");
}

static const struct {
    size_t bytes;
    bool read;
} sizes[] = { { 1 << 20, true }, { (1 << 20) + 1, false } };

TD_TEST_EACH(a_text_has_at_most_a_mebibyte, sizes)
{
    char *text = malloc(sizes[_i].bytes + 1);
    memset(text, ' ', sizes[_i].bytes);
    memcpy(text, ONE, strlen(ONE));
    put_file("a.program.json", text, sizes[_i].bytes);
    free(text);
    store = open_folder();
    expect_names(store, sizes[_i].read ? "a.program" : "");
    ck_assert_str_eq(problems_of(store),
                     sizes[_i].read ? ""
                                    : "a.program.json: it has 1048577 bytes, but a program "
                                      "has at most 1048576;");
}

TD_TEST(other_files_hold_no_programs)
{
    put_npy("a.program.npy", 1, 4);
    put_safetensors("m.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"w.program\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[16,24]}}  ",
                    1, 6);
    store = open_folder();
    expect_names(store, "m:w");
    ck_assert_ptr_nonnull(strstr(problems_of(store), "a.program.npy: a.program: 'a.program' is the "
                                                     "name of the program 'a', not of a tensor"));
    ck_assert_ptr_nonnull(strstr(problems_of(store), "m.safetensors: m:w.program: "));
    /* Such files do not prevent storing a program of the same name, and deleting it keeps them. */
    EXPECT_OK(put("a.program", ONE, true), &err);
    EXPECT_OK(put("m:w.program", ONE, true), &err);
    EXPECT_OK(drop("a.program"), &err);
    EXPECT_OK(drop("m:w.program"), &err);
    ck_assert(exists("a.program.npy") && exists("m.safetensors"));
    expect_names(store, "m:w");
}

TD_TEST(a_rescan_takes_new_changed_and_removed_files)
{
    put_text("a.program.json", ONE);
    put_text("b.program.json", ONE);
    store = open_folder();
    char etag[64];
    snprintf(etag, sizeof etag, "%s", found(store, "b.program")->etag);
    put_text("a.program.json", TWO); /* in place, as an editor does */
    expect_text("a.program", ONE);   /* the text in memory does not change */
    ck_assert_int_eq(unlink(path_of("b.program.json")), 0);
    put_text("c.program.json", ONE);
    td_store_rescan(store);
    expect_names(store, "a.program c.program");
    expect_text("a.program", TWO);
    ck_assert_str_ne(found(store, "a.program")->etag, etag);
    ck_assert_str_ne(found(store, "c.program")->etag, etag);
}

/* ---- changes --------------------------------------------------------------------------------- */

TD_TEST(a_persisted_program_is_its_bare_text)
{
    char etag[64];
    store = open_folder();
    EXPECT_OK(put("score.program", ONE, true), &err);
    EXPECT_OK(put("score.program@2", TWO, true), &err);
    expect_file("score.program.json", ONE);
    expect_file("score@2.program.json", TWO);
    ck_assert(found(store, "score.program")->persisted);
    snprintf(etag, sizeof etag, "%s", found(store, "score.program")->etag);
    restart();
    expect_names(store, "score.program score.program@2");
    expect_text("score.program", ONE);
    ck_assert_str_eq(found(store, "score.program")->etag, etag);
    td_store_rescan(store);
    ck_assert_str_eq(found(store, "score.program")->etag, etag);
}

TD_TEST(a_persisted_program_stays_in_memory)
{
    store = open_folder();
    EXPECT_OK(put("score.program", ONE, true), &err);
    const struct td_store_usage usage = td_store_usage(store);
    ck_assert_uint_eq(usage.mapped, 0);
    ck_assert_uint_eq(usage.held, strlen(ONE));
    ck_assert_int_eq(truncate(path_of("score.program.json"), 0), 0);
    expect_text("score.program", ONE);
    restart(); /* the file is empty now */
    EXPECT_OK(put("score.program", TWO, true), &err);
    restart();
    expect_text("score.program", TWO);
    ck_assert_uint_eq(td_store_usage(store).held, strlen(TWO));
}

TD_TEST(without_persist_a_program_is_lost_at_a_restart)
{
    store = open_folder();
    EXPECT_OK(put("score.program", ONE, false), &err);
    expect_text("score.program", ONE);
    restart();
    expect_names(store, "");
}

TD_TEST(what_is_not_a_program_is_not_persisted)
{
    store = open_folder();
    EXPECT_OK(put("score.program", ONE, true), &err);
    ck_assert_int_eq(put("score.program", "[]", true), TD_MALFORMED_REQUEST);
    expect_text("score.program", ONE);
    expect_file("score.program.json", ONE);
}

TD_TEST(deleting_a_program_removes_its_file)
{
    store = open_folder();
    put_npy("score.npy", 1, 2);
    put_text("other.program.json", ONE);
    td_store_rescan(store);
    EXPECT_OK(put("score.program", ONE, true), &err);
    EXPECT_OK(put("score.program@1", ONE, true), &err);
    EXPECT_OK(drop("score.program"), &err);
    EXPECT_OK(drop("other.program"), &err);
    ck_assert(!exists("score.program.json") && !exists("other.program.json"));
    ck_assert(exists("score@1.program.json") && exists("score.npy"));
    restart();
    expect_names(store, "score score.program@1");
}

TD_TEST(a_version_of_a_program_never_changes)
{
    store = open_folder();
    EXPECT_OK(put("score.program@1", ONE, true), &err);
    ck_assert_int_eq(put("score.program@1", TWO, true), TD_CONFLICT);
    expect_file("score@1.program.json", ONE);
}

TD_TEST(a_file_that_was_added_since_the_last_scan_is_not_replaced)
{
    store = open_folder();
    put_text("score.program.json", TWO);
    ck_assert_int_eq(put("score.program", ONE, true), TD_CONFLICT);
    EXPECT_MESSAGE(&err, "score.program.json");
    ck_assert_int_eq(drop("score.program"), TD_TENSOR_NOT_FOUND);
    expect_file("score.program.json", TWO);
}

TD_TEST(the_disk_quota_counts_programs)
{
    folder_quota = strlen(ONE);
    store = open_folder();
    ck_assert_int_eq(put("b.program", TWO, true), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "disk_bytes");
    EXPECT_OK(put("a.program", ONE, true), &err);
    ck_assert_uint_eq(td_store_counted_bytes(store), strlen(ONE));
    ck_assert_int_eq(put("b.program", ONE, true), TD_RESOURCE_LIMIT);
    folder_quota = 0;
}

/* ---- versions -------------------------------------------------------------------------------- */

TD_TEST(an_alias_names_a_version_of_a_program)
{
    store = open_folder();
    EXPECT_OK(put("score.program@1", ONE, true), &err);
    EXPECT_OK(put("score.program@2", TWO, true), &err);
    EXPECT_OK(flip("score.program", "score.program@2"), &err);
    expect_text("score.program", TWO);
    restart();
    expect_text("score.program", TWO);
    EXPECT_OK(flip("score.program", "score.program@1"), &err);
    expect_text("score.program", ONE);
    ck_assert_int_eq(drop("score.program@1"), TD_CONFLICT);
}

TD_TEST(an_alias_in_the_data_folder_names_no_program_in_memory)
{
    store = open_folder();
    EXPECT_OK(put("score.program@1", ONE, false), &err);
    ck_assert_int_eq(flip("score.program", "score.program@1"), TD_CONFLICT);
    EXPECT_MESSAGE(&err, "put the program with ?persist=1 as another version");
}

static const char *const mixed[][2] = { { "score", "score.program@1" },
                                        { "t.program", "t@1" },
                                        { "score.program", "t@1" } };

TD_TEST_EACH(an_alias_of_a_tensor_names_no_program_and_vice_versa, mixed)
{
    store = open_folder();
    EXPECT_OK(put("score.program@1", ONE, false), &err);
    EXPECT_OK(put("t@1", ONE, false), &err);
    ck_assert_int_eq(flip(mixed[_i][0], mixed[_i][1]), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "an alias of a program has a name ALIAS.program");
    ck_assert_str_eq(aliases_of(store), "");
}

TD_TEST(a_version_folder_can_hold_programs)
{
    ck_assert_int_eq(mkdir(path_of("2"), 0755), 0);
    put_text("2/score.program.json", TWO);
    put_npy("2/t.npy", 1, 4);
    put_manifest("2", "score.program.json t.npy",
                 "\"aliases\":{\"score.program\":\"score.program@2\",\"t\":\"t@2\"}");
    store = open_folder();
    expect_names(store, "score.program@2 t@2");
    expect_text("score.program", TWO);
    ck_assert_str_eq(found(store, "score.program@2")->source, "2/score.program.json");
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_int_eq(drop("score.program@2"), TD_FORBIDDEN);
    remove_version("2");
    td_store_rescan(store);
    expect_names(store, "");
}

TD_TEST(a_version_folder_with_a_malformed_program_is_refused_as_a_whole)
{
    ck_assert_int_eq(mkdir(path_of("2"), 0755), 0);
    put_text("2/score.program.json", "[]");
    put_npy("2/t.npy", 1, 4);
    put_manifest("2", "score.program.json t.npy", "");
    store = open_folder();
    expect_names(store, "");
    ck_assert_ptr_nonnull(strstr(problems_of(store), "2: score.program.json: "));
}

TD_TEST(a_version_folder_with_a_program_in_another_file_is_refused_as_a_whole)
{
    put_version_files("2", "t.npy", 1);
    put_npy("2/score.program.npy", 1, 4);
    put_manifest("2", "score.program.npy t.npy", "");
    store = open_folder();
    expect_names(store, "");
    ck_assert_ptr_nonnull(
        strstr(problems_of(store), "'score.program@2' is the name of the program 'score@2'"));
}

TD_TEST(old_versions_of_a_program_are_removed)
{
    folder_keep_versions = 1;
    store = open_folder();
    EXPECT_OK(put("score.program@9", ONE, true), &err);
    EXPECT_OK(put("score.program@10", TWO, true), &err);
    expect_names(store, "score.program@10");
    ck_assert(!exists("score@9.program.json"));
    folder_keep_versions = 0;
}

/* ---- compiled forms -------------------------------------------------------------------------- */

struct form {
    struct td_buffer base;
    int *released;
};

static void release_form(struct td_buffer *base)
{
    ++*((struct form *)(void *)base)->released;
    free(base);
}

static struct td_buffer *new_form(int *released)
{
    struct form *form = malloc(sizeof *form);
    td_buffer_init(&form->base, form, sizeof *form, release_form);
    form->released = released;
    return &form->base;
}

enum { FORM_BYTES = 100, PROGRAMS = 5 }; /* the limit has room for three forms */

static const struct td_tensor *text_of(const char *name)
{
    return found(store, name)->tensor;
}

/* Keeps a form with the program and drops the test's reference to it. */
static void keep(const char *name, int *released)
{
    td_buffer_unref(td_store_keep_compiled(store, text_of(name), new_form(released), FORM_BYTES));
}

static bool has_form(const char *name)
{
    struct td_buffer *form = td_store_compiled(store, text_of(name));
    td_buffer_unref(form);
    return form != NULL;
}

static void open_with_programs(void)
{
    folder_compiled_limit = 3 * FORM_BYTES + FORM_BYTES / 2;
    store = open_folder();
    for (char name[] = "0.program"; name[0] < '0' + PROGRAMS; name[0]++)
        EXPECT_OK(put(name, ONE, false), &err);
}

TD_TEST(a_version_keeps_the_first_compiled_form_until_it_is_freed)
{
    int first = 0, second = 0, third = 0;
    open_with_programs();
    const struct td_tensor *t = text_of("0.program");
    ck_assert_ptr_null(td_store_compiled(store, t));
    struct td_buffer *kept = td_store_keep_compiled(store, t, new_form(&first), FORM_BYTES);
    struct td_buffer *same = td_store_keep_compiled(store, t, new_form(&second), FORM_BYTES);
    ck_assert_ptr_eq(same, kept);
    ck_assert_int_eq(second, 1);
    td_buffer_unref(same);
    td_buffer_unref(kept);
    ck_assert(has_form("0.program"));
    EXPECT_OK(put("0.program", TWO, false), &err);
    ck_assert(!has_form("0.program"));
    keep("0.program", &third);
    ck_assert_int_eq(first, 0); /* the arena still holds the old version */
    td_arena_reset(&test_arena);
    ck_assert_int_eq(first, 1);
    close_store();
    ck_assert_int_eq(third, 1);
}

TD_TEST(the_form_that_was_not_used_for_the_longest_time_makes_room)
{
    int released[PROGRAMS] = { 0 };
    open_with_programs();
    keep("0.program", &released[0]);
    keep("1.program", &released[1]);
    keep("2.program", &released[2]);
    ck_assert(has_form("0.program"));
    keep("3.program", &released[3]);
    ck_assert_int_eq(released[1], 1);
    ck_assert(has_form("0.program") && !has_form("1.program") && has_form("2.program"));
    const struct td_store_usage usage = td_store_usage(store);
    ck_assert_uint_eq(usage.compiled, 3 * FORM_BYTES);
    ck_assert_uint_eq(usage.compiled_evicted, 1);
    keep("1.program", &released[1]); /* compiled again */
    ck_assert(has_form("1.program"));
    close_store();
}

TD_TEST(a_form_in_use_is_not_dropped_and_a_new_one_is_then_not_kept)
{
    int released[PROGRAMS] = { 0 };
    struct td_buffer *used[3];
    open_with_programs();
    for (int i = 0; i < 3; i++) {
        const char name[] = { (char)('0' + i), '.', 'p', 'r', 'o', 'g', 'r', 'a', 'm', '\0' };
        used[i] = td_store_keep_compiled(store, text_of(name), new_form(&released[i]), FORM_BYTES);
    }
    struct td_buffer *fourth =
        td_store_keep_compiled(store, text_of("3.program"), new_form(&released[3]), FORM_BYTES);
    ck_assert(!has_form("3.program"));
    ck_assert(!td_store_drop_compiled(store, 1));
    ck_assert_int_eq(released[3], 0); /* the caller can use it */
    td_buffer_unref(fourth);
    ck_assert_int_eq(released[3], 1);
    td_buffer_unref(used[1]);
    ck_assert(td_store_drop_compiled(store, 1));
    ck_assert_int_eq(released[1], 1);
    td_buffer_unref(used[0]);
    td_buffer_unref(used[2]);
    ck_assert(td_store_drop_compiled(store, 2 * FORM_BYTES));
    ck_assert_uint_eq(td_store_usage(store).compiled, 0);
    close_store();
}

TD_TEST(a_form_larger_than_the_limit_is_not_kept)
{
    int small = 0, large = 0;
    open_with_programs();
    keep("0.program", &small);
    td_buffer_unref(td_store_keep_compiled(store, text_of("1.program"), new_form(&large),
                                           folder_compiled_limit + 1));
    ck_assert_int_eq(large, 1);
    ck_assert(has_form("0.program") && !has_form("1.program"));
    close_store();
}

TD_TEST(a_version_that_outlives_its_form_is_freed)
{
    int released = 0;
    open_with_programs();
    keep("0.program", &released);
    ck_assert(td_store_drop_compiled(store, 1));
    ck_assert_int_eq(released, 1);
    close_store();
}

TD_TEST(a_tensor_that_is_not_resident_has_no_compiled_form)
{
    store = open_folder();
    const struct td_tensor t = text_tensor(ONE);
    ck_assert_ptr_null(td_store_compiled(store, &t));
}

TD_FIXTURE(one_store_begin, one_store_end);
