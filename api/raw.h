/* raw.h - tensors from little-endian bytes, as base64, safetensors and .npy bring them. */
#ifndef TD_API_RAW_H
#define TD_API_RAW_H

#include "kernels/tensor.h"

/* Refuses (MALFORMED_REQUEST) bool bytes other than 0 and 1; every bit pattern of the other dtypes
 * is a value. */
TD_MUST_CHECK td_status td_raw_check(const struct td_tensor *tensor, struct td_error *err);

/* Fills a described string tensor from `size` bytes: each element is its length, 4 bytes, and its
 * bytes. The bytes are moved together in place and become the tensor's data. */
TD_MUST_CHECK td_status td_raw_strings(char *bytes, size_t size, struct td_tensor *tensor,
                                       struct td_arena *arena, struct td_error *err);

/* Bytes that td_raw_write_strings writes. False on overflow, or when a string has 4 GiB or more. */
bool td_raw_strings_size(const struct td_tensor *tensor, size_t *size);
char *td_raw_write_strings(char *at, const struct td_tensor *tensor);

#endif
