/* Row updates on one thread, compared with a plain copy of the tensor. */
#include "server/store/entries.h"
#include "server/store/quota.h"
#include "server/store/store.h"
#include "tests/server/counting.h"
#include "tests/server/one_store.h"
#include "tests/support/eventually.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 40000, SLICE = 16 };

static struct counting counting;
static struct td_error err;
static const struct td_store_write on_t = { .name = "t" };

static struct td_store *open_with(uint64_t quota, const char *dir)
{
    counting_init(&counting);
    return td_store_open(&(struct td_store_options){
        .dir = dir, .quota = quota, .memory = &counting.memory, .log = &store_log });
}

/* Puts BYTES random bytes as "t" and into model. */
static void put_bytes(unsigned char *model)
{
    const struct td_shape dims = shape("[40000]");
    const struct td_tensor t = random_tensor(TD_DTYPE_UINT8, &dims);
    struct td_tensor_listing listing;
    bool created;
    ck_assert_int_eq(td_store_put(store, &on_t, &t, &test_arena, &listing, &created, &err), TD_OK);
    memcpy(model, t.data, BYTES);
}

static struct td_store_update *begin(struct td_exec *exec)
{
    struct td_store_update *update;
    EXPECT_OK(td_store_update_begin(store, &on_t, &test_arena, exec, &update, &err), &err);
    return update;
}

/* Changes n slices, commits, and applies them to the model. */
static struct td_tensor_listing change(unsigned char *model, int n, struct td_exec *exec)
{
    struct td_tensor_listing listing;
    struct td_store_update *update = begin(exec);
    uint64_t *offsets = td_arena_alloc(&test_arena, (size_t)n, sizeof *offsets, &err);
    for (int i = 0; i < n; i++) {
        offsets[i] = (uint64_t)random_below(BYTES / SLICE) * SLICE;
        for (int j = 0; j < SLICE; j++)
            ((unsigned char *)update->tensor.data)[offsets[i] + (size_t)j] =
                model[offsets[i] + (size_t)j] = (unsigned char)random_next();
    }
    ck_assert_int_eq(td_store_update_commit(update, offsets, n, SLICE, &test_arena, &listing, &err),
                     TD_OK);
    return listing;
}

static void expect_model(const unsigned char *model)
{
    struct td_arena arena;
    struct td_tensor_listing t;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    ck_assert_int_eq(td_store_get(store, "t", 1, &arena, &t, &err), TD_OK);
    ck_assert(t.tensor->bytes == BYTES && memcmp(t.tensor->data, model, BYTES) == 0);
    td_arena_reset(&arena);
}

TD_TEST(readers_see_all_of_an_update_or_none_of_it)
{
    unsigned char model[BYTES], before[BYTES];
    store = open_with(QUOTA, "");
    put_bytes(model);
    memcpy(before, model, BYTES);
    const struct td_tensor_listing *old = found(store, "t");
    struct td_store_update *update = begin(NULL);
    ck_assert_uint_eq(update->from, old->version);
    ck_assert_mem_eq(update->tensor.data, model, BYTES);
    memset(update->tensor.data, 1, SLICE);
    memset(model, 1, SLICE);
    expect_model(before);
    const uint64_t offset = 0;
    struct td_tensor_listing now;
    ck_assert_int_eq(td_store_update_commit(update, &offset, 1, SLICE, &test_arena, &now, &err),
                     TD_OK);
    ck_assert_uint_gt(now.version, old->version);
    ck_assert_str_ne(now.etag, old->etag);
    expect_model(model);
    ck_assert_mem_eq(old->tensor->data, before, BYTES);
}

TD_TEST(two_versions_alternate_without_a_copy)
{
    unsigned char model[BYTES];
    store = open_with(QUOTA, "");
    put_bytes(model); /* copied: 1 */
    td_arena_reset(&test_arena);
    for (int i = 0; i < 50; i++) {
        change(model, 5, NULL);
        expect_model(model);
        td_arena_reset(&test_arena);
    }
    ck_assert_int_eq(counting.taken, 2);
    ck_assert_uint_eq(td_store_usage(store).held, (uint64_t)2 * BYTES);
    td_store_trim(store, 0);
    ck_assert_int_eq(counting.alive, 2); /* used recently */
    td_store_trim(store, INT64_MAX);
    ck_assert_int_eq(counting.alive, 1);
    ck_assert_uint_eq(td_store_usage(store).held, BYTES);
    change(model, 5, NULL);
    expect_model(model);
    close_store();
    ck_assert_int_eq(counting.alive, 0);
}

