/* The quota of the files that the store writes: exact, at any mixture of writers and failures. */
#include "server/store/files/data_dir_internal.h"
#include "server/store/state.h"
#include "tests/server/one_store.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 1000 }; /* of data */

static struct td_error err; /* of the last call */

static struct td_tensor bytes_of(size_t n)
{
    static uint8_t data[2 * FILE_BYTES];
    ck_assert_uint_le(n, sizeof data);
    return (struct td_tensor){ .dtype = TD_DTYPE_UINT8,
                               .shape = { 1, { (int64_t)n } },
                               .numel = (int64_t)n,
                               .data = data,
                               .bytes = n };
}

static td_status put(const char *name, size_t n)
{
    const struct td_tensor t = bytes_of(n);
    return put_tensor(store, name, &t, true, &err);
}

static uint64_t size_of(const char *file)
{
    struct stat info;
    return stat(path_of(file), &info) == 0 ? (uint64_t)info.st_size : 0;
}

static bool is_own(const char *file)
{
    const size_t length = strlen(file);
    return file[0] != '.' && length > 8 && strcmp(file + length - 8, ".tensord") == 0;
}

/* The sum that the quota is about. From any thread. */
static uint64_t sum_of_files(void)
{
    DIR *dir = opendir(folder);
    struct stat info;
    uint64_t sum = 0;
    for (const struct dirent *item; (item = readdir(dir));)
        if (is_own(item->d_name) && fstatat(dirfd(dir), item->d_name, &info, 0) == 0)
            sum += (uint64_t)info.st_size;
    closedir(dir);
    return sum;
}

/* The size of the file of a tensor of n bytes. */
static uint64_t file_size(size_t n)
{
    folder_quota = 0;
    store = open_folder();
    ck_assert_int_eq(put("t", n), TD_OK);
    const uint64_t size = size_of("t.tensord");
    ck_assert_uint_gt(size, n);
    close_store();
    ck_assert_int_eq(unlink(path_of("t.tensord")), 0);
    return size;
}

static struct td_store *open_with(uint64_t quota)
{
    folder_quota = quota;
    return open_folder();
}

static void expect_refused(td_status status, uint64_t needed, uint64_t limit)
{
    ck_assert_int_eq(status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "disk_bytes");
    ck_assert_uint_eq(err.needed, needed);
    ck_assert_uint_eq(err.limit, limit);
}

TD_TEST(a_file_that_fills_the_quota_exactly_is_written)
{
    const uint64_t size = file_size(FILE_BYTES);
    for (int less = 0; less < 2; less++) {
        store = open_with(size - (uint64_t)less);
        const td_status status = put("t", FILE_BYTES);
        if (less == 0)
            ck_assert_msg(status == TD_OK, "%s", err.message);
        else
            expect_refused(status, size, size - 1);
        close_store();
        ck_assert_uint_eq(sum_of_files(), less == 0 ? size : 0);
        (void)unlink(path_of("t.tensord"));
    }
}

TD_TEST(the_replaced_file_is_counted_as_freed)
{
    const uint64_t size = file_size(FILE_BYTES);
    store = open_with(2 * size);
    ck_assert_int_eq(put("a", FILE_BYTES), TD_OK);
    ck_assert_int_eq(put("b", FILE_BYTES), TD_OK);
    ck_assert_int_eq(put("b", FILE_BYTES), TD_OK);
    ck_assert_int_eq(put("a", FILE_BYTES / 2), TD_OK);
    ck_assert_int_eq(put("a", FILE_BYTES), TD_OK);
    expect_refused(put("c", FILE_BYTES), 3 * size, 2 * size);
    expect_names(store, "a b");
}

