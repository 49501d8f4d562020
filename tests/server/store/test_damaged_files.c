/* Files that cannot be served: nothing takes their place, and they are told until they are
 * repaired. */
#include "kernels/key_index/key_index.h"
#include "server/store/aliases/aliases.h"
#include "server/store/scan/problems.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;

static void put(const char *name, const char *value, bool persist)
{
    const struct td_tensor t = tensor(value);
    EXPECT_OK(put_tensor(store, name, &t, persist, &err), &err);
}

static td_status look_up(const char *name)
{
    struct td_tensor_listing listing;
    return td_store_get(store, name, strlen(name), &test_arena, &listing, &err);
}

/* Fails unless requests for the name are refused because of the file. */
static void expect_refused(const char *name, const char *file)
{
    ck_assert_int_eq(look_up(name), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, file);
}

static td_status update(const char *name, bool persist)
{
    const struct td_store_write write = { .name = name, .persist = persist };
    struct td_store_update *update;
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    const td_status status =
        td_store_update_begin(store, &write, &test_arena, &exec, &update, &err);
    if (status == TD_OK)
        td_store_update_abort(update);
    return status;
}

/* ---- damage
 * ------------------------------------------------------------------------------------ */

static void cut(const char *file)
{
    struct stat info;
    ck_assert_int_eq(stat(path_of(file), &info), 0);
    ck_assert_int_eq(truncate(path_of(file), info.st_size - 3), 0);
}

static void empty(const char *file)
{
    ck_assert_int_eq(truncate(path_of(file), 0), 0);
}

static void spoil_header(const char *file)
{
    FILE *opened = fopen(path_of(file), "r+b");
    ck_assert_ptr_nonnull(opened);
    ck_assert_int_eq(fseek(opened, 8, SEEK_SET), 0);
    ck_assert_int_eq(fputc('x', opened), 'x');
    ck_assert_int_eq(fclose(opened), 0);
}

static void (*const damages[])(const char *file) = { cut, empty, spoil_header };

/* ---- what has precedence
 * ----------------------------------------------------------------------- */

static const struct {
    const char *other, *name, *file;
} sources[] = {
    { "m.safetensors", "m:w", "m:w.tensord" },
    { "p.npy", "p", "p.tensord" },
};

/* A persisted tensor beside a file with older rows. */
static void put_both(int source)
{
    store = open_folder();
    put(sources[source].name, "int32[4] 7 7 7 7", true);
    if (source == 0)
        put_safetensors("m.safetensors", TWO_TENSORS, 1, 6);
    else
        put_npy("p.npy", 1, 4);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, sources[source].name)->tensor, 0), 7);
}

TD_TEST_LOOP(a_damaged_persisted_file_gives_its_name_to_no_other_file, 0, 12)
{
    const int source = _i % 2;
    const bool starts_again = _i / 2 % 2;
    const char *name = sources[source].name, *file = sources[source].file;
    put_both(source);
    (void)logged();
    damages[_i / 4](file);
    if (starts_again)
        restart();
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_refused(name, file);
        ck_assert_ptr_nonnull(
            strstr(logged(), "takes precedence, might contain a tensor of this name"));
        for (int persist = 0; persist < 2; persist++) {
            ck_assert_int_eq(update(name, persist), TD_DEVICE_UNAVAILABLE);
            EXPECT_MESSAGE(&err, file);
        }
    }
    put(name, "int32[1] 9", true);
    restart();
    ck_assert_int_eq(value_of(found(store, name)->tensor, 0), 9);
}

TD_TEST(a_file_that_is_put_after_a_damaged_one_with_precedence_waits_for_it)
{
    put_npy("m:w.npy", 1, 4);
    put_text("m.safetensors", "x");
    store = open_folder();
    expect_names(store, "");
    put_safetensors("new", TWO_TENSORS, 100, 6);
    char from[128];
    snprintf(from, sizeof from, "%s", path_of("new"));
    ck_assert_int_eq(rename(from, path_of("m.safetensors")), 0);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "m:w")->tensor, 0), 100);
}

