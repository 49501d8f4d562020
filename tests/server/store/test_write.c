/* Writers on one thread: put, delete, conditions, quota, files. */
#include "server/memory/fault_guard.h"
#include "server/store/entries.h"
#include "server/store/quota.h"
#include "tests/server/counting.h"
#include "tests/server/one_store.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct td_error err; /* of the last call */
static bool created;

static struct td_store_write write_of(const char *name, bool persist)
{
    return (struct td_store_write){ .name = name, .persist = persist };
}

static td_status put_as(const struct td_store_write *write, const struct td_tensor *tensor)
{
    struct td_tensor_listing listing;
    const td_status status =
        td_store_put(store, write, tensor, &test_arena, &listing, &created, &err);
    if (status == TD_OK) {
        ck_assert_str_eq(listing.name, write->name);
        const struct td_tensor_listing *got = found(store, write->name);
        ck_assert_uint_eq(got->version, listing.version);
        ck_assert_str_eq(got->etag, listing.etag);
        ck_assert_int_eq(got->persisted, listing.persisted);
    }
    return status;
}

/* Puts the tensor that `text` describes; fails the test if that fails. */
static void put_text_tensor(const char *name, const char *text, bool persist)
{
    const struct td_store_write write = write_of(name, persist);
    const struct td_tensor t = tensor(text);
    ck_assert_msg(put_as(&write, &t) == TD_OK, "%s: %s", name, err.message);
}

static td_status delete_name(const char *name)
{
    const struct td_store_write write = write_of(name, false);
    return td_store_delete(store, &write, &(bool){ false }, &err);
}

static bool is_file(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* Without the lock file. */
static int n_files(void)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (const struct dirent *item; (item = readdir(dir));)
        n += strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0 &&
             strcmp(item->d_name, ".tensord.lock") != 0;
    closedir(dir);
    return n;
}

/* ---- in memory ------------------------------------------------------------------------------- */

TD_TEST(a_put_tensor_can_be_fetched)
{
    store = open_at("");
    put_text_tensor("a", "int32[2,3] 1 2 3 4 5 6", false);
    ck_assert(created);
    const struct td_tensor_listing *a = found(store, "a");
    expect_tensor(a->tensor, "int32[2,3] 1 2 3 4 5 6", "a");
    ck_assert_ptr_null(a->source);
    ck_assert(!a->persisted);
    put_text_tensor("b", "string[3] 'x' '' '\\x00y'", false);
    expect_tensor(found(store, "b")->tensor, "string[3] 'x' '' '\\x00y'", "b");
    expect_names(store, "a b");
    put_text_tensor("a", "float32[] 2.5", false);
    ck_assert(!created);
    expect_tensor(found(store, "a")->tensor, "float32[] 2.5", "a, replaced");
    expect_tensor(a->tensor, "int32[2,3] 1 2 3 4 5 6", "a reader of the old version keeps it");
}

TD_TEST(versions_increase_and_etags_differ)
{
    store = open_at("");
    uint64_t last = 0;
    char tags[20][64];
    for (int i = 0; i < 20; i++) {
        const char *name = i % 3 ? "a" : "b";
        if (i == 10)
            ck_assert_int_eq(delete_name("a"), TD_OK);
        put_text_tensor(name, "int8[1] 7", false);
        const struct td_tensor_listing *got = found(store, name);
        ck_assert_uint_gt(got->version, last);
        last = got->version;
        snprintf(tags[i], sizeof tags[i], "%s", got->etag);
        ck_assert(tags[i][0] == '"' && tags[i][strlen(tags[i]) - 1] == '"');
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(tags[i], tags[j]);
    }
    td_store_free(store);
    store = open_at(""); /* another start: the same version numbers, different ETags */
    put_text_tensor("b", "int8[1] 7", false);
    for (int j = 0; j < 20; j++)
        ck_assert_str_ne(found(store, "b")->etag, tags[j]);
}

static const char *const wrong_names[] = { "",           ".a",        "a b",
                                           "a/b",        "../a",      "e\xcc\x81",
                                           "a\n",        "a\\b",      "%41",
                                           "a@1.keys",   "a@1.scale", "a@zero.zero_point",
                                           "a@1.program" };

TD_TEST_EACH(invalid_names_are_rejected, wrong_names)
{
    store = open_at("");
    const struct td_store_write write = write_of(wrong_names[_i], false);
    const struct td_tensor t = tensor("int8[1] 1");
    struct td_store_update *update;
    ck_assert_int_eq(put_as(&write, &t), TD_INVALID_ARGUMENT);
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_INVALID_ARGUMENT);
    ck_assert_int_eq(td_store_admit(store, &write, 1, &err), TD_INVALID_ARGUMENT);
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err),
                     TD_INVALID_ARGUMENT);
    expect_names(store, "");
}

TD_TEST(names_have_up_to_128_characters)
{
    store = open_at("");
    char name[130];
    memset(name, 'n', sizeof name);
    name[129] = '\0';
    ck_assert_int_eq(td_name_check(name, &err), TD_INVALID_ARGUMENT);
    name[128] = '\0';
    ck_assert_int_eq(td_name_check(name, &err), TD_OK);
    put_text_tensor(name, "int8[1] 1", false);
    found(store, name);
}

TD_TEST(a_failed_condition_changes_nothing)
{
    store = open_at("");
    const struct td_tensor one = tensor("int8[1] 1"), two = tensor("int8[1] 2");
    struct td_store_write write = { .name = "a", .condition.if_match = "*" };
    ck_assert_int_eq(put_as(&write, &one), TD_PRECONDITION_FAILED);
    ck_assert_str_eq(err.etag, "");
    expect_names(store, "");
    write.condition = (struct td_condition){ .if_none_match = "*" };
    ck_assert_int_eq(put_as(&write, &one), TD_OK);
    const char *tag = found(store, "a")->etag;
    ck_assert_int_eq(put_as(&write, &two), TD_PRECONDITION_FAILED);
    ck_assert_str_eq(err.etag, tag);
    ck_assert_int_eq(td_store_admit(store, &write, 1, &err), TD_PRECONDITION_FAILED);
    write.condition = (struct td_condition){ .if_match = tag };
    ck_assert_int_eq(td_store_admit(store, &write, 1, &err), TD_OK);
    ck_assert_int_eq(put_as(&write, &two), TD_OK);
    ck_assert_int_eq(put_as(&write, &one), TD_PRECONDITION_FAILED);
    ck_assert_str_eq(err.etag, found(store, "a")->etag);
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err),
                     TD_PRECONDITION_FAILED);
    expect_tensor(found(store, "a")->tensor, "int8[1] 2", "a");
    write.condition.if_match = found(store, "a")->etag;
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
    expect_names(store, "");
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_TENSOR_NOT_FOUND);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct counting counting;

