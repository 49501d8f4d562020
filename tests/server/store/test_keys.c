/* Keys of tables: in memory, through row updates, in files, and after a restart. */
#include "kernels/key_index/key_index.h"
#include "server/memory/fault_guard.h"
#include "server/store/aliases/aliases.h"
#include "server/store/keys.h"
#include "server/store/table_name.h"
#include "tests/server/one_store.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_error err;
static struct td_exec serial;
static struct td_tensor_listing listing;
static bool created;

static td_status put(const char *name, const char *rows, const char *keys, bool persist)
{
    const struct td_store_write write = { .name = name, .persist = persist };
    const struct td_tensor r = tensor(rows), k = keys ? tensor(keys) : r;
    td_exec_serial(&serial, &test_arena);
    return td_store_put_table(store, &write, &r, keys ? &k : NULL, &serial, &test_arena, &listing,
                              &created, &err);
}

static td_status put_keys(const char *name, const char *keys, bool persist)
{
    const struct td_store_write write = { .name = name, .persist = persist };
    const struct td_tensor k = tensor(keys);
    td_exec_serial(&serial, &test_arena);
    return td_store_put_keys(store, &write, &k, &serial, &test_arena, &listing, &created, &err);
}

static td_status delete_keys(const char *name, bool persist)
{
    const struct td_store_write write = { .name = name, .persist = persist };
    return td_store_delete_keys(store, &write, &test_arena, &listing, &err);
}

/* The rows of the queries, found by the index that the table's keys have. */
static void expect_rows(const char *name, const char *queries, const char *rows)
{
    const struct td_tensor *keys = found(store, name)->keys;
    const struct td_tensor q = tensor(queries), want = tensor(rows);
    int64_t got[16];
    ck_assert_ptr_nonnull(keys);
    ck_assert_ptr_nonnull(keys->key_index);
    td_key_index_find(keys->key_index, &q, 0, q.numel, got);
    ck_assert_mem_eq(got, want.data, want.bytes);
}

TD_TEST(a_table_may_be_put_with_its_keys)
{
    store = open_folder();
    ck_assert_int_eq(put("t", "float32[2,2] 1 2 3 4", "string[2] 'king' 'queen'", false), TD_OK);
    ck_assert(created);
    ck_assert_ptr_nonnull(listing.keys);
    expect_rows("t", "string[3] 'queen' 'king' 'rook'", "int64[3] 1 0 -1");
    expect_tensor(found(store, "t")->tensor, "float32[2,2] 1 2 3 4", "rows");
    ck_assert_int_eq(put("t", "float32[1] 5", NULL, false), TD_OK);
    ck_assert_ptr_null(found(store, "t")->keys);
}

TD_TEST(keys_are_put_and_deleted_beside_the_rows)
{
    store = open_folder();
    ck_assert_int_eq(put("t", "int32[3] 1 2 3", NULL, false), TD_OK);
    const uint64_t version = listing.version;
    ck_assert_int_eq(put_keys("t", "int64[3] 7 8 9", false), TD_OK);
    ck_assert(created);
    ck_assert_uint_gt(listing.version, version);
    expect_rows("t", "int64[2] 9 7", "int64[2] 2 0");
    ck_assert_int_eq(put_keys("t", "uint64[3] 4 5 6", false), TD_OK);
    ck_assert(!created);
    expect_rows("t", "uint64[2] 9 6", "int64[2] -1 2");
    expect_tensor(found(store, "t")->tensor, "int32[3] 1 2 3", "rows");
    ck_assert_int_eq(delete_keys("t", false), TD_OK);
    ck_assert_ptr_null(found(store, "t")->keys);
    ck_assert_int_eq(delete_keys("t", false), TD_TENSOR_NOT_FOUND);
}

TD_TEST(the_name_of_the_keys_is_that_of_the_table_with_a_suffix)
{
    store = open_folder();
    struct td_tensor t;
    ck_assert_int_eq(put("m:w@v1", "int32[2] 1 2", "int64[2] 5 6", false), TD_OK);
    expect_tensor(found(store, "m:w.keys@v1")->tensor, "int64[2] 5 6", "keys");
    ck_assert_str_eq(found(store, "m:w.keys@v1")->name, "m:w.keys@v1");
    ck_assert_int_eq(td_resolve(td_store_resolver(store), "m:w.keys@v1", 11, &test_arena, &t, &err),
                     TD_OK);
    ck_assert_ptr_nonnull(t.key_index);
    expect_names(store, "m:w@v1");
    ck_assert_int_eq(put("m:w.keys", "int32[2] 1 2", NULL, false), TD_INVALID_ARGUMENT);
    ck_assert_int_eq(missing_error(store, "m:x.keys", 8).status, TD_TENSOR_NOT_FOUND);
    ck_assert_int_eq(put("u", "int32[1] 1", NULL, false), TD_OK);
    ck_assert_int_eq(missing_error(store, "u.keys", 6).status, TD_TENSOR_NOT_FOUND);
    ck_assert_int_eq(put(".keys", "int32[1] 1", NULL, false), TD_INVALID_ARGUMENT);
}

