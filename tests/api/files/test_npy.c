#include "api/files/npy.h"
#include "tests/api/request.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

static struct td_error err;

/* Makes a file with the given version and header, and `data` bytes 0, 1, 2, ... after the
 * header. */
static size_t make_file(char *file, int version, const char *header, size_t data)
{
    char *at = file;
    size_t length = strlen(header);
    memcpy(at, "\x93NUMPY", 6);
    at[6] = (char)version;
    at[7] = 0;
    memcpy(at + 8, &length, version == 1 ? 2 : 4);
    at += version == 1 ? 10 : 12;
    memcpy(at, header, length);
    at += length;
    for (size_t i = 0; i < data; i++)
        *at++ = (char)i;
    return (size_t)(at - file);
}

/* Reads a copy of exactly the file's size; free() it. */
static td_status read_exact(const char *file, size_t size, struct td_tensor *out, bool *in_file,
                            char **copy)
{
    *copy = malloc(size ? size : 1);
    memcpy(*copy, file, size);
    return td_npy_read(*copy, size, &test_arena, out, in_file, &err);
}

static const struct {
    const char *case_name, *header;
    int version;
    size_t data;
    const char *want; /* dtype and shape */
} files[] = {
    { "as numpy writes it",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }          \n", 1, 24,
      "float32[3,2]" },
    { "a vector", "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", 1, 16,
      "int64[2]" },
    { "a scalar", "{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", 1, 8, "float64[]" },
    { "version 2", "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }\n", 2, 4,
      "uint16[2]" },
    { "version 3", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n", 3, 2,
      "uint8[2]" },
    { "another order of keys", "{'shape':(2,),'descr':'|i1','fortran_order':False}", 1, 2,
      "int8[2]" },
    { "bool", "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }\n", 1, 2, "bool[2]" },
    { "float16", "{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }\n", 1, 4,
      "float16[2]" },
    { "complex64", "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }\n", 1, 16,
      "complex64[2]" },
    { "complex128", "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }\n", 1, 16,
      "complex128[1]" },
    { "no elements", "{'descr': '<i4', 'fortran_order': False, 'shape': (0, 3), }\n", 1, 0,
      "int32[0,3]" },
    { "the order of a vector does not matter",
      "{'descr': '<i4', 'fortran_order': True, 'shape': (2,), }\n", 1, 8, "int32[2]" },
    { "the order of a row does not matter",
      "{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2, 1), }\n", 1, 8, "int32[1,2,1]" },
    { "the order of an array without elements does not matter",
      "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 0, 2), }\n", 1, 0, "int32[2,0,2]" },
    { "the byte order of single bytes does not matter",
      "{'descr': '>i1', 'fortran_order': False, 'shape': (2,), }\n", 1, 2, "int8[2]" },
    { "rank 16",
      "{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }\n", 1,
      4, "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]" },
    { "the byte order of the machine",
      "{'descr': '=f4', 'fortran_order': False, 'shape': (2,), }\n", 1, 8, "float32[2]" },
    { "the byte order of single bytes for larger ones",
      "{'descr': '|i4', 'fortran_order': False, 'shape': (2,), }\n", 1, 8, "int32[2]" },
    { "no byte order", "{'descr': 'c16', 'fortran_order': False, 'shape': (1,), }\n", 1, 16,
      "complex128[1]" },
    { "the name of a dtype", "{'descr': 'float32', 'fortran_order': False, 'shape': (2,), }\n", 1,
      8, "float32[2]" },
    { "the short name of bool", "{'descr': '?', 'fortran_order': False, 'shape': (2,), }\n", 1, 2,
      "bool[2]" },
    { "text of Python 2 and other white space",
      "{u'descr':\tu'<f4',\r\n'fortran_order':\tFalse,\n'shape':\t(2,\t)}\t\r\n", 1, 8,
      "float32[2]" },
    { "longs of Python 2", "{'descr': '<i4', 'fortran_order': False, 'shape': (2L, 1L), }\n", 1, 8,
      "int32[2,1]" },
};

TD_TEST_EACH(files_of_numpy_are_read_in_place, files)
{
    char file[512], *copy;
    bool in_file;
    struct td_tensor got, want = tensor_without_data(files[_i].want);
    size_t size = make_file(file, files[_i].version, files[_i].header, files[_i].data);
    ck_assert_msg(read_exact(file, size, &got, &in_file, &copy) == TD_OK, "%s: %s",
                  files[_i].case_name, err.message);
    ck_assert_msg(got.dtype == want.dtype && td_shape_equal(&got.shape, &want.shape), "%s",
                  files[_i].case_name);
    ck_assert_msg(in_file, "%s", files[_i].case_name);
    ck_assert_ptr_eq(got.data, copy + size - files[_i].data);
    free(copy);
}