static struct td_store *open_counted(uint64_t quota)
{
    counting_init(&counting);
    return td_store_open(&(struct td_store_options){
        .dir = "", .quota = quota, .memory = &counting.memory, .log = &store_log });
}

static struct td_tensor bytes_tensor(int64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "[%lld]", (long long)n);
    const struct td_shape dims = shape(text);
    return random_tensor(TD_DTYPE_UINT8, &dims);
}

TD_TEST(an_owner_is_kept_until_the_last_reader_releases_it)
{
    store = open_counted(QUOTA);
    const struct td_store_write write = write_of("a", false);
    struct td_tensor t = bytes_tensor(100000);
    struct td_buffer *body = counting.memory.take(&counting.memory, 110000, &err);
    memcpy(body->data, t.data, t.bytes);
    t.data = body->data;
    t.owner = body;
    ck_assert_int_eq(put_as(&write, &t), TD_OK);
    ck_assert_ptr_eq(found(store, "a")->tensor->data, body->data);
    td_buffer_unref(body);
    ck_assert_int_eq(counting.alive, 1);

    struct td_arena reader;
    struct td_tensor_listing held;
    td_arena_init(&reader, NULL, 0, td_memory_heap());
    ck_assert_int_eq(td_store_get(store, "a", 1, &reader, &held, &err), TD_OK);
    put_text_tensor("a", "int8[1] 1", false);
    td_arena_reset(&test_arena); /* releases what found() returned */
    ck_assert_int_eq(counting.alive, 1);
    ck_assert_mem_eq(held.tensor->data, body->data, 100000);
    td_arena_reset(&reader);
    ck_assert_int_eq(counting.alive, 0);
}

static const struct {
    const char *description;
    size_t owner, offset, bytes;
    td_dtype dtype;
    bool kept;
} owners[] = {
    { "as large as the tensor", 100000, 0, 100000, TD_DTYPE_UINT8, true },
    { "a header in front", 100200, 128, 100000, TD_DTYPE_FLOAT32, true },
    { "a quarter larger", 125000, 0, 100000, TD_DTYPE_UINT8, true },
    { "much larger", 130000, 0, 100000, TD_DTYPE_UINT8, false },
    { "not aligned: each reader would have to copy it", 100200, 127, 100000, TD_DTYPE_FLOAT32,
      false },
};

TD_TEST_EACH(an_owner_that_is_not_much_larger_is_kept, owners)
{
    store = open_counted(QUOTA);
    const struct td_store_write write = write_of("a", false);
    const size_t size = owners[_i].dtype == TD_DTYPE_UINT8 ? 1 : 4;
    struct td_buffer *body = counting.memory.take(&counting.memory, owners[_i].owner, &err);
    struct td_tensor t = { .dtype = owners[_i].dtype,
                           .shape = { 1, { (int64_t)(owners[_i].bytes / size) } },
                           .numel = (int64_t)(owners[_i].bytes / size),
                           .bytes = owners[_i].bytes,
                           .data = (char *)body->data + owners[_i].offset,
                           .owner = body };
    memset(body->data, 7, body->size);
    ck_assert_int_eq(put_as(&write, &t), TD_OK);
    ck_assert_msg((found(store, "a")->tensor->data == t.data) == owners[_i].kept, "%s",
                  owners[_i].description);
    ck_assert(td_tensor_is_aligned(found(store, "a")->tensor));
    ck_assert_mem_eq(found(store, "a")->tensor->data, t.data, t.bytes);
    td_buffer_unref(body);
    close_store();
    ck_assert_int_eq(counting.alive, 0);
}

TD_TEST(strings_are_copied_because_their_offsets_are_not_in_the_owner)
{
    store = open_counted(QUOTA);
    const struct td_store_write write = write_of("a", false);
    struct td_tensor t = tensor("string[2] 'ab' 'c'");
    struct td_buffer *body = counting.memory.take(&counting.memory, 3, &err);
    memcpy(body->data, t.data, 3);
    t.data = body->data;
    t.owner = body;
    ck_assert_int_eq(put_as(&write, &t), TD_OK);
    t.offsets[1] = 1;
    expect_tensor(found(store, "a")->tensor, "string[2] 'ab' 'c'", "a");
    ck_assert_ptr_ne(found(store, "a")->tensor->data, body->data);
    td_buffer_unref(body);
    close_store();
    ck_assert_int_eq(counting.alive, 0);
}

TD_TEST(a_view_of_strings_is_stored_with_offsets_from_0)
{
    store = open_folder();
    struct td_tensor t = tensor("string[4] 'skip' 'one' '' 'two'");
    t.offsets++;
    t.numel = t.shape.dim[0] = 3;
    const struct td_store_write write = write_of("a", false), persist = write_of("b", true);
    ck_assert_int_eq(put_as(&write, &t), TD_OK);
    expect_tensor(found(store, "a")->tensor, "string[3] 'one' '' 'two'", "a");
    ck_assert_int_eq(put_as(&persist, &t), TD_OK);
    expect_tensor(found(store, "b")->tensor, "string[3] 'one' '' 'two'", "b");
}

TD_TEST(bytes_above_the_quota_are_refused)
{
    store = open_counted(1000);
    const struct td_tensor t600 = bytes_tensor(600), t400 = bytes_tensor(400),
                           t401 = bytes_tensor(401), t1000 = bytes_tensor(1000);
    const struct td_store_write a = write_of("a", false), b = write_of("b", false);
    ck_assert_int_eq(put_as(&a, &t600), TD_OK);
    ck_assert_int_eq(put_as(&b, &t401), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "resident_bytes");
    ck_assert_uint_eq(err.needed, 1001);
    ck_assert_uint_eq(err.limit, 1000);
    ck_assert_int_eq(td_store_admit(store, &b, 401, &err), TD_RESOURCE_LIMIT);
    ck_assert_int_eq(td_store_admit(store, &b, UINT64_MAX, &err), TD_RESOURCE_LIMIT);
    ck_assert_int_eq(td_store_admit(store, &b, 400, &err), TD_OK);
    expect_names(store, "a");
    ck_assert_int_eq(put_as(&b, &t400), TD_OK);
    ck_assert_uint_eq(td_store_usage(store).held, 1000);
    ck_assert_uint_eq(td_store_usage(store).quota, 1000);
    ck_assert_int_eq(put_as(&a, &t1000), TD_RESOURCE_LIMIT);
    ck_assert_int_eq(put_as(&b, &t401), TD_RESOURCE_LIMIT);
    ck_assert_int_eq(put_as(&a, &t600), TD_OK); /* the replaced bytes no longer count */
    ck_assert_int_eq(delete_name("b"), TD_OK);
    ck_assert_uint_eq(td_store_usage(store).held, 600);
    ck_assert_int_eq(put_as(&a, &t1000), TD_OK);
    ck_assert_uint_eq(td_store_usage(store).held, 1000);
}

