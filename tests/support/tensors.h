/* tensors.h - tensors from text, and comparison of tensors.
 *
 *     "int32[2,2] 1 2 3 4"     dtype, shape, elements in row-major order
 *     "float32[3,4] 0..11"     a range counts up
 *     "string[3] 'a' '' '\x00\xff'"  strings in quotes; \xNN is a byte
 *     "complex64[1] 1 2"       real part, imaginary part
 *     "float16[1] 0x3c00"      float16 and bfloat16 as bits
 *     "float32[] 2.5"          a scalar
 *
 * Ownership  All results are in test_arena and live until the test ends.
 * Errors     An invalid text fails the test. */
#ifndef TD_TESTS_SUPPORT_TENSORS_H
#define TD_TESTS_SUPPORT_TENSORS_H

#include "kernels/tensor.h"
#include "tests/support/expect.h"

/* The arena of the running test; checked fixtures open and close it. */
extern struct td_arena test_arena;
void test_arena_open(void);
void test_arena_close(void);

/* Memory of which there is none: every request is refused, with the message "none". */
extern struct td_memory no_memory;

struct td_shape shape(const char *text); /* "[2,3]" */
struct td_tensor tensor(const char *text);
struct td_tensor tensor_without_data(const char *text); /* "float32[1000,1000]" */

/* "int32[1] 0; int32[] 1": writes the tensors of a list, none for "", and returns their number. */
int tensor_list(const char *text, struct td_tensor *tensors, int room);

/* An int16, int32 or int64 vector of these values. */
struct td_tensor index_vector(td_dtype dtype, const int64_t *values, int64_t n);

/* Fail the test, with case_name in the message, unless dtype, shape and all elements are equal bit
 * for bit. */
void expect_same_tensor(const struct td_tensor *got, const struct td_tensor *want,
                        const char *case_name);
void expect_tensor(const struct td_tensor *got, const char *want, const char *case_name);
void expect_shape(const struct td_shape *got, const char *want, const char *case_name);

/* The value of element i of a real or complex dtype: its real part, or the imaginary one with
 * part 1. */
long double tensor_value(const struct td_tensor *t, int64_t i, int part);

#endif
