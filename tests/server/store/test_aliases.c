/* Aliases of versions: flips, their conditions and conflicts, aliases.json. */
#include "server/store/aliases/aliases.h"
#include "tests/server/folder.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;
static struct td_store *store;

/* ---- a store with the versions a@1, a@2, b@1, b@2 and the tensor t --------------------------- */

static td_status put(const char *name, int32_t value, bool persist)
{
    char values[64];
    snprintf(values, sizeof values, "int32[1] %d", value);
    const struct td_tensor t = tensor(values);
    return put_tensor(store, name, &t, persist, &err);
}

static td_status drop(const char *name)
{
    const struct td_store_write write = { .name = name, .removes = true };
    return td_store_delete(store, &write, &(bool){ false }, &err);
}

static void restart(void)
{
    td_arena_reset(&test_arena);
    td_store_free(store);
    store = open_folder();
}

static void begin(void)
{
    folder_open();
    store = open_folder();
    static const char *const names[] = { "a@1", "b@1", "t", "a@2", "b@2" };
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(put(names[i], i / 3 + 1, true), TD_OK);
    ck_assert_int_eq(put("a@memory", 9, false), TD_OK);
}

static void end(void)
{
    td_arena_reset(&test_arena);
    td_store_free(store);
    folder_close();
}

/* "a=a@1 b=" sets a and removes b. */
static int parse(const char *text, struct td_alias_change *changes)
{
    char *rest = td_arena_text(&test_arena, text, strlen(text), &err);
    int n = 0;
    for (char *word; (word = strtok_r(rest, " ", &rest)); n++) {
        char *target = strchr(word, '=');
        *target++ = '\0';
        changes[n] = (struct td_alias_change){ word, *target ? target : NULL };
    }
    return n;
}

static td_status flip_with(const char *set, const char *wanted, bool persist)
{
    struct td_alias_change changes[16], conditions[16];
    const struct td_alias_flip flip = { .set = changes,
                                        .n_set = parse(set, changes),
                                        .wanted = conditions,
                                        .n_wanted = parse(wanted, conditions),
                                        .persist = persist };
    return td_store_flip(store, &flip, &err);
}

static td_status flip(const char *set, const char *wanted)
{
    return flip_with(set, wanted, false);
}

static td_status look_up(const char *name, struct td_tensor_listing *listing)
{
    return td_store_get(store, name, strlen(name), &test_arena, listing, &err);
}

static void expect_value(const char *name, int32_t value)
{
    struct td_tensor_listing listing;
    ck_assert_msg(look_up(name, &listing) == TD_OK, "%s: %s", name, err.message);
    ck_assert_int_eq(value_of(listing.tensor, 0), value);
}

static void expect_missing(const char *name)
{
    struct td_tensor_listing listing;
    ck_assert_int_eq(look_up(name, &listing), TD_TENSOR_NOT_FOUND);
}

/* ---- flips ----------------------------------------------------------------------------------- */

TD_TEST(an_alias_is_another_name_of_a_version)
{
    struct td_tensor_listing alias, version;
    ck_assert_int_eq(flip("movies=a@1", ""), TD_OK);
    ck_assert_int_eq(look_up("movies", &alias), TD_OK);
    ck_assert_int_eq(look_up("a@1", &version), TD_OK);
    ck_assert_str_eq(alias.etag, version.etag);
    ck_assert_str_eq(alias.name, "a@1");
    ck_assert_ptr_eq(alias.tensor, version.tensor);
    ck_assert_str_eq(aliases_of(store), "movies=a@1 ");
    expect_names(store, "a@1 a@2 a@memory b@1 b@2 t"); /* it is no tensor of its own */
}

TD_TEST(one_flip_sets_and_removes_many)
{
    ck_assert_int_eq(flip("x=a@1 y=b@1 z=a@1", ""), TD_OK);
    ck_assert_int_eq(flip("z= x=a@2 y=b@2 w=b@1 nothing=", "x=a@1 w= y=b@1"), TD_OK);
    ck_assert_str_eq(aliases_of(store), "w=b@1 x=a@2 y=b@2 ");
    expect_value("x", 2);
    expect_value("w", 1);
    expect_missing("z");
}