TD_TEST(several_tensors_are_admitted_in_their_order)
{
    store = open_counted(1000);
    const struct td_tensor t400 = bytes_tensor(400);
    const struct td_store_write a = write_of("a", false), b = write_of("b", false);
    struct td_store_totals totals = { 0 };
    ck_assert_int_eq(put_as(&a, &t400), TD_OK);
    ck_assert_int_eq(put_as(&b, &t400), TD_OK);
    ck_assert_int_eq(td_store_admit_next(store, &a, 600, &totals, &err), TD_OK);
    ck_assert_int_eq(td_store_admit_next(store, &b, 400, &totals, &err), TD_OK);
    ck_assert_int_eq(totals.new_names, 0);
    totals = (struct td_store_totals){ 0 };
    ck_assert_int_eq(td_store_admit_next(store, &a, 601, &totals, &err), TD_RESOURCE_LIMIT);
    totals = (struct td_store_totals){ 0 };
    ck_assert_int_eq(td_store_admit_next(store, &a, 200, &totals, &err), TD_OK);
    ck_assert_int_eq(td_store_admit_next(store, &b, 801, &totals, &err), TD_RESOURCE_LIMIT);
    ck_assert_uint_eq(err.needed, 1001);
    totals = (struct td_store_totals){ 0 };
    ck_assert_int_eq(td_store_admit_next(store, &a, UINT64_MAX - 1, &totals, &err),
                     TD_RESOURCE_LIMIT);
    ck_assert_int_eq(td_store_admit_next(store, &b, 2, &totals, &err), TD_RESOURCE_LIMIT);
}

TD_TEST(a_failed_replacement_does_not_exceed_the_quota)
{
    store = open_counted(1000);
    const struct td_tensor t700 = bytes_tensor(700), t300 = bytes_tensor(300);
    const struct td_store_write a = write_of("a", false), b = write_of("b", false);
    uint64_t outgoing;
    ck_assert_int_eq(put_as(&a, &t700), TD_OK);
    /* a is being replaced by 100 bytes: if that fails, its 700 bytes stay */
    ck_assert_int_eq(td_store_reserve(store, 700, 100, &outgoing, &err), TD_OK);
    ck_assert_int_eq(td_store_admit(store, &b, 301, &err), TD_RESOURCE_LIMIT);
    ck_assert_int_eq(put_as(&b, &t300), TD_OK);
    td_store_unreserve(store, 100, outgoing);
    ck_assert_uint_eq(td_store_usage(store).held, 1000);
    /* by 900 bytes: if that succeeds, there is no room for more */
    ck_assert_int_eq(delete_name("b"), TD_OK);
    ck_assert_int_eq(td_store_reserve(store, 700, 900, &outgoing, &err), TD_OK);
    ck_assert_int_eq(td_store_admit(store, &b, 101, &err), TD_RESOURCE_LIMIT);
    ck_assert_int_eq(td_store_admit(store, &b, 100, &err), TD_OK);
    td_store_unreserve(store, 900, outgoing);
}

TD_TEST(without_memory_nothing_changes)
{
    store = td_store_open(&(struct td_store_options){
        .dir = "", .quota = QUOTA, .memory = &no_memory, .log = &store_log });
    const struct td_store_write write = write_of("a", false);
    const struct td_tensor large = bytes_tensor(100000);
    put_text_tensor("a", "int8[1] 1", false);
    ck_assert_int_eq(put_as(&write, &large), TD_MEMORY_EXHAUSTED);
    expect_tensor(found(store, "a")->tensor, "int8[1] 1", "a");
    ck_assert_uint_eq(td_store_usage(store).held, 1);
}

/* ---- persisting ------------------------------------------------------------------------------ */

static const char *const dtypes_and_shapes[] = {
    "bool[3] 1 0 1",
    "int8[2,0]",
    "int16[2] -1 2",
    "int32[2,3] 1 2 3 4 5 6",
    "int64[] 9007199254740993",
    "uint8[1] 255",
    "uint16[2] 1 65535",
    "uint32[1] 4294967295",
    "uint64[1] 18446744073709551615",
    "float16[2] 0x3c00 0x7e01",
    "bfloat16[2] 0x3f80 0x7fc1",
    "float32[3] 0.5 -0.0 2",
    "float64[2,1] 0.1 3",
    "complex64[2] 1 2 3 4",
    "complex128[2] 1 2 3 4",
    "complex128[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 1 2",
    "complex128[0]",
    "string[3] 'a' '' '\\x00\\xff'",
    "string[0]",
    "string[] 'x'",
    "string[2,2] '' '' '' ''",
};

TD_TEST_EACH(every_dtype_is_loaded_from_its_file, dtypes_and_shapes)
{
    store = open_folder();
    put_text_tensor("t", dtypes_and_shapes[_i], true);
    const struct td_tensor_listing *t = found(store, "t");
    expect_tensor(t->tensor, dtypes_and_shapes[_i], "put");
    ck_assert(t->persisted);
    ck_assert_str_eq(t->source, "t.tensord");
    ck_assert_uint_eq((uintptr_t)t->tensor->data % 8, 0);
    const uint64_t mapped = t->tensor->dtype == TD_DTYPE_STRING
                                ? t->tensor->bytes /* the offsets are in memory */
                                : td_tensor_footprint(t->tensor);
    ck_assert_uint_eq(td_store_usage(store).mapped, mapped);
    ck_assert_uint_eq(td_store_usage(store).held, td_tensor_footprint(t->tensor) - mapped);
    td_store_free(store);
    ck_assert_int_eq(n_files(), 1);

    store = open_folder();
    const struct td_tensor_listing *again = found(store, "t");
    expect_tensor(again->tensor, dtypes_and_shapes[_i], "after a restart");
    ck_assert_str_eq(again->etag, t->etag);
    ck_assert_uint_eq(again->version, t->version);
    ck_assert(again->persisted);
    ck_assert_str_eq(logged(), "");
}

TD_TEST(numeric_data_is_aligned_in_its_file)
{
    store = open_folder();
    put_text_tensor("t", "float32[3] 1 2 3", true);
    ck_assert_uint_eq((uintptr_t)found(store, "t")->tensor->data % 64, 0);
}

TD_TEST(version_numbers_continue_after_a_restart)
{
    store = open_folder();
    put_text_tensor("a", "int8[1] 1", false);
    put_text_tensor("a", "int8[1] 2", false);
    put_text_tensor("a", "int8[1] 3", true);
    const uint64_t version = found(store, "a")->version;
    ck_assert_uint_eq(version, 3);
    restart();
    put_text_tensor("b", "int8[1] 1", false);
    ck_assert_uint_gt(found(store, "b")->version, version);
}