TD_TEST(a_folder_does_not_take_the_name_of_a_damaged_file)
{
    store = open_folder();
    put("m@1", "int32[1] 7", true);
    cut("m@1.tensord");
    put_version("1", "m.npy", 10, "");
    for (int i = 0; i < 2; i++) {
        restart();
        expect_refused("m@1", "m@1.tensord");
        ck_assert_ptr_nonnull(
            strstr(problems_of(store), "1: 'm@1' already exists: it is in m@1.tensord. "));
    }
    ck_assert_int_eq(unlink(path_of("m@1.tensord")), 0);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "m@1")->tensor, 0), 10);
}

/* ---- requests
 * ---------------------------------------------------------------------------------- */

static void put_keyed(void)
{
    put_npy("t.npy", 1, 2);
    put_keys_npy("t.keys.npy", (const int64_t[]){ 7, 8 }, 2);
}

static void put_plain(void)
{
    put_npy("t.npy", 1, 4);
}

static void put_model(void)
{
    put_safetensors("m.safetensors", TWO_TENSORS, 1, 6);
}

static void put_own(void)
{
    struct td_store *other = open_folder();
    const struct td_tensor t = tensor("int32[4] 7 7 7 7");
    EXPECT_OK(put_tensor(other, "t", &t, true, &err), &err);
    td_store_free(other);
}

static const struct {
    void (*put)(void);
    const char *file, *name, *error;
} files[] = {
    { put_plain, "t.npy", "t", "the file t.npy of 't' is not served: " },
    { put_keyed, "t.keys.npy", "t", "the file t.npy of 't' is not served: t.keys.npy: " },
    { put_own, "t.tensord", "t", "the file t.tensord of 't' is not served: " },
    { put_model, "m.safetensors", "m:w", "it might be in m.safetensors, which is not served: " },
};

TD_TEST(a_npy_of_strings_is_not_served_with_all_of_the_reason_and_is_not_called_damaged)
{
    char text[128],
        header[] = "{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }        \n";
    const size_t bytes = sizeof header - 1;
    memcpy(text, "\x93NUMPY\1", 7);
    memcpy(text + 7, (const char[]){ 0, (char)bytes, 0 }, 3);
    memcpy(text + 10, header, bytes);
    memset(text + 10 + bytes, 0, 20);
    put_file("t.npy", text, 10 + bytes + 20);
    store = open_folder();
    ck_assert_int_eq(look_up("t"), TD_DEVICE_UNAVAILABLE);
    ck_assert_str_eq(
        err.message,
        "the file t.npy of 't' is not served: the .npy file holds '<U5', text (send strings as "
        "JSON; to import them as the keys of a table, use deploy/import TABLE --keys-from "
        "FILE.npy); expected '<' or '>' and one of b1, i1 to i8, u1 to u8, f2, f4, f8, c8, c16; "
        "put the tensor with ?persist=1, or replace the file and send SIGHUP");
}

TD_TEST_EACH(a_request_of_a_tensor_in_a_damaged_file_names_the_file, files)
{
    const char *name = files[_i].name, *file = files[_i].file;
    files[_i].put();
    store = open_folder();
    ck_assert_str_eq(found(store, name)->name, name);
    cut(file); /* in place */
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_names(store, "");
        expect_refused(name, files[_i].error);
        ck_assert_int_eq(look_up("other"), TD_TENSOR_NOT_FOUND);
        restart();
    }
    td_store_free(store);
    ck_assert_int_eq(unlink(path_of(file)), 0);
    files[_i].put();
    store = open_folder();
    ck_assert_str_eq(found(store, name)->name, name);
}

TD_TEST(a_damaged_npy_file_can_be_deleted)
{
    const struct td_store_write write = { .name = "t", .removes = true };
    put_keyed();
    cut("t.npy");
    store = open_folder();
    expect_refused("t", "t.npy");
    EXPECT_OK(td_store_delete(store, &write, &(bool){ false }, &err), &err);
    ck_assert_int_eq(look_up("t"), TD_TENSOR_NOT_FOUND);
    ck_assert_int_ne(access(path_of("t.npy"), F_OK), 0);
    ck_assert_int_ne(access(path_of("t.keys.npy"), F_OK), 0);
}