/* Commits slices of one byte of a tensor in memory; returns the bytes of the spare copy. */
static uint64_t spare_after(int64_t bytes, int64_t slices)
{
    store = open_with((uint64_t)4 * (uint64_t)bytes, "");
    const struct td_shape dims = { .rank = 1, .dim = { bytes } };
    struct td_tensor t;
    struct td_tensor_listing listing;
    bool created;
    ck_assert_int_eq(td_tensor_describe(&t, "t", TD_DTYPE_UINT8, &dims, &err), TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&t, &test_arena, &err), TD_OK);
    memset(t.data, 7, t.bytes);
    ck_assert_int_eq(td_store_put(store, &on_t, &t, &test_arena, &listing, &created, &err), TD_OK);
    uint64_t *offsets = td_arena_alloc(&test_arena, (size_t)slices, sizeof *offsets, &err);
    ck_assert_ptr_nonnull(offsets);
    for (int64_t i = 0; i < slices; i++)
        offsets[i] = (uint64_t)i;
    ck_assert_int_eq(
        td_store_update_commit(begin(NULL), offsets, slices, 1, &test_arena, &listing, &err),
        TD_OK);
    const uint64_t spare = td_store_usage(store).spare;
    close_store();
    ck_assert_int_eq(counting.alive, 0);
    return spare;
}

/* Otherwise copying the slices would be no faster than copying the tensor. */
TD_TEST(a_spare_copy_is_kept_if_half_of_it_or_less_changed_in_at_most_a_million_slices)
{
    enum { MILLION = 1 << 20 };
    ck_assert_uint_eq(spare_after(1000, 500), 1000);
    ck_assert_uint_eq(spare_after(1000, 501), 0);
    ck_assert_uint_eq(spare_after(4 * MILLION, MILLION), 4 * MILLION);
    ck_assert_uint_eq(spare_after(4 * MILLION, MILLION + 1), 0);
}

TD_TEST(a_spare_copy_that_readers_hold_is_not_reused)
{
    unsigned char model[BYTES], seen[4][BYTES];
    const struct td_tensor_listing *held[4];
    store = open_with(QUOTA, "");
    put_bytes(model);
    for (int i = 0; i < 4; i++) {
        held[i] = found(store, "t");
        memcpy(seen[i], model, BYTES);
        change(model, 3, NULL);
    }
    ck_assert_int_eq(counting.taken, 5);
    for (int i = 0; i < 4; i++)
        ck_assert_mem_eq(held[i]->tensor->data, seen[i], BYTES);
    expect_model(model);
    close_store();
    ck_assert_int_eq(counting.alive, 0);
}

static void put_copy(const char *name, const char *from)
{
    const struct td_store_write write = { .name = name };
    struct td_tensor_listing listing;
    struct td_tensor tensor;
    bool created;
    ck_assert_int_eq(
        td_resolve(td_store_resolver(store), from, strlen(from), &test_arena, &tensor, &err),
        TD_OK);
    ck_assert_int_eq(td_store_put(store, &write, &tensor, &test_arena, &listing, &created, &err),
                     TD_OK);
}

TD_TEST(an_update_changes_only_its_own_name)
{
    unsigned char model[BYTES], changed[BYTES];
    store = open_with(QUOTA, "");
    put_bytes(model);
    memcpy(changed, model, BYTES);
    put_copy("t1", "t");
    put_copy("t2", "t1");
    put_copy("t", "t2");                 /* "t" is the copy of a copy of "t1" */
    ck_assert_int_eq(counting.taken, 1); /* all refer to the same bytes */
    ck_assert_int_eq(
        td_store_delete(store, &(struct td_store_write){ .name = "t2" }, &(bool){ false }, &err),
        TD_OK);
    td_arena_reset(&test_arena);
    for (int i = 0; i < 5; i++) {
        change(changed, 20, NULL);
        expect_model(changed);
        ck_assert_mem_eq(found(store, "t1")->tensor->data, model, BYTES);
        td_arena_reset(&test_arena);
    }
    close_store();
    ck_assert_int_eq(counting.alive, 0);
}

TD_TEST(admission_during_a_delete_sees_the_freed_quota)
{
    unsigned char model[BYTES];
    store = open_with(QUOTA, "");
    put_bytes(model);
    struct td_version *gone = td_store_current(store, "t", 1);
    ck_assert_int_eq(td_store_delete(store, &on_t, &(bool){ false }, &err), TD_OK);
    uint64_t leaving;
    ck_assert_int_eq(td_store_reserve(store, gone->held, 10, &leaving, &err), TD_OK);
    td_store_unreserve(store, 10, leaving);
    td_buffer_unref(&gone->base);
}