/* Whatever the order in which the files are read, no version is numbered twice. */
TD_TEST(version_numbers_continue_after_the_largest_number_in_any_file)
{
    store = open_folder();
    put_text_tensor("c", "int8[1] 1", true);
    put_text_tensor("a", "int8[1] 2", true);
    put_text_tensor("b", "int8[1] 3", true);
    ck_assert_uint_eq(found(store, "b")->version, 3);
    restart();
    ck_assert_uint_eq(found(store, "c")->version, 1);
    ck_assert_uint_eq(found(store, "a")->version, 2);
    ck_assert_uint_eq(found(store, "b")->version, 3);
    put_text_tensor("d", "int8[1] 4", false);
    ck_assert_uint_eq(found(store, "d")->version, 4);
}

static td_status stop_now(void *context, struct td_error *error)
{
    (void)context;
    return td_error_set(error, TD_DRAINING, "stopped");
}

TD_TEST(a_file_whose_writing_is_stopped_replaces_nothing)
{
    const struct td_store_write write = write_of("t", true);
    struct td_tensor large = tensor_without_data("uint8[67108864]");
    store = open_folder();
    ck_assert_int_eq(td_tensor_alloc(&large, &test_arena, &err), TD_OK);
    memset(large.data, 7, large.bytes);
    put_text_tensor("t", "int32[2] 1 2", true);
    test_arena.stop = (struct td_stop){ .check = stop_now };
    ck_assert_int_eq(put_as(&write, &large), TD_DRAINING);
    ck_assert_str_eq(err.message, "stopped");
    expect_tensor(found(store, "t")->tensor, "int32[2] 1 2", "as before");
    ck_assert_int_eq(n_files(), 1);
    ck_assert_uint_eq(td_store_usage(store).mapped, 8);
}

TD_TEST(persisting_replaces_the_source_file_of_the_tensor)
{
    put_npy("a.npy", 10, 3);
    store = open_folder();
    const struct td_tensor_listing *old = found(store, "a");
    put_text_tensor("a", "int8[1] 1", true);
    ck_assert(!is_file("a.npy") && is_file("a.tensord"));
    ck_assert_int_eq(value_of(old->tensor, 2), 12); /* a reader keeps the old version */
    put_text_tensor("a", "int8[1] 2", true);
    td_store_rescan(store);
    expect_tensor(found(store, "a")->tensor, "int8[1] 2", "a");
    ck_assert_int_eq(n_files(), 1);
    restart();
    expect_tensor(found(store, "a")->tensor, "int8[1] 2", "a");
}

TD_TEST(a_tensor_that_is_not_persisted_is_lost_at_a_restart)
{
    store = open_folder();
    put_text_tensor("a", "int8[1] 1", true);
    put_text_tensor("a", "int8[1] 2", false);
    put_text_tensor("b", "int8[1] 3", false);
    ck_assert(!found(store, "a")->persisted);
    restart();
    expect_names(store, "a");
    expect_tensor(found(store, "a")->tensor, "int8[1] 1", "a");
}

TD_TEST(without_a_folder_nothing_can_be_persisted)
{
    store = open_at("");
    const struct td_store_write write = write_of("a", true);
    const struct td_tensor t = tensor("int8[1] 1");
    ck_assert_int_eq(put_as(&write, &t), TD_INVALID_ARGUMENT);
    ck_assert_str_eq(err.attribute, "persist");
    ck_assert_int_eq(td_store_admit(store, &write, 1, &err), TD_INVALID_ARGUMENT);
}

TD_TEST(a_failed_write_keeps_the_old_version)
{
    store = open_folder();
    const struct td_store_write write = write_of("a", true);
    const struct td_tensor t = bytes_tensor(100000);
    const struct rlimit small = { 4096, RLIM_INFINITY }, none = { RLIM_INFINITY, RLIM_INFINITY };
    put_text_tensor("a", "int8[1] 1", true);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    const td_status status = put_as(&write, &t);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    ck_assert_int_eq(status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "disk_bytes");
    ck_assert_uint_gt(err.needed, 100000);
    EXPECT_MESSAGE(&err, "a.tensord");
    EXPECT_MESSAGE(&err, "File too large");
    expect_tensor(found(store, "a")->tensor, "int8[1] 1", "a");
    ck_assert_int_eq(n_files(), 1);
    ck_assert_int_eq(td_store_admit(store, &write, (uint64_t)1 << 60, &err), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "disk_bytes");
}

/* What a person has put in the folder is read before a client's change replaces or removes it. */
TD_TEST(a_file_that_was_not_read_yet_is_not_replaced)
{
    put_npy("a.npy", 1, 2);
    store = open_folder();
    const struct td_store_write write = write_of("a", true), new = write_of("b", true);
    const struct td_tensor t = tensor("int8[1] 2");
    ck_assert_int_eq(unlink(path_of("a.npy")), 0);
    put_npy("a.npy", 5, 3); /* a restored file over one that is served */
    put_npy("b.npy", 1, 2); /* a new one */
    ck_assert_int_eq(put_as(&write, &t), TD_CONFLICT);
    EXPECT_MESSAGE(
        &err, "a.npy in the data folder has changed since the server last read it, and this change "
              "would replace or remove it; send SIGHUP to the server first");
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_CONFLICT);
    ck_assert_int_eq(put_as(&new, &t), TD_CONFLICT);
    td_store_rescan(store);
    expect_tensor(found(store, "a")->tensor, "int32[3] 5 6 7", "a");
    ck_assert_int_eq(put_as(&new, &t), TD_OK);
    ck_assert_int_eq(put_as(&write, &t), TD_OK);
}

TD_TEST(a_directory_of_the_same_name_keeps_the_old_version)
{
    store = open_folder();
    const struct td_store_write write = write_of("a", true);
    const struct td_tensor t = tensor("int8[1] 2");
    put_text_tensor("a", "int8[1] 1", false);
    ck_assert_int_eq(mkdir(path_of("a.tensord"), 0700), 0);
    ck_assert_int_eq(put_as(&write, &t), TD_CONFLICT);
    EXPECT_MESSAGE(&err, "a.tensord in the data folder has changed since the server last read it");
    td_store_rescan(store);
    ck_assert_int_eq(put_as(&write, &t), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "Is a directory");
    expect_tensor(found(store, "a")->tensor, "int8[1] 1", "a");
    ck_assert_int_eq(n_files(), 1);
}

TD_TEST(the_next_start_removes_temporary_files_of_a_crash)
{
    put_text(".tensord-tmp-1-0", "half a file");
    put_text(".hidden", "of another program");
    td_store_free(open_folder());
    ck_assert(!is_file(".tensord-tmp-1-0"));
    ck_assert(is_file(".hidden"));
}

static const mode_t umasks[] = { 0, 022, 077, 0777 };

TD_TEST_EACH(files_have_the_same_mode_whatever_the_umask_is, umasks)
{
    static const char *const files[] = { "a.tensord", ".tensord.lock" };
    struct stat info;
    const mode_t before = umask(umasks[_i]);
    store = open_folder();
    put_text_tensor("a", "int8[1] 2", true);
    umask(before);
    for (int i = 0; i < COUNT_OF(files); i++) {
        ck_assert_int_eq(stat(path_of(files[i]), &info), 0);
        ck_assert_int_eq(info.st_mode & 07777, 0640);
    }
}