/* Headers and data written by NumPy 2.4. */
static const struct {
    const char *case_name, *header;
    int version;
    size_t bytes;
    const char *data, *want;
} converted[] = {
    { "asfortranarray(arange(6.).reshape(2, 3))",
      "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 1, 24,
      "\0\0\0\0\0\0\x40\x40\0\0\x80\x3f\0\0\x80\x40\0\0\0\x40\0\0\xa0\x40",
      "float32[2,3] 0 1 2 3 4 5" },
    { "array([1, -2, 258], '>i2')", "{'descr': '>i2', 'fortran_order': False, 'shape': (3,), }", 1,
      6, "\0\1\xff\xfe\1\2", "int16[3] 1 -2 258" },
    { "big-endian and in Fortran order",
      "{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3), }", 1, 24,
      "\0\0\0\0\0\0\0\3\0\0\0\1\0\0\0\4\0\0\0\2\0\0\0\5", "int32[2,3] 0 1 2 3 4 5" },
    { "both parts of a complex number are swapped",
      "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }", 1, 8, "\x3f\x80\0\0\x40\0\0\0",
      "complex64[1] 1 2" },
    { "both parts of a complex128 number are swapped",
      "{'descr': '>c16', 'fortran_order': False, 'shape': (1,), }", 1, 16,
      "\x3f\xf0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0", "complex128[1] 1 2" },
    { "a big-endian scalar", "{'descr': '>f8', 'fortran_order': False, 'shape': (), }", 1, 8,
      "\x3f\xf8\0\0\0\0\0\0", "float64[] 1.5" },
    { "three dimensions of bytes", "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }",
      1, 12, "\0\6\2\x8\4\xa\1\7\3\x9\5\xb", "uint8[2,3,2] 0..11" },
    { "float16", "{'descr': '>f2', 'fortran_order': False, 'shape': (2,), }", 1, 4, "\x3c\0\xc0\0",
      "float16[2] 0x3c00 0xc000" },
    { "uint64, version 3", "{'descr': '>u8', 'fortran_order': False, 'shape': (2,), }", 3, 16,
      "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2", "uint64[2] 1 2" },
    { "bools in Fortran order", "{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2), }", 2, 4,
      "\0\1\0\1", "bool[2,2] 0 0 1 1" },
};

TD_TEST_EACH(other_orders_of_elements_and_bytes_are_converted, converted)
{
    char file[512], *copy;
    bool in_file;
    struct td_tensor got;
    size_t size = make_file(file, converted[_i].version, converted[_i].header, 0);
    memcpy(file + size, converted[_i].data, converted[_i].bytes);
    td_status status = read_exact(file, size + converted[_i].bytes, &got, &in_file, &copy);
    ck_assert_msg(status == TD_OK, "%s: %s", converted[_i].case_name, err.message);
    ck_assert_msg(!in_file, "%s", converted[_i].case_name);
    free(copy); /* the tensor does not point into it */
    expect_tensor(&got, converted[_i].want, converted[_i].case_name);
}

/* The definition of the formats, one element at a time. */
static void expect_transposed(const struct td_npy *file, const unsigned char *got,
                              const char *case_name)
{
    const struct td_tensor *tensor = &file->tensor;
    size_t width = td_dtype_info(tensor->dtype)->size, part = td_dtype_info(tensor->dtype)->align;
    const unsigned char *from = tensor->data;
    for (int64_t i = 0; i < tensor->numel; i++) {
        int64_t position[TD_MAX_RANK], at = 0;
        td_shape_unravel(&tensor->shape, i, position);
        for (int d = tensor->shape.rank - 1; d >= 0; d--)
            at = at * tensor->shape.dim[d] + position[d];
        for (size_t b = 0; b < width; b++) {
            size_t other = file->big_endian ? b / part * part + part - 1 - b % part : b;
            EXPECT(got[(size_t)i * width + b] == from[(size_t)at * width + other],
                   "%s: byte %zu of element %lld", case_name, b, (long long)i);
        }
    }
}

static void expect_any_shape(td_dtype dtype, const struct td_shape *shape, bool big_endian,
                             uint64_t *seed)
{
    char case_name[TD_SHAPE_TEXT];
    struct td_npy file = { .big_endian = big_endian, .fortran = true };
    ck_assert_int_eq(td_tensor_describe(&file.tensor, "array", dtype, shape, &err), TD_OK);
    unsigned char *from = malloc(file.tensor.bytes), *to = malloc(file.tensor.bytes);
    for (size_t i = 0; i < file.tensor.bytes; i++)
        from[i] = (unsigned char)random_from(seed);
    file.tensor.data = from;
    ck_assert_int_eq(td_npy_convert(&file, to, NULL, &err), TD_OK);
    expect_transposed(&file, to, td_shape_text(shape, case_name, sizeof case_name));
    free(from);
    free(to);
}