static const struct {
    const char *rows, *keys;
    td_status status;
} refused[] = {
    { "int32[3] 1 2 3", "int64[2] 1 2", TD_CONFLICT },
    { "int32[] 1", "int64[1] 1", TD_CONFLICT },
    { "int32[1] 1", "int64[1,1] 1", TD_SHAPE_MISMATCH },
    { "int32[1] 1", "int64[] 1", TD_SHAPE_MISMATCH },
    { "int32[1] 1", "int32[1] 1", TD_UNSUPPORTED_DTYPE },
    { "int32[3] 1 2 3", "int64[3] 4 5 4", TD_INVALID_ARGUMENT },
};

TD_TEST_EACH(keys_that_do_not_fit_change_nothing, refused)
{
    store = open_folder();
    ck_assert_int_eq(put("t", refused[_i].rows, refused[_i].keys, false), refused[_i].status);
    expect_names(store, "");
    ck_assert_int_eq(put("t", refused[_i].rows, NULL, false), TD_OK);
    const uint64_t version = listing.version;
    ck_assert_int_eq(put_keys("t", refused[_i].keys, false), refused[_i].status);
    ck_assert_str_eq(err.input, "keys");
    ck_assert_uint_eq(found(store, "t")->version, version);
    ck_assert_uint_eq(td_store_usage(store).held, found(store, "t")->tensor->bytes);
}

/* Changes one row of "t", twice, so that the second one uses the spare copy. */
static void update(bool persist)
{
    const struct td_store_write write = { .name = "t", .persist = persist };
    for (int i = 0; i < 2; i++) {
        struct td_store_update *change;
        const uint64_t offset = 4;
        ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &change, &err),
                         TD_OK);
        ((int32_t *)change->tensor.data)[1]++;
        ck_assert_int_eq(td_store_update_commit(change, &offset, 1, 4, &test_arena, &listing, &err),
                         TD_OK);
        td_arena_reset(&test_arena);
    }
}

TD_TEST_LOOP(a_row_update_keeps_the_keys, 0, 3)
{
    store = open_folder();
    ck_assert_int_eq(put("t", "int32[3] 1 2 3", "string[3] 'a' 'b' 'c'", _i == 1), TD_OK);
    td_arena_reset(&test_arena);
    update(_i == 2);
    expect_tensor(found(store, "t")->tensor, "int32[3] 1 4 3", "rows");
    expect_rows("t", "string[3] 'c' 'b' 'd'", "int64[3] 2 1 -1");
    td_arena_reset(&test_arena);
    update(false);
    expect_rows("t", "string[3] 'c' 'b' 'd'", "int64[3] 2 1 -1");
}

TD_TEST(keys_whose_size_overflows_fit_no_quota)
{
    struct td_tensor k = { .dtype = TD_DTYPE_INT64, .numel = 3, .bytes = 24 };
    ck_assert_uint_eq(td_keys_footprint(&k), 24 + td_key_index_bytes(3));
    k.numel = INT64_MAX; /* so many keys that their index cannot be addressed */
    ck_assert_uint_eq(td_keys_footprint(&k), UINT64_MAX);
    k = (struct td_tensor){ .dtype = TD_DTYPE_STRING, .numel = 1, .bytes = SIZE_MAX - 64 };
    ck_assert_uint_eq(td_keys_footprint(&k), UINT64_MAX);
}

TD_TEST(keys_count_towards_the_quota_until_they_are_mapped)
{
    store = open_folder();
    ck_assert_int_eq(put("t", "int32[3] 1 2 3", "int64[3] 1 2 3", false), TD_OK);
    const uint64_t bytes = 12 + 24 + td_key_index_bytes(3);
    ck_assert_uint_eq(td_store_usage(store).held, bytes);
    update(false);
    td_store_trim(store, INT64_MAX);
    ck_assert_uint_eq(td_store_usage(store).held, bytes);
    ck_assert_int_eq(put_keys("t", "int64[3] 4 5 6", false), TD_OK);
    ck_assert_uint_eq(td_store_usage(store).held, bytes);
    ck_assert_int_eq(put_keys("t", "int64[3] 4 5 6", true), TD_OK);
    ck_assert_uint_eq(td_store_usage(store).held, 0);
    ck_assert_uint_eq(td_store_usage(store).mapped, bytes);
    ck_assert_int_eq(delete_keys("t", false), TD_OK);
    ck_assert_uint_eq(td_store_usage(store).mapped, 12);
}

