#include "kernels/dtype.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static const struct {
    td_dtype dtype;
    const char *name;
    size_t size, align;
    const char *safetensors, *oip; /* names in those formats' specifications; "": none */
} dtypes[] = {
    { TD_DTYPE_BOOL, "bool", 1, 1, "BOOL", "BOOL" },
    { TD_DTYPE_INT8, "int8", 1, 1, "I8", "INT8" },
    { TD_DTYPE_INT16, "int16", 2, 2, "I16", "INT16" },
    { TD_DTYPE_INT32, "int32", 4, 4, "I32", "INT32" },
    { TD_DTYPE_INT64, "int64", 8, 8, "I64", "INT64" },
    { TD_DTYPE_UINT8, "uint8", 1, 1, "U8", "UINT8" },
    { TD_DTYPE_UINT16, "uint16", 2, 2, "U16", "UINT16" },
    { TD_DTYPE_UINT32, "uint32", 4, 4, "U32", "UINT32" },
    { TD_DTYPE_UINT64, "uint64", 8, 8, "U64", "UINT64" },
    { TD_DTYPE_FLOAT16, "float16", 2, 2, "F16", "FP16" },
    { TD_DTYPE_BFLOAT16, "bfloat16", 2, 2, "BF16", "BF16" },
    { TD_DTYPE_FLOAT32, "float32", 4, 4, "F32", "FP32" },
    { TD_DTYPE_FLOAT64, "float64", 8, 8, "F64", "FP64" },
    { TD_DTYPE_COMPLEX64, "complex64", 8, 4, "C64", "" },
    { TD_DTYPE_COMPLEX128, "complex128", 16, 8, "", "" },
    { TD_DTYPE_STRING, "string", 0, 1, "", "BYTES" },
};

TD_TEST_EACH(a_dtype_is_known_by_size_and_names, dtypes)
{
    const struct td_dtype_info *info = td_dtype_info(dtypes[_i].dtype);
    ck_assert_str_eq(info->name, dtypes[_i].name);
    ck_assert_uint_eq(info->size, dtypes[_i].size);
    ck_assert_uint_eq(info->align, dtypes[_i].align);
    ck_assert_str_eq(info->safetensors, dtypes[_i].safetensors);
    ck_assert_str_eq(info->oip, dtypes[_i].oip);
}

TD_TEST_EACH(a_dtype_is_found_by_its_name, dtypes)
{
    td_dtype found;
    ck_assert(td_dtype_from_name(dtypes[_i].name, strlen(dtypes[_i].name), &found));
    ck_assert_int_eq(found, dtypes[_i].dtype);
    if (dtypes[_i].safetensors[0]) {
        const char *name = dtypes[_i].safetensors;
        ck_assert(td_dtype_from_safetensors(name, strlen(name), &found));
        ck_assert_int_eq(found, dtypes[_i].dtype);
    }
}

TD_TEST(all_dtypes_are_in_the_table)
{
    ck_assert_int_eq(COUNT_OF(dtypes), TD_DTYPE_COUNT);
}

TD_TEST(names_are_exact)
{
    td_dtype found;
    ck_assert(!td_dtype_from_name("Int32", 5, &found));
    ck_assert(!td_dtype_from_name("int3", 4, &found));
    ck_assert(!td_dtype_from_name("int321", 6, &found));
    ck_assert(td_dtype_from_name("int321", 5, &found)); /* need not end in NUL */
    ck_assert(!td_dtype_from_name("", 0, &found));
    ck_assert(!td_dtype_from_name("float32\0", 8, &found));
    ck_assert(!td_dtype_from_safetensors("", 0, &found));
    ck_assert(!td_dtype_from_safetensors("F8_E4M3", 7, &found));
}

TD_TEST(a_set_prints_its_names)
{
    char text[TD_DTYPE_SET_TEXT];
    ck_assert_str_eq(td_dtype_set_text(TD_DTYPES_INDEX, text, sizeof(text)), "int16, int32, int64");
    ck_assert_str_eq(td_dtype_set_text(TD_DTYPE_BIT(STRING), text, sizeof(text)), "string");
    ck_assert_str_eq(td_dtype_set_text(0, text, sizeof(text)), "");
    ck_assert_str_eq(td_dtype_set_text(TD_DTYPES_INDEX, text, 8), "int16, ");
}