static const struct {
    const char *description, *set, *wanted;
    td_status status;
    const char *named; /* in the message */
} refused[] = {
    { "another target is wanted", "x=a@2", "x=a@2", TD_PRECONDITION_FAILED, "'x'" },
    { "no alias is wanted", "x=a@2", "x=", TD_PRECONDITION_FAILED, "'x'" },
    { "an alias is wanted", "y=a@2", "y=a@1", TD_PRECONDITION_FAILED, "'y'" },
    { "a tensor is wanted to be an alias", "y=a@2", "t=a@1", TD_PRECONDITION_FAILED, "'t'" },
    { "a target is not there", "y=b@1 x=a@3", "", TD_TENSOR_NOT_FOUND, "'a@3'" },
    { "the name is a tensor", "x=a@2 t=a@2", "", TD_CONFLICT, "'t'" },
    { "a target is a tensor", "x=t", "", TD_INVALID_ARGUMENT, "'t'" },
    { "a target is an alias", "y=x", "", TD_CONFLICT, "'x'" },
    { "a target is itself", "x=x", "", TD_CONFLICT, "'x'" },
    { "a target without a version is not there", "y=nothing", "", TD_TENSOR_NOT_FOUND,
      "'nothing'" },
    { "the name has a version", "x@1=a@1", "", TD_INVALID_ARGUMENT, "'x@1'" },
    { "the name is one of keys", "x.keys=a@1", "", TD_INVALID_ARGUMENT, "'x.keys'" },
    { "the name is not valid", ".x=a@1", "", TD_INVALID_ARGUMENT, "'.x'" },
    { "the target is not valid", "x=a@1@2", "", TD_INVALID_ARGUMENT, "'a@1@2'" },
    { "the target is in memory only", "x=a@2 y=a@memory", "", TD_CONFLICT, "'a@memory'" },
};

TD_TEST_EACH(a_flip_that_is_refused_changes_nothing, refused)
{
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    const td_status status = flip(refused[_i].set, refused[_i].wanted);
    ck_assert_msg(status == refused[_i].status, "%s: %d: %s", refused[_i].description, (int)status,
                  err.message);
    ck_assert_msg(strstr(err.message, refused[_i].named) != NULL, "%s: %s", refused[_i].description,
                  err.message);
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
    expect_value("x", 1);
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_flip_has_at_most_twice_as_many_names_as_there_are_aliases)
{
    enum { MOST = 2 * TD_STORE_TENSORS };
    struct td_alias_change *changes = calloc(MOST + 1, sizeof *changes);
    char(*names)[16] = calloc(MOST + 1, sizeof *names);
    for (int i = 0; i <= MOST; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        changes[i].name = names[i];
    }
    const struct td_alias_flip flips[] = {
        { .set = changes, .n_set = MOST + 1 },
        { .wanted = changes, .n_wanted = MOST + 1 },
        { .set = changes, .n_set = MOST, .wanted = changes, .n_wanted = MOST },
    };
    ck_assert_int_eq(td_store_flip(store, &flips[0], &err), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.attribute, "set");
    ck_assert_int_eq(td_store_flip(store, &flips[1], &err), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.attribute, "if");
    ck_assert_int_eq(td_store_flip(store, &flips[2], &err), TD_OK);
    ck_assert_str_eq(aliases_of(store), "");
    free(names);
    free(changes);
}

TD_TEST(a_failed_condition_tells_the_etag_of_the_version)
{
    struct td_tensor_listing x;
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    ck_assert_int_eq(look_up("x", &x), TD_OK);
    ck_assert_int_eq(flip("x=a@2", "x=b@1"), TD_PRECONDITION_FAILED);
    ck_assert_str_eq(err.etag, x.etag);
    ck_assert_str_eq(err.etag_of, "a@1");
    ck_assert_str_eq(err.attribute, "if");
}

TD_TEST(an_alias_cannot_be_written_to)
{
    const struct td_store_write write = { .name = "x" };
    struct td_store_update *update;
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    ck_assert_int_eq(put("x", 5, false), TD_CONFLICT);
    ck_assert_int_eq(put("x", 5, true), TD_CONFLICT);
    ck_assert_int_eq(td_store_admit(store, &write, 4, &err), TD_CONFLICT);
    ck_assert_int_eq(td_store_check_change(store, &write, &err), TD_CONFLICT);
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err),
                     TD_CONFLICT);
    expect_value("x", 1);
    put_npy("x.npy", 7, 1);
    (void)logged();
    td_store_rescan(store);
    expect_value("x", 1);
    ck_assert_ptr_nonnull(strstr(logged(), "an alias had its name"));
}

TD_TEST(a_version_that_an_alias_names_cannot_be_deleted)
{
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    ck_assert_int_eq(drop("a@1"), TD_CONFLICT);
    EXPECT_MESSAGE(&err, "an alias names 'a@1'");
    ck_assert_int_eq(flip("x=a@2", ""), TD_OK);
    ck_assert_int_eq(drop("a@2"), TD_CONFLICT);
    ck_assert_int_eq(drop("a@1"), TD_OK);
    ck_assert_int_eq(drop("x"), TD_OK); /* the alias, not its target */
    expect_missing("x");
    expect_value("a@2", 2);
    ck_assert_int_eq(drop("a@2"), TD_OK);
}

