/* Folders of versions: V with a manifest.json is taken whole or not at all. */
#include "server/store/aliases/aliases.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;

/* ---- the store ------------------------------------------------------------------------------- */

static td_status try_flip(const char *name, const char *target)
{
    const struct td_alias_change set = { name, target };
    return td_store_flip(store, &(struct td_alias_flip){ .set = &set, .n_set = 1 }, &err);
}

static void flip(const char *name, const char *target)
{
    EXPECT_OK(try_flip(name, target), &err);
}

static td_status drop(const char *name)
{
    return td_store_delete(store, &(struct td_store_write){ .name = name, .removes = true },
                           &(bool){ false }, &err);
}

/* ---- folders that are taken ------------------------------------------------------------------ */

TD_TEST(a_folder_is_taken_at_the_start_and_at_a_rescan)
{
    put_version("1", "m.safetensors t.npy", 10, "\"aliases\":{\"x\":\"m:w@1\",\"t\":\"t@1\"}");
    store = open_folder();
    expect_names(store, "m:b.x@1 m:w@1 t@1");
    ck_assert_str_eq(aliases_of(store), "t=t@1 x=m:w@1 ");
    ck_assert_int_eq(value_of(found(store, "t@1")->tensor, 0), 10);
    ck_assert_str_eq(found(store, "m:w@1")->source, "1/m.safetensors");
    ck_assert(found(store, "m:w@1")->persisted);
    ck_assert_str_eq(logged(), "");
    put_version("2", "m.safetensors", 20, "\"aliases\":{\"x\":\"m:w@2\"}");
    td_store_rescan(store);
    expect_names(store, "m:b.x@1 m:b.x@2 m:w@1 m:w@2 t@1");
    ck_assert_str_eq(aliases_of(store), "t=t@1 x=m:w@2 ");
    ck_assert_str_eq(problems_of(store), "");
    restart();
    expect_names(store, "m:b.x@1 m:b.x@2 m:w@1 m:w@2 t@1");
    ck_assert_str_eq(aliases_of(store), "t=t@1 x=m:w@2 ");
}

TD_TEST(a_file_that_the_manifest_does_not_list_is_logged_by_each_scan)
{
    static const char line[] =
        " warn table_skipped file=1/extra.npy reason=\"manifest.json of this "
        "version does not list it; ";
    put_version("1", "t.npy", 10, "");
    put_npy("1/extra.npy", 20, 100);
    put_text("1/notes.txt", "no tensor");
    store = open_folder();
    for (int i = 0; i < 2; i++) {
        const char *lines = logged(); /* since the call before */
        const char *first = strstr(lines, line);
        ck_assert_msg(first && !strstr(first + strlen(line), "table_skipped"), "%s", lines);
        expect_names(store, "t@1");
        td_store_rescan(store);
    }
}

TD_TEST(a_tensor_without_an_equivalent_dtype_is_left_out_of_its_folder)
{
    put_version_files("1", "", 0);
    put_safetensors("1/m.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"q\":{\"dtype\":\"F8_E5M2\",\"shape\":[8],\"data_offsets\":[16,24]}}  ",
                    10, 6);
    put_manifest("1", "m.safetensors", "\"aliases\":{\"x\":\"m:w@1\"}");
    store = open_folder();
    expect_names(store, "m:w@1");
    ck_assert_str_eq(aliases_of(store), "x=m:w@1 ");
    ck_assert_ptr_nonnull(
        strstr(logged(), " warn table_skipped file=1/m.safetensors tensor=m:q@1 reason="));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(td_store_reading(store).problems, 1);
        ck_assert_ptr_nonnull(strstr(problems_of(store), "1: m.safetensors: m:q@1: "));
        td_store_rescan(store);
    }
}

TD_TEST(the_aliases_of_a_folder_are_set_once)
{
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    put_version("2", "m.npy", 20, "\"aliases\":{\"x\":\"m@2\"}");
    store = open_folder();
    ck_assert_str_eq(aliases_of(store), "x=m@2 ");
    flip("x", "m@1");
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=m@1 ");
    restart();
    ck_assert_str_eq(aliases_of(store), "x=m@1 ");
}

