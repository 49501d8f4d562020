/* raw.h - tensors as little-endian bytes, as base64, safetensors and .npy bring and take them. */
#ifndef TD_API_MESSAGE_RAW_H
#define TD_API_MESSAGE_RAW_H

#include "api/message/message.h"

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

/* Data up to this size is copied behind its header: a piece of its own costs a reply more than that
 * copy, since the chunks leave in two system calls. */
#define TD_RAW_COPIED ((size_t)64 * 1024)

static inline bool td_raw_is_copied(const struct td_tensor *tensor)
{
    return tensor->bytes < TD_RAW_COPIED;
}

/* A 200 of a header and the data of one tensor of numbers: in one piece in the arena when the data
 * is small, else in two, the second of which points to the tensor. */
TD_MUST_CHECK td_status td_raw_reply(const char *content_type, const char *header, size_t size,
                                     const struct td_tensor *tensor, struct td_arena *arena,
                                     struct td_reply *reply, struct td_error *err);

#endif