TD_TEST(a_deleted_alias_does_not_return)
{
    struct td_tensor_listing x;
    struct td_store_write write = { .name = "x",
                                    .removes = true,
                                    .condition = { .if_match = "\"other\"" } };
    ck_assert_int_eq(flip("x=a@1 y=b@1", ""), TD_OK);
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err),
                     TD_PRECONDITION_FAILED);
    ck_assert_int_eq(look_up("x", &x), TD_OK);
    ck_assert_str_eq(err.etag, x.etag);
    ck_assert_str_eq(err.etag_of, "a@1");
    write.condition.if_match = x.etag;
    ck_assert_int_eq(td_store_check_change(store, &write, &err), TD_OK);
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
    write.condition.if_match = NULL;
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_TENSOR_NOT_FOUND);
    restart();
    ck_assert_str_eq(aliases_of(store), "y=b@1 ");
}

/* ---- aliases.json ---------------------------------------------------------------------------- */

TD_TEST(aliases_are_there_after_a_restart)
{
    ck_assert(td_store_persists_aliases(store));
    ck_assert_int_eq(flip("x=a@1 y=b@1 z=a@1", ""), TD_OK);
    ck_assert_int_eq(flip("z= x=a@2", ""), TD_OK);
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@2 y=b@1 ");
    expect_value("x", 2);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_tensor_that_hides_an_alias_gets_no_file)
{
    struct td_store_update *update;
    const struct td_store_write write = { .name = "x", .persist = true };
    ck_assert_int_eq(put("x", 5, false), TD_OK);
    put_text("aliases.json", "{\"aliases\": {\"x\": \"a@1\"}}");
    td_store_rescan(store);
    ck_assert_int_eq(put("x", 5, true), TD_CONFLICT);
    EXPECT_MESSAGE(&err, "aliases.json");
    ck_assert_int_eq(td_store_admit(store, &write, 4, &err), TD_CONFLICT);
    ck_assert_int_eq(put("x", 6, false), TD_OK); /* a restart drops it anyway */
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err),
                     TD_CONFLICT);
    expect_value("x", 6);
    ck_assert_int_ne(access(path_of("x.tensord"), F_OK), 0);
    restart();
    expect_value("x", 1);
    ck_assert_int_eq(flip("x=", ""), TD_OK);
    ck_assert_int_eq(put("x", 5, true), TD_OK);
    restart();
    expect_value("x", 5);
}

TD_TEST(a_process_that_cannot_write_the_folder_makes_no_flip)
{
    const struct td_store_write on_x = { .name = "x", .removes = true };
    ck_assert_int_eq(flip("x=a@1 y=b@1", ""), TD_OK);
    struct td_store *writer = store;
    store = open_reader();
    ck_assert_int_ne(flip("x=a@2", ""), TD_OK);
    ck_assert_int_ne(flip("y=", ""), TD_OK);
    ck_assert_int_ne(td_store_delete(store, &on_x, &(bool){ false }, &err), TD_OK);
    ck_assert_str_eq(aliases_of(store), "x=a@1 y=b@1 ");
    td_arena_reset(&test_arena);
    td_store_free(store);
    store = writer;
}

TD_TEST(aliases_without_a_folder_are_in_memory)
{
    td_arena_reset(&test_arena);
    td_store_free(store);
    store = open_at("");
    ck_assert_int_eq(put("a@1", 1, false), TD_OK);
    ck_assert_int_eq(flip_with("x=a@1", "", true), TD_INVALID_ARGUMENT);
    ck_assert_str_eq(err.attribute, "persist");
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    expect_value("x", 1);
}

static const struct {
    const char *text, *reason;
} damaged[] = {
    { "", "expected a JSON object" },
    { "[]", "expected a JSON object" },
    { "{}", "aliases is missing" },
    { "{\"taken\":{}}", "aliases is missing" },
    { "{\"aliases\":{\"x\":\"a@1\"}", "" },
    { "{\"aliases\":{\"x\":\"a@1\"}} {", "end of the file" },
    { "{\"aliases\":{\"x\":\"a@1\",\"x\":\"a@2\"}}", "given twice" },
    { "{\"aliases\":{\"x\":\"a@1\",\"y\":null}}", "null" },
    { "{\"aliases\":{\"x\":1}}", "expected a string" },
    { "{\"aliases\":{\"x\":\"a\"}}", "expected a version" },
    { "{\"aliases\":{\"x@1\":\"a@1\"}}", "cannot be an alias" },
    { "{\"aliases\":{\"e\xcc\x81\":\"a@1\"}}", "cannot be an alias: it is not in Unicode" },
    { "{\"aliases\":{\"x\":\"e\xcc\x81@1\"}}", "cannot name 'e\xcc\x81@1': it is not in Unicode" },
    { "{\"aliases\":{\"x\\u0000\":\"a@1\"}}", "NUL" },
    { "{\"aliases\":{\"x\":\"a@1\\u0000\"}}", "NUL" },
    { "{\"aliases\":{},\"more\":1}", "\"more\" is unknown" },
    { "{\"aliases\":{},\"checksum\":\"xxh3-64:0000000000000000\"}", "it is damaged" },
    { "{\"aliases\":{},\"checksum\":1}", "expected a string" },
    { "{\"\\u0063hecksum\":\"xxh3-64:0000000000000000\"}", "escapes" },
};