/* The bytes that each writer replaces count for it alone. */
TD_TEST(writers_of_two_names_do_not_use_each_others_quota)
{
    unsigned char model[BYTES];
    store = open_with(2 * BYTES + 100, "");
    put_bytes(model);
    put_copy("t1", "t");
    struct td_version *t = td_store_current(store, "t", 1), *t1 = td_store_current(store, "t1", 2);
    uint64_t leaving, leaving1, none;
    ck_assert_int_eq(td_store_reserve(store, t->held, BYTES, &leaving, &err), TD_OK);
    ck_assert_int_eq(td_store_reserve(store, t1->held, BYTES, &leaving1, &err), TD_OK);
    ck_assert_int_eq(td_store_reserve(store, 0, 101, &none, &err), TD_RESOURCE_LIMIT);
    td_store_unreserve(store, BYTES, leaving1);
    td_store_unreserve(store, BYTES, leaving);
    td_buffer_unref(&t1->base);
    td_buffer_unref(&t->base);
    ck_assert_uint_eq(td_store_usage(store).held, 2 * BYTES);
    ck_assert_int_eq(td_store_reserve(store, 0, 101, &none, &err), TD_RESOURCE_LIMIT);
}

TD_TEST(a_small_quota_keeps_no_spare_copy)
{
    unsigned char model[BYTES];
    store = open_with(BYTES + 100, "");
    put_bytes(model);
    for (int i = 0; i < 10; i++) {
        change(model, 3, NULL);
        expect_model(model);
        td_arena_reset(&test_arena);
        ck_assert_int_eq(counting.alive, 1);
        ck_assert_uint_eq(td_store_usage(store).held, BYTES);
    }
}

TD_TEST(a_put_evicts_spare_copies)
{
    unsigned char model[BYTES];
    store = open_with(2 * BYTES, "");
    put_bytes(model);
    change(model, 3, NULL);
    ck_assert_uint_eq(td_store_usage(store).held, (uint64_t)2 * BYTES);
    const struct td_shape dims = shape("[30000]");
    const struct td_tensor t = random_tensor(TD_DTYPE_UINT8, &dims);
    const struct td_store_write other = { .name = "other" };
    struct td_tensor_listing listing;
    bool created;
    ck_assert_int_eq(td_store_put(store, &other, &t, &test_arena, &listing, &created, &err), TD_OK);
    ck_assert_uint_eq(td_store_usage(store).held, BYTES + 30000);
    change(model, 3, NULL);
    expect_model(model);
    close_store();
    ck_assert_int_eq(counting.alive, 0);
}

TD_TEST(an_aborted_update_changes_nothing)
{
    unsigned char model[BYTES];
    store = open_with(QUOTA, "");
    put_bytes(model);
    td_store_update_abort(NULL);
    struct td_store_update *update = begin(NULL);
    const uint64_t version = found(store, "t")->version;
    memset(update->tensor.data, 0, BYTES);
    td_store_update_abort(update); /* after a partial change */
    expect_model(model);
    ck_assert_uint_eq(found(store, "t")->version, version);
    ck_assert_int_eq(counting.alive, 1);
    update = begin(NULL);
    update->unchanged = true;
    td_store_update_abort(update);
    ck_assert_int_eq(counting.alive, 2); /* the copy is kept for the next update */
    const int taken = counting.taken;
    change(model, 3, NULL);
    ck_assert_int_eq(counting.taken, taken);
    expect_model(model);
    close_store();
    ck_assert_int_eq(counting.alive, 0);
}

TD_TEST(an_update_copies_a_mapped_tensor_first)
{
    put_npy("t.npy", 1, 4);
    store = open_with(QUOTA, folder);
    struct td_store_update *update = begin(NULL);
    ((int32_t *)update->tensor.data)[1] = 20;
    const uint64_t offset = 4;
    struct td_tensor_listing now;
    ck_assert_int_eq(td_store_update_commit(update, &offset, 1, 4, &test_arena, &now, &err), TD_OK);
    expect_tensor(found(store, "t")->tensor, "int32[4] 1 20 3 4", "changed");
    ck_assert(!now.persisted && !now.source);
    ck_assert_uint_eq(td_store_usage(store).held, 16);
    ck_assert_uint_eq(td_store_usage(store).mapped, 0);
    td_store_free(store);
    store = open_with(QUOTA, folder);
    expect_tensor(found(store, "t")->tensor, "int32[4] 1 2 3 4", "the file is unchanged");
}

