/* tensor.h - a tensor: dtype, shape and row-major data without strides.
 *
 * Strings    As in Arrow, element i consists of the bytes [offsets[i], offsets[i+1]) of data. Any
 *            byte is allowed, including NUL, and there is no terminator. offsets[0] is 0 unless the
 *            tensor is a view.
 * Alignment  data can be unaligned if it is in a request body or a mapped file. td_op_infer aligns
 *            inputs that have reads_values in the op's descriptor.
 * Ownership  A tensor does not own its data. The data is either in the call's arena or in `owner`,
 *            to which the arena holds a reference. */
#ifndef TD_KERNELS_TENSOR_H
#define TD_KERNELS_TENSOR_H

#include "kernels/arena.h"
#include "kernels/dtype.h"
#include "kernels/shape.h"

struct td_key_index; /* key_index/key_index.h */

struct td_tensor {
    td_dtype dtype;
    struct td_shape shape;
    int64_t numel;           /* product of the dimensions */
    void *data;              /* numel elements, or the bytes of all strings; never NULL once set */
    size_t bytes;            /* size of data */
    uint64_t *offsets;       /* strings: numel + 1 offsets; otherwise NULL */
    struct td_buffer *owner; /* borrowed; NULL if data is in the arena */
    /* For a resident vector of keys: the open index, which lives as long as the owner. Otherwise
     * NULL. */
    const struct td_key_index *key_index;
    /* For a resident table and copies of it: the keys of its rows. Otherwise NULL. */
    const struct td_tensor *keys;
};

/* Sets dtype, shape, numel and, except for strings, bytes. Sets all pointers to NULL. Returns
 * RESOURCE_LIMIT, with err->input = name, if the number of elements or bytes exceeds INT64_MAX. */
TD_MUST_CHECK td_status td_tensor_describe(struct td_tensor *tensor, const char *name,
                                           td_dtype dtype, const struct td_shape *shape,
                                           struct td_error *err);

/* Allocates the data of a described tensor in the arena. For strings, allocates only the offsets,
 * all zero. */
TD_MUST_CHECK td_status td_tensor_alloc(struct td_tensor *tensor, struct td_arena *arena,
                                        struct td_error *err);

/* Returns the size in bytes of a tensor: its data and, for strings, its offsets. */
size_t td_tensor_footprint(const struct td_tensor *tensor);

/* Copies the data into the arena, which makes the tensor independent of its previous memory and
 * owner. For strings, copies the bytes but not the offsets. On failure, the tensor is unchanged. */
TD_MUST_CHECK td_status td_tensor_copy(struct td_tensor *tensor, struct td_arena *arena,
                                       struct td_error *err);

/* True if data is aligned to the dtype. */
bool td_tensor_is_aligned(const struct td_tensor *tensor);

/* Copies the tensor like td_tensor_copy if its data is not aligned, otherwise does nothing. */
TD_MUST_CHECK td_status td_tensor_align(struct td_tensor *tensor, struct td_arena *arena,
                                        struct td_error *err);

/* Returns element i of an index tensor (int16, int32 or int64) as int64. Use it only for messages
 * and slow paths. */
int64_t td_tensor_index_at(const struct td_tensor *tensor, int64_t i);

#endif