TD_TEST_EACH(a_damaged_file_is_told_and_gives_no_alias, damaged)
{
    td_arena_reset(&test_arena);
    td_store_free(store);
    put_text("aliases.json", damaged[_i].text);
    (void)logged();
    store = open_folder();
    ck_assert_str_eq(aliases_of(store), "");
    ck_assert_msg(strncmp(problems_of(store), "aliases.json: ", 14) == 0, "%s", damaged[_i].text);
    ck_assert_msg(strstr(problems_of(store), damaged[_i].reason) != NULL, "%s: %s",
                  damaged[_i].text, problems_of(store));
    ck_assert_ptr_nonnull(strstr(logged(), " warn aliases_refused source=aliases.json reason="));
    expect_value("a@1", 1);
    ck_assert_int_eq(flip("x=a@1", ""), TD_CONFLICT); /* it may name others, which would be lost */
    EXPECT_MESSAGE(&err, "damaged");
    ck_assert_int_eq(drop("a@2"), TD_CONFLICT);
    ck_assert_int_eq(remove(path_of("aliases.json")), 0);
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    ck_assert_str_eq(problems_of(store), "");
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_file_that_could_not_be_read_for_a_while_is_no_problem_afterwards)
{
    char file[128], aside[128];
    snprintf(file, sizeof file, "%s", path_of("aliases.json"));
    snprintf(aside, sizeof aside, "%s", path_of("aside"));
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    ck_assert_int_eq(rename(file, aside), 0);
    ck_assert_int_eq(mkdir(file, 0700), 0);
    td_store_rescan(store);
    ck_assert_str_ne(problems_of(store), "");
    ck_assert_int_eq(rmdir(file), 0);
    ck_assert_int_eq(rename(aside, file), 0);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
}

static void rescan_without_rights(void)
{
    ck_assert_int_eq(chmod(folder, 0755), 0);
    drop_rights();
    td_store_rescan(store);
    regain_rights();
}

TD_TEST(a_file_that_may_no_longer_be_read_is_a_problem_before_the_restart)
{
    char problem[300];
    snprintf(problem, sizeof problem,
             "aliases.json: aliases.json cannot be read: %s; the aliases that were "
             "read before stay in effect until a restart;",
             denied());
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    for (int persist = 0; persist < 2; persist++) {
        ck_assert_int_eq(chmod(path_of("aliases.json"), 0), 0);
        rescan_without_rights();
        ck_assert_str_eq(problems_of(store), problem);
        ck_assert(!td_store_reading(store).aliases);
        ck_assert_int_eq(td_store_check_aliases(store, &err), TD_OK);
        ck_assert_ptr_nonnull(strstr(logged(), " warn aliases_refused source=aliases.json "));
        expect_value("x", 1);
        if (persist) /* which replaces the file, whose content is known */
            ck_assert_int_eq(flip("y=b@1", ""), TD_OK);
        else
            ck_assert_int_eq(chmod(path_of("aliases.json"), 0644), 0);
        td_store_rescan(store);
        ck_assert_str_eq(problems_of(store), "");
        ck_assert(td_store_reading(store).aliases);
    }
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@1 y=b@1 ");
}

static const struct {
    const char *link; /* NULL: a folder */
    const char *reason;
} unreadable[] = {
    { "nowhere", "it is a symbolic link that leads nowhere" },
    { "aliases.json", "Too many levels of symbolic links" },
    { NULL, "is not a regular file" },
};

static void put_unreadable(const char *link)
{
    char path[128];
    snprintf(path, sizeof path, "%s", path_of("aliases.json"));
    ck_assert_int_eq(link ? symlink(link, path) : mkdir(path, 0700), 0);
}

static void move_to(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s", path_of("aliases.json"));
    ck_assert_int_eq(rename(path, path_of(name)), 0);
}

/* The advice is followed. */
static void expect_that_it_can_be_moved_away(const char *aliases)
{
    ck_assert_int_eq(flip("y=b@1", ""), TD_CONFLICT);
    EXPECT_MESSAGE(&err, "cannot be read");
    EXPECT_MESSAGE(&err, td_store_check_aliases(store, TD_IGNORED) == TD_OK
                             ? "Put a correct file in its place, or move it away, and send SIGHUP"
                             : "Put a correct file in its place and send SIGHUP. This server has "
                               "not read the aliases. Without the file, the aliases are lost");
    ck_assert_int_eq(drop("b@1"), TD_CONFLICT);
    move_to("away");
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_int_eq(flip("y=b@1", ""), TD_OK);
    restart();
    ck_assert_str_eq(aliases_of(store), aliases);
}

