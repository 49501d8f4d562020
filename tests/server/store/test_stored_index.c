/* The index of the keys in X.keys.npy, which is stored beside that file and mapped by later
 * starts. */
#include "kernels/key_index/key_index.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The smallest number of keys whose index is stored. */
enum { N = 65536 };

#define INDEX ".n.keys.npy.index.tensord"

static struct td_error err;

/* Row i has the key first + 3 * i. */
static void put_keys(const char *file, int64_t first, int n)
{
    int64_t *keys = malloc((size_t)n * sizeof *keys);
    ck_assert_ptr_nonnull(keys);
    for (int i = 0; i < n; i++)
        keys[i] = first + 3 * (int64_t)i;
    put_keys_npy(file, keys, n);
    free(keys);
}

static void put_table(int64_t first)
{
    put_npy("n.npy", 1, N);
    put_keys("n.keys.npy", first, N);
}

static void expect_found(int64_t first)
{
    const struct td_tensor *keys = found(store, "n")->keys;
    const struct td_shape shape = { .rank = 1, .dim = { 3 } };
    int64_t queries[3] = { first, first + 1, first + 3 * (N - 1) }, rows[3];
    struct td_tensor vector;
    ck_assert_ptr_nonnull(keys);
    EXPECT_OK(td_tensor_describe(&vector, "queries", TD_DTYPE_INT64, &shape, &err), &err);
    vector.data = queries;
    td_key_index_find(keys->key_index, &vector, 0, 3, rows);
    ck_assert_int_eq(rows[0], 0);
    ck_assert_int_eq(rows[1], TD_ROW_NONE);
    ck_assert_int_eq(rows[2], N - 1);
}

static bool exists(const char *name)
{
    struct stat info;
    return lstat(path_of(name), &info) == 0;
}

static ino_t inode(const char *name)
{
    struct stat info;
    ck_assert_int_eq(stat(path_of(name), &info), 0);
    return info.st_ino;
}

/* Fails unless the last start logged this and nothing else about indices; NULL for nothing. */
static void expect_event(const char *event)
{
    const char *lines = logged(), *at = strstr(lines, "key_index_");
    ck_assert_msg(event ? at && strstr(at, event) == at && !strstr(at + 1, "key_index_") : !at,
                  "%s", lines);
}

TD_TEST(the_second_start_maps_the_index_that_the_first_start_stored)
{
    struct stat info;
    put_table(-5);
    store = open_folder();
    expect_event("key_index_stored file=n.keys.npy");
    expect_found(-5);
    const uint64_t index = td_key_index_bytes(N);
    const struct td_store_usage before = td_store_usage(store);
    ck_assert_int_eq(stat(path_of(INDEX), &info), 0);
    ck_assert_uint_eq((uint64_t)info.st_size, 64 + index);
    ck_assert_int_eq(info.st_mode & 07777, 0640);
    restart();
    expect_event(NULL);
    expect_found(-5);
    ck_assert_uint_eq(inode(INDEX), info.st_ino);
    const struct td_store_usage now = td_store_usage(store);
    ck_assert_uint_eq(now.held + index, before.held);
    ck_assert_uint_eq(now.mapped, before.mapped + index);
    expect_names(store, "n");
}

static struct td_buffer *(*take)(struct td_memory *memory, size_t bytes, struct td_error *err);

/* The memory of the index is taken before the index is built. */
static struct td_buffer *change_keys_and_take(struct td_memory *memory, size_t bytes,
                                              struct td_error *error)
{
    const int64_t key = -1;
    const int fd = open(path_of("n.keys.npy"), O_WRONLY);
    ck_assert_int_eq(pwrite(fd, &key, sizeof key, 128), sizeof key);
    close(fd);
    return take(memory, bytes, error);
}

TD_TEST(the_index_of_keys_that_change_while_it_is_built_is_not_stored)
{
    put_table(10);
    take = store_memory.memory.take;
    store_memory.memory.take = change_keys_and_take;
    store = open_folder();
    store_memory.memory.take = take;
    expect_event("key_index_not_stored file=n.keys.npy reason=\"the keys changed while");
    ck_assert(!exists(INDEX));
}