static void drop(const char *name)
{
    ck_assert_int_eq(
        td_store_delete(store, &(struct td_store_write){ .name = name }, &(bool){ false }, &err),
        TD_OK);
    td_arena_reset(&test_arena); /* and the listings that keep it alive */
}

/* t with keys 0, 3, 6, ..., which in a file are on another page than the header and the rows. */
static void put_large(bool persist)
{
    enum { ROWS = 10000 };
    static int32_t rows[ROWS];
    static int64_t values[ROWS];
    struct td_tensor r = tensor_without_data("int32[10000]");
    for (int i = 0; i < ROWS; i++)
        values[i] = 3 * i;
    const struct td_tensor k = index_vector(TD_DTYPE_INT64, values, ROWS);
    r.data = rows;
    const struct td_store_write write = { .name = "t", .persist = persist };
    td_exec_serial(&serial, &test_arena);
    ck_assert_int_eq(
        td_store_put_table(store, &write, &r, &k, &serial, &test_arena, &listing, &created, &err),
        TD_OK);
    td_arena_reset(&test_arena);
}

/* 0: of keys in memory, 1: of mapped ones, 2: of mapped ones whose rows are in memory since an
 * update */
TD_TEST_LOOP(a_table_of_the_keys_of_another_does_not_need_it, 0, 3)
{
    mallopt(M_PERTURB, 0x5a); /* fills freed memory */
    store = open_folder();
    put_large(_i > 0);
    if (_i == 2)
        update(false);
    ck_assert_int_eq(put_tensor(store, "u", found(store, "t.keys")->tensor, false, &err), TD_OK);
    drop("t");
    const int64_t *keys = found(store, "u")->tensor->data;
    for (int64_t i = 0; i < found(store, "u")->tensor->numel; i++)
        EXPECT(keys[i] == 3 * i, "key %d", (int)i);
    close_store();
    mallopt(M_PERTURB, 0);
}

TD_TEST(an_update_of_the_rows_leaves_the_keys_mapped)
{
    store = open_folder();
    ck_assert_int_eq(put("t", "int32[3] 1 2 3", "int64[3] 7 8 9", true), TD_OK);
    update(false);
    ck_assert_uint_eq(td_store_usage(store).mapped, 24 + td_key_index_bytes(3));
    ck_assert(!td_store_is_mapped(found(store, "t")->tensor));
    ck_assert(td_store_is_mapped(found(store, "t.keys")->tensor));
    ck_assert_int_eq(delete_keys("t", false), TD_OK);
    ck_assert_uint_eq(td_store_usage(store).mapped, 0);
}