TD_TEST_EACH(a_name_that_cannot_be_opened_is_no_absent_file, unreadable)
{
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    move_to("aside");
    put_unreadable(unreadable[_i].link);
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
    ck_assert_msg(strstr(problems_of(store), unreadable[_i].reason) != NULL, "%s",
                  problems_of(store));
    ck_assert_int_eq(td_store_check_aliases(store, &err), TD_OK);
    expect_that_it_can_be_moved_away("x=a@1 y=b@1 ");
}

TD_TEST_EACH(nor_is_it_at_a_start, unreadable)
{
    char uid[40];
    put_unreadable(unreadable[_i].link);
    restart();
    ck_assert_msg(strstr(problems_of(store), unreadable[_i].reason) != NULL, "%s",
                  problems_of(store));
    ck_assert_int_eq(td_store_check_aliases(store, &err), TD_DEVICE_UNAVAILABLE);
    snprintf(uid, sizeof uid, "let uid %u read it", (unsigned)geteuid());
    EXPECT_MESSAGE(&err, uid);
    expect_that_it_can_be_moved_away("y=b@1 ");
}

TD_TEST(a_refused_file_that_is_moved_away_is_written_again)
{
    ck_assert_int_eq(flip("x=a@1 y=b@1", ""), TD_OK);
    ck_assert_int_eq(flip("x=a@2 z=b@2", ""), TD_OK);
    put_text("aliases.json", "{");
    td_store_rescan(store);
    move_to("away");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        ck_assert_str_eq(problems_of(store), "");
        ck_assert_str_eq(aliases_of(store), "x=a@2 y=b@1 z=b@2 ");
    }
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@2 y=b@1 z=b@2 ");
    ck_assert_int_eq(unlink(path_of("aliases.json")), 0); /* it was not refused */
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "");
}

TD_TEST(a_reader_keeps_its_aliases_until_the_writer_has_written_them_again)
{
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    struct td_store *reader = open_reader();
    put_text("aliases.json", "{");
    td_store_rescan(reader);
    td_store_rescan(store);
    move_to("away");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(reader);
        ck_assert_str_eq(aliases_of(reader), "x=a@1 ");
        ck_assert_ptr_nonnull(strstr(problems_of(reader), "aliases.json: it could not be read, "
                                                          "and then it was removed"));
    }
    td_store_rescan(store);
    td_store_rescan(reader);
    ck_assert_str_eq(aliases_of(reader), "x=a@1 ");
    ck_assert_str_eq(problems_of(reader), "");
    td_arena_reset(&test_arena);
    td_store_free(reader);
}

TD_TEST(a_flip_replaces_a_link_and_leaves_the_other_file)
{
    struct stat info;
    put_text("elsewhere", "{\"aliases\":{\"x\":\"a@1\"}}");
    ck_assert_int_eq(symlink("elsewhere", path_of("aliases.json")), 0);
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
    ck_assert_int_eq(flip("x=a@2", ""), TD_OK);
    ck_assert_int_eq(lstat(path_of("aliases.json"), &info), 0);
    ck_assert(S_ISREG(info.st_mode));
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@2 ");
    ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    move_file("elsewhere", "aliases.json");
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
}

/* ---- aliases of folders, after the file could not be written --------------------------------- */

static void put_m(const char *version, const char *aliases)
{
    put_version(version, "m.npy", 10, aliases);
}

/* Damages the file, which is moved to "right". */
static void damage(void)
{
    move_to("right");
    put_text("aliases.json", "{");
}

static void put_back(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s", path_of("right"));
    ck_assert_int_eq(rename(path, path_of("aliases.json")), 0);
}

static void expect_after_restart(const char *aliases)
{
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), aliases);
    restart();
    ck_assert_str_eq(aliases_of(store), aliases);
    ck_assert_str_eq(problems_of(store), "");
}

static void start_damaged(void)
{
    put_m("1", "\"aliases\":{\"x\":\"m@1\",\"y\":\"m@1\"}");
    put_m("2", "\"aliases\":{\"x\":\"m@2\"}");
    td_store_rescan(store);
    damage();
    restart();
    ck_assert_str_eq(aliases_of(store), "x=m@2 y=m@1 ");
    ck_assert_int_eq(drop("x"), TD_CONFLICT); /* a restart would set it again */
    EXPECT_MESSAGE(&err, "has not read the aliases. Without the file, the aliases are lost");
}

TD_TEST_LOOP(a_flip_stays_after_a_start_without_the_file, 0, 2)
{
    start_damaged();
    ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    if (_i == 0) /* else the flip is the first to find that it is gone */
        td_store_rescan(store);
    ck_assert_int_eq(flip("x=m@1", "x=m@2"), TD_OK);
    ck_assert_int_eq(drop("y"), TD_OK);
    expect_after_restart("x=m@1 ");
}