TD_TEST(an_update_can_be_persisted)
{
    put_npy("t.npy", 1, 4);
    const struct td_store_write write = { .name = "t", .persist = true };
    store = open_with(QUOTA, folder);
    struct td_store_update *update;
    struct td_tensor_listing now;
    for (int i = 0; i < 3; i++) {
        const uint64_t offset = 4 * (uint64_t)i;
        ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err),
                         TD_OK);
        ((int32_t *)update->tensor.data)[i] = 100 + i;
        ck_assert_int_eq(td_store_update_commit(update, &offset, 1, 4, &test_arena, &now, &err),
                         TD_OK);
        ck_assert(now.persisted && !now.source);
    }
    ck_assert_uint_ge(td_store_usage(store).held, 16);
    td_store_rescan(store); /* the folder has not changed */
    ck_assert_str_eq(found(store, "t")->etag, now.etag);
    td_store_free(store);
    store = open_with(QUOTA, folder);
    expect_tensor(found(store, "t")->tensor, "int32[4] 100 101 102 4", "after a restart");
    ck_assert_str_eq(found(store, "t")->etag, now.etag);
}

TD_TEST(strings_are_replaced_as_a_whole)
{
    store = open_with(QUOTA, "");
    const struct td_tensor before = tensor("string[2] 'a' 'b'"),
                           after = tensor("string[2] 'a' 'cc'");
    struct td_tensor_listing listing;
    bool created;
    ck_assert_int_eq(td_store_put(store, &on_t, &before, &test_arena, &listing, &created, &err),
                     TD_OK);
    struct td_store_update *update = begin(NULL);
    expect_tensor(&update->tensor, "string[2] 'a' 'b'", "begun");
    update->tensor = after;
    ck_assert_int_eq(td_store_update_commit(update, NULL, 0, 0, &test_arena, &listing, &err),
                     TD_OK);
    expect_tensor(found(store, "t")->tensor, "string[2] 'a' 'cc'", "committed");
    update = begin(NULL);
    td_store_update_abort(update);
    update = begin(NULL); /* an update that changes nothing */
    ck_assert_int_eq(td_store_update_commit(update, NULL, 0, 0, &test_arena, &listing, &err),
                     TD_OK);
    expect_tensor(found(store, "t")->tensor, "string[2] 'a' 'cc'", "again");
}

TD_TEST(an_invalid_update_is_rejected)
{
    store = open_with(BYTES + 8, "");
    struct td_store_update *update;
    unsigned char model[BYTES];
    ck_assert_int_eq(td_store_update_begin(store, &on_t, &test_arena, NULL, &update, &err),
                     TD_TENSOR_NOT_FOUND);
    put_bytes(model);
    const struct td_store_write other = { .name = "t", .condition.if_match = "\"x\"" };
    ck_assert_int_eq(td_store_update_begin(store, &other, &test_arena, NULL, &update, &err),
                     TD_PRECONDITION_FAILED);
    const struct td_store_write persist = { .name = "t", .persist = true };
    ck_assert_int_eq(td_store_update_begin(store, &persist, &test_arena, NULL, &update, &err),
                     TD_INVALID_ARGUMENT);
    change(model, 1, NULL); /* the name is not locked */
    td_store_free(store);
    put_npy("t.npy", 0, 64);
    store = open_with(255, folder); /* mapped it counts 0 bytes; changed, 256 */
    ck_assert_int_eq(td_store_update_begin(store, &on_t, &test_arena, NULL, &update, &err),
                     TD_RESOURCE_LIMIT);
}

TD_TEST(readers_and_writers_of_other_names_never_wait_for_an_update)
{
    unsigned char model[BYTES];
    store = open_with(QUOTA, "");
    put_bytes(model);
    struct td_store_update *update = begin(NULL);
    const struct td_tensor t = tensor("int8[1] 1");
    const struct td_store_write on_u = { .name = "u" };
    struct td_tensor_listing listing;
    bool created;
    ck_assert_int_eq(td_store_put(store, &on_u, &t, &test_arena, &listing, &created, &err), TD_OK);
    expect_model(model);
    td_store_update_abort(update);
}

static void *rescan(void *context)
{
    td_store_rescan(context);
    return NULL;
}

