#include "api/npy.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

static struct td_error err;

/* A file of a version, with `data` bytes 0, 1, 2, ... behind the header. */
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

static td_status open_exact(const char *file, size_t size, struct td_tensor *out, char **copy)
{
    *copy = malloc(size ? size : 1);
    memcpy(*copy, file, size);
    return td_npy_open(*copy, size, out, &err);
}

static const struct {
    const char *says, *header;
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
    { "a vector has no order", "{'descr': '<i4', 'fortran_order': True, 'shape': (2,), }\n", 1, 8,
      "int32[2]" },
};

START_TEST(files_of_numpy_become_tensors)
{
    char file[512], *copy;
    struct td_tensor got, want = tensor_without_data(files[_i].want);
    size_t size = make_file(file, files[_i].version, files[_i].header, files[_i].data);
    ck_assert_msg(open_exact(file, size, &got, &copy) == TD_OK, "%s: %s", files[_i].says,
                  err.message);
    ck_assert_msg(got.dtype == want.dtype && td_shape_equal(&got.shape, &want.shape), "%s",
                  files[_i].says);
    ck_assert_ptr_eq(got.data, copy + size - files[_i].data);
    free(copy);
}
END_TEST

static const struct {
    const char *says, *header;
    int version;
    size_t data;
    const char *message;
} refused[] = {
    { "big-endian", "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 1, 4,
      "big-endian" },
    { "Fortran order", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 1, 16,
      "Fortran order" },
    { "records", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 1, 4,
      "structured" },
    { "objects", "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 1, 8,
      "Python objects" },
    { "text", "{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", 1, 20, "text" },
    { "bytes", "{'descr': '|S5', 'fortran_order': False, 'shape': (1,), }", 1, 5, "text" },
    { "raw records, as bfloat16 is", "{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", 1,
      2, "bfloat16" },
    { "dates", "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,), }", 1, 8, "no dtype" },
    { "long double", "{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", 1, 16,
      "no dtype" },
    { "no byte order", "{'descr': '|f4', 'fortran_order': False, 'shape': (1,), }", 1, 4, "'|f4'" },
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
    { "a key twice", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (), }", 1,
      4, "once" },
    { "an unknown key", "{'descr': '<f4', 'x': 1, 'fortran_order': False, 'shape': (), }", 1, 4,
      "once" },
    { "no dict", "()", 1, 0, "'{'" },
    { "more behind the dict", "{'descr': '<f4', 'fortran_order': False, 'shape': (), } x", 1, 4,
      "spaces" },
    { "an open string", "{'descr: ", 1, 0, "key" },
    { "another truth value", "{'descr': '<f4', 'fortran_order': false, 'shape': (), }", 1, 4,
      "True" },
    { "a bool of 2", "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", 1, 3,
      "element 2" },
};

START_TEST(other_files_are_refused_with_the_reason)
{
    char file[512], *copy;
    struct td_tensor got;
    size_t size = make_file(file, refused[_i].version, refused[_i].header, refused[_i].data);
    ck_assert_msg(open_exact(file, size, &got, &copy) != TD_OK, "%s", refused[_i].says);
    ck_assert_msg(strstr(err.message, refused[_i].message), "%s: %s", refused[_i].says,
                  err.message);
    free(copy);
}
END_TEST

START_TEST(truncated_and_mutated_files_do_no_harm)
{
    char file[512], *copy;
    struct td_tensor got;
    uint64_t seed = 11;
    size_t size =
        make_file(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n", 24);
    for (size_t cut = 0; cut < size; cut++) {
        EXPECT(open_exact(file, cut, &got, &copy) != TD_OK, "cut off after %zu bytes", cut);
        free(copy);
    }
    for (int i = 0; i < 100000; i++) {
        char changed[600];
        memcpy(changed, file, size);
        size_t changed_size = mutate(changed, size, sizeof changed, &seed);
        if (open_exact(changed, changed_size, &got, &copy) == TD_OK)
            EXPECT((char *)got.data + got.bytes == copy + changed_size, "mutation %d", i);
        free(copy);
    }
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, files_of_numpy_become_tensors, 0, COUNT_OF(files));
    tcase_add_loop_test(t, other_files_are_refused_with_the_reason, 0, COUNT_OF(refused));
    tcase_add_test(t, truncated_and_mutated_files_do_no_harm);
}

int main(void)
{
    return run_suite("npy", add);
}