TD_TEST(aliases_of_folders_are_written_once_the_file_is_gone)
{
    start_damaged();
    ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    td_store_rescan(store);
    ck_assert_int_eq(access(path_of("aliases.json"), F_OK), 0);
    expect_after_restart("x=m@2 y=m@1 ");
}

TD_TEST(a_right_file_decides_on_the_folders_that_it_knows)
{
    put_m("1", "\"aliases\":{\"x\":\"m@1\",\"y\":\"m@1\"}");
    put_m("2", "\"aliases\":{\"x\":\"m@2\"}");
    td_store_rescan(store);
    ck_assert_int_eq(flip("x=m@1 y=", ""), TD_OK);
    damage();
    restart();
    ck_assert_str_eq(aliases_of(store), "x=m@2 y=m@1 ");
    put_back();
    expect_after_restart("x=m@1 ");
}

static void put_new_folder_while_damaged(void)
{
    put_m("1", "\"aliases\":{\"x\":\"m@1\"}");
    td_store_rescan(store);
    damage();
    put_m("2", "\"aliases\":{\"x\":\"m@2\",\"y\":\"m@2\"}");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=m@2 y=m@2 ");
}

TD_TEST(a_folder_that_a_right_file_does_not_know_is_written)
{
    put_new_folder_while_damaged();
    put_back();
    expect_after_restart("x=m@2 y=m@2 ");
}

TD_TEST(a_file_by_hand_does_not_undo_a_folder_that_it_does_not_know)
{
    put_new_folder_while_damaged();
    (void)logged();
    put_text("aliases.json", "{\"aliases\":{\"x\":\"m@1\"}}");
    td_store_rescan(store);
    ck_assert_ptr_nonnull(
        strstr(logged(), " warn alias_set_again alias=x from=m@1 to=m@2 source=2"));
    expect_after_restart("x=m@2 y=m@2 ");
}

TD_TEST(nor_does_a_folder_that_is_gone_keep_its_aliases)
{
    put_new_folder_while_damaged();
    remove_version("2");
    put_back();
    expect_after_restart("x=m@1 ");
}

TD_TEST(a_flip_stays_after_a_folder_that_the_file_did_not_know)
{
    put_new_folder_while_damaged();
    put_back();
    td_store_rescan(store);
    ck_assert_int_eq(flip("x=m@1 y=", ""), TD_OK);
    expect_after_restart("x=m@1 ");
}

/* A file that lists one folder too many, all of them gone. */
static void put_file_of_many_folders(void)
{
    enum { FOLDERS = 4096 + 1, LINE = 100 };
    char *text = malloc((size_t)FOLDERS * LINE), *at = text;
    at += sprintf(at, "{\"aliases\":{\"x\":\"m@1\"},\"taken\":{");
    for (int i = 0; i < FOLDERS; i++)
        at += sprintf(at, "%s\"gone-%d\":\"%064d\"", i > 0 ? "," : "", i, i);
    sprintf(at, "}}");
    put_text("aliases.json", text);
    free(text);
}

TD_TEST(a_folder_that_is_forgotten_does_not_return_with_the_file)
{
    static char text[1 << 20];
    put_new_folder_while_damaged();
    put_file_of_many_folders();
    td_store_rescan(store); /* which writes the folders that the file lacks */
    FILE *file = fopen(path_of("aliases.json"), "rb");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "\"2\":"));
    ck_assert_ptr_nonnull(strstr(text, "\"gone-1\":"));
    ck_assert_ptr_null(strstr(text, "\"gone-0\":"));
}

/* Such a file has no `taken`. */
TD_TEST_LOOP(a_start_warns_of_a_file_by_hand_whose_aliases_a_folder_sets_again, 0, 2)
{
    put_m("1", "\"aliases\":{\"x\":\"m@1\"}");
    put_m("2", "\"aliases\":{\"x\":\"m@2\"}");
    td_store_rescan(store);
    /* of a version that is there, or is not */
    put_text("aliases.json",
             _i == 0 ? "{\"aliases\":{\"x\":\"a@1\"}}" : "{\"aliases\":{\"x\":\"m@9\"}}");
    (void)logged();
    restart();
    ck_assert_str_eq(aliases_of(store), "x=m@2 ");
    const char *lines = logged();
    ck_assert_ptr_nonnull(strstr(lines, _i == 0 ? " warn alias_set_again alias=x from=a@1 to=m@1"
                                                : " warn alias_set_again alias=x from=m@9 to=m@1"));
    ck_assert_ptr_nonnull(strstr(lines, " source=1"));
    restart();
    ck_assert_ptr_null(strstr(logged(), "alias_set_again"));
}

/* ---- what the file changes ------------------------------------------------------------------- */