TD_TEST(a_scan_waits_for_the_writer_of_a_file)
{
    const struct td_store_write write = { .name = "t.safetensors" };
    struct td_store_update *update;
    pthread_t scan;
    put_npy("t.safetensors.npy", 1,
            4); /* a file of one tensor, despite the .safetensors in its name */
    store = open_with(QUOTA, folder);
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err), TD_OK);
    put_npy("t.safetensors.npy", 50, 5);
    ck_assert_int_eq(pthread_create(&scan, NULL, rescan, store), 0);
    EVENTUALLY(td_writers_waiting(store) == 1);
    ck_assert_int_eq(found(store, "t.safetensors")->tensor->numel, 4);
    td_store_update_abort(update);
    pthread_join(scan, NULL);
    ck_assert_int_eq(found(store, "t.safetensors")->tensor->numel, 5);
}

TD_TEST(a_deadline_while_copying_ends_the_update)
{
    store = open_with((uint64_t)64 << 20, "");
    const struct td_shape dims = shape("[10000000]");
    const struct td_tensor t = random_tensor(TD_DTYPE_UINT8, &dims);
    struct td_tensor_listing listing;
    struct td_store_update *update;
    struct thread_exec exec;
    bool created;
    ck_assert_int_eq(td_store_put(store, &on_t, &t, &test_arena, &listing, &created, &err), TD_OK);
    thread_exec_init(&exec, 2, 0);
    exec.ranges_allowed = 3;
    ck_assert_int_eq(td_store_update_begin(store, &on_t, &test_arena, &exec.exec, &update, &err),
                     TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(counting.alive, 1);
    ck_assert_uint_eq(td_store_usage(store).held, 10000000);
    exec.ranges_allowed = -1;
    ck_assert_int_eq(td_store_update_begin(store, &on_t, &test_arena, &exec.exec, &update, &err),
                     TD_OK);
    ck_assert_mem_eq(update->tensor.data, t.data, t.bytes);
    td_store_update_abort(update);
}

static td_status stop_now(void *context, struct td_error *error)
{
    (void)context;
    return td_error_set(error, TD_DRAINING, "stopped");
}

TD_TEST(a_put_whose_copy_is_stopped_stores_nothing)
{
    store = open_with((uint64_t)64 << 20, "");
    const struct td_shape dims = shape("[10000000]");
    const struct td_tensor t = random_tensor(TD_DTYPE_UINT8, &dims);
    struct td_tensor_listing listing;
    bool created;
    test_arena.stop = (struct td_stop){ .check = stop_now };
    ck_assert_int_eq(td_store_put(store, &on_t, &t, &test_arena, &listing, &created, &err),
                     TD_DRAINING);
    ck_assert_int_eq(counting.alive, 0);
    ck_assert_uint_eq(td_store_usage(store).held, 0);
}

TD_TEST_LOOP(any_sequence_of_updates_matches_the_model, 0, 8)
{
    unsigned char model[BYTES];
    store = open_with(_i % 2 ? QUOTA : 2 * BYTES + 10, "");
    struct td_arena holding; /* slow readers */
    td_arena_init(&holding, NULL, 0, td_memory_heap());
    struct thread_exec exec;
    thread_exec_init(&exec, 2, 1000);
    random_seed((uint64_t)_i);
    put_bytes(model);
    for (int step = 0; step < 300; step++) {
        struct td_tensor_listing held;
        struct td_store_update *update;
        switch (random_below(10)) {
        case 0:
            put_bytes(model);
            break;
        case 1:
            td_store_trim(store, INT64_MAX);
            break;
        case 2:
            ck_assert_int_eq(td_store_get(store, "t", 1, &holding, &held, &err), TD_OK);
            break;
        case 3:
            td_arena_reset(&holding);
            break;
        case 4:
            update = begin(&exec.exec);
            update->unchanged = random_below(2) == 0;
            if (!update->unchanged)
                memset(update->tensor.data, 7, BYTES);
            td_store_update_abort(update);
            break;
        case 5:
            change(model, 2000, &exec.exec); /* nearly all slices */
            break;
        default:
            change(model, random_below(50), &exec.exec);
        }
        expect_model(model);
        td_arena_reset(&test_arena);
        ck_assert_uint_le(td_store_usage(store).held, (uint64_t)2 * BYTES);
    }
    td_arena_reset(&holding);
    close_store();
    ck_assert_int_eq(counting.alive, 0);
}

TD_FIXTURE(one_store_begin, one_store_end);