TD_TEST(a_damaged_aliases_json_is_not_overwritten)
{
    static const char damaged[] = "{\"aliases\":{\n\"y\":\"m@";
    char text[sizeof damaged + 1];
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    put_text("aliases.json", damaged);
    store = open_folder();
    ck_assert_str_eq(aliases_of(store), "x=m@1 "); /* as after a restart */
    FILE *file = fopen(path_of("aliases.json"), "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(text, 1, sizeof text, file), strlen(damaged));
    fclose(file);
    put_text("aliases.json", "{\"aliases\":{\"y\":\"m@1\"}}"); /* repaired */
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=m@1 y=m@1 ");
}

/* ---- two daemons, one of which reads
 * ----------------------------------------------------------- */

static atomic_bool stop_reading, seen_taken;

/* Looks at "x" until the test ends. */
static void *look(void *context)
{
    struct td_store *reader = context;
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    while (!atomic_load(&stop_reading)) {
        struct td_tensor_listing listing;
        struct td_error missing;
        if (td_store_get(reader, "x", 1, &arena, &listing, &missing) == TD_OK &&
            strcmp(listing.name, "old@1") != 0)
            atomic_store(&seen_taken, true);
        td_arena_reset(&arena);
    }
    return NULL;
}

TD_TEST(a_reader_never_serves_what_was_flipped_back)
{
    pthread_t thread;
    put_npy("old@1.npy", 1, 1);
    store = open_folder();
    flip("x", "old@1");
    struct td_store *reader = open_reader();
    atomic_store(&stop_reading, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, look, reader), 0);
    for (int i = 2; i < 30; i++) {
        char name[16], alias[64];
        snprintf(name, sizeof name, "%d", i);
        snprintf(alias, sizeof alias, "\"aliases\":{\"x\":\"m@%d\"}", i);
        put_version(name, "m.npy", i, alias);
        td_store_rescan(store);
        flip("x", "old@1");
        td_store_rescan(reader);
    }
    atomic_store(&stop_reading, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!atomic_load(&seen_taken));
    td_store_free(reader);
}

TD_TEST(folders_are_taken_in_natural_order)
{
    put_version("10", "m.npy", 10, "\"aliases\":{\"x\":\"m@10\"}");
    put_version("2", "m.npy", 20, "\"aliases\":{\"x\":\"m@2\"}");
    store = open_folder();
    ck_assert_str_eq(aliases_of(store), "x=m@10 ");
}

TD_TEST(an_aliases_json_may_name_a_version_of_a_folder_that_comes_with_it)
{
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    store = open_folder();
    put_version("2", "m.npy", 20, "\"aliases\":{\"y\":\"m@2\"}");
    put_text("aliases.json", "{\"aliases\": {\"x\": \"m@2\"}}");
    (void)logged();
    td_store_rescan(store);
    ck_assert_str_eq(logged(), "");
    ck_assert_str_eq(aliases_of(store), "x=m@2 y=m@2 ");
}

TD_TEST(an_alias_may_name_a_version_outside_the_folder)
{
    put_npy("old@1.npy", 1, 1);
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"old@1\"}");
    store = open_folder();
    ck_assert_str_eq(aliases_of(store), "x=old@1 ");
}

TD_TEST(a_process_without_the_lock_takes_a_folder_in_memory)
{
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    chmod(folder, 0500);
    if (access(folder, W_OK) == 0) { /* root may write everywhere */
        chmod(folder, 0700);
        store = td_store_open(&(struct td_store_options){ .dir = folder,
                                                          .quota = QUOTA,
                                                          .read_only = true,
                                                          .memory = &store_memory.memory,
                                                          .log = &store_log });
    } else {
        store = open_folder();
        chmod(folder, 0700);
    }
    ck_assert_str_eq(aliases_of(store), "x=m@1 ");
    ck_assert_int_ne(access(path_of("aliases.json"), F_OK), 0);
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=m@1 ");
}

TD_TEST_LOOP(aliases_by_hand_do_not_make_a_restart_set_those_of_a_folder_again, 0, 4)
{
    static const char *const wanted[] = { "y=m@1 ", "" };
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    store = open_folder();
    if (_i % 2)
        restart();
    if (_i < 2)
        put_text("aliases.json", "{\"aliases\": {\"y\": \"m@1\"}}");
    else
        ck_assert_int_eq(unlink(path_of("aliases.json")), 0);
    for (int i = 0; i < 3; i++) {
        td_store_rescan(store);
        ck_assert_str_eq(aliases_of(store), wanted[_i / 2]);
        restart();
        ck_assert_str_eq(aliases_of(store), wanted[_i / 2]);
        ck_assert_str_eq(problems_of(store), "");
    }
    remove_version("1"); /* one that is gone is forgotten */
    td_store_rescan(store);
    put_version("1", "m.npy", 20, "\"aliases\":{\"x\":\"m@1\"}");
    td_store_rescan(store);
    ck_assert_ptr_nonnull(strstr(aliases_of(store), "x=m@1 "));
}

