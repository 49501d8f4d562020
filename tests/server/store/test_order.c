/* The order of the system calls of a change, which decides what a power failure leaves, and files
 * that another process changes between two of them. */
#include "server/memory/fault_guard.h"
#include "tests/server/faults.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;

static td_status put(const char *name, const struct td_tensor *tensor, bool persist)
{
    return put_tensor(store, name, tensor, persist, &err);
}

static td_status put_text_tensor(const char *name, const char *text, bool persist)
{
    const struct td_tensor t = tensor(text);
    return put(name, &t, persist);
}

static td_status delete_name(const char *name)
{
    const struct td_store_write write = { .name = name };
    return td_store_delete(store, &write, &(bool){ false }, &err);
}

static bool is_file(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* ---- the order of calls ---------------------------------------------------------------------- */

static char order[1024]; /* "write hidden, fsync hidden, ..." */

/* Records the calls that a power failure is about, without lines of the log. Several writes count
 * as one. */
static void record(const char *function, const char *file)
{
    static const char *const recorded[] = { "write",    "fsync",    "linkat",
                                            "renameat", "unlinkat", "ftruncate" };
    char call[512];
    bool wanted = false;
    for (int i = 0; i < COUNT_OF(recorded); i++)
        wanted |= strcmp(function, recorded[i]) == 0;
    if (!wanted || strncmp(file, "pipe:", 5) == 0)
        return;
    snprintf(call, sizeof call, "%s %s", function,
             strncmp(file, ".tensord-tmp-", 13) == 0       ? "hidden"
             : strcmp(file, strrchr(folder, '/') + 1) == 0 ? "folder"
                                                           : file);
    const size_t length = strlen(order), last = strlen(call);
    if (length >= last && strcmp(order + length - last, call) == 0 && function[0] == 'w')
        return;
    snprintf(order + length, sizeof order - length, "%s%s", length ? ", " : "", call);
}

static const struct fault recording = { .before = record };

/* The file is complete on the disk before it gets its name. The name is on the disk before the old
 * file is unlinked, and before the call returns. */
#define WRITTEN "ftruncate hidden, write hidden, fsync hidden, linkat t.tensord, renameat t.tensord"

static const struct {
    const char *description;
    const char *before; /* files of t, or "memory" */
    bool persist;       /* false: DELETE */
    const char *calls;
} changes[] = {
    { "a new name", "", true, WRITTEN ", fsync folder" },
    { "a name in memory", "memory", true, WRITTEN ", fsync folder" },
    { "over a .tensord file", "t.tensord", true, WRITTEN ", fsync folder, unlinkat hidden" },
    { "over a .npy file", "t.npy", true, WRITTEN ", fsync folder, unlinkat t.npy" },
    { "over a .npy file with keys", "t.npy t.keys.npy", true,
      WRITTEN ", fsync folder, unlinkat t.npy, unlinkat t.keys.npy" },
    { "DELETE of a .tensord file", "t.tensord", false,
      "renameat hidden, fsync folder, unlinkat hidden" },
    { "DELETE of a .npy file", "t.npy", false, "renameat hidden, fsync folder, unlinkat hidden" },
    { "DELETE of a .npy file with keys", "t.npy t.keys.npy", false,
      "renameat hidden, fsync folder, unlinkat hidden, unlinkat t.keys.npy" },
    { "DELETE of memory", "memory", false, "" },
};

TD_TEST_EACH(a_change_is_on_the_disk_before_it_returns, changes)
{
    const char *before = changes[_i].before;
    if (strstr(before, "t.npy"))
        put_npy("t.npy", 0, 2);
    if (strstr(before, "t.keys.npy"))
        put_keys_npy("t.keys.npy", (const int64_t[]){ 1, 2 }, 2);
    store = open_folder();
    if (strcmp(before, "memory") == 0 || strcmp(before, "t.tensord") == 0)
        ck_assert_int_eq(put_text_tensor("t", "int32[1] 1", before[0] == 't'), TD_OK);
    order[0] = '\0';
    faults_begin(&recording);
    const td_status status =
        changes[_i].persist ? put_text_tensor("t", "int32[400] 0..399", true) : delete_name("t");
    faults_end();
    ck_assert_int_eq(status, TD_OK);
    EXPECT(strcmp(order, changes[_i].calls) == 0, "%s: %s", changes[_i].description, order);
}

TD_TEST(an_update_is_on_the_disk_before_it_returns)
{
    static const uint64_t offset = 4;
    const struct td_store_write write = { .name = "t", .persist = true };
    struct td_store_update *update;
    struct td_tensor_listing listing;
    store = open_folder();
    ck_assert_int_eq(put_text_tensor("t", "int32[2] 1 2", true), TD_OK);
    order[0] = '\0';
    faults_begin(&recording);
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err), TD_OK);
    ck_assert_str_eq(order, "");
    ck_assert_int_eq(td_store_update_commit(update, &offset, 1, 4, &test_arena, &listing, &err),
                     TD_OK);
    faults_end();
    ck_assert_str_eq(order, WRITTEN ", fsync folder, unlinkat hidden");
}