TD_TEST(a_name_that_may_be_in_a_damaged_file_cannot_be_deleted_since_the_file_may_hold_others)
{
    const struct td_store_write write = { .name = "m:w", .removes = true };
    put_model();
    cut("m.safetensors");
    store = open_folder();
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "it might be in m.safetensors, which is not served: ");
    ck_assert_int_eq(access(path_of("m.safetensors"), F_OK), 0);
}

static const char *const versions[] = { "m@2.npy", "m@2.tensord" };

TD_TEST_EACH(an_alias_of_a_damaged_version_names_its_file, versions)
{
    char wanted[64];
    const bool own = strstr(versions[_i], "tensord");
    snprintf(wanted, sizeof wanted, "whose file %s is not served: ", versions[_i]);
    if (own) {
        store = open_folder();
        put("m@2", "int32[4] 7 7 7 7", true);
    } else {
        put_npy("m@2.npy", 1, 4);
    }
    put_text("aliases.json", "{\"aliases\": {\"m\": \"m@2\"}}");
    cut(versions[_i]);
    restart();
    expect_refused("m", wanted);
    ck_assert_ptr_nonnull(strstr(problems_of(store), "m: it names m@2, whose file "));
    ck_assert_ptr_nonnull(strstr(problems_of(store), wanted));
    ck_assert_int_eq(unlink(path_of(versions[_i])), 0);
    td_store_rescan(store);
    expect_refused("m", "'m@2', which does not exist");
}

TD_TEST(an_alias_of_a_version_in_a_refused_folder_says_why_it_is_refused)
{
    put_version("2", "m.npy", 10, "\"aliases\":{\"m\":\"m@2\"}");
    restart();
    put_npy("2/m.npy", 11, 100);
    restart(); /* folder_verify is TD_VERIFY_START */
    expect_refused("m",
                   "'m@2', which might be in the folder 2, which is refused: m.npy: its SHA-256");
    ck_assert_ptr_nonnull(
        strstr(problems_of(store), "m: it names m@2, which might be in the folder 2"));
}

/* Fails unless the error of the name ends with the way out. */
static void expect_way_out(const char *name, const char *way)
{
    ck_assert_int_eq(look_up(name), TD_DEVICE_UNAVAILABLE);
    const size_t length = strlen(err.message), end = strlen(way);
    ck_assert_msg(length > end && strcmp(err.message + length - end, way) == 0, "%s", err.message);
}

TD_TEST(an_alias_says_what_is_wrong_in_short_and_the_way_out)
{
    static const char repair[] =
        "; repair that and send SIGHUP, or let the alias name another version";
    put_version("2", "m.npy", 10, "\"aliases\":{\"m\":\"m@2\",\"q\":\"q:w@3\"}");
    put_safetensors("q@3.safetensors", TWO_TENSORS, 1, 6);
    store = open_folder();
    ck_assert_str_eq(problems_of(store), "");
    put_npy("2/m.npy", 11, 100); /* the reason has two digests */
    spoil_header("q@3.safetensors");
    restart();
    expect_way_out("m", repair);
    EXPECT_MESSAGE(&err,
                   "which might be in the folder 2, which is refused: m.npy: its SHA-256 is ");
    EXPECT_MESSAGE(&err, "...; repair");
    expect_way_out("q", repair);
    EXPECT_MESSAGE(&err, "'q:w@3', which might be in q@3.safetensors, which is not served: ");
    ck_assert_int_eq(unlink(path_of("q@3.safetensors")), 0);
    remove_version("2");
    td_store_rescan(store);
    expect_way_out("m", "'m@2', which does not exist; put its file back and send SIGHUP, or let "
                        "the alias name another version");
}

/* ---- the list of problems
 * ---------------------------------------------------------------------- */

/* Fails unless this is the only problem. */
static void expect_problem(const char *source, const char *reason)
{
    const char *problems = problems_of(store);
    const size_t length = strlen(source);
    ck_assert_int_eq(td_store_reading(store).problems, 1);
    ck_assert_msg(strncmp(problems, source, length) == 0 && problems[length] == ':' &&
                      strstr(problems, reason),
                  "no '%s: %s' in: %s", source, reason, problems);
}