TD_TEST(fortran_order_of_any_shape_is_transposed)
{
    static const td_dtype dtypes[] = { TD_DTYPE_UINT8,   TD_DTYPE_INT16,     TD_DTYPE_FLOAT32,
                                       TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX64, TD_DTYPE_COMPLEX128 };
    static const char *const shapes[] = { "[2,2]",
                                          "[1000,3]",
                                          "[3,1000]",
                                          "[17,1,19]",
                                          "[100,101]",
                                          "[5,300,2]",
                                          "[300,4,16]",
                                          "[2,3,4,5,6,7]",
                                          "[16,16]",
                                          "[257,2,2]",
                                          "[1,1,33,1,65,1]",
                                          "[64,64]",
                                          "[2,2,2,2,2,2,2,2,2,2,2,2,2,2,1,1]" };
    uint64_t seed = 5;
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        struct td_shape given = shape(shapes[i]);
        for (int d = 0; d < COUNT_OF(dtypes); d++)
            expect_any_shape(dtypes[d], &given, d % 2 == 1, &seed);
    }
    for (int i = 0; i < 500; i++) {
        struct td_shape random = { .rank = 2 + (int)(random_from(&seed) % 5) };
        for (int d = 0; d < random.rank; d++)
            random.dim[d] = 2 + (int64_t)(random_from(&seed) % (random.rank < 4 ? 30 : 6));
        expect_any_shape(dtypes[i % COUNT_OF(dtypes)], &random, i % 3 == 0, &seed);
    }
}

static const struct {
    const char *case_name, *header;
    int version;
    size_t data;
    const char *message;
} refused[] = {
    { "a shape that is a number", "{'descr': '<f4', 'fortran_order': False, 'shape': (6), }", 1, 24,
      "(6,)" },
    { "records", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 1, 4,
      "structured" },
    { "objects", "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 1, 8,
      "Python objects" },
    { "text", "{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", 1, 20,
      "to import them as the keys of a table, use deploy/import TABLE --keys-from FILE.npy)" },
    { "bytes", "{'descr': '|S5', 'fortran_order': False, 'shape': (1,), }", 1, 5, "text" },
    { "raw records, as bfloat16 is", "{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", 1,
      2, "bfloat16" },
    { "dates", "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,), }", 1, 8, "dates" },
    { "spans of time", "{'descr': '>m8[s]', 'fortran_order': False, 'shape': (1,), }", 1, 8,
      "times" },
    { "a sub-array", "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,), }", 1, 8,
      "structured" },
    { "no width", "{'descr': '<f', 'fortran_order': False, 'shape': (1,), }", 1, 4, "'<f'" },
    { "a byte order alone", "{'descr': '<', 'fortran_order': False, 'shape': (1,), }", 1, 4,
      "'<'" },
    { "two byte orders", "{'descr': '<>f4', 'fortran_order': False, 'shape': (1,), }", 1, 4,
      "'<>f4'" },
    { "a byte order and a name", "{'descr': '<bfloat16', 'fortran_order': False, 'shape': (1,), }",
      1, 2, "'<bfloat16'" },
    { "several arrays", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 1, 40,
      "save each array to its own file" },
    { "no type", "{'descr': '', 'fortran_order': False, 'shape': (1,), }", 1, 4, "a type" },
    { "long double", "{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", 1, 16,
      "no dtype" },
    { "another version", "{}", 4, 0, "version 4.0" },
    { "too little data", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 1, 4,
      "4 bytes" },
    { "too much data", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 1, 9,
      "9 bytes" },
    { "a shape that overflows",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 1, 0, "" },
    { "a dimension beyond int64",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 1, 0,
      "dimension" },
    { "a negative dimension", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 1, 0,
      "dimension" },
    { "rank 17",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }", 1,
      4, "" },
    { "no shape", "{'descr': '<f4', 'fortran_order': False, }", 1, 0, "'shape'" },
    { "a repeated key", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (), }",
      1, 4, "once" },
    { "an unknown key", "{'descr': '<f4', 'x': 1, 'fortran_order': False, 'shape': (), }", 1, 4,
      "once" },
    { "not a dict", "()", 1, 0, "'{'" },
    { "text after the dict", "{'descr': '<f4', 'fortran_order': False, 'shape': (), } x", 1, 4,
      "spaces" },
    { "an unterminated string", "{'descr: ", 1, 0, "key" },
    { "a boolean that is not True or False",
      "{'descr': '<f4', 'fortran_order': false, 'shape': (), }", 1, 4, "True" },
    { "too little for Fortran order", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
      1, 15, "15 bytes" },
    { "a truncated big-endian array", "{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }",
      1, 8, "8 bytes" },
    { "a bool of 2 in Fortran order", "{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2), }",
      1, 4, "element 2" },
    { "a bool of 2", "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", 1, 3,
      "element 2" },
};