TD_TEST(a_removed_folder_takes_its_versions_with_it)
{
    struct td_tensor_listing listing;
    put_version("1", "m.npy t.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    store = open_folder();
    ck_assert_int_eq(drop("t@1"), TD_FORBIDDEN);
    EXPECT_MESSAGE(&err, "the folder 1");
    remove_version("1");
    td_store_rescan(store);
    expect_names(store, "");
    ck_assert_int_eq(td_store_get(store, "x", 1, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    put_version("1", "m.npy", 30, "\"aliases\":{\"y\":\"m@1\"}"); /* another one of that name */
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=m@1 y=m@1 ");
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 30);
}

TD_TEST(a_reader_keeps_the_alias_of_a_removed_folder_until_a_restart)
{
    struct td_tensor_listing listing;
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    store = open_reader();
    remove_version("1");
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "x: it names m@1, which does not exist;");
    ck_assert_int_eq(td_store_get(store, "x", 1, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    put_version("1", "m.npy", 30, "");
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_int_eq(td_store_get(store, "x", 1, &test_arena, &listing, &err), TD_OK);
    remove_version("1");
    close_store();
    store = open_reader();
    ck_assert_str_eq(aliases_of(store), "");
    ck_assert_str_eq(problems_of(store), "");
}

/* "1" is the name of both. */
TD_TEST(a_folder_and_an_alias_of_its_name_have_problems_of_their_own)
{
    struct td_tensor_listing unused;
    put_npy("a@2.npy", 1, 1);
    put_version("1", "m.npy", 10, "");
    ck_assert_int_eq(unlink(path_of("1/m.npy")), 0);
    store = open_folder();
    flip("1", "a@2");
    td_store_rescan(store);
    ck_assert_int_eq(td_store_reading(store).problems, 1);
    ck_assert_int_eq(td_store_get(store, "m@1", 3, &test_arena, &unused, &err),
                     TD_DEVICE_UNAVAILABLE);
    move_file("a@2.npy", ".kept");
    td_store_rescan(store);
    ck_assert_int_eq(td_store_reading(store).problems, 2);
    ck_assert_ptr_nonnull(strstr(problems_of(store), ";1: it names a@2, which does not exist;"));
    ck_assert_int_eq(td_store_get(store, "m@1", 3, &test_arena, &unused, &err),
                     TD_DEVICE_UNAVAILABLE);
    remove_version("1");
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "1: it names a@2, which does not exist;");
    move_file(".kept", "a@2.npy");
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_served_folder_that_loses_its_manifest_is_a_problem)
{
    struct td_tensor_listing unused;
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    store = open_folder();
    move_file("1/manifest.json", ".kept");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_names(store, "");
        ck_assert_ptr_nonnull(strstr(problems_of(store), "1: its manifest.json is missing"));
        ck_assert_ptr_nonnull(strstr(logged(), " warn folder_refused folder=1 reason="));
        ck_assert_int_eq(td_store_get(store, "m@1", 3, &test_arena, &unused, &err),
                         TD_DEVICE_UNAVAILABLE);
        EXPECT_MESSAGE(&err, "the folder 1, which is refused");
    }
    move_file(".kept", "1/manifest.json");
    td_store_rescan(store);
    expect_names(store, "m@1");
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_str_eq(aliases_of(store), "x=m@1 ");
    ck_assert_int_eq(drop("x"), TD_OK);
    ck_assert_int_eq(unlink(path_of("1/manifest.json")), 0);
    td_store_rescan(store);
    ck_assert_int_eq(td_store_reading(store).problems, 1);
    remove_version("1");
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

/* 0: while the store is open; 1: while it is closed; 2: and nothing is read before it is there
 * again */
TD_TEST_LOOP(a_folder_that_is_brought_back_does_not_undo_a_rollback, 0, 3)
{
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    put_version("2", "m.npy", 20, "\"aliases\":{\"x\":\"m@2\"}");
    store = open_folder();
    flip("x", "m@1");
    if (_i > 0)
        close_store();
    remove_version("2");
    if (_i == 0)
        td_store_rescan(store);
    if (_i == 1)
        store = open_folder();
    if (_i < 2)
        restart();
    put_version("2", "m.npy", 20, "\"aliases\":{\"x\":\"m@2\"}");
    if (_i == 2)
        store = open_folder();
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=m@1 ");
    ck_assert_int_eq(value_of(found(store, "m@2")->tensor, 0), 20);
    remove_version("2");
    td_store_rescan(store);
    put_version("2", "m.npy", 30, "\"aliases\":{\"x\":\"m@2\"}"); /* another one of its name */
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=m@2 ");
}

TD_TEST(a_folder_of_floats_after_bytes_takes_the_aliases_of_the_parts_away)
{
    put_version(
        "1", "m.npy m.scale.npy m.offset.npy", 10,
        "\"aliases\":{\"x\":\"m@1\",\"x.scale\":\"m.scale@1\",\"x.offset\":\"m.offset@1\"}");
    store = open_folder();
    put_version("2", "m.npy", 20, "\"aliases\":{\"x\":\"m@2\"}");
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_str_eq(aliases_of(store), "x=m@2 ");
    restart();
    ck_assert_str_eq(aliases_of(store), "x=m@2 ");
    put_version("3", "m.npy m.scale.npy", 30,
                "\"aliases\":{\"x\":\"m@3\",\"x.scale\":\"m.scale@3\"}");
    put_version("4", "m.npy m.scale.npy", 40, "\"aliases\":{\"x\":\"m@4\"}"); /* has scales, too */
    td_store_rescan(store);
    ck_assert_str_eq(aliases_of(store), "x=m@3 x.scale=m.scale@3 ");
    ck_assert_ptr_nonnull(strstr(problems_of(store), "4: "));
}

/* As root only another user meets a folder that it may not read. */
TD_TEST(a_folder_that_cannot_be_read_is_refused)
{
    char problem[300];
    snprintf(problem, sizeof problem, "1: it cannot be read: %s;", denied());
    put_version("1", "m.npy", 10, "\"aliases\":{\"x\":\"m@1\"}");
    chmod(path_of("1"), 0);
    chmod(folder, 0777);
    drop_rights();
    store = open_folder();
    regain_rights();
    expect_names(store, "");
    ck_assert_str_eq(problems_of(store), problem);
    const char *lines = logged_with_scans();
    ck_assert_ptr_nonnull(strstr(lines, " warn folder_refused folder=1 reason="));
    ck_assert_ptr_null(strstr(lines, "without manifest.json"));
    chmod(path_of("1"), 0700);
    td_store_rescan(store);
    expect_names(store, "m@1");
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(hidden_folders_and_those_without_a_manifest_are_not_read)
{
    put_version_files("v", "m.npy", 1);
    put_version(".hidden", "m.npy", 1, "");
    store = open_folder();
    expect_names(store, "");
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(an_npy_file_of_a_folder_has_keys_in_another_one)
{
    int64_t keys[100];
    for (int i = 0; i < 100; i++)
        keys[i] = 1000 + i;
    put_version_files("1", "q.npy m.safetensors", 10);
    put_keys_npy("1/q.keys.npy", keys, 100);
    put_manifest("1", "q.npy m.safetensors q.keys.npy", "\"aliases\":{\"x\":\"q@1\"}");
    store = open_folder();
    for (int i = 0; i < 2; i++) {
        expect_names(store, "m:b.x@1 m:w@1 q@1");
        const struct td_tensor *vector = found(store, "q@1")->keys;
        ck_assert_ptr_nonnull(vector);
        ck_assert_int_eq(((const int64_t *)vector->data)[99], 1099);
        ck_assert_ptr_nonnull(vector->key_index);
        ck_assert_str_eq(problems_of(store), "");
        ck_assert_str_eq(aliases_of(store), "x=q@1 ");
        td_store_rescan(store);
    }
}

/* ---- folders that are refused ---------------------------------------------------------------- */

static void wrong_byte(void)
{
    put_npy("1/m.npy", 11, 100);
}

static void wrong_size(void)
{
    put_npy("1/m.npy", 10, 101);
}

static void missing_file(void)
{
    ck_assert_int_eq(unlink(path_of("1/m.npy")), 0);
}

static void linked_file(void)
{
    put_npy("outside", 10, 100);
    ck_assert_int_eq(unlink(path_of("1/m.npy")), 0);
    ck_assert_int_eq(symlink("../outside", path_of("1/m.npy")), 0);
}

static void linked_manifest(void)
{
    move_file("1/manifest.json", "outside");
    ck_assert_int_eq(symlink("../outside", path_of("1/manifest.json")), 0);
}

static void fifo(void)
{
    ck_assert_int_eq(unlink(path_of("1/m.npy")), 0);
    ck_assert_int_eq(mkfifo(path_of("1/m.npy"), 0600), 0);
}

static void malformed_file(void)
{
    put_text("1/m.npy", "no numbers");
    put_manifest("1", "m.npy t.npy", "");
}

static void malformed_manifest(void)
{
    put_text("1/manifest.json", "{\"files\":{\"../m.npy\":{}}}");
}

static void existing_name(void)
{
    put_npy("m@1.npy", 5, 1);
}

static void same_name(void)
{
    put_version_files("1", "t.safetensors t:w.npy", 1);
    put_manifest("1", "t.safetensors t:w.npy", "");
}

static void alias_of_a_tensor(void)
{
    put_npy("x.npy", 5, 1);
    put_manifest("1", "m.npy t.npy", "\"aliases\":{\"x\":\"m@1\",\"y\":\"m@1\"}");
}

static void alias_of_keys(void)
{
    put_manifest("1", "m.npy t.npy", "\"aliases\":{\"x.keys\":\"m@1\"}");
}

static void alias_of_nothing(void)
{
    put_manifest("1", "m.npy t.npy", "\"aliases\":{\"y\":\"m@1\",\"x\":\"nothing@1\"}");
}

static void keys_that_do_not_fit(void)
{
    put_keys_npy("1/m.keys.npy", (const int64_t[]){ 1, 2 }, 2);
    put_manifest("1", "m.npy t.npy m.keys.npy", "");
}

static void keys_without_a_table(void)
{
    put_keys_npy("1/q.keys.npy", (const int64_t[]){ 1, 2 }, 2);
    put_manifest("1", "m.npy t.npy q.keys.npy", "");
}

static void other_keys(void)
{
    keys_that_do_not_fit();
    put_keys_npy("1/m.keys.npy", (const int64_t[]){ 1, 3 }, 2);
}

static const struct {
    const char *description;
    void (*spoil)(void);
    const char *reason, *names; /* that are served nevertheless */
} spoiled[] = {
    { "a byte differs", wrong_byte, "1: m.npy: its SHA-256 is", "" },
    { "a size differs", wrong_size, "1: m.npy: its size is 532 bytes, but 528", "" },
    { "a file is missing", missing_file, "1: m.npy: it cannot be read", "" },
    { "a file is a link", linked_file, "1: m.npy: it is a symbolic link", "" },
    { "the manifest is a link", linked_manifest, "manifest.json", "" },
    { "a file is a pipe", fifo, "1: m.npy: it is empty or not a regular file", "" },
    { "a file is no tensor", malformed_file, "1: m.npy: ", "" },
    { "the manifest leads out of the folder", malformed_manifest, "'../m.npy' is not the name",
      "" },
    { "a name is there", existing_name, "'m@1' already exists: it is in m@1.npy", "m@1" },
    { "two files have a name", same_name, "two of its files contain the tensor 't:w@1'", "" },
    { "keys do not fit", keys_that_do_not_fit, "1: m.keys.npy: there are 2 keys, but 'm@1' has 100",
      "" },
    { "keys have no table", keys_without_a_table,
      "1: q.keys.npy has the name of a file of keys, but the", "" },
    { "keys have another digest", other_keys, "1: m.keys.npy: its SHA-256 is", "" },
    { "an alias has the name of a tensor", alias_of_a_tensor, "'x' is a tensor", "x" },
    { "an alias has the name of keys", alias_of_keys, "'x.keys' cannot be an alias", "" },
    { "an alias names nothing", alias_of_nothing, "'nothing@1'", "" },
};

TD_TEST_EACH(a_folder_is_refused_whole, spoiled)
{
    put_version("1", "m.npy t.npy", 10, "\"aliases\":{\"y\":\"m@1\"}");
    spoiled[_i].spoil();
    store = open_folder();
    for (int i = 0; i < 2; i++) {
        expect_names(store, spoiled[_i].names);
        ck_assert_str_eq(aliases_of(store), "");
        ck_assert_msg(strncmp(problems_of(store), "1: ", 3) == 0 &&
                          strstr(problems_of(store), spoiled[_i].reason) != NULL,
                      "%s: %s", spoiled[_i].description, problems_of(store));
        ck_assert_msg(strstr(logged(), " warn folder_refused folder=1 reason=") != NULL, "%s",
                      spoiled[_i].description);
        td_store_rescan(store);
    }
    ck_assert_uint_eq(td_store_usage(store).held, 0);
    (void)unlink(path_of("m@1.npy")); /* corrected, it is taken */
    (void)unlink(path_of("x.npy"));
    remove_version("1");
    td_store_rescan(store);
    put_version("1", "m.npy t.npy", 10, "\"aliases\":{\"y\":\"m@1\"}");
    td_store_rescan(store);
    expect_names(store, "m@1 t@1");
    ck_assert_str_eq(aliases_of(store), "y=m@1 ");
    ck_assert_str_eq(problems_of(store), "");
}

/* Which names it has is not known for certain. */
TD_TEST(a_version_that_may_be_in_a_refused_folder_is_unavailable)
{
    static const char *const may_be[] = { "m@1", "t@1", "q@1", "m.keys@1" };
    struct td_tensor_listing unused;
    put_version("1", "m.npy t.npy", 10, "");
    put_version("2", "m.npy", 20, "");
    wrong_byte();
    store = open_folder();
    expect_names(store, "m@2");
    for (size_t i = 0; i < sizeof may_be / sizeof *may_be; i++) {
        ck_assert_int_eq(
            td_store_get(store, may_be[i], strlen(may_be[i]), &test_arena, &unused, &err),
            TD_DEVICE_UNAVAILABLE);
        EXPECT_MESSAGE(&err, "might be in the folder 1, which is refused");
    }
    ck_assert_int_eq(drop("m@1"), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "'m@1', but it might be in the folder 1");
    ck_assert_int_eq(try_flip("x", "m@1"), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "'m@1', but it might be in the folder 1");
    ck_assert_str_eq(err.attribute, "set");
    ck_assert_int_eq(try_flip("x", "m@3"), TD_TENSOR_NOT_FOUND);
    ck_assert_int_eq(td_store_get(store, "m@3", 3, &test_arena, &unused, &err),
                     TD_TENSOR_NOT_FOUND);
    ck_assert_int_eq(td_store_get(store, "m m@1", 5, &test_arena, &unused, &err),
                     TD_TENSOR_NOT_FOUND);
    ck_assert(!td_store_knows(store, "m@1"));
    remove_version("1");
    td_store_rescan(store);
    ck_assert_int_eq(td_store_get(store, "m@1", 3, &test_arena, &unused, &err),
                     TD_TENSOR_NOT_FOUND);
    ck_assert_int_eq(drop("m@1"), TD_TENSOR_NOT_FOUND);
    ck_assert_int_eq(try_flip("x", "m@1"), TD_TENSOR_NOT_FOUND);
}

TD_TEST(a_folder_whose_name_is_no_version_is_refused)
{
    put_version("2026 11 22", "m.npy", 10, "");
    store = open_folder();
    expect_names(store, "");
    ck_assert_str_eq(problems_of(store),
                     "2026 11 22: its name is not a valid VERSION; expected 1 to 64 of the "
                     "characters A-Z, a-z, 0-9, '.', '_' and '-';");
    move_file("2026 11 22", "20261122");
    td_store_rescan(store);
    expect_names(store, "m@20261122");
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_refused_folder_is_tried_again)
{
    put_version("1", "m.npy", 10, "");
    put_npy("1/m.npy", 11, 100);
    store = open_folder();
    expect_names(store, "");
    put_npy("1/m.npy", 10, 100);
    td_store_rescan(store);
    expect_names(store, "m@1");
    ck_assert_str_eq(problems_of(store), "");
}

TD_FIXTURE(one_store_begin, one_store_end);