static void bring_back(const char *file)
{
    char from[128];
    snprintf(from, sizeof from, "%s", path_of("kept"));
    ck_assert_int_eq(rename(from, path_of(file)), 0);
}

TD_TEST_EACH(a_damaged_file_is_a_problem_until_it_is_repaired_or_removed, files)
{
    const char *file = files[_i].file,
               *source = strstr(file, "keys") ? "t.npy" : file; /* the two are one source */
    char from[128];
    files[_i].put();
    snprintf(from, sizeof from, "%s", path_of(file));
    ck_assert_int_eq(link(from, path_of("kept")), 0);
    store = open_folder();
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_int_eq(unlink(from), 0);
    put_text(file, "x");
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_problem(source, "; the version loaded before is still served until a restart");
    }
    for (int i = 0; i < 2; i++) {
        restart();
        expect_problem(source, "");
    }
    bring_back(file);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
    cut(file);
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_problem(source, "");
    }
    ck_assert_int_eq(unlink(path_of(source)), 0);
    unlink(path_of("t.keys.npy"));
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_problem_of_a_file_is_solved_by_a_put_that_replaces_it)
{
    put_npy("t.npy", 1, 4);
    cut("t.npy");
    store = open_folder();
    expect_problem("t.npy", "");
    put("t", "int32[1] 1", true);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_dangling_link_is_a_problem_until_it_is_removed)
{
    ck_assert_int_eq(symlink("nothing", path_of("a.npy")), 0);
    store = open_folder();
    expect_problem("a.npy", "No such file");
    ck_assert_int_eq(unlink(path_of("a.npy")), 0);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

/* ---- names that cannot be opened ------------------------------------------------------------- */

static void put_dangling_link(const char *file)
{
    ck_assert_int_eq(symlink("nothing", path_of(file)), 0);
}

static void put_loop(const char *file)
{
    ck_assert_int_eq(symlink(file, path_of(file)), 0);
}

static void put_folder(const char *file)
{
    ck_assert_int_eq(mkdir(path_of(file), 0700), 0);
}

static void put_fifo(const char *file)
{
    ck_assert_int_eq(mkfifo(path_of(file), 0600), 0);
}

static void put_socket(const char *file)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int opened = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of(file));
    ck_assert_int_eq(bind(opened, (const struct sockaddr *)&address, sizeof address), 0);
    close(opened);
}

static void (*const obstacles[])(const char *file) = { put_dangling_link, put_loop, put_folder,
                                                       put_fifo, put_socket };
enum { OBSTACLES = sizeof obstacles / sizeof *obstacles, FILES = sizeof files / sizeof *files };

TD_TEST_LOOP(a_name_that_cannot_be_opened_is_that_of_a_refused_file, 0, OBSTACLES *FILES)
{
    const char *name = files[_i % FILES].name, *file = files[_i % FILES].file,
               *source = strstr(file, "keys") ? "t.npy" : file;
    char from[128];
    files[_i % FILES].put();
    snprintf(from, sizeof from, "%s", path_of(file));
    ck_assert_int_eq(link(from, path_of("kept")), 0);
    store = open_folder();
    const uint64_t version = found(store, name)->version;
    ck_assert_int_eq(unlink(from), 0);
    obstacles[_i / FILES](file);
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        ck_assert_uint_eq(found(store, name)->version, version);
        expect_problem(source, "; the version loaded before is still served until a restart");
    }
    restart();
    expect_names(store, "");
    expect_refused(name, file);
    expect_problem(source, "");
    ck_assert_int_eq(remove(from), 0);
    bring_back(file);
    td_store_rescan(store);
    ck_assert_str_eq(found(store, name)->name, name);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST_LOOP(a_delete_removes_what_cannot_be_opened_or_fails, 0, OBSTACLES)
{
    const struct td_store_write write = { .name = "t", .removes = true };
    const bool is_folder = obstacles[_i] == put_folder;
    obstacles[_i]("t.npy");
    store = open_folder();
    expect_refused("t", "t.npy");
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err),
                     is_folder ? TD_DEVICE_UNAVAILABLE : TD_OK);
    restart();
    ck_assert_int_eq(look_up("t"), is_folder ? TD_DEVICE_UNAVAILABLE : TD_TENSOR_NOT_FOUND);
}