TD_TEST_EACH(other_files_are_refused_with_the_reason, refused)
{
    char file[512], *copy;
    bool in_file;
    struct td_tensor got;
    size_t size = make_file(file, refused[_i].version, refused[_i].header, refused[_i].data);
    ck_assert_msg(read_exact(file, size, &got, &in_file, &copy) != TD_OK, "%s",
                  refused[_i].case_name);
    ck_assert_msg(strstr(err.message, refused[_i].message), "%s: %s", refused[_i].case_name,
                  err.message);
    free(copy);
}

TD_TEST_LOOP(truncated_and_mutated_files_fail_cleanly, 0, 2)
{
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n",
        "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 2), }\n"
    };
    char file[512], *copy;
    bool in_file;
    struct td_tensor got;
    uint64_t seed = 11;
    size_t size = make_file(file, 1, headers[_i], 24);
    for (size_t cut = 0; cut < size; cut++) {
        EXPECT(read_exact(file, cut, &got, &in_file, &copy) != TD_OK, "cut off after %zu bytes",
               cut);
        free(copy);
    }
    for (int i = 0; i < 100000; i++) {
        char changed[600];
        memcpy(changed, file, size);
        size_t changed_size = mutate(changed, size, sizeof changed, &seed);
        if (read_exact(changed, changed_size, &got, &in_file, &copy) == TD_OK && in_file)
            EXPECT((char *)got.data + got.bytes == copy + changed_size, "mutation %d", i);
        free(copy);
        td_arena_reset(&test_arena);
    }
}

static const struct {
    const char *tensor, *header;
} written[] = {
    { "float32[3,4]", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" },
    { "int64[7]", "{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }" },
    { "bool[]", "{'descr': '|b1', 'fortran_order': False, 'shape': (), }" },
    { "int8[0]", "{'descr': '|i1', 'fortran_order': False, 'shape': (0,), }" },
    { "uint8[1,2,3]", "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 3), }" },
    { "complex128[2]", "{'descr': '<c16', 'fortran_order': False, 'shape': (2,), }" },
    { "float16[0,9223372036854775807]",
      "{'descr': '<f2', 'fortran_order': False, 'shape': (0, 9223372036854775807), }" },
};

TD_TEST_EACH(headers_are_written_as_numpy_writes_them, written)
{
    char header[TD_NPY_HEADER], want[TD_NPY_HEADER];
    size_t size, length = strlen(written[_i].header);
    struct td_tensor given = tensor_without_data(written[_i].tensor);
    ck_assert_int_eq(td_npy_write_header(&given, header, &size, &err), TD_OK);
    ck_assert_uint_eq(size, (10 + length + 1 + 63) / 64 * 64);
    memset(want, ' ', size);
    memcpy(want, "\x93NUMPY\x01\x00", 8);
    want[8] = (char)(size - 10);
    want[9] = 0;
    memcpy(want + 10, written[_i].header, length);
    want[size - 1] = '\n';
    ck_assert_mem_eq(header, want, size);
}

TD_TEST(the_longest_header_fits)
{
    char header[TD_NPY_HEADER];
    size_t size;
    struct td_shape longest = { .rank = TD_MAX_RANK };
    for (int d = 1; d < TD_MAX_RANK; d++)
        longest.dim[d] = INT64_MAX;
    struct td_tensor given, got;
    bool in_file;
    ck_assert_int_eq(td_tensor_describe(&given, "array", TD_DTYPE_COMPLEX128, &longest, &err),
                     TD_OK);
    ck_assert_int_eq(td_npy_write_header(&given, header, &size, &err), TD_OK);
    EXPECT_OK(td_npy_read(header, size, &test_arena, &got, &in_file, &err), &err);
    ck_assert(td_shape_equal(&got.shape, &longest));
}

TD_TEST_LOOP(dtypes_that_numpy_lacks_are_not_written, 0, 2)
{
    static const char *const tensors[] = { "string[1]", "bfloat16[1]" };
    char header[TD_NPY_HEADER];
    size_t size;
    struct td_tensor given = tensor_without_data(tensors[_i]);
    ck_assert_int_eq(td_npy_write_header(&given, header, &size, &err), TD_NOT_ACCEPTABLE);
    EXPECT_MESSAGE(&err, _i ? "bfloat16" : "string");
}