TD_TEST(what_another_process_wrote_is_read_before_it_is_replaced)
{
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    put_text("aliases.json", "{\"aliases\":{\"x\":\"a@2\"}}");
    ck_assert_int_eq(flip("y=b@1", ""), TD_CONFLICT);
    EXPECT_MESSAGE(&err, "send SIGHUP");
    ck_assert_int_eq(drop("x"), TD_CONFLICT);   /* it would write the file */
    ck_assert_int_eq(drop("a@2"), TD_CONFLICT); /* the file names it */
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
    td_store_rescan(store);
    ck_assert_int_eq(flip("y=b@2", ""), TD_OK);
    restart();
    ck_assert_str_eq(aliases_of(store), "x=a@2 y=b@2 ");
}

TD_TEST(each_flipped_bit_of_the_file_is_noticed)
{
    char text[1024], changed[1024];
    ck_assert_int_eq(flip("x=a@1 y=b@2", ""), TD_OK);
    td_arena_reset(&test_arena);
    td_store_free(store);
    FILE *file = fopen(path_of("aliases.json"), "rb");
    const size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    for (size_t i = 0; i < 8 * (bytes - 2); i++) { /* the last two: a brace and a new line */
        memcpy(changed, text, bytes);
        changed[i / 8] = (char)(changed[i / 8] ^ 1 << i % 8);
        put_file("aliases.json", changed, bytes);
        store = open_folder();
        ck_assert_msg(problems_of(store)[0] != '\0', "byte %d, bit %d", (int)(i / 8), (int)(i % 8));
        ck_assert_str_eq(aliases_of(store), "");
        (void)logged();
        td_arena_reset(&test_arena);
        td_store_free(store);
    }
    store = open_folder();
}

TD_TEST(a_file_by_hand_needs_no_checksum)
{
    put_text("aliases.json", "{\"aliases\": {\"x\": \"a@1\"}}\n");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=a@1 ");
    put_text("aliases.json", "{\"aliases\": {\"x\": \"a@2\", \"y\": \"b@2\"}}\n");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=a@2 y=b@2 ");
    put_text("aliases.json", "{}");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=a@2 y=b@2 ");
    put_text("aliases.json", "{\"aliases\":{}}");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "");
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_removed_file_removes_its_aliases)
{
    put_text("aliases.json", "{\"aliases\": {\"x\": \"a@1\"}}\n");
    td_store_rescan(store);
    ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "");
}

TD_TEST(a_file_that_names_a_version_which_is_not_there_changes_no_alias)
{
    ck_assert_int_eq(flip("x=a@1 y=b@1", ""), TD_OK);
    (void)logged_with_scans();
    put_text("aliases.json", "{\"aliases\": {\"x\": \"a@22\", \"y\": \"b@2\", \"z\": \"a@2\"}}");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        ck_assert_str_eq(aliases_of(store), "x=a@1 y=b@1 ");
        expect_value("x", 1);
        ck_assert_str_eq(problems_of(store), "aliases.json: its alias 'x' names a@22, which does "
                                             "not exist; the aliases that were read before stay "
                                             "in effect until a restart;");
        ck_assert(!td_store_reading(store).aliases);
        const char *lines = logged_with_scans();
        ck_assert_ptr_nonnull(strstr(lines, "aliases_refused source=aliases.json"));
        ck_assert_ptr_null(strstr(lines, "alias_changed"));
        EXPECT_OK(td_store_check_aliases(store, &err), &err); /* it stays ready */
        ck_assert_int_eq(flip("y=b@2", ""), TD_CONFLICT);
        EXPECT_MESSAGE(&err, "or names a version that does not exist; GET /v1/aliases says which");
    }
    ck_assert_int_eq(put("a@22", 22, true), TD_OK); /* the file is as it was */
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=a@22 y=b@2 z=a@2 ");
    ck_assert_str_eq(problems_of(store), "");
    ck_assert(td_store_reading(store).aliases);
}

TD_TEST(an_alias_whose_version_is_gone_may_name_another_that_is_not_there)
{
    ck_assert_int_eq(flip("x=a@1 y=b@1", ""), TD_OK);
    ck_assert_int_eq(unlink(path_of("a@1.tensord")), 0);
    put_text("aliases.json", "{\"aliases\": {\"x\": \"a@22\", \"y\": \"b@2\"}}");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=a@22 y=b@2 ");
    ck_assert_str_eq(problems_of(store), "x: it names a@22, which does not exist;");
}

TD_TEST(an_alias_waits_for_its_version)
{
    struct td_tensor_listing listing;
    ck_assert_int_eq(flip("x=a@1", ""), TD_OK);
    ck_assert_int_eq(unlink(path_of("a@1.tensord")), 0);
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        ck_assert_int_eq(look_up("x", &listing), TD_DEVICE_UNAVAILABLE);
        EXPECT_MESSAGE(&err, "'a@1', which does not exist");
        restart();
    }
    put_npy("a@1.npy", 1, 1);
    td_store_rescan(store);
    expect_value("x", 1);
}