TD_TEST(a_refused_update_changes_nothing)
{
    static const uint64_t offset = 0;
    const uint64_t size = file_size(FILE_BYTES);
    const struct td_store_write in_memory = { .name = "m" },
                                write = { .name = "m", .persist = true };
    const struct td_tensor t = bytes_of(FILE_BYTES);
    struct td_store_update *update;
    struct td_tensor_listing listing;
    bool created;
    store = open_with(size);
    ck_assert_int_eq(put("t", FILE_BYTES), TD_OK);
    ck_assert_int_eq(td_store_put(store, &in_memory, &t, &test_arena, &listing, &created, &err),
                     TD_OK);
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err), TD_OK);
    expect_refused(td_store_update_commit(update, &offset, 1, 1, &test_arena, &listing, &err),
                   2 * size, size);
    ck_assert(!found(store, "m")->persisted);
    ck_assert_uint_eq(sum_of_files(), size);
}

TD_TEST(what_is_deleted_has_room_again)
{
    const uint64_t size = file_size(FILE_BYTES);
    store = open_with(size);
    const struct td_store_write a = { .name = "a" };
    ck_assert_int_eq(put("a", FILE_BYTES), TD_OK);
    expect_refused(put("b", FILE_BYTES), 2 * size, size);
    ck_assert_int_eq(td_store_delete(store, &a, &(bool){ false }, &err), TD_OK);
    ck_assert_int_eq(put("b", FILE_BYTES), TD_OK);
    ck_assert_int_eq(unlink(path_of("b.tensord")), 0); /* by hand, before a rescan and after it */
    ck_assert_int_eq(put("c", FILE_BYTES), TD_OK);
    td_store_rescan(store);
    expect_refused(put("d", FILE_BYTES), 2 * size, size);
    char from[512];
    snprintf(from, sizeof from, "%s", path_of("c.tensord"));
    ck_assert_int_eq(rename(from, path_of("e.tensord")), 0);
    td_store_rescan(store);
    expect_refused(put("d", FILE_BYTES), 2 * size, size);
    /* Less, since the header has the version, which may have more digits by now. */
    ck_assert_int_eq(put("e", FILE_BYTES - 64), TD_OK);
}

TD_TEST(only_tensord_files_count)
{
    const uint64_t size = file_size(FILE_BYTES);
    put_npy("n.npy", 1, 8000);
    put_text(".hidden.tensord", "not a table");
    put_text("other", "of another program");
    ck_assert_int_eq(symlink("n.npy", path_of("link.tensord")), 0);
    store = open_with(size);
    EXPECT_OK(put("t", FILE_BYTES), &err);
}

TD_TEST(files_above_a_lowered_quota_may_be_replaced_but_not_grow)
{
    const uint64_t size = file_size(FILE_BYTES), smaller = file_size(FILE_BYTES / 2);
    store = open_with(0);
    ck_assert_int_eq(put("a", FILE_BYTES), TD_OK);
    ck_assert_int_eq(put("b", FILE_BYTES), TD_OK);
    td_store_free(store);
    store = open_with(smaller);
    expect_names(store, "a b");
    ck_assert_int_eq(put("a", FILE_BYTES), TD_OK);
    expect_refused(put("a", FILE_BYTES + 64), 2 * size + 64, smaller);
    ck_assert_int_eq(put("a", FILE_BYTES / 2), TD_OK);
    expect_refused(put("c", FILE_BYTES), 2 * size + smaller, smaller);
}

TD_TEST(admission_refuses_what_cannot_fit_and_counts_nothing)
{
    const uint64_t size = file_size(FILE_BYTES);
    const struct td_store_write other = { .name = "u", .persist = true },
                                same = { .name = "t", .persist = true };
    store = open_with(size + 100);
    ck_assert_int_eq(put("t", FILE_BYTES), TD_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(td_store_admit(store, &other, 100, &err), TD_OK);
        expect_refused(td_store_admit(store, &other, 101, &err), size + 101, size + 100);
        ck_assert_int_eq(td_store_admit(store, &same, size + 100, &err), TD_OK);
        expect_refused(td_store_admit(store, &same, size + 101, &err), size + 101, size + 100);
    }
}

/* ---- files that are being written ------------------------------------------------------------ */

/* The sum of all files but `file`, found by asking for as much as there is room for. */
static void expect_others(struct td_data_dir *dir, const char *file, uint64_t others)
{
    EXPECT_OK(td_data_check_quota(dir, file, folder_quota - others, &err), &err);
    expect_refused(td_data_check_quota(dir, file, folder_quota - others + 1, &err),
                   folder_quota + 1, folder_quota);
}