/* The kernel grants a read lease only for a file that no descriptor and no mapping can write to. */
static bool may_be_written(const char *name)
{
    const int fd = open(path_of(name), O_RDONLY);
    const bool refused = fcntl(fd, F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
    close(fd);
    return refused;
}

TD_TEST(no_descriptor_or_mapping_can_write_to_a_persisted_file)
{
    store = open_folder();
    put_text("control", "open");
    const int control = open(path_of("control"), O_RDWR);
    ck_assert(may_be_written("control"));
    put_text_tensor("a", "int32[3] 1 2 3", true);
    put_text_tensor("b", "string[2] 'one' 'two'", true);
    ck_assert(!may_be_written("a.tensord") && !may_be_written("b.tensord"));
    close(control);
}

/* A .tensord file with a verbatim header. */
static void put_own(const char *name, const char *header)
{
    char padded[2048];
    snprintf(padded, sizeof padded, "%s", header);
    while (strlen(padded) % 8 != 0)
        strcat(padded, " ");
    put_safetensors(name, padded, 0, 4);
}

#define METADATA(dtype, shape)                                                                     \
    "{\"__metadata__\":{\"tensord\":\"1\",\"dtype\":\"" dtype "\",\"shape\":\"" shape "\"},"
#define INTS "\"tensor\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]}}"

static const struct {
    const char *header, *reason;
} wrong_files[] = {
    { METADATA("int32", "[3]") INTS, "does not contain the tensor" },
    { METADATA("int64", "[4]") INTS, "does not contain the tensor" },
    { METADATA("integer", "[4]") INTS, "__metadata__" },
    { METADATA("int32", "4") INTS, "__metadata__" },
    { METADATA("int32", "[-4]") INTS, "__metadata__" },
    { METADATA("int32", "[4") INTS, "__metadata__" },
    { METADATA("int32", "[4]]") INTS, "__metadata__" },
    { METADATA("int32", "[4,,1]") INTS, "__metadata__" },
    { METADATA("int32", "[99999999999999999999]") INTS, "__metadata__" },
    { METADATA("int32", "[4611686018427387904,4]") INTS, "needs more than" },
    { METADATA("int32", "[4,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]") INTS, "__metadata__" }, /* rank 17 */
    { "{" INTS, "__metadata__" },
    { METADATA("string", "[1]") INTS, "offsets and bytes" },
    { METADATA("string",
               "[0]") "\"offsets\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                      "\"bytes\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]}}",
      "do not increase" }, /* its one offset is not 0 */
};

TD_TEST(a_persisted_tensor_has_up_to_16_dimensions)
{
    store = open_folder();
    put_text_tensor("a", "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5", true);
    restart();
    expect_tensor(found(store, "a")->tensor, "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5", "a");
}

/* Larger numbers could not be sent as JSON, and the next one might overflow. */
TD_TEST(a_stored_version_number_below_2_to_the_53_is_kept)
{
    static const struct {
        const char *stored;
        uint64_t version;
    } numbers[] = { { "1", 1 },
                    { "4503599627370496", UINT64_C(4503599627370496) },
                    { "9007199254740991", UINT64_C(9007199254740991) },
                    { "9007199254740992", 1 },
                    { "18446744073709551615", 1 } };
    for (int i = 0; i < COUNT_OF(numbers); i++) {
        char header[512];
        snprintf(header, sizeof header,
                 "{\"__metadata__\":{\"tensord\":\"1\",\"dtype\":\"int32\",\"shape\":\"[4]\","
                 "\"version\":\"%s\"}," INTS,
                 numbers[i].stored);
        put_own("a.tensord", header);
        store = open_folder();
        EXPECT(found(store, "a")->version == numbers[i].version, "%s", numbers[i].stored);
        close_store();
    }
}

TD_TEST_EACH(an_inconsistent_tensord_file_is_skipped, wrong_files)
{
    put_own("a.tensord", wrong_files[_i].header);
    put_npy("good.npy", 1, 1);
    store = open_folder();
    expect_names(store, "good");
    ck_assert_msg(strstr(logged(), wrong_files[_i].reason) != NULL, "%s", wrong_files[_i].header);
}

TD_TEST(strings_with_invalid_offsets_are_skipped)
{
    store = open_folder();
    put_text_tensor("a", "string[3] 'one' 'two' 'three'", true);
    td_store_free(store);
    const int fd = open(path_of("a.tensord"), O_RDWR);
    uint64_t length, offset = 1000;
    ck_assert_int_eq(pread(fd, &length, 8, 0), 8);
    ck_assert_int_eq(pwrite(fd, &offset, 8, (off_t)(8 + length + 8)), 8); /* the second */
    close(fd);
    store = open_folder();
    expect_names(store, "");
    ck_assert_ptr_nonnull(strstr(logged(), "do not increase"));
}

TD_TEST(a_tensord_file_takes_precedence_over_other_files)
{
    store = open_folder();
    put_text_tensor("m:w", "int8[1] 1", true);
    td_store_free(store);
    put_safetensors("m.safetensors", TWO_TENSORS, 100, 6);
    put_npy("a.npy", 1, 1);
    put_own("a.tensord", METADATA("int32", "[4]") INTS);
    store = open_folder();
    expect_names(store, "a m:b.x m:w");
    expect_tensor(found(store, "m:w")->tensor, "int8[1] 1", "m:w");
    ck_assert_int_eq(found(store, "a")->tensor->numel, 4);
}

/* ---- deleting -------------------------------------------------------------------------------- */

TD_TEST(a_deleted_tensor_does_not_return)
{
    put_npy("a.npy", 1, 2);
    store = open_folder();
    put_text_tensor("b", "int8[1] 1", false);
    put_text_tensor("c", "int8[1] 1", true);
    put_text_tensor("d", "int8[1] 1", true);
    put_text_tensor("d", "int8[1] 2", false);
    const struct td_tensor_listing *a = found(store, "a");
    static const char *const names[] = { "a", "b", "c", "d" };
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(delete_name(names[i]), TD_OK);
        ck_assert_int_eq(missing_error(store, names[i], 1).status, TD_TENSOR_NOT_FOUND);
        ck_assert_int_eq(delete_name(names[i]), TD_TENSOR_NOT_FOUND);
    }
    ck_assert_int_eq(value_of(a->tensor, 1), 2); /* still mapped */
    ck_assert_int_eq(n_files(), 0);
    td_store_rescan(store);
    expect_names(store, "");
    ck_assert_uint_eq(td_store_usage(store).held + td_store_usage(store).mapped, 0);
    restart();
    expect_names(store, "");
}