/* ---- files that are written in place --------------------------------------------------------- */

/* Restores the time of modification. That of the last change is another one: the clock of files
 * is coarse. */
static void set_times(const char *file, const struct stat *of)
{
    const struct timespec times[] = { of->st_atim, of->st_mtim };
    struct stat now;
    do {
        ck_assert_int_eq(utimensat(AT_FDCWD, path_of(file), times, 0), 0);
        ck_assert_int_eq(stat(path_of(file), &now), 0);
    } while (now.st_ctim.tv_sec == of->st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == of->st_ctim.tv_nsec);
}

TD_TEST(keys_written_in_place_are_found_though_size_and_time_are_the_same)
{
    struct stat before;
    put_keyed();
    ck_assert_int_eq(stat(path_of("t.keys.npy"), &before), 0);
    store = open_folder();
    put_keys_npy("t.keys.npy", (const int64_t[]){ 8, 9 }, 2);
    set_times("t.keys.npy", &before);
    td_store_rescan(store);
    const struct td_tensor queries = tensor("int64[3] 7 8 9");
    int64_t rows[3];
    td_key_index_find(found(store, "t")->keys->key_index, &queries, 0, 3, rows);
    ck_assert_int_eq(rows[0], TD_ROW_NONE);
    ck_assert_int_eq(rows[1], 0);
    ck_assert_int_eq(rows[2], 1);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(equal_keys_written_in_place_refuse_their_table)
{
    struct stat before;
    put_keyed();
    ck_assert_int_eq(stat(path_of("t.keys.npy"), &before), 0);
    store = open_folder();
    put_keys_npy("t.keys.npy", (const int64_t[]){ 8, 8 }, 2);
    set_times("t.keys.npy", &before);
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_names(store, "");
        expect_refused("t", "t.keys.npy: ");
        expect_problem("t.npy", "t.keys.npy: ");
        restart();
    }
}

TD_TEST_EACH(a_header_spoiled_in_place_refuses_its_file_though_its_time_is_the_same, files)
{
    const char *file = files[_i].file;
    struct stat before;
    files[_i].put();
    ck_assert_int_eq(stat(path_of(file), &before), 0);
    store = open_folder();
    spoil_header(file);
    set_times(file, &before);
    td_store_rescan(store);
    expect_names(store, "");
    expect_refused(files[_i].name, files[_i].error);
}