TD_TEST(problems_are_listed_by_name_until_they_are_solved)
{
    put_text("aliases.json", "{\"aliases\": {\"z\": \"n@1\", \"x\": \"n@1\", \"y\": \"n@2\"}}");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        ck_assert_str_eq(problems_of(store),
                         "x: it names n@1, which does not exist;y: it names n@2, which does "
                         "not exist;z: it names n@1, which does not exist;");
    }
    ck_assert_int_eq(put("n@2", 2, false), TD_OK);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "x: it names n@1, which does not exist;z: it names n@1, "
                                         "which does not exist;");
    put_npy("n@1.npy", 1, 1);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(an_alias_of_the_file_is_no_tensor)
{
    put_text("aliases.json", "{\"aliases\": {\"t\": \"a@1\"}}");
    td_store_rescan(store);
    expect_value("t", 1);
    ck_assert_ptr_nonnull(strstr(problems_of(store), "t: the alias in aliases.json is not served"));
    restart(); /* then it is the tensor that is not served */
    expect_value("t", 1);
    ck_assert_str_eq(found(store, "a@1")->name, "a@1");
    expect_names(store, "a@1 a@2 b@1 b@2");
}

/* ---- tensors and aliases of one name --------------------------------------------------------- */

static void put_alias(const char *target)
{
    char text[64];
    snprintf(text, sizeof text, "{\"aliases\": {\"f\": \"%s\"}}", target);
    put_text("aliases.json", text);
}

#define HIDDEN                                                                                     \
    "f: the alias in aliases.json is not served until a restart: a tensor has the same name, "     \
    "and a restart would serve the alias instead. Delete the tensor, or remove the alias from "    \
    "aliases.json, and send SIGHUP;"

TD_TEST_LOOP(a_tensor_that_hides_an_alias_is_told_until_either_is_gone, 0, 3)
{
    put_npy("f.npy", 7, 1);
    put_alias("a@1");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_value("f", 7);
        ck_assert_str_eq(problems_of(store), HIDDEN);
    }
    if (_i == 0)
        ck_assert_int_eq(unlink(path_of("f.npy")), 0);
    else if (_i == 1)
        ck_assert_int_eq(drop("f"), TD_OK);
    else
        ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_value("f", _i == 2 ? 7 : 1);
        ck_assert_str_eq(aliases_of(store), _i == 2 ? "" : "f=a@1 ");
        ck_assert_str_eq(problems_of(store), "");
        restart();
    }
}

TD_TEST(an_alias_that_a_tensor_hides_may_be_set_to_none)
{
    put_npy("f.npy", 7, 1);
    put_alias("a@1");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "");
    ck_assert_int_eq(flip("f=", ""), TD_OK);
    ck_assert_str_eq(aliases_of(store), "");
    ck_assert_str_eq(problems_of(store), "");
    restart();
    expect_value("f", 7);
}

TD_TEST_LOOP(the_problem_of_an_alias_ends_with_the_alias, 0, 4)
{
    const bool cut = _i % 2;
    put_alias(cut ? "a@1" : "n@1");
    if (cut)
        ck_assert_int_eq(truncate(path_of("a@1.tensord"), 20), 0);
    restart();
    ck_assert_ptr_nonnull(strstr(problems_of(store), "f: it names "));
    if (_i < 2)
        ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    else
        put_text("aliases.json", "{\"aliases\": {}}");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "");
    ck_assert_ptr_null(strstr(problems_of(store), "f: "));
}

TD_TEST_LOOP(the_file_of_a_name_that_an_alias_gives_up_is_served_by_one_rescan, 0, 4)
{
    const bool hidden_at_first = _i % 2;
    put_alias(_i < 2 ? "a@1" : "n@1");
    if (hidden_at_first)
        put_npy("f.npy", 7, 1);
    restart();
    ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    put_npy("f.npy", 7, 1);
    td_store_rescan(store);
    expect_value("f", 7);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(the_file_that_a_deleted_alias_has_hidden_is_served_by_the_next_rescan)
{
    struct td_tensor_listing listing;
    put_alias("a@1");
    put_npy("f.npy", 7, 1);
    restart();
    expect_value("f", 1);
    ck_assert_int_eq(drop("f"), TD_OK);
    ck_assert_int_eq(look_up("f", &listing), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err,
                   "an alias had its name when the file was read. After that alias is removed, "
                   "send SIGHUP to serve the tensor");
    ck_assert_str_eq(problems_of(store),
                     "f.npy: f: an alias had its name when the file was read. After that alias "
                     "is removed, send SIGHUP to serve the tensor;");
    td_store_rescan(store);
    expect_value("f", 7);
    ck_assert_str_eq(problems_of(store), "");
}

TD_FIXTURE(begin, end);