TD_TEST(a_tensor_of_a_file_with_others_cannot_be_deleted)
{
    put_safetensors("m.safetensors", TWO_TENSORS, 0, 6);
    put_safetensors("one.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, 1);
    store = open_folder();
    ck_assert_int_eq(delete_name("m:w"), TD_FORBIDDEN);
    EXPECT_MESSAGE(&err, "m.safetensors");
    put_text_tensor("m:w", "int8[1] 1", true); /* hides it; no file is removed */
    ck_assert_int_eq(delete_name("m:w"), TD_FORBIDDEN);
    ck_assert(is_file("m:w.tensord"));
    ck_assert_int_eq(delete_name("one:w"), TD_OK); /* the only tensor of its file */
    ck_assert(!is_file("one.safetensors"));
    expect_names(store, "m:b.x m:w");
}

TD_TEST(deleting_a_tensor_in_memory_keeps_a_file_that_does_not_hold_it)
{
    put_safetensors("one.safetensors",
                    "{\"w\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, 1);
    store = open_folder();
    put_text_tensor("one:x", "int8[1] 1", false);
    ck_assert_int_eq(delete_name("one:x"), TD_OK);
    ck_assert(is_file("one.safetensors"));
    expect_names(store, "one:w");
}

/* ---- rescanning ------------------------------------------------------------------------------ */

/* Replaces a file by rename. */
static void replace_npy(const char *name, int32_t first, int n)
{
    char path[512];
    put_npy("new.tmp", first, n);
    snprintf(path, sizeof path, "%s", path_of("new.tmp"));
    ck_assert_int_eq(rename(path, path_of(name)), 0);
}

/* Replaces a file by a copy of it, with its time of modification or with another one. */
static void replace_by_copy(const char *name, bool with_time)
{
    const struct timespec other[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 1000 } };
    char file[512], copy[512], command[1200];
    snprintf(file, sizeof file, "%s", path_of(name));
    snprintf(copy, sizeof copy, "%s", path_of("copy"));
    snprintf(command, sizeof command, "cp -p '%s' '%s'", file, copy);
    ck_assert_int_eq(system(command), 0);
    if (!with_time)
        ck_assert_int_eq(utimensat(AT_FDCWD, copy, other, 0), 0);
    ck_assert_int_eq(rename(copy, file), 0);
}

/* Replicas that serve copies, and a start with a restored file, give clients the tag that they
 * know. */
TD_TEST(the_etag_of_a_file_is_that_of_its_copies)
{
    store = open_folder();
    put_npy("n.npy", 1, 3);
    put_text_tensor("t", "int32[3] 1 2 3", true);
    td_store_rescan(store);
    const struct td_tensor_listing *n = found(store, "n"), *t = found(store, "t");
    replace_by_copy("n.npy", true);
    replace_by_copy("t.tensord", false); /* its checksums identify it, whatever its time is */
    td_store_free(store);

    store = open_folder();
    ck_assert_str_eq(found(store, "n")->etag, n->etag);
    ck_assert_str_eq(found(store, "t")->etag, t->etag);
    put_text_tensor("t", "int32[3] 1 2 3", true); /* another version, with the same values */
    ck_assert_str_ne(found(store, "t")->etag, t->etag);
}

TD_TEST(an_etag_has_no_number_of_an_inode)
{
    store = open_folder();
    put_npy("n.npy", 1, 3);
    put_text_tensor("t", "int32[3] 1 2 3", true);
    td_store_rescan(store);
    static const char *const names[] = { "n", "t" }, *const files[] = { "n.npy", "t.tensord" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct stat info;
        char inode[32];
        ck_assert_int_eq(stat(path_of(files[i]), &info), 0);
        snprintf(inode, sizeof inode, "%jx-", (uintmax_t)info.st_ino);
        ck_assert_ptr_null(strstr(found(store, names[i])->etag, inode));
    }
}

TD_TEST(a_rescan_finds_new_changed_and_vanished_files)
{
    put_npy("same.npy", 1, 1);
    put_npy("changes.npy", 2, 1);
    put_npy("removed.npy", 3, 1);
    put_safetensors("m.safetensors", TWO_TENSORS, 100, 6);
    store = open_folder();
    const struct td_tensor_listing *same = found(store, "same"), *changes = found(store, "changes"),
                                   *removed = found(store, "removed");
    put_npy("new.npy", 4, 1);
    replace_npy("changes.npy", 20, 2);
    unlink(path_of("removed.npy"));
    put_safetensors("new.tmp", "{\"v\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                    7, 1);
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("new.tmp"));
    ck_assert_int_eq(rename(path, path_of("m.safetensors")), 0);
    td_store_rescan(store);
    expect_names(store, "changes m:v new same");
    ck_assert_uint_eq(found(store, "same")->version, same->version);
    ck_assert_str_eq(found(store, "same")->etag, same->etag);
    ck_assert_int_eq(value_of(found(store, "changes")->tensor, 1), 21);
    ck_assert_uint_gt(found(store, "changes")->version, changes->version);
    ck_assert_str_ne(found(store, "changes")->etag, changes->etag);
    ck_assert_int_eq(value_of(changes->tensor, 0), 2);
    ck_assert_int_eq(value_of(removed->tensor, 0), 3);
    ck_assert_uint_eq(td_store_usage(store).mapped, 4 + 8 + 4 + 4);
    ck_assert_str_eq(logged(), "");
    const uint64_t version = found(store, "m:v")->version;
    td_store_rescan(store); /* nothing changed */
    ck_assert_uint_eq(found(store, "m:v")->version, version);
}

TD_TEST(a_put_tensor_stays_unless_its_file_changed_since)
{
    put_npy("a.npy", 1, 1);
    put_npy("b.npy", 2, 1);
    put_npy("c.npy", 3, 1);
    store = open_folder();
    put_text_tensor("a", "int8[1] 1", false);
    put_text_tensor("b", "int8[1] 2", false);
    put_text_tensor("c", "int8[1] 3", false);
    put_text_tensor("d", "int8[1] 4", false);
    put_text_tensor("e", "int8[1] 5", true);
    put_text_tensor("f", "int8[1] 6", true);
    replace_npy("b.npy", 20, 1);
    unlink(path_of("c.npy"));
    put_npy("d.npy", 40, 1);
    put_npy("e.npy", 50, 1);
    unlink(path_of("f.tensord"));
    td_store_rescan(store);
    expect_names(store, "a b c d e");
    expect_tensor(found(store, "a")->tensor, "int8[1] 1", "its file is unchanged");
    ck_assert_int_eq(value_of(found(store, "b")->tensor, 0), 20);
    expect_tensor(found(store, "c")->tensor, "int8[1] 3", "removing a file changes nothing");
    ck_assert_int_eq(value_of(found(store, "d")->tensor, 0), 40);
    expect_tensor(found(store, "e")->tensor, "int8[1] 5", "a .tensord file takes precedence");
}

TD_TEST(removing_a_file_serves_the_one_it_hid)
{
    put_npy("a.npy", 7, 1);
    put_own("a.tensord", METADATA("int32", "[4]") INTS);
    store = open_folder();
    ck_assert_int_eq(found(store, "a")->tensor->numel, 4);
    unlink(path_of("a.tensord"));
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "a")->tensor, 0), 7);
}

