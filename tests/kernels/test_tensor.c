#include "kernels/tensor.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

TD_TEST(a_tensor_is_described_before_it_has_data)
{
    struct td_tensor t;
    struct td_error err;
    struct td_shape dims = shape("[2,3]");
    memset(&t, 0xA5, sizeof(t));
    ck_assert_int_eq(td_tensor_describe(&t, "output", TD_DTYPE_FLOAT64, &dims, &err), TD_OK);
    ck_assert_int_eq(t.dtype, TD_DTYPE_FLOAT64);
    expect_shape(&t.shape, "[2,3]", "described");
    ck_assert_int_eq(t.numel, 6);
    ck_assert_uint_eq(t.bytes, 48);
    ck_assert_ptr_null(t.data);
    ck_assert_ptr_null(t.offsets);
    ck_assert_ptr_null(t.owner);
    ck_assert_ptr_null(t.key_index);
}

static const struct {
    const char *case_name;
    const char *shape;
    td_dtype dtype;
    bool fits;
} descriptions[] = {
    { "an element count above INT64_MAX", "[4294967296,4294967296]", TD_DTYPE_INT8, false },
    { "a byte count above INT64_MAX", "[1152921504606846976]", TD_DTYPE_FLOAT64, false },
    { "a byte count just below", "[1152921504606846974]", TD_DTYPE_FLOAT64, true },
    { "offsets of strings above INT64_MAX", "[1152921504606846975]", TD_DTYPE_STRING, false },
    { "huge dimensions besides a 0", "[1099511627776,0,1099511627776]", TD_DTYPE_FLOAT64, true },
};

TD_TEST_EACH(a_tensor_beyond_int64_is_refused, descriptions)
{
    struct td_tensor t;
    struct td_error err;
    struct td_shape dims = shape(descriptions[_i].shape);
    td_status status = td_tensor_describe(&t, "params", descriptions[_i].dtype, &dims, &err);
    ck_assert_msg((status == TD_OK) == descriptions[_i].fits, "%s", descriptions[_i].case_name);
    if (status == TD_OK)
        return;
    ck_assert_int_eq(status, TD_RESOURCE_LIMIT);
    ck_assert_int_eq(err.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.input, "params");
    ck_assert_str_eq(err.resource, "tensor_bytes");
    EXPECT_MESSAGE(&err, descriptions[_i].shape);
    ck_assert_int_eq(td_tensor_describe(&t, "params", descriptions[_i].dtype, &dims, TD_IGNORED),
                     status);
}

TD_TEST(data_comes_from_the_arena)
{
    struct td_tensor t = tensor_without_data("float32[3,5]");
    struct td_error err;
    ck_assert_int_eq(td_tensor_alloc(&t, &test_arena, &err), TD_OK);
    memset(t.data, 1, t.bytes);
    ck_assert_uint_eq(t.bytes, 60);
    ck_assert_uint_eq(td_tensor_footprint(&t), 60);
}

TD_TEST(an_empty_tensor_has_a_pointer_too)
{
    struct td_tensor t = tensor_without_data("float32[3,0]");
    struct td_error err;
    ck_assert_int_eq(td_tensor_alloc(&t, &test_arena, &err), TD_OK);
    ck_assert_ptr_nonnull(t.data);
}

TD_TEST(new_strings_are_empty)
{
    struct td_tensor t = tensor_without_data("string[3]");
    struct td_error err;
    ck_assert_uint_eq(t.bytes, 0);
    ck_assert_int_eq(td_tensor_alloc(&t, &test_arena, &err), TD_OK);
    for (int i = 0; i <= 3; i++)
        ck_assert_uint_eq(t.offsets[i], 0);
    expect_tensor(&t, "string[3] '' '' ''", "new strings");
    ck_assert_uint_eq(td_tensor_footprint(&t), 32);
}

TD_TEST(the_footprint_of_strings_has_offsets_and_bytes)
{
    struct td_tensor t = tensor("string[2] 'abc' 'de'");
    ck_assert_uint_eq(td_tensor_footprint(&t), 24 + 5);
}

TD_TEST(without_memory_there_is_no_tensor)
{
    struct td_arena arena;
    struct td_error err;
    td_arena_init(&arena, NULL, 0, &no_memory);
    struct td_tensor t = tensor_without_data("float32[3]"), s = tensor_without_data("string[3]");
    ck_assert_int_eq(td_tensor_alloc(&t, &arena, &err), TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(td_tensor_alloc(&s, &arena, &err), TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(td_tensor_alloc(&t, &arena, TD_IGNORED), TD_MEMORY_EXHAUSTED);
    char bytes[9];
    t.data = bytes + ((uintptr_t)bytes % 4 == 0);
    ck_assert_int_eq(td_tensor_align(&t, &arena, &err), TD_MEMORY_EXHAUSTED);
}

TD_TEST(aligned_data_is_not_copied)
{
    struct td_tensor t = tensor("int64[2] 1 2");
    struct td_error err;
    void *before = t.data;
    ck_assert_int_eq(td_tensor_align(&t, &test_arena, &err), TD_OK);
    ck_assert_ptr_eq(t.data, before);
}

TD_TEST(unaligned_data_is_copied)
{
    struct td_tensor t = tensor("int64[2] 1 -2");
    struct td_error err;
    _Alignas(8) char body[17];
    memcpy(body + 1, t.data, 16);
    t.data = body + 1;
    ck_assert_int_eq(td_tensor_align(&t, &test_arena, &err), TD_OK);
    ck_assert_uint_eq((uintptr_t)t.data % 8, 0);
    expect_tensor(&t, "int64[2] 1 -2", "moved");
}

TD_TEST(index_values_are_widened)
{
    struct td_tensor narrow = tensor("int16[2] -32768 32767"), middle = tensor("int32[2] -5 7"),
                     wide = tensor("int64[2] -9223372036854775807 4294967296");
    ck_assert_int_eq(td_tensor_index_at(&narrow, 0), -32768);
    ck_assert_int_eq(td_tensor_index_at(&narrow, 1), 32767);
    ck_assert_int_eq(td_tensor_index_at(&middle, 0), -5);
    ck_assert_int_eq(td_tensor_index_at(&middle, 1), 7);
    ck_assert_int_eq(td_tensor_index_at(&wide, 0), -INT64_MAX);
    ck_assert_int_eq(td_tensor_index_at(&wide, 1), 4294967296);
}