TD_TEST(all_names_fit_the_text_of_a_set)
{
    char text[TD_DTYPE_SET_TEXT];
    td_dtype_set_text(TD_DTYPES_ALL, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "bool, int8,"));
    ck_assert_str_eq(strrchr(text, ' '), " string");
}

static const struct {
    td_dtype wide, narrow;
    bool holds;
} conversions[] = {
    { TD_DTYPE_INT64, TD_DTYPE_INT32, true },
    { TD_DTYPE_INT32, TD_DTYPE_INT64, false },
    { TD_DTYPE_INT64, TD_DTYPE_UINT32, true },
    { TD_DTYPE_INT64, TD_DTYPE_UINT64, false },
    { TD_DTYPE_UINT64, TD_DTYPE_INT8, false },
    { TD_DTYPE_UINT16, TD_DTYPE_UINT8, true },
    { TD_DTYPE_UINT8, TD_DTYPE_BOOL, true },
    { TD_DTYPE_INT16, TD_DTYPE_UINT8, true },
    { TD_DTYPE_INT8, TD_DTYPE_UINT8, false },
    { TD_DTYPE_INT8, TD_DTYPE_BOOL, true },
    { TD_DTYPE_FLOAT32, TD_DTYPE_INT16, true },
    { TD_DTYPE_FLOAT32, TD_DTYPE_INT32, false },
    { TD_DTYPE_FLOAT64, TD_DTYPE_UINT32, true },
    { TD_DTYPE_FLOAT64, TD_DTYPE_INT64, false },
    { TD_DTYPE_FLOAT32, TD_DTYPE_BFLOAT16, true },
    { TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT16, false },
    { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, false },
    { TD_DTYPE_BFLOAT16, TD_DTYPE_UINT8, true },
    { TD_DTYPE_INT64, TD_DTYPE_FLOAT16, false },
    { TD_DTYPE_COMPLEX64, TD_DTYPE_FLOAT32, true },
    { TD_DTYPE_COMPLEX64, TD_DTYPE_FLOAT64, false },
    { TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX64, false },
    { TD_DTYPE_COMPLEX128, TD_DTYPE_COMPLEX64, true },
    { TD_DTYPE_STRING, TD_DTYPE_STRING, true },
    { TD_DTYPE_STRING, TD_DTYPE_INT8, false },
    { TD_DTYPE_FLOAT64, TD_DTYPE_STRING, false },
};

TD_TEST_EACH(a_dtype_holds_another_one_if_it_has_all_its_values, conversions)
{
    ck_assert_msg(td_dtype_holds(conversions[_i].wide, conversions[_i].narrow) ==
                      conversions[_i].holds,
                  "%s, %s", td_dtype_info(conversions[_i].wide)->name,
                  td_dtype_info(conversions[_i].narrow)->name);
}

static const struct {
    td_dtype a, b, common;
} commons[] = {
    { TD_DTYPE_INT8, TD_DTYPE_INT32, TD_DTYPE_INT32 },
    { TD_DTYPE_UINT8, TD_DTYPE_UINT16, TD_DTYPE_UINT16 },
    { TD_DTYPE_INT8, TD_DTYPE_UINT8, TD_DTYPE_INT64 },
    { TD_DTYPE_INT16, TD_DTYPE_UINT32, TD_DTYPE_INT64 },
    { TD_DTYPE_INT64, TD_DTYPE_UINT64, TD_DTYPE_COUNT },
    { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32 },
    { TD_DTYPE_FLOAT16, TD_DTYPE_INT16, TD_DTYPE_FLOAT32 },
    { TD_DTYPE_COMPLEX64, TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX128 },
    { TD_DTYPE_STRING, TD_DTYPE_INT8, TD_DTYPE_COUNT },
};

TD_TEST_EACH(two_dtypes_have_a_common_one, commons)
{
    const td_dtype a = commons[_i].a, b = commons[_i].b;
    ck_assert_int_eq(td_dtype_common(a, b), commons[_i].common);
    ck_assert_int_eq(td_dtype_common(b, a), commons[_i].common);
}