TD_TEST(a_changed_file_that_is_corrupt_is_skipped)
{
    put_npy("replaced.npy", 1, 8);
    put_npy("written.npy", 2, 8);
    store = open_folder();
    put_text("new.tmp", "rubbish");
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("new.tmp"));
    ck_assert_int_eq(rename(path, path_of("replaced.npy")), 0);
    put_text("written.npy", "rubbish"); /* overwrites the mapped file */
    td_store_rescan(store);
    expect_names(store, "replaced"); /* the old inode still exists */
    ck_assert_int_eq(value_of(found(store, "replaced")->tensor, 7), 8);
    const char *text = logged();
    ck_assert_ptr_nonnull(strstr(text, "file=replaced.npy"));
    ck_assert_ptr_nonnull(strstr(text, "file=written.npy"));
    replace_npy("replaced.npy", 10, 1);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "replaced")->tensor, 0), 10);
}

/* A .npy file of n big-endian int32, which are converted in memory and count against the quota. */
static void put_converted_npy(const char *name, int n)
{
    static char file[128 + 4 * 8192];
    put_npy(name, 0, n);
    FILE *stream = fopen(path_of(name), "rb");
    ck_assert_ptr_nonnull(stream);
    const size_t size = fread(file, 1, sizeof file, stream);
    ck_assert_int_eq(fclose(stream), 0);
    *strchr(file + 10, '<') = '>';
    put_file(name, file, size);
}

/* Puts a tensor "large" that leaves `rest` bytes of the quota. */
static void fill_quota(int rest)
{
    const struct td_store_write write = write_of("large", false);
    const struct td_shape shape = { 1, { QUOTA - rest } };
    struct td_tensor t;
    ck_assert_int_eq(td_tensor_describe(&t, "large", TD_DTYPE_UINT8, &shape, &err), TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&t, &test_arena, &err), TD_OK);
    memset(t.data, 0, t.bytes);
    ck_assert_int_eq(put_as(&write, &t), TD_OK);
}

TD_TEST(a_tensor_put_after_its_file_did_not_fit_stays)
{
    store = open_folder();
    fill_quota(1000);
    put_converted_npy("t.npy", 1000);
    put_converted_npy("u.npy", 1000);
    td_store_rescan(store);
    expect_names(store, "large");
    ck_assert_ptr_nonnull(strstr(logged(), "file=t.npy tensor=t"));
    put_text_tensor("t", "int8[1] 7", false);
    delete_name("large");
    td_store_rescan(store);
    expect_tensor(found(store, "t")->tensor, "int8[1] 7", "its file is unchanged");
    ck_assert_int_eq(found(store, "u")->tensor->numel, 1000); /* fits now */
    replace_npy("t.npy", 20, 1);
    td_store_rescan(store);
    ck_assert_int_eq(value_of(found(store, "t")->tensor, 0), 20);
}

TD_TEST(a_changed_file_replaces_its_old_tensor_once_it_fits)
{
    put_npy("t.npy", 1, 1);
    store = open_folder();
    fill_quota(1000);
    put_converted_npy("new.tmp", 1000);
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("new.tmp"));
    ck_assert_int_eq(rename(path, path_of("t.npy")), 0);
    td_store_rescan(store);
    ck_assert_int_eq(found(store, "t")->tensor->numel, 1);
    delete_name("large");
    td_store_rescan(store);
    ck_assert_int_eq(found(store, "t")->tensor->numel, 1000);
}

TD_TEST(a_file_that_is_moved_back_is_persisted_again)
{
    char from[512];
    put_npy("w.npy", 1, 1);
    store = open_folder();
    snprintf(from, sizeof from, "%s", path_of("w.npy"));
    ck_assert_int_eq(rename(from, path_of("w.bak")), 0);
    put_text("w.npy", "rubbish");
    td_store_rescan(store);
    ck_assert(!found(store, "w")->persisted);
    snprintf(from, sizeof from, "%s", path_of("w.bak"));
    ck_assert_int_eq(rename(from, path_of("w.npy")), 0);
    td_store_rescan(store);
    ck_assert(found(store, "w")->persisted);
}

/* Parsers report dimensions above their limits as RESOURCE_LIMIT. */
static const char *const too_large_headers[] = {
    "{\"w\":{\"dtype\":\"I32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,4]}}",
    "{\"w\":{\"dtype\":\"I32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
    "\"data_offsets\":[0,4]}}",
};

TD_TEST_EACH(a_file_with_a_shape_above_the_limits_is_malformed, too_large_headers)
{
    put_npy("m:w.npy", 5, 1);
    store = open_folder();
    put_safetensors("m.safetensors", too_large_headers[_i], 0, 1);
    td_store_rescan(store);
    ck_assert_ptr_nonnull(strstr(logged(), "file=m.safetensors"));
    ck_assert_int_eq(value_of(found(store, "m:w")->tensor, 0), 5); /* it drops nothing */
    EXPECT_OK(delete_name("m:w"), &err);                           /* and holds no tensor */
}

/* Tensor "m:w" is a string of 40000 letters; the file is later truncated to CUT bytes. */
enum { LETTERS = 40000, CUT = 5000 };
static void put_long_string(void)
{
    static char large[8 + 256 + LETTERS];
    const char *header =
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[40000],\"data_offsets\":[0,40000]}}  ";
    const uint64_t length = strlen(header);
    memcpy(large, &length, 8);
    memcpy(large + 8, header, length);
    memset(large + 8 + length, 'x', LETTERS);
    put_file("m.safetensors", large, 8 + length + LETTERS);
}

