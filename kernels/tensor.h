/* tensor.h - dtype, shape and row-major data without strides.
 *
 * Strings    As in Arrow: element i is the bytes [offsets[i], offsets[i+1]) of data. Any bytes are
 *            allowed, NUL included; there is no terminator. offsets[0] is 0 unless the tensor is a
 *            view.
 * Bounds     data may be unaligned when it points into a body or a mapped file; inputs with
 *            reads_values in the op's descriptor are aligned to their dtype (td_op_infer).
 * Ownership  A tensor does not own its data. The data is in the call's arena, or in `owner`, to
 *            which the arena holds a reference. */
#ifndef TD_KERNELS_TENSOR_H
#define TD_KERNELS_TENSOR_H

#include "kernels/arena.h"
#include "kernels/dtype.h"
#include "kernels/shape.h"

struct td_key_index; /* key_index/key_index.h */

struct td_tensor {
    td_dtype dtype;
    struct td_shape shape;
    int64_t numel;     /* product of shape */
    void *data;        /* numel elements, or the bytes of all strings; never NULL once filled */
    size_t bytes;      /* size of data */
    uint64_t *offsets; /* strings: numel + 1; otherwise NULL */
    struct td_buffer *owner; /* borrowed; NULL when data is in the arena */
    /* Of a resident vector of keys: its open index, which lives as long as the owner. Else NULL. */
    const struct td_key_index *key_index;
    const struct td_tensor
        *keys; /* of a resident table: those of its rows, also of a copy; else NULL */
};

/* Sets dtype, shape, numel and, except for strings, bytes; sets all pointers to NULL.
 * RESOURCE_LIMIT, with err->input = name, when the element or byte count exceeds INT64_MAX. */
TD_MUST_CHECK td_status td_tensor_describe(struct td_tensor *tensor, const char *name,
                                           td_dtype dtype, const struct td_shape *shape,
                                           struct td_error *err);

/* Allocates the data of a described tensor (for strings: the offsets only, all zero) in the
 * arena. */
TD_MUST_CHECK td_status td_tensor_alloc(struct td_tensor *tensor, struct td_arena *arena,
                                        struct td_error *err);

/* Bytes that a tensor occupies: data, and for strings the offsets. */
size_t td_tensor_footprint(const struct td_tensor *tensor);

/* Copies data (of strings the bytes, not the offsets) into the arena: the tensor then does not
 * depend on its previous memory or owner. On failure the tensor is unchanged. */
TD_MUST_CHECK td_status td_tensor_copy(struct td_tensor *tensor, struct td_arena *arena,
                                       struct td_error *err);

/* Is data aligned to the dtype? */
bool td_tensor_is_aligned(const struct td_tensor *tensor);

/* As td_tensor_copy when data is not aligned; else does nothing. */
TD_MUST_CHECK td_status td_tensor_align(struct td_tensor *tensor, struct td_arena *arena,
                                        struct td_error *err);

/* Element i of an index tensor (int16, int32 or int64) as int64. For messages and slow paths. */
int64_t td_tensor_index_at(const struct td_tensor *tensor, int64_t i);

#endif