/* ---- another process, at that moment --------------------------------------------------------- */

static const char *moment_function, *moment_file; /* the file's name begins with it */
static void (*at_moment)(void);                   /* NULL once it was called */
static int moments_left;                          /* such calls to let pass before */

static void wait_for_moment(const char *function, const char *file)
{
    if (!at_moment || strcmp(function, moment_function) != 0 ||
        strncmp(file, moment_file, strlen(moment_file)) != 0 || moments_left-- > 0)
        return;
    void (*run)(void) = at_moment;
    at_moment = NULL;
    run();
}

/* Until faults_end, calls `run` before the first call of the function for the file. */
static void begin_with(const char *function, const char *file, void (*run)(void))
{
    static const struct fault waiting = { .before = wait_for_moment };
    moment_function = function;
    moment_file = file;
    at_moment = run;
    moments_left = 0;
    faults_begin(&waiting);
}

static void end_after_moment(void)
{
    faults_end();
    ck_assert_msg(!at_moment, "no %s of %s", moment_function, moment_file);
}

static void start_another(void)
{
    td_store_free(open_folder());
}

TD_TEST_LOOP(a_server_that_starts_leaves_the_files_of_another_alone, 0, 3)
{
    static const char *const moments[] = { "write", "fsync", "renameat" };
    store = open_folder();
    begin_with(moments[_i], _i == 2 ? "t.tensord" : ".tensord-tmp-", start_another);
    const td_status status = put_text_tensor("t", "int32[2] 1 2", true);
    end_after_moment();
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert(is_file("t.tensord"));
}

static void remove_hidden_files(void)
{
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *item; (item = readdir(dir));)
        if (strncmp(item->d_name, ".tensord-tmp-", 13) == 0)
            ck_assert_int_eq(unlinkat(dirfd(dir), item->d_name, 0), 0);
    closedir(dir);
}

TD_TEST(a_hidden_file_that_is_gone_already_is_not_reported)
{
    store = open_folder();
    ck_assert_int_eq(put_text_tensor("t", "int32[2] 1 2", true), TD_OK);
    (void)logged();
    begin_with("unlinkat", ".tensord-tmp-", remove_hidden_files);
    const td_status status = delete_name("t");
    end_after_moment();
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_ptr_null(strstr(logged(), "temporary_not_removed"));
}

/* ---- truncation ------------------------------------------------------------------------------ */

enum { VALUES = 5000, KEPT = 4096 };
static const struct td_tensor *source; /* of t.npy */

static void truncate_source(void)
{
    ck_assert_int_eq(truncate(path_of("t.npy"), KEPT), 0);
}

/* As when another thread reads the first lost page: later reads, also those of the kernel,
 * succeed. */
static void truncate_and_read_source(void)
{
    truncate_source();
    ck_assert_int_eq(((const volatile char *)source->data)[KEPT], 0);
}

static void (*const truncations[])(void) = { truncate_source, truncate_and_read_source };

TD_TEST_EACH(a_source_that_is_truncated_while_it_is_persisted_is_not_stored, truncations)
{
    put_npy("t.npy", 1, VALUES);
    store = open_folder();
    source = found(store, "t")->tensor;
    begin_with("write", ".tensord-tmp-", truncations[_i]);
    const td_status status = put("copy", source, true);
    end_after_moment();
    ck_assert_int_eq(status, TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "truncated");
    expect_names(store, "t");
    ck_assert(!is_file("copy.tensord"));
}

/* An allocator that truncates the source before it returns memory. */
static struct td_buffer *take_and_truncate(struct td_memory *memory, size_t bytes,
                                           struct td_error *error)
{
    (void)memory;
    truncate_source();
    return td_memory_heap()->take(td_memory_heap(), bytes, error);
}

static struct td_store *open_truncating(void)
{
    static struct td_memory truncating = { .take = take_and_truncate };
    put_npy("t.npy", 1, VALUES);
    store = td_store_open(&(struct td_store_options){
        .dir = folder, .quota = QUOTA, .memory = &truncating, .log = &store_log });
    ck_assert_ptr_nonnull(store);
    source = found(store, "t")->tensor;
    return store;
}