TD_TEST(a_file_being_written_counts_with_its_old_or_its_new_size)
{
    static const char content[500];
    struct td_reserved_file a = { .file = "a.tensord", .bytes = 400 },
                            b = { .file = "b.tensord", .bytes = 50 },
                            c = { .file = "c.tensord", .bytes = 7 };
    store = open_with(1000);
    struct td_data_dir *dir = store->dir;
    ck_assert_int_eq(td_data_reserve(dir, &a, &err), TD_OK);
    expect_others(dir, "new.tensord", 400);
    put_file("a.tensord", content, 100);
    expect_others(dir, "new.tensord", 400);
    put_file("a.tensord", content, 500);
    expect_others(dir, "new.tensord", 500);
    expect_others(dir, "a.tensord", 0);
    ck_assert_int_eq(td_data_reserve(dir, &b, &err), TD_OK);
    ck_assert_int_eq(td_data_reserve(dir, &c, &err), TD_OK);
    expect_others(dir, "new.tensord", 500 + 50 + 7);
    td_data_unreserve(dir, &b);
    expect_others(dir, "new.tensord", 500 + 7);
    td_data_unreserve(dir, &c);
    expect_others(dir, "new.tensord", 500);
    td_data_unreserve(dir, &a);
    put_file("a.tensord", content, 100);
    expect_others(dir, "new.tensord", 100);
}

/* ---- concurrent writers ---------------------------------------------------------------------- */

enum { THREADS = 8, FITTING = 3, ROUNDS = 20 };

static uint64_t whole; /* size of a file */

struct writer {
    pthread_t thread;
    int number, accepted, refused, other;
};

/* Puts and deletes a file of its own, or shares a name with its neighbour. */
static void *write_in_turns(void *argument)
{
    struct writer *writer = argument;
    struct td_error error;
    struct td_tensor_listing listing;
    char name[16];
    bool created;
    const struct td_tensor t = bytes_of(FILE_BYTES);
    snprintf(name, sizeof name, "t%d", writer->number / 2);
    const struct td_store_write write = { .name = name, .persist = true }, drop = { .name = name };
    for (int i = 0; i < ROUNDS; i++) {
        struct td_arena arena;
        td_arena_init(&arena, NULL, 0, td_memory_heap());
        const td_status status =
            td_store_put(store, &write, &t, &arena, &listing, &created, &error);
        writer->accepted += status == TD_OK;
        writer->refused += status == TD_RESOURCE_LIMIT && strcmp(error.resource, "disk_bytes") == 0;
        writer->other += status != TD_OK && status != TD_RESOURCE_LIMIT;
        writer->other += sum_of_files() > FITTING * whole;
        td_arena_reset(&arena);
        if (i % 2 && td_store_delete(store, &drop, &(bool){ false }, &error) != TD_OK)
            writer->other += error.status != TD_TENSOR_NOT_FOUND;
    }
    return NULL;
}

TD_TEST(concurrent_writers_never_exceed_the_quota)
{
    struct writer writers[THREADS] = { 0 };
    int accepted = 0;
    whole = file_size(FILE_BYTES);
    store = open_with(FITTING * whole);
    for (int i = 0; i < THREADS; i++) {
        writers[i].number = i;
        ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_in_turns, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(writers[i].thread, NULL);
        ck_assert_int_eq(writers[i].other, 0);
        ck_assert_int_eq(writers[i].accepted + writers[i].refused, ROUNDS);
        accepted += writers[i].accepted;
    }
    ck_assert_int_ge(accepted, FITTING);
    /* Nothing is counted that is not there. */
    const uint64_t sum = sum_of_files();
    const struct td_store_write other = { .name = "other", .persist = true };
    ck_assert_int_eq(td_store_admit(store, &other, folder_quota - sum, &err), TD_OK);
    expect_refused(td_store_admit(store, &other, folder_quota - sum + 1, &err), folder_quota + 1,
                   folder_quota);
}

TD_FIXTURE(one_store_begin, one_store_end);