/* Nobody has read them before they are written anew, with changed rows. */
TD_TEST(keys_of_a_truncated_file_are_not_written)
{
    const struct td_store_write write = { .name = "t", .persist = true };
    struct td_store_update *change;
    const uint64_t offset = 4;
    struct stat before, after;
    store = open_folder();
    put_large(true);
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &change, &err), TD_OK);
    ck_assert_int_eq(truncate(path_of("t.tensord"), 65536), 0); /* in the keys */
    ck_assert_int_eq(stat(path_of("t.tensord"), &before), 0);
    ck_assert_int_eq(td_store_update_commit(change, &offset, 1, 4, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(stat(path_of("t.tensord"), &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
}

/* Zeros in the place of the keys that are missing could be keys as well: these differ by their
 * lengths. */
TD_TEST_LOOP(keys_of_a_truncated_file_are_not_those_of_another_table, 0, 2)
{
    enum { N = 200, LONGEST = 400 };
    static char bytes[N * LONGEST];
    static uint64_t offsets[N + 1];
    for (uint64_t i = 0; i < N; i++)
        offsets[i + 1] = offsets[i] + LONGEST - i;
    memset(bytes, 'k', offsets[N]);
    struct td_tensor rows = tensor("int8[1] 1"), keys = tensor("string[1] 'k'");
    rows.shape.dim[0] = keys.shape.dim[0] = rows.numel = keys.numel = N;
    rows.data = keys.data = bytes;
    rows.bytes = N;
    keys.offsets = offsets;
    keys.bytes = offsets[N];
    const struct td_store_write write = { .name = "t", .persist = true }, other = { .name = "u" };
    store = open_folder();
    td_exec_serial(&serial, &test_arena);
    ck_assert_int_eq(td_store_put_table(store, &write, &rows, &keys, &serial, &test_arena, &listing,
                                        &created, &err),
                     TD_OK);
    ck_assert_int_eq(put_tensor(store, "u", &rows, false, &err), TD_OK);
    const struct td_tensor *truncated = found(store, "t.keys")->tensor;
    ck_assert_int_eq(truncate(path_of("t.tensord"), 32768), 0); /* in the keys */
    ck_assert_int_eq(_i == 0 ? td_store_put_keys(store, &other, truncated, &serial, &test_arena,
                                                 &listing, &created, &err)
                             : td_store_put_table(store, &other, &rows, truncated, &serial,
                                                  &test_arena, &listing, &created, &err),
                     TD_DEVICE_UNAVAILABLE);
    ck_assert_ptr_null(found(store, "u")->keys);
}

static const char *const persisted_keys[] = {
    "int64[3] 7 -1 9",
    "uint64[3] 18446744073709551615 0 1",
    "string[3] 'a' '' 'b\\x00c'",
};

static const char *const persisted_rows[] = { "int32[3,1] 1 2 3", "uint8[3] 1 2 3",
                                              "string[3] 'x' 'yy' ''", "float64[3,0]" };

TD_TEST_LOOP(rows_keys_and_index_are_in_one_file_after_a_restart, 0,
             COUNT_OF(persisted_keys) * COUNT_OF(persisted_rows))
{
    const char *keys = persisted_keys[_i % 3], *rows = persisted_rows[_i / 3];
    store = open_folder();
    ck_assert_int_eq(put("t", rows, keys, true), TD_OK);
    expect_tensor(found(store, "t.keys")->tensor, keys, "keys");
    restart();
    ck_assert_str_eq(logged(), "");
    expect_tensor(found(store, "t")->tensor, rows, "rows");
    expect_tensor(found(store, "t.keys")->tensor, keys, "keys");
    expect_rows("t", keys, "int64[3] 0 1 2");
    ck_assert_uint_eq((uintptr_t)td_key_index_image(found(store, "t")->keys->key_index) % 64, 0);
    ck_assert_int_eq(delete_keys("t", true), TD_OK);
    restart();
    expect_tensor(found(store, "t")->tensor, rows, "rows");
    ck_assert_ptr_null(found(store, "t")->keys);
}

TD_TEST(keys_that_are_not_persisted_are_gone_after_a_restart)
{
    store = open_folder();
    ck_assert_int_eq(put("t", "int32[3] 1 2 3", "int64[3] 1 2 3", true), TD_OK);
    ck_assert_int_eq(put_keys("t", "int64[3] 4 5 6", false), TD_OK);
    ck_assert(!listing.persisted);
    expect_rows("t", "int64[2] 5 1", "int64[2] 1 -1");
    td_store_rescan(store);
    expect_rows("t", "int64[2] 5 1", "int64[2] 1 -1");
    restart();
    expect_rows("t", "int64[2] 5 1", "int64[2] -1 0");
}

#define ROWS "\"w\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]},"

TD_TEST(a_safetensors_file_has_keys_beside_its_tables)
{
    put_safetensors("m.safetensors",
                    "{" ROWS "\"w.keys\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[8,24]},"
                    "\"x.keys\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[24,40]}}   ",
                    1, 10);
    store = open_folder();
    expect_names(store, "m:w");
    expect_rows("m:w", "int64[2] 25769803781 17179869187", "int64[2] 1 0");
    ck_assert_ptr_nonnull(strstr(logged(), "m:x.keys"));
}

/* m.safetensors with the keys 'a' and 'bb'; its data begin after `header_bytes`, at most 248, and 8
 * more. */
static void put_words(uint64_t header_bytes, int64_t second_offset)
{
    const char *header =
        "{\"w.keys.offsets\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,24]},"
        "\"w\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[24,32]},"
        "\"w.keys.bytes\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[32,35]}}";
    const struct {
        int64_t offsets[3];
        int32_t rows[2];
        char bytes[3];
    } __attribute__((packed)) data = { { 0, second_offset, 3 }, { 5, 6 }, { 'a', 'b', 'b' } };
    char file[8 + 248 + sizeof data];
    memset(file, ' ', sizeof file);
    memcpy(file, &header_bytes, 8);
    memcpy(file + 8, header, strlen(header));
    memcpy(file + 8 + header_bytes, &data, sizeof data);
    put_file("m.safetensors", file, 8 + header_bytes + sizeof data);
}

TD_TEST(the_strings_of_a_safetensors_file_are_offsets_and_bytes)
{
    for (uint64_t header_bytes = 241; header_bytes <= 248; header_bytes++) { /* at any alignment */
        put_words(header_bytes, 1);
        restart();
        ck_assert_str_eq(logged(), "");
        expect_names(store, "m:w");
        expect_rows("m:w", "string[3] 'bb' 'a' 'b'", "int64[3] 1 0 -1");
    }
    put_words(248, -1);
    restart();
    expect_names(store, "");
}

TD_TEST(a_table_whose_keys_do_not_fit_is_skipped_and_the_rest_served)
{
    put_safetensors("m.safetensors",
                    "{" ROWS "\"v\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                    "\"p\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[12,16]},"
                    "\"w.keys\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[16,40]}}   ",
                    1, 10);
    store = open_folder();
    expect_names(store, "m:p m:v");
    ck_assert_ptr_nonnull(strstr(logged(), "there are 3 keys"));
}

/* ---- keys in a .npy file of their own ---- */

#define KEYS(...)                                                                                  \
    (const int64_t[]){ __VA_ARGS__ }, (int)(sizeof(int64_t[]){ __VA_ARGS__ } / sizeof(int64_t))

/* Replaces a file by renaming another one over it; in place it would be overwritten. */
static void rename_keys(const char *name, const int64_t *keys, int n)
{
    char new[128];
    put_keys_npy(".new", keys, n);
    snprintf(new, sizeof new, "%s", path_of(".new"));
    ck_assert_int_eq(rename(new, path_of(name)), 0);
}

TD_TEST(an_npy_file_has_keys_in_another_one)
{
    put_npy("n.npy", 1, 3);
    put_keys_npy("n.keys.npy", KEYS(7, -8, 9));
    put_npy("m:w@v.npy", 5, 2);
    put_keys_npy("m:w.keys@v.npy", KEYS(3, 4));
    store = open_folder();
    for (int i = 0; i < 2; i++) {
        expect_names(store, "m:w@v n");
        expect_rows("n", "int64[3] -8 9 1", "int64[3] 1 2 -1");
        expect_rows("m:w@v", "int64[2] 4 3", "int64[2] 1 0");
        ck_assert_str_eq(found(store, "n")->source, "n.npy");
        ck_assert(found(store, "n")->persisted);
        ck_assert_str_eq(logged(), "");
        td_store_rescan(store);
    }
}

TD_TEST(a_changed_keys_file_is_a_change_of_its_table)
{
    char etag[64];
    put_npy("n.npy", 1, 3);
    store = open_folder();
    ck_assert_ptr_null(found(store, "n")->keys);
    snprintf(etag, sizeof etag, "%s", found(store, "n")->etag);
    put_keys_npy("n.keys.npy", KEYS(7, 8, 9)); /* added */
    td_store_rescan(store);
    expect_rows("n", "int64[2] 9 1", "int64[2] 2 -1");
    ck_assert_str_ne(found(store, "n")->etag, etag);
    snprintf(etag, sizeof etag, "%s", found(store, "n")->etag);
    td_store_rescan(store);
    ck_assert_str_eq(found(store, "n")->etag, etag);
    rename_keys("n.keys.npy", KEYS(1, 8, 9)); /* changed */
    td_store_rescan(store);
    expect_rows("n", "int64[2] 9 1", "int64[2] 2 0");
    ck_assert_str_ne(found(store, "n")->etag, etag);
    ck_assert_int_eq(put("n", "int32[1] 4", NULL, false), TD_OK);
    td_store_rescan(store);
    ck_assert_ptr_null(found(store, "n")->keys);
    ck_assert_str_eq(logged(), "");
    rename_keys("n.keys.npy", KEYS(1, 2, 9)); /* changed after a PUT */
    td_store_rescan(store);
    ck_assert_ptr_nonnull(
        strstr(logged(), " warn tables_changed file=n.npy replaced=1 unpersisted=1\n"));
    expect_rows("n", "int64[2] 9 2", "int64[2] 2 1");
    ck_assert_int_eq(unlink(path_of("n.keys.npy")), 0);
    td_store_rescan(store);
    ck_assert_ptr_null(found(store, "n")->keys); /* removed */
    expect_tensor(found(store, "n")->tensor, "int32[3] 1 2 3", "rows");
    ck_assert_str_eq(logged(), "");
}

static struct td_buffer *(*take)(struct td_memory *memory, size_t bytes, struct td_error *err);

/* The memory of an index is taken during the scan, after the files were listed. */
static struct td_buffer *put_keys_and_take(struct td_memory *memory, size_t bytes,
                                           struct td_error *error)
{
    if (access(path_of("n.keys.npy"), F_OK) != 0)
        put_keys_npy("n.keys.npy", KEYS(7, 8, 9));
    return take(memory, bytes, error);
}

/* Opens or rescans the folder, in which n.keys.npy appears in the meantime. */
static void scan_while_keys_appear(void)
{
    take = store_memory.memory.take;
    store_memory.memory.take = put_keys_and_take;
    if (store)
        td_store_rescan(store);
    else
        store = open_folder();
    store_memory.memory.take = take;
    expect_rows("n", "int64[2] 9 5", "int64[2] 2 -1");
}

static const char *const scanned[] = { "a", "z" }; /* before n, after n */

TD_TEST_EACH(a_scan_finds_keys_that_appear_after_the_folder_was_listed, scanned)
{
    char file[16];
    put_npy("n.npy", 1, 3);
    snprintf(file, sizeof file, "%s.npy", scanned[_i]);
    put_npy(file, 1, 2);
    snprintf(file, sizeof file, "%s.keys.npy", scanned[_i]);
    put_keys_npy(file, KEYS(1, 2));
    scan_while_keys_appear();
    ck_assert_int_eq(unlink(path_of("n.keys.npy")), 0);
    rename_keys(file, KEYS(3, 4));
    scan_while_keys_appear();
}

static void too_few(void)
{
    rename_keys("n.keys.npy", KEYS(1, 2));
}

static void equal_keys(void)
{
    rename_keys("n.keys.npy", KEYS(1, 2, 1));
}

static void other_dtype(void)
{
    ck_assert_int_eq(unlink(path_of("n.keys.npy")), 0);
    put_npy("n.keys.npy", 1, 3);
}

static void no_tensor(void)
{
    ck_assert_int_eq(unlink(path_of("n.keys.npy")), 0);
    put_text("n.keys.npy", "no numbers");
}

static const struct {
    void (*spoil)(void);
    const char *reason;
} misfits[] = {
    { too_few, "n.keys.npy: there are 2 keys, but 'n' has 3 rows" },
    { equal_keys, "n.keys.npy: keys[2]" },
    { other_dtype, "n.keys.npy: keys have dtype int32; expected int64, uint64 or string" },
    { no_tensor, "n.keys.npy: not a .npy file" },
};

TD_TEST_EACH(a_table_whose_keys_file_does_not_fit_is_refused_and_the_earlier_one_stays, misfits)
{
    put_npy("n.npy", 1, 3);
    put_keys_npy("n.keys.npy", KEYS(7, 8, 9));
    store = open_folder();
    misfits[_i].spoil();
    for (int i = 0; i < 2; i++) {
        td_store_rescan(store);
        expect_names(store, "n");
        expect_rows("n", "int64[2] 9 1", "int64[2] 2 -1");
        const char *lines = logged();
        ck_assert_msg(strstr(lines, "warn table_skipped file=n.npy") &&
                          strstr(lines, misfits[_i].reason),
                      "%s", lines);
    }
    restart(); /* after a restart there is no earlier one */
    expect_names(store, "");
    ck_assert_ptr_nonnull(strstr(logged(), misfits[_i].reason));
    rename_keys("n.keys.npy", KEYS(4, 5, 6));
    td_store_rescan(store);
    expect_rows("n", "int64[2] 6 9", "int64[2] 2 -1");
    ck_assert_str_eq(logged(), "");
}

TD_TEST(a_table_whose_keys_file_was_overwritten_is_not_served_with_it)
{
    put_npy("n.npy", 1, 3);
    put_keys_npy("n.keys.npy", KEYS(7, 8, 9));
    store = open_folder();
    put_keys_npy("n.keys.npy", KEYS(1, 2, 3, 4)); /* in place: the mapped keys have changed */
    td_store_rescan(store);
    expect_names(store, "");
}

TD_TEST(a_truncated_keys_file_is_noticed)
{
    int64_t keys[128];
    for (int i = 0; i < 128; i++)
        keys[i] = i;
    put_npy("n.npy", 1, 128);
    put_keys_npy("n.keys.npy", keys, 128);
    store = open_folder();
    const struct td_tensor_listing *served = found(store, "n.keys");
    ck_assert_int_eq(truncate(path_of("n.keys.npy"), 0), 0);
    ck_assert_int_eq(td_store_check(served, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(td_store_get(store, "n", 1, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE); /* no one looks up rows by zeros */
    EXPECT_MESSAGE(&err, "the file n.keys.npy of 'n' was truncated");
}

TD_TEST(the_error_names_a_truncated_keys_file_in_a_folder)
{
    put_version_files("1", "m.npy", 1);
    put_keys_npy("1/m.keys.npy", KEYS(7, 8, 9));
    put_npy("1/m.npy", 1, 3);
    put_manifest("1", "m.npy m.keys.npy", "");
    store = open_folder();
    ck_assert_int_eq(truncate(path_of("1/m.keys.npy"), 0), 0);
    ck_assert_int_eq(td_store_get(store, "m@1", 3, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "the file 1/m.keys.npy of 'm@1' was truncated");
}

TD_TEST(the_error_names_a_truncated_keys_file_when_the_rows_are_in_memory)
{
    put_npy("n.npy", 1, 3);
    put_keys_npy("n.keys.npy", KEYS(7, 8, 9));
    store = open_folder();
    struct td_store_update *update;
    const struct td_store_write write = { .name = "n" };
    td_exec_serial(&serial, &test_arena);
    EXPECT_OK(td_store_update_begin(store, &write, &test_arena, &serial, &update, &err), &err);
    EXPECT_OK(
        td_store_update_commit(update, (const uint64_t[]){ 0 }, 1, 4, &test_arena, &listing, &err),
        &err);
    ck_assert_int_eq(truncate(path_of("n.keys.npy"), 0), 0);
    ck_assert_int_eq(td_store_get(store, "n", 1, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "the file n.keys.npy of 'n' was truncated");
}

TD_TEST(a_persisted_table_has_precedence_over_both_files_and_removes_them)
{
    put_npy("n.npy", 1, 3);
    put_keys_npy("n.keys.npy", KEYS(7, 8, 9));
    store = open_folder();
    ck_assert_int_eq(put_keys("n", "int64[3] 1 2 3", true), TD_OK);
    ck_assert_int_ne(access(path_of("n.npy"), F_OK), 0);
    ck_assert_int_ne(access(path_of("n.keys.npy"), F_OK), 0);
    put_npy("n.npy", 5, 2);
    put_keys_npy("n.keys.npy", KEYS(7, 8));
    td_store_rescan(store);
    expect_rows("n", "int64[2] 3 7", "int64[2] 2 -1");
    ck_assert_ptr_nonnull(strstr(logged(), "n.tensord takes precedence"));
    const struct td_store_write write = { .name = "n" };
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
    ck_assert_int_ne(access(path_of("n.npy"), F_OK), 0);
    ck_assert_int_ne(access(path_of("n.keys.npy"), F_OK), 0);
    td_store_rescan(store);
    expect_names(store, "");
}

TD_TEST(a_keys_file_without_its_table_is_skipped)
{
    put_keys_npy("n.keys.npy", KEYS(7, 8));
    put_keys_npy("a.keys.npy", KEYS(7, 8));
    put_keys_npy("a.keys.keys.npy", KEYS(7, 8));
    put_npy("a.npy", 1, 2);
    store = open_folder();
    expect_names(store, "a");
    const char *lines = logged();
    ck_assert_msg(
        strstr(lines, "file=n.keys.npy reason=\"its name says that it holds the keys of n.npy,") &&
            strstr(lines, "file=a.keys.keys.npy reason=\"its name says that it holds the keys "
                          "of a.keys.npy, but keys have no keys"),
        "%s", lines);
    put_npy("n.npy", 1, 2);
    td_store_rescan(store);
    expect_rows("n", "int64[2] 8 7", "int64[2] 1 0");
    ck_assert_int_eq(unlink(path_of("n.npy")), 0);
    td_store_rescan(store);
    expect_names(store, "a");
}

static td_status name_by_alias(const char *alias, const char *version)
{
    const struct td_alias_change change = { alias, version };
    const struct td_alias_flip flip = { .set = &change, .n_set = 1 };
    return td_store_flip(store, &flip, &err);
}

TD_TEST(a_version_gets_its_keys_once_before_an_alias_names_it)
{
    store = open_folder();
    ck_assert_int_eq(put("t@1", "int32[2] 1 2", NULL, true), TD_OK);
    ck_assert_int_eq(put_keys("t@1", "int64[2] 1 2", true), TD_OK);
    ck_assert_int_eq(put_keys("t@1", "int64[2] 3 4", false), TD_CONFLICT);
    ck_assert_int_eq(delete_keys("t@1", false), TD_CONFLICT);
    ck_assert_int_eq(name_by_alias("t", "t@1"), TD_OK);
    ck_assert_int_eq(td_store_get(store, "t.keys", 6, &test_arena, &listing, &err), TD_OK);
    expect_tensor(listing.tensor, "int64[2] 1 2", "keys of the alias's target");
    ck_assert_str_eq(listing.name, "t.keys@1");
    ck_assert_int_eq(put_keys("t", "int64[2] 3 4", false), TD_CONFLICT);
    ck_assert_int_eq(put("t@2", "int32[2] 1 2", NULL, true), TD_OK);
    ck_assert_int_eq(name_by_alias("t", "t@2"), TD_OK);
    ck_assert_int_eq(put_keys("t@2", "int64[2] 3 4", false), TD_CONFLICT);
    ck_assert_int_eq(name_by_alias("t", NULL), TD_OK);
    ck_assert_int_eq(put_keys("t@2", "int64[2] 3 4", true), TD_OK);
    expect_rows("t@2", "int64[2] 4 1", "int64[2] 1 -1");
}

static const char *const version_keys[] = { "int64[2] 3 4", "string[2] 'a' 'bc'" };
static const char *const other_keys[] = { "int64[2] 4 3", "string[2] 'ab' 'c'" };

TD_TEST_EACH(the_keys_of_a_version_may_be_persisted_later, version_keys)
{
    store = open_folder();
    ck_assert_int_eq(put("t@1", "int32[2] 1 2", NULL, true), TD_OK);
    ck_assert_int_eq(put_keys("t@1", version_keys[_i], false), TD_OK);
    ck_assert_int_eq(put_keys("t@1", version_keys[_i], false), TD_CONFLICT);
    ck_assert_int_eq(put_keys("t@1", other_keys[_i], true), TD_CONFLICT);
    ck_assert_int_eq(name_by_alias("t", "t@1"), TD_CONFLICT);
    EXPECT_MESSAGE(&err, "the keys of this version are in memory only; PUT "
                         "/v1/tensors/t@1/keys?persist=1 with {\"ref\": \"t.keys@1\"}");
    ck_assert_int_eq(put_keys("t@1", version_keys[_i], true), TD_OK);
    ck_assert_int_eq(name_by_alias("t", "t@1"), TD_OK);
    ck_assert_int_eq(put_keys("t@1", version_keys[_i], true), TD_CONFLICT);
    restart();
    expect_tensor(found(store, "t.keys@1")->tensor, version_keys[_i], "after a restart");
}

TD_TEST(the_longest_name_of_a_table_has_keys)
{
    char name[TD_TENSOR_NAME], keys[TD_KEYS_NAME];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    td_table_keys_name(name, keys);
    store = open_folder();
    ck_assert_int_eq(put(name, "int32[2] 1 2", "int64[2] 7 8", false), TD_OK);
    expect_tensor(found(store, keys)->tensor, "int64[2] 7 8", "its keys");
}

/* An update of t, whose rows are int32, to n rows; values not set. */
static struct td_store_update *resize(int64_t n)
{
    static const struct td_store_write on_t = { .name = "t" };
    struct td_store_update *update;
    td_exec_serial(&serial, &test_arena);
    ck_assert_int_eq(td_store_update_open(store, &on_t, &test_arena, &serial, &update, &err),
                     TD_OK);
    ck_assert_int_eq(td_store_update_copy(update, n, &err), TD_OK);
    ck_assert_int_eq(update->tensor.shape.dim[0], n);
    return update;
}

static td_status commit(struct td_store_update *update, const char *keys)
{
    const struct td_tensor vector = tensor(keys ? keys : "int64[0]");
    update->keys = keys ? &vector : NULL;
    return td_store_update_commit(update, NULL, 0, 0, &test_arena, &listing, &err);
}

TD_TEST(an_update_changes_rows_and_keys_together)
{
    store = open_folder();
    ck_assert_int_eq(put("t", "int32[2] 1 2", "int64[2] 7 8", false), TD_OK);
    struct td_store_update *update = resize(3);
    expect_tensor(update->before, "int32[2] 1 2", "the version before");
    ((int32_t *)update->tensor.data)[2] = 3;
    ck_assert_int_eq(commit(update, "string[3] 'a' 'b' 'c'"), TD_OK);
    expect_tensor(found(store, "t")->tensor, "int32[3] 1 2 3", "more rows");
    expect_rows("t", "string[2] 'c' 'd'", "int64[2] 2 -1");
    ck_assert_int_eq(commit(resize(1), "uint64[1] 5"), TD_OK);
    expect_tensor(found(store, "t")->tensor, "int32[1] 1", "fewer rows");
    expect_rows("t", "uint64[2] 5 7", "int64[2] 0 -1");
    ck_assert_uint_eq(td_store_usage(store).held, 4 + 8 + td_key_index_bytes(1));
    ck_assert_int_eq(commit(resize(0), "int64[0]"), TD_OK);
    expect_rows("t", "int64[1] 5", "int64[1] -1");
}

TD_TEST(an_update_whose_keys_do_not_fit_changes_nothing)
{
    store = open_folder();
    ck_assert_int_eq(put("t", "int32[2] 1 2", "int64[2] 7 8", false), TD_OK);
    const uint64_t held = td_store_usage(store).held;
    ck_assert_int_eq(commit(resize(3), NULL), TD_CONFLICT);
    ck_assert_int_eq(commit(resize(3), "int64[2] 1 2"), TD_CONFLICT);
    ck_assert_int_eq(commit(resize(3), "int64[3] 1 2 1"), TD_INVALID_ARGUMENT);
    ck_assert_int_eq(commit(resize(2), "int32[2] 1 2"), TD_UNSUPPORTED_DTYPE);
    expect_tensor(found(store, "t")->tensor, "int32[2] 1 2", "afterwards");
    expect_rows("t", "int64[2] 8 1", "int64[2] 1 -1");
    ck_assert_uint_eq(td_store_usage(store).held, held);
}

TD_FIXTURE(one_store_begin, one_store_end);