TD_TEST(a_source_that_is_truncated_while_it_is_copied_is_not_stored)
{
    store = open_truncating();
    ck_assert_int_eq(put("copy", source, false), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "truncated");
    expect_names(store, "t");
    ck_assert_uint_eq(td_store_usage(store).held, 0);
}

TD_TEST(an_update_of_a_tensor_that_is_truncated_meanwhile_is_not_committed)
{
    static const uint64_t offset = 0;
    const struct td_store_write write = { .name = "t" };
    struct td_tensor_listing listing;
    struct td_store_update *update;
    store = open_truncating();
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err), TD_OK);
    ck_assert_int_eq(td_store_update_commit(update, &offset, 1, 4, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "truncated");
    ck_assert_uint_eq(td_store_usage(store).held, 0);
}

/* ---- a scan ---------------------------------------------------------------------------------- */

static void remove_file(void)
{
    ck_assert_int_eq(unlink(path_of("u.npy")), 0);
}

static void replace_file(void)
{
    char path[512];
    put_npy("new.tmp", 500, 2);
    snprintf(path, sizeof path, "%s", path_of("new.tmp"));
    ck_assert_int_eq(rename(path, path_of("u.npy")), 0);
}

/* close follows the last read of the file. */
TD_TEST(a_file_that_is_removed_after_it_was_read_is_not_served)
{
    store = open_folder();
    put_npy("u.npy", 100, 2);
    begin_with("close", "u.npy", remove_file);
    td_store_rescan(store);
    end_after_moment();
    expect_names(store, "");
}

TD_TEST(a_file_that_is_replaced_after_it_was_read_is_served_by_the_next_scan)
{
    store = open_folder();
    put_npy("u.npy", 100, 2);
    begin_with("close", "u.npy", replace_file);
    td_store_rescan(store);
    end_after_moment();
    expect_names(store, "");
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "u")->tensor, 0), 500);
}

static void hide_file(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("u.npy"));
    ck_assert_int_eq(rename(path, path_of("hidden")), 0);
}

static void restore_file(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("hidden"));
    ck_assert_int_eq(rename(path, path_of("u.npy")), 0);
}

/* A scan looks for a file that is gone three times: before it drops the file's tensors, before each
 * of them, and before it forgets the file. A failing DELETE may restore it in between. */
TD_TEST(a_file_that_returns_before_its_tensor_is_dropped_stays_served)
{
    put_npy("u.npy", 100, 2);
    store = open_folder();
    hide_file();
    begin_with("fstatat", "u.npy", restore_file);
    moments_left = 1;
    td_store_rescan(store);
    end_after_moment();
    ck_assert_int_eq(value_of(found(store, "u")->tensor, 0), 100);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "u")->tensor, 0), 100);
}

TD_TEST(a_file_that_returns_after_its_tensor_was_dropped_does_not_replace_a_later_put)
{
    put_npy("u.npy", 100, 2);
    store = open_folder();
    hide_file();
    begin_with("fstatat", "u.npy", restore_file);
    moments_left = 2;
    td_store_rescan(store);
    end_after_moment();
    expect_names(store, "");
    ck_assert_int_eq(put_text_tensor("u", "int32[1] 3000", false), TD_OK);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "u")->tensor, 0), 3000);
}

/* ---- guarded ranges -------------------------------------------------------------------------- */

TD_TEST(without_a_free_guard_a_file_is_neither_served_nor_left_mapped)
{
    static int guards[TD_GUARD_RANGES];
    int n = 0;
    put_npy("t.npy", 1, 2);
    store = open_folder();
    while (n < TD_GUARD_RANGES && (guards[n] = td_guard_add(guards, KEPT)) >= 0)
        n++;
    const int descriptors = faults_descriptors(), mappings = faults_mappings();
    put_npy("u.npy", 1, 2);
    td_store_rescan(store);
    expect_names(store, "t");
    ck_assert_ptr_nonnull(strstr(logged(), "too many files are mapped"));
    ck_assert_int_eq(put_text_tensor("v", "int32[1] 1", true), TD_DEVICE_UNAVAILABLE);
    expect_names(store, "t");
    ck_assert(!is_file("v.tensord"));
    ck_assert_int_eq(faults_descriptors(), descriptors);
    ck_assert_int_eq(faults_mappings(), mappings);
    while (n > 0)
        td_guard_remove(guards[--n]);
    td_store_rescan(store);
    expect_names(store, "t u");
    close_store();
    ck_assert_int_eq(td_guard_ranges(), 0);
}

TD_FIXTURE(one_store_begin, one_store_end);
