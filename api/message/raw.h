/* raw.h - reads and writes tensor data as little-endian bytes, which base64, safetensors, .npy and
 * binary requests of /v2 contain. */
#ifndef TD_API_MESSAGE_RAW_H
#define TD_API_MESSAGE_RAW_H

#include "api/message/message.h"

/* Returns MALFORMED_REQUEST if a bool tensor has a byte other than 0 and 1. All bit patterns are
 * valid in other dtypes. */
TD_MUST_CHECK td_status td_raw_check(const struct td_tensor *tensor, struct td_error *err);

/* Sets the data of a string tensor from `size` bytes, in which each element is a 4-byte length
 * followed by the bytes of the string. The tensor's shape must be set. Removes the lengths in
 * place, so `bytes` becomes the tensor's data. */
TD_MUST_CHECK td_status td_raw_strings(char *bytes, size_t size, struct td_tensor *tensor,
                                       struct td_arena *arena, struct td_error *err);

/* Computes the number of bytes that td_raw_write_strings writes. Returns false on overflow, or if a
 * string has 4 GiB or more. */
bool td_raw_strings_size(const struct td_tensor *tensor, size_t *size);
TD_MUST_CHECK td_status td_raw_write_strings(char *to, const struct td_tensor *tensor,
                                             const struct td_stop *stop, struct td_error *err);

/* Minimum size of data that becomes a separate chunk. Smaller data is copied after its header,
 * because sending header and data as two chunks would take two system calls, which cost more than
 * the copy. */
#define TD_RAW_COPIED ((size_t)64 * 1024)

static inline bool td_raw_is_copied(const struct td_tensor *tensor)
{
    return tensor->bytes < TD_RAW_COPIED;
}

/* Builds a reply with status 200 from a header and the data of one tensor, which must not contain
 * strings. Small data is copied after the header, in the arena. For larger data, a second chunk
 * points to the tensor's data. */
TD_MUST_CHECK td_status td_raw_reply(const char *content_type, const char *header, size_t size,
                                     const struct td_tensor *tensor, struct td_arena *arena,
                                     struct td_reply *reply, struct td_error *err);

#endif