TD_TEST(a_table_whose_file_is_truncated_is_refused)
{
    put_long_string();
    put_npy("good.npy", 1, 1);
    store = open_folder();
    const struct td_tensor_listing *w = found(store, "m:w");
    ck_assert_int_eq(truncate(path_of("m.safetensors"), CUT), 0);
    ck_assert_int_eq(((const volatile char *)w->tensor->data)[39999], 0);
    struct td_tensor_listing listing;
    ck_assert_int_eq(td_store_get(store, "m:w", 3, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "m.safetensors");
    EXPECT_MESSAGE(&err, "truncated");
    found(store, "good");
    put_text_tensor("m:w", "int8[1] 1", false); /* can be replaced */
    found(store, "m:w");
    td_store_rescan(store);
    found(store, "m:w"); /* a put tensor does not depend on the file */
}

/* The kernel may send the pages of a file without a fault in the process, which would notice. */
TD_TEST(a_truncation_that_nothing_has_read_yet_is_noticed_before_a_tensor_is_sent)
{
    put_long_string();
    store = open_folder();
    const struct td_tensor_listing *w = found(store, "m:w");
    ck_assert_int_eq(truncate(path_of("m.safetensors"), CUT), 0);
    ck_assert_int_eq(td_store_check(w, &err), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "truncated");
}

/* Operations on a tensor whose file is truncated while it is read. */
static td_status copy_truncated(bool persist)
{
    const struct td_store_write write = write_of("copy", persist);
    struct td_tensor tensor;
    ck_assert_int_eq(td_resolve(td_store_resolver(store), "m:w", 3, &test_arena, &tensor, &err),
                     TD_OK);
    ck_assert_int_eq(truncate(path_of("m.safetensors"), CUT), 0);
    return put_as(&write, &tensor);
}

static td_status copy_in_memory(void)
{
    return copy_truncated(false);
}

static td_status copy_persisted(void)
{
    return copy_truncated(true);
}

/* Another request faulted before, so writing the file copies zeros. */
static td_status persist_zeros(void)
{
    const struct td_tensor_listing *w = found(store, "m:w");
    const struct td_store_write write = write_of("copy", true);
    ck_assert_int_eq(truncate(path_of("m.safetensors"), CUT), 0);
    ck_assert_int_eq(((const volatile char *)w->tensor->data)[LETTERS - 1], 0);
    return put_as(&write, w->tensor);
}

static td_status update_some(void)
{
    const struct td_store_write write = write_of("m:w", false);
    struct td_store_update *update;
    struct td_tensor_listing listing;
    const uint64_t offset = 0;
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err), TD_OK);
    ck_assert_int_eq(truncate(path_of("m.safetensors"), CUT), 0);
    return td_store_update_commit(update, &offset, 1, 1, &test_arena, &listing, &err);
}

static td_status send_tensor(void)
{
    const struct td_tensor_listing *w = found(store, "m:w");
    ck_assert_int_eq(td_store_check(w, &err), TD_OK);
    ck_assert_int_eq(truncate(path_of("m.safetensors"), CUT), 0);
    ck_assert_int_eq(((const volatile char *)w->tensor->data)[LETTERS - 1], 0);
    return td_store_check(w, &err);
}

static td_status (*const operations[])(void) = { copy_in_memory, copy_persisted, persist_zeros,
                                                 update_some, send_tensor };

TD_TEST_EACH(zeros_read_from_a_truncated_file_are_not_stored, operations)
{
    put_long_string();
    store = open_folder();
    ck_assert_int_eq(operations[_i](), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "truncated");
    expect_names(store, "m:w");
    ck_assert_int_eq(n_files(), 1);
    ck_assert_uint_eq(td_store_usage(store).held, 0);
}

TD_TEST(strings_of_a_truncated_file_keep_their_lengths)
{
    enum { STRINGS = 3000 };
    static uint64_t offsets[STRINGS + 1];
    static char letters[2 * STRINGS];
    for (int i = 0; i <= STRINGS; i++)
        offsets[i] = 2 * (uint64_t)i;
    memset(letters, 'x', sizeof letters);
    const struct td_tensor t = { .dtype = TD_DTYPE_STRING,
                                 .shape = { 1, { STRINGS } },
                                 .numel = STRINGS,
                                 .bytes = sizeof letters,
                                 .data = letters,
                                 .offsets = offsets };
    const struct td_store_write write = write_of("s", true);
    store = open_folder();
    ck_assert_int_eq(put_as(&write, &t), TD_OK);
    for (int start = 0; start < 2; start++) {
        const struct td_tensor *s = found(store, "s")->tensor;
        ck_assert_mem_eq(s->data, letters, sizeof letters);
        ck_assert_uint_eq(td_store_usage(store).held, sizeof offsets);
        if (start == 1) {
            ck_assert_int_eq(truncate(path_of("s.tensord"), 4096), 0);
            ck_assert_mem_eq(s->offsets, offsets, sizeof offsets);
            ck_assert_int_eq(((const volatile char *)s->data)[sizeof letters - 1], 0);
        }
        td_arena_reset(&test_arena);
        td_store_free(store);
        store = start == 0 ? open_folder() : NULL;
    }
    store = open_at(folder); /* the truncated file is invalid */
    expect_names(store, "");
}

TD_TEST(offsets_of_mapped_strings_count_against_the_quota)
{
    const struct td_store_write write = write_of("s", true);
    store = open_folder();
    put_text_tensor("s", "string[3] 'one' 'two' 'three'", true); /* 32 bytes of offsets */
    td_store_free(store);
    counting_init(&counting);
    store = td_store_open(&(struct td_store_options){
        .dir = folder, .quota = 20, .memory = &counting.memory, .log = &store_log });
    expect_names(store, "");
    ck_assert_ptr_nonnull(strstr(logged(), "the store with this tensor"));
    const struct td_tensor three = tensor("string[3] 'one' 'two' 'three'");
    ck_assert_int_eq(put_as(&write, &three), TD_RESOURCE_LIMIT);
    put_text_tensor("s", "string[1] 'a long string, but its offsets are short'", true);
    ck_assert_uint_eq(td_store_usage(store).held, 16);
}

/* A file of n empty tensors. */
static void put_many(int n)
{
    static char header[(size_t)TD_STORE_TENSORS * 64];
    char *at = header + 8;
    *at++ = '{';
    for (int i = 0; i < n; i++)
        at +=
            snprintf(at, 64, "\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", i);
    at[-1] = '}';
    const uint64_t length = (uint64_t)(at - header - 8);
    memcpy(header, &length, 8);
    put_file("m.safetensors", header, 8 + length);
}

/* In one test, because such a store takes seconds to open. */
TD_TEST(a_store_holds_as_many_tensors_as_it_allows)
{
    const struct td_store_write last = write_of("last", false), more = write_of("more", false);
    put_many(TD_STORE_TENSORS - 1);
    store = open_folder();
    ck_assert_int_eq(td_store_usage(store).tensors, TD_STORE_TENSORS - 1);
    ck_assert_int_eq(td_store_admit(store, &last, 1, &err), TD_OK);
    put_text_tensor("last", "int8[1] 1", false);
    ck_assert_int_eq(td_store_admit(store, &last, 1, &err), TD_OK); /* replaces it */
    ck_assert_int_eq(td_store_admit(store, &more, 1, &err), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "resident_tensors");
    ck_assert_uint_eq(err.needed, TD_STORE_TENSORS + 1);
    ck_assert_uint_eq(err.limit, TD_STORE_TENSORS);
    put_npy("one_more.npy", 1, 1);
    (void)logged();
    td_store_rescan(store);
    ck_assert_int_eq(td_store_usage(store).tensors, TD_STORE_TENSORS);
    ck_assert_ptr_nonnull(strstr(logged(), "the store with this tensor"));
}

TD_FIXTURE(one_store_begin, one_store_end);