TD_TEST(a_rescan_does_not_write_the_index_again)
{
    put_table(1);
    store = open_folder();
    const ino_t before = inode(INDEX);
    (void)logged();
    td_store_rescan(store);
    expect_event(NULL);
    ck_assert_uint_eq(inode(INDEX), before);
}

TD_TEST(the_index_of_fewer_keys_is_not_stored)
{
    put_npy("n.npy", 1, N - 1);
    put_keys("n.keys.npy", 1, N - 1);
    store = open_folder();
    expect_event(NULL);
    ck_assert(!exists(INDEX));
}

/* ---- refused indices ------------------------------------------------------------------------- */

static void flip(off_t at)
{
    unsigned char byte;
    const int fd = open(path_of(INDEX), O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void flip_magic(void)
{
    flip(0);
}

static void flip_digest_of_image(void)
{
    flip(8);
}

static void flip_digest_of_keys(void)
{
    flip(16);
}

static void flip_seed(void)
{
    flip(64 + 32);
}

static void flip_first_block(void)
{
    flip(128);
}

static void flip_last_byte(void)
{
    flip(64 + (off_t)td_key_index_bytes(N) - 1);
}

static void cut_index(void)
{
    ck_assert_int_eq(truncate(path_of(INDEX), 64 + (off_t)td_key_index_bytes(N) - 1), 0);
}

static void cut_header(void)
{
    ck_assert_int_eq(truncate(path_of(INDEX), 63), 0);
}

static void empty_index(void)
{
    ck_assert_int_eq(truncate(path_of(INDEX), 0), 0);
}

static void lengthen_index(void)
{
    ck_assert_int_eq(truncate(path_of(INDEX), 65 + (off_t)td_key_index_bytes(N)), 0);
}

static void link_index(void)
{
    move_file(INDEX, "elsewhere");
    ck_assert_int_eq(symlink("elsewhere", path_of(INDEX)), 0);
}

static void replace_keys(void)
{
    put_keys("n.keys.npy", 7, N);
}

/* The same bytes as keys of uint64. */
static void change_dtype(void)
{
    const int fd = open(path_of("n.keys.npy"), O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, "u", 1, 10 + 12), 1);
    close(fd);
}

static void use_index_of_other_keys(void)
{
    put_keys("m.keys.npy", 100, N);
    put_npy("m.npy", 1, N);
    restart();
    move_file(".m.keys.npy.index.tensord", INDEX);
    unlink(path_of("m.npy"));
    unlink(path_of("m.keys.npy"));
}

static const struct {
    void (*damage)(void);
    const char *reason;
    int64_t first;
} refused[] = {
    { flip_magic, "it has an unknown format", 7 },
    { flip_digest_of_image, "it is damaged", 7 },
    { flip_digest_of_keys, "it belongs to other keys", 7 },
    { flip_seed, "it is damaged", 7 },
    { flip_first_block, "it is damaged", 7 },
    { flip_last_byte, "it is damaged", 7 },
    { cut_index, "its size does not match the number of keys", 7 },
    { cut_header, "its size does not match the number of keys", 7 },
    { empty_index, "it is empty or not a regular file", 7 },
    { lengthen_index, "its size does not match the number of keys", 7 },
    { link_index, "Too many levels of symbolic links", 7 },
    { replace_keys, "it belongs to other keys", 7 },
    { change_dtype, "it belongs to keys of another dtype", 0 },
    { use_index_of_other_keys, "it belongs to other keys", 7 },
};

TD_TEST_EACH(a_stored_index_that_cannot_be_used_is_replaced, refused)
{
    put_table(refused[_i].damage == replace_keys ? 100 : 7);
    store = open_folder();
    close_store();
    refused[_i].damage();
    (void)logged();
    restart();
    const char *lines = logged();
    ck_assert_msg(strstr(lines, "key_index_refused file=n.keys.npy reason=\"") &&
                      strstr(lines, refused[_i].reason) && strstr(lines, "key_index_stored"),
                  "%s", lines);
    if (refused[_i].first)
        expect_found(refused[_i].first);
    restart();
    expect_event(NULL);
}

/* ---- folders that cannot be changed ---------------------------------------------------------- */

TD_TEST(a_read_only_server_stores_no_index_but_uses_it)
{
    put_table(1);
    store = open_reader();
    expect_event(NULL);
    expect_found(1);
    ck_assert(!exists(INDEX));
    restart();
    expect_event("key_index_stored");
    close_store();
    store = open_reader();
    ck_assert_uint_eq(td_store_usage(store).held, 0);
    expect_found(1);
}

TD_TEST(a_server_stores_the_index_when_it_gets_the_lock)
{
    struct td_store *first = open_folder();
    put_table(1);
    store = open_folder();
    expect_event("key_index_not_stored file=n.keys.npy reason=\"another process holds the lock");
    expect_found(1);
    td_store_retry_lock(store);
    expect_event(NULL);
    ck_assert(!exists(INDEX));
    td_store_free(first);
    (void)logged();
    td_store_retry_lock(store);
    expect_event("key_index_stored file=n.keys.npy");
    const ino_t before = inode(INDEX);
    td_store_rescan(store);
    expect_event(NULL);
    ck_assert_uint_eq(inode(INDEX), before);
    restart();
    expect_event(NULL);
    expect_found(1);
}

TD_TEST(the_index_of_keys_that_were_replaced_in_the_meantime_is_the_one_of_the_new_keys)
{
    struct td_store *first = open_folder();
    put_table(1);
    store = open_folder();
    ck_assert_int_eq(unlink(path_of("n.keys.npy")), 0);
    put_keys("n.keys.npy", 2, N);
    td_store_free(first);
    (void)logged();
    td_store_retry_lock(store);
    expect_event("key_index_stored file=n.keys.npy");
    restart();
    expect_event(NULL);
    expect_found(2);
}

TD_TEST(an_unwritable_folder_is_no_obstacle)
{
    put_table(1);
    ck_assert_int_eq(chmod(path_of("."), 0555), 0);
    ck_assert_int_eq(chmod(path_of("n.npy"), 0444), 0);
    ck_assert_int_eq(chmod(path_of("n.keys.npy"), 0444), 0);
    drop_rights();
    store = open_folder();
    regain_rights();
    expect_event("key_index_not_stored file=n.keys.npy reason=\"Permission denied\"");
    expect_found(1);
    ck_assert_int_eq(chmod(path_of("."), 0755), 0);
}

/* ---- removal --------------------------------------------------------------------------------- */

TD_TEST(delete_removes_the_index_with_the_keys)
{
    const struct td_store_write write = { .name = "n" };
    put_table(1);
    store = open_folder();
    ck_assert(exists(INDEX));
    EXPECT_OK(td_store_delete(store, &write, &(bool){ false }, &err), &err);
    ck_assert(!exists("n.keys.npy"));
    ck_assert(!exists(INDEX));
}

TD_TEST(the_next_start_removes_an_index_without_keys)
{
    put_table(1);
    store = open_folder();
    close_store();
    unlink(path_of("n.keys.npy"));
    restart();
    ck_assert(!exists(INDEX));
    expect_names(store, "n");
}

TD_TEST(lookups_fail_after_the_stored_index_was_truncated)
{
    struct td_tensor_listing listing;
    put_table(1);
    store = open_folder();
    restart();
    const struct td_tensor_listing *served = found(store, "n.keys");
    ck_assert_int_eq(truncate(path_of(INDEX), 4096), 0);
    ck_assert_int_eq(td_store_check(served, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert(!td_store_needs_scan(store));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(td_store_get(store, "n", 1, &test_arena, &listing, &err),
                         TD_DEVICE_UNAVAILABLE);
        ck_assert(td_store_needs_scan(store) == (i == 0)); /* once for each index */
    }
    (void)logged();
    td_store_rescan(store);
    const char *lines = logged();
    ck_assert_msg(strstr(lines, "key_index_refused file=n.keys.npy reason=\"its size") &&
                      strstr(lines, "key_index_stored file=n.keys.npy"),
                  "%s", lines);
    expect_found(1);
    restart();
    expect_event(NULL);
}

TD_FIXTURE(one_store_begin, one_store_end);