TD_TEST_EACH(a_file_that_was_cut_and_restored_is_served_again_after_a_rescan, files)
{
    const char *name = files[_i].name, *file = files[_i].file;
    static char bytes[4096];
    struct stat before;
    files[_i].put();
    ck_assert_int_eq(stat(path_of(file), &before), 0);
    FILE *opened = fopen(path_of(file), "rb");
    ck_assert_uint_eq(fread(bytes, 1, sizeof bytes, opened), (size_t)before.st_size);
    fclose(opened);
    store = open_folder();
    const uint64_t version = found(store, name)->version;
    empty(file);
    expect_refused(name, file);
    put_file(file, bytes, (size_t)before.st_size);
    set_times(file, &before);
    td_store_rescan(store);
    ck_assert_uint_eq(found(store, name)->version, version);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST_EACH(a_touched_file_changes_no_version, files)
{
    char etag[64];
    struct stat times;
    const char *name = files[_i].name, *file = files[_i].file;
    files[_i].put();
    put_npy("u.npy", 1, 4);
    store = open_folder();
    put("u", "int32[1] 7", false);
    const struct td_tensor_listing *before = found(store, name);
    snprintf(etag, sizeof etag, "%s", before->etag);
    (void)logged_with_scans();
    ck_assert_int_eq(chmod(path_of(file), 0600), 0);
    ck_assert_int_eq(stat(path_of(file), &times), 0);
    set_times(file, &times);
    ck_assert_int_eq(stat(path_of("u.npy"), &times), 0);
    set_times("u.npy", &times);
    td_store_rescan(store);
    ck_assert_ptr_null(strstr(logged_with_scans(), "tables_changed"));
    ck_assert_uint_eq(found(store, name)->version, before->version);
    ck_assert_str_eq(found(store, name)->etag, etag);
    ck_assert_int_eq(value_of(found(store, "u")->tensor, 0), 7);
}

TD_TEST(tensors_that_cannot_be_served_are_one_problem_of_their_file)
{
    put_safetensors("m.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[16,20]},"
                    "\"f\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[20,24]}}",
                    1, 6);
    store = open_folder();
    for (int i = 0; i < 2; i++) {
        expect_names(store, "m:w");
        expect_problem("m.safetensors", "m:e: ");
        expect_problem("m.safetensors", "; and 1 more of its tensors");
        expect_refused("m:e",
                       "it might be in m.safetensors, which has a tensor that is not served");
        td_store_rescan(store);
    }
    put_npy("m:e.npy", 7, 1); /* gives the tensor that cannot be read */
    td_store_rescan(store);
    expect_names(store, "m:e m:w");
}

TD_TEST(a_file_with_a_tensor_that_is_not_served_may_have_any_tensor_once_a_damaged_one_replaces_it)
{
    put_safetensors("m.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                    "\"e\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[16,20]}}",
                    1, 5);
    store = open_folder();
    expect_refused("m:e", "which has a tensor that is not served");
    ck_assert_int_eq(look_up("m:other"), TD_TENSOR_NOT_FOUND);
    put_text("new", "damaged");
    move_file("new", "m.safetensors");
    td_store_rescan(store);
    expect_names(store, "m:w"); /* from the file that was replaced */
    expect_refused("m:e", "it might be in m.safetensors, which is not served: ");
    expect_refused("m:other", "it might be in m.safetensors, which is not served: ");
}

TD_TEST(a_name_that_is_not_allowed_is_a_problem)
{
    put_npy("a b.npy", 1, 4);
    store = open_folder();
    expect_problem("a b.npy", "is not a valid tensor name");
}

TD_TEST(files_that_are_not_read_and_tensors_that_give_way_are_no_problems)
{
    put_text("notes.txt", "x");
    put_text("table.csv", "1,2");
    put_npy("m:w.npy", 1, 1);
    put_safetensors("m.safetensors", TWO_TENSORS, 100, 6);
    store = open_folder();
    put("m:w", "int32[1] 7", true);
    td_store_rescan(store);
    expect_names(store, "m:b.x m:w");
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(a_file_that_may_no_longer_be_read_is_a_problem_before_the_restart)
{
    char problem[300];
    snprintf(problem, sizeof problem, "%s; the version loaded before is still served", denied());
    put_npy("a.npy", 1, 4);
    store = open_folder();
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert_int_eq(chmod(path_of("a.npy"), 0), 0);
    drop_rights();
    td_store_rescan(store);
    regain_rights();
    expect_names(store, "a");
    expect_problem("a.npy", problem);
    ck_assert_int_eq(chmod(path_of("a.npy"), 0644), 0);
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
}

TD_TEST(the_list_of_problems_is_limited_and_all_are_counted)
{
    struct td_problem_listing *list;
    int count, others;
    for (int i = 0; i < TD_PROBLEMS_LISTED + 6; i++) {
        char name[24];
        snprintf(name, sizeof name, "b%02d.npy", i);
        put_text(name, "x");
    }
    store = open_folder();
    EXPECT_OK(td_store_list_problems(store, &test_arena, &list, &count, &others, &err), &err);
    ck_assert_int_eq(count, TD_PROBLEMS_LISTED);
    ck_assert_int_eq(others, 6);
    ck_assert_str_eq(list[0].source, "b00.npy");
    ck_assert_int_eq(td_store_reading(store).problems, TD_PROBLEMS_LISTED + 6);
}

TD_FIXTURE(one_store_begin, one_store_end);
