/* Resident tensors and shared memory whose file is truncated during a call. */
#include "api/message/message.h"
#include "kernels/gather/gather.h"
#include "server/calls/borrowed.h"
#include "server/memory/fault_guard.h"
#include "server/memory/shared_memory.h"
#include "tests/server/folder.h"
#include "tests/server/shared_object.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>
#include <unistd.h>

enum { VALUES = 5000 };

static struct td_error err;
static struct td_borrowed borrowed;

static struct td_tensor named(const char *name)
{
    struct td_tensor tensor;
    ck_assert_int_eq(td_resolve(&borrowed.resolver, name, strlen(name), &test_arena, &tensor, &err),
                     TD_OK);
    return tensor;
}

TD_TEST(copied_indices_keep_their_values_when_the_file_is_truncated)
{
    struct td_request request;
    struct td_tensor inputs[2];
    td_guard_install();
    put_npy("table.npy", 100, VALUES);
    put_npy("at.npy", 0, VALUES);
    struct td_store *store = open_folder();
    td_borrowed_begin(&borrowed, td_store_resolver(store), NULL);
    td_request_init(&request, &td_op_gather);
    inputs[0] = named("table");
    inputs[1] = named("at");
    const void *table = inputs[0].data;
    request.args.inputs[0] = (struct td_operand){ &inputs[0], 1 };
    request.args.inputs[1] = (struct td_operand){ &inputs[1], 1 };
    ck_assert_uint_eq(td_borrowed_index_bytes(&request), VALUES * sizeof(int32_t));
    ck_assert_int_eq(td_borrowed_copy_indices(&request, &test_arena, &err), TD_OK);
    ck_assert_uint_eq(td_borrowed_index_bytes(&request), 0);
    ck_assert_ptr_eq(inputs[0].data, table); /* params are not copied */
    ck_assert_int_eq(truncate(path_of("at.npy"), 4096), 0);
    for (int i = 0; i < VALUES; i++)
        ck_assert_int_eq(value_of(&inputs[1], i), i); /* within the bounds that were checked */
    ck_assert_int_eq(td_borrowed_check(&borrowed, &err), TD_DEVICE_UNAVAILABLE);
    td_arena_reset(&test_arena);
    td_store_free(store);
}

TD_TEST(truncation_before_indices_are_copied_is_an_error)
{
    struct td_request request;
    struct td_tensor inputs[2];
    td_guard_install();
    put_npy("at.npy", 1, VALUES);
    struct td_store *store = open_folder();
    td_borrowed_begin(&borrowed, td_store_resolver(store), NULL);
    td_request_init(&request, &td_op_gather);
    inputs[0] = tensor("int32[2] 1 2");
    inputs[1] = named("at");
    request.args.inputs[0] = (struct td_operand){ &inputs[0], 1 };
    request.args.inputs[1] = (struct td_operand){ &inputs[1], 1 };
    ck_assert_int_eq(truncate(path_of("at.npy"), 4096), 0);
    ck_assert_int_eq(td_borrowed_copy_indices(&request, &test_arena, &err), TD_OK);
    ck_assert_int_eq(value_of(&inputs[1], VALUES - 1), 0);
    ck_assert_int_eq(td_borrowed_check(&borrowed, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(err.message, "'at'"));
    td_arena_reset(&test_arena);
    td_store_free(store);
}

TD_TEST(a_cut_file_of_keys_fails_the_call_that_may_have_compared_them)
{
    enum { KEYS = 128 };
    int64_t keys[KEYS];
    td_guard_install();
    for (int i = 0; i < KEYS; i++)
        keys[i] = i + 1;
    put_npy("n.npy", 1, KEYS);
    put_keys_npy("n.keys.npy", keys, KEYS);
    struct td_store *store = open_folder();
    td_borrowed_begin(&borrowed, td_store_resolver(store), NULL);
    (void)named("n");
    ck_assert_int_eq(truncate(path_of("n.keys.npy"), 600), 0);
    ck_assert_int_eq(td_borrowed_check(&borrowed, &err), TD_DEVICE_UNAVAILABLE);
    td_arena_reset(&test_arena);
    td_store_free(store);
}

TD_TEST(only_mapped_indices_are_copied)
{
    struct td_request request;
    struct td_tensor inputs[2] = { tensor("int32[2] 1 2"), tensor("int32[1] 0") };
    const void *data = inputs[1].data;
    put_npy("words.npy", 0, 4);
    struct td_store *store = open_folder();
    td_borrowed_begin(&borrowed, td_store_resolver(store), NULL);
    td_request_init(&request, &td_op_gather);
    request.args.inputs[0] = (struct td_operand){ &inputs[0], 1 };
    request.args.inputs[1] = (struct td_operand){ &inputs[1], 1 };
    ck_assert_uint_eq(td_borrowed_index_bytes(&request), 0);
    ck_assert_int_eq(td_borrowed_copy_indices(&request, &test_arena, &err), TD_OK);
    ck_assert_ptr_eq(inputs[1].data, data);
    inputs[1] = named("words");
    inputs[1].dtype = TD_DTYPE_FLOAT32; /* the op refuses this dtype */
    ck_assert_uint_eq(td_borrowed_index_bytes(&request), 0);
    td_arena_reset(&test_arena);
    td_store_free(store);
}

TD_TEST(truncated_shared_memory_fails_the_call_that_read_it)
{
    enum { PAGE = 4096 };
    struct td_borrowed others;
    char key[SHARED_OBJECT_KEY];
    void *out, *other;
    const int object = shared_object_open(key, (size_t)3 * PAGE);
    td_guard_install();
    struct td_shm *shm = td_shm_new();
    struct td_regions *regions = &borrowed.regions;
    ck_assert_int_eq(td_shm_register(shm, "region", key, 0, 2 * PAGE, &err), TD_OK);
    ck_assert_int_eq(td_shm_register(shm, "end", key, 2 * PAGE, PAGE, &err), TD_OK);
    td_borrowed_begin(&borrowed, NULL, td_shm_regions(shm));
    ck_assert_int_eq(regions->find(regions, "region", 6, 0, 2 * PAGE, &test_arena, &out, &err),
                     TD_OK);
    ck_assert_int_eq(td_borrowed_check(&borrowed, &err), TD_OK);
    ck_assert_int_eq(ftruncate(object, PAGE), 0);
    const volatile char *bytes = out;
    ck_assert_int_eq(bytes[PAGE + 5], 0); /* the process survives */
    ck_assert_int_eq(td_borrowed_check(&borrowed, &err), TD_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.message, "'region' was truncated") != NULL, "%s", err.message);
    /* A fault in the region of another call does not fail this one. */
    ck_assert_int_eq(ftruncate(object, 3 * PAGE), 0);
    ck_assert_int_eq(td_shm_register(shm, "good", key, 0, 2 * PAGE, &err), TD_OK);
    td_borrowed_begin(&others, NULL, td_shm_regions(shm));
    regions = &others.regions;
    ck_assert_int_eq(regions->find(regions, "good", 4, 0, 2 * PAGE, &test_arena, &other, &err),
                     TD_OK);
    others.faults--;
    ck_assert_int_eq(td_borrowed_check(&others, &err), TD_OK);
    td_arena_reset(&test_arena);
    td_shm_free(shm);
    shared_object_remove(key);
    close(object);
}

TD_FIXTURE(folder_open, folder_close);
