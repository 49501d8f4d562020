#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/half.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OP "embedding_bag"

static struct td_operand copied(const struct td_tensor *tensor)
{
    struct td_error err;
    struct td_operand copy = { td_arena_alloc(&test_arena, 1, sizeof(*tensor), &err), 1 };
    EXPECT(copy.tensors, "%s", err.message);
    *copy.tensors = *tensor;
    return copy;
}

/* The optional inputs as text: "offsets=int32[1] 0; weights=float32[1] 2". */
static void set_inputs(struct op_call *call, const char *text)
{
    while (*text) {
        char value[256];
        const size_t name = strcspn(text, "="), length = strcspn(text + name, ";");
        snprintf(value, sizeof(value), "%.*s", (int)length - 1, text + name + 1);
        const struct td_tensor given = tensor(value);
        for (int i = TD_BAG_OFFSETS; i < TD_BAG_INPUTS; i++)
            if (strlen(td_op_embedding_bag.inputs[i].name) == name &&
                memcmp(td_op_embedding_bag.inputs[i].name, text, name) == 0)
                call->args.inputs[i] = copied(&given);
        text += name + length;
        text += strspn(text, "; ");
    }
}

static void begin(struct op_call *call, const char *attrs, const char *params, const char *indices,
                  const char *more)
{
    call_begin(call, OP, attrs, tensor(params), tensor(indices));
    set_inputs(call, more);
}

#define TABLE "float32[4,2] 1 2 3 4 5 6 7 8"

/* Beside those of tests/conformance/cases. */
static const struct {
    const char *says;
    const char *params, *indices, *more, *attrs;
    const char *output;
    int64_t replaced;
} results[] = {
    { "NaN is the greatest", "float64[3,1] 1 nan 2", "int32[3] 0 1 2", "offsets=int32[1] 0",
      "mode=max", "float64[1,1] nan", 0 },
    { "rows of any rank", "float64[2,2,2] 0..7", "int16[2] 1 1", "offsets=int16[1] 0", "",
      "float64[1,2,2] 8 10 12 14", 0 },
    { "rows of rank 0", "float32[3] 1 2 3", "int32[2] 2 0", "offsets=int32[1] 0", "",
      "float32[1] 4", 0 },
    { "rows without elements", "float32[3,0]", "int32[2] 2 0", "offsets=int32[1] 0", "",
      "float32[1,0]", 0 },
    { "segments after the last id", TABLE, "int32[1] 1", "segment_ids=int16[1] 1", "num_segments=3",
      "float32[3,2] 0 0 3 4 0 0", 0 },
    { "an index out of bounds is a row of zeros among the greatest", "float32[1,2] -1 1",
      "int32[2] 0 9", "offsets=int32[1] 0", "mode=max bounds=zero", "float32[1,2] 0 1", 1 },
    { "also alone", TABLE, "int32[1] -1", "offsets=int32[1] 0", "mode=max bounds=zero",
      "float32[1,2] 0 0", 1 },
    { "a row of zeros times NaN is NaN", TABLE, "int32[2] 0 9",
      "offsets=int32[2] 0 1; weights=float32[2] 1 nan", "bounds=zero", "float32[2,2] 1 2 nan nan",
      1 },
    { "or times infinity, among other rows", TABLE, "int32[2] 0 9",
      "offsets=int32[1] 0; weights=float32[2] 1 -inf", "bounds=zero mode=mean",
      "float32[1,2] nan nan", 1 },
    { "of float16, too", "float16[1,1] 0x3c00", "int32[2] 0 9",
      "offsets=int32[2] 0 1; weights=float16[2] 0x3c00 0x7c00", "bounds=zero",
      "float16[2,1] 0x3c00 0x7e00", 1 },
    { "times 0 it is 0", TABLE, "int32[1] 9", "offsets=int32[1] 0; weights=float32[1] 0",
      "bounds=zero", "float32[1,2] 0 0", 1 },
    { "padding has no weight", TABLE, "int32[2] 0 3",
      "offsets=int32[1] 0; weights=float32[2] 1 nan", "padding_index=3 bounds=zero",
      "float32[1,2] 1 2", 0 },
    { "padding is an index as given, not a replaced one", TABLE, "int32[2] -7 0",
      "offsets=int32[1] 0", "bounds=clip padding_index=0", "float32[1,2] 1 2", 1 },
    { "the product with a weight is not rounded before it is added", /* 2^24 + 2 + 1 - 2^-46 */
      "float32[2,1] 16777218 1.00000011920928955078125", "int32[2] 0 1",
      "offsets=int32[1] 0; weights=float32[2] 1 0.99999988079071044921875", "",
      "float32[1,1] 16777218", 0 },
    { "nor is the product with a scale", /* three times 36.30000078678131, not three times 36.3 */
      "uint8[1,1] 33", "int32[3] 0 0 0", "offsets=int32[1] 0; scale=float32[] 1.1", "",
      "float32[1,1] 108.9000015258789", 0 },
    { "nor with a scale and an offset", "uint8[1,1] 33", "int32[3] 0 0 0",
      "offsets=int32[1] 0; scale=float32[] 1.1; offset=float32[] 0", "",
      "float32[1,1] 108.9000015258789", 0 },
    { "except with the offset of the first row, so that 0 is 0", "uint8[2,1] 7 5", "int32[1] 0",
      "offsets=int32[1] 0; scale=float32[] 0.7; offset=float32[] -4.9", "", "float32[1,1] 0", 0 },
    { "the greatest of uint8", "uint8[2,1] 255 0", "int32[2] 0 1",
      "offsets=int32[1] 0; scale=float32[2] -1 1; offset=float32[2] 0 -3", "mode=max",
      "float32[1,1] -3", 0 },
    { "each row of a matrix is a bag", TABLE, "int16[2,2] 0 3 1 1", "", "", "float32[2,2] 8 10 6 8",
      0 },
    { "with weights in its shape", TABLE, "int32[2,2] 0 3 1 1", "weights=float32[2,2] 1 0 2 -1",
      "mode=mean", "float32[2,2] 1 2 3 4", 0 },
    { "rows of a matrix without elements", TABLE, "int32[2,0]", "", "mode=max",
      "float32[2,2] 0 0 0 0", 0 },
    { "a matrix without rows", TABLE, "int32[0,3]", "", "", "float32[0,2]", 0 },
    { "the last offset is the number of indices", TABLE, "int32[3] 0 1 2", "offsets=int32[3] 0 2 3",
      "include_last_offset=true", "float32[2,2] 4 6 5 6", 0 },
    { "also if no bag has any", TABLE, "int32[0]", "offsets=int64[1] 0", "include_last_offset=true",
      "float32[0,2]", 0 },
    { "without either 0 is 0", "int8[2,1] -3 5", "int32[2] 0 1",
      "offsets=int32[1] 0; scale=float32[] 0.5", "", "float32[1,1] 1", 0 },
    { "with a zero point of each row", "uint8[2,2] 7 8 250 255", "int32[2] 0 1",
      "offsets=int32[1] 0; scale=float32[2] 0.5 2; zero_point=uint8[2] 7 253", "",
      "float32[1,2] -6 4.5", 0 },
    { "with a scale and a zero point of all rows", "int8[2,1] -128 127", "int32[2] 0 1",
      "offsets=int32[2] 0 1; scale=float32[] 0.5; zero_point=int32[] -128", "",
      "float32[2,1] 0 127.5", 0 },
    { "with a scale of each row and an offset of all", "int8[2,1] 1 2", "int32[2] 0 1",
      "offsets=int32[1] 0; scale=float32[2] 1 10; offset=float32[] 0.5", "", "float32[1,1] 22", 0 },
    { "the greatest with a zero point", "int8[2,1] 4 -4", "int32[2] 0 1",
      "offsets=int32[1] 0; scale=float32[2] 1 -1; zero_point=int8[] 1", "mode=max",
      "float32[1,1] 5", 0 },
    { "rows that end in scale 0.5 and offset -1", "uint8[1,10] 4 255 0 0 0 63 0 0 128 191",
      "int32[1] 0", "offsets=int32[1] 0", "layout=byte_rowwise", "float32[1,2] 1 126.5", 0 },
    { "dtype rounds", "float64[1,1] 65504.1", "int32[2] 0 0", "offsets=int32[1] 0",
      "dtype=float16 mode=mean", "float16[1,1] 0x7bff", 0 },
};

TD_TEST_EACH(embedding_bag_gives, results)
{
    struct op_call call;
    begin(&call, results[_i].attrs, results[_i].params, results[_i].indices, results[_i].more);
    call_run(&call, OP, NULL);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    expect_tensor(&call.args.outputs[0], results[_i].output, results[_i].says);
    ck_assert_msg(call.args.replaced == results[_i].replaced, "%s", results[_i].says);
}

static const struct {
    const char *says;
    const char *params, *indices, *more, *attrs;
    td_status status;
    const char *message, *input, *attribute;
} refusals[] = {
    { "a scalar", "float32[] 1", "int32[1] 0", "offsets=int32[1] 0", "", TD_INVALID_ARGUMENT,
      "params is a scalar; expected at least one dimension", "params", "" },
    { "indices of rank 3", TABLE, "int32[1,1,1] 0", "", "", TD_SHAPE_MISMATCH,
      "indices has shape [1,1,1]; expected a vector, or a matrix with a bag in each row", "indices",
      "" },
    { "a matrix with segment_ids", TABLE, "int32[1,1] 0", "segment_ids=int32[1] 0", "",
      TD_SHAPE_MISMATCH, "indices has shape [1,1]; expected a vector", "indices", "" },
    { "weights of another shape than the matrix", TABLE, "int32[2,1] 0 1", "weights=float32[2] 1 1",
      "", TD_SHAPE_MISMATCH,
      "weights has shape [2] and indices [2,1]; expected one element per index", "weights", "" },
    { "num_segments with a matrix", TABLE, "int32[1,1] 0", "", "num_segments=1",
      TD_INVALID_ARGUMENT,
      "num_segments is given with indices of rank 2; it is only used with segment_ids", "",
      "num_segments" },
    { "include_last_offset with segment_ids", TABLE, "int32[1] 0", "segment_ids=int32[1] 0",
      "include_last_offset=true", TD_INVALID_ARGUMENT,
      "include_last_offset is given with segment_ids; it is only used with offsets", "",
      "include_last_offset" },
    { "no last offset to include", TABLE, "int32[0]", "offsets=int32[0]",
      "include_last_offset=true", TD_SHAPE_MISMATCH,
      "offsets has shape [0]; expected at least one element with include_last_offset", "offsets",
      "" },
    { "a last offset before the end", TABLE, "int32[3] 0 1 2", "offsets=int32[3] 0 1 2",
      "include_last_offset=true", TD_INDEX_OUT_OF_BOUNDS,
      "offsets[2] = 2; with include_last_offset the last offset must be 3, the number of indices",
      "offsets", "" },
    { "a last offset after the end", TABLE, "int32[3] 0 1 2", "offsets=int64[3] 0 1 4",
      "include_last_offset=true", TD_INDEX_OUT_OF_BOUNDS, "offsets[2] = 4 is not in [0, 4)",
      "offsets", "" },
    { "indices that are no vector", TABLE, "int32[1,1] 0", "offsets=int32[1] 0", "",
      TD_SHAPE_MISMATCH, "indices has shape [1,1]; expected a vector", "indices", "" },
    { "offsets that are none", TABLE, "int32[1] 0", "offsets=int32[] 0", "", TD_SHAPE_MISMATCH,
      "offsets has shape []; expected a vector", "offsets", "" },
    { "neither offsets nor segment_ids", TABLE, "int32[1] 0", "", "", TD_INVALID_ARGUMENT,
      "offsets and segment_ids are missing; expected one of them, or indices of rank 2 with a bag "
      "in each row",
      "offsets", "" },
    { "both", TABLE, "int32[1] 0", "offsets=int32[1] 0; segment_ids=int32[1] 0", "",
      TD_INVALID_ARGUMENT,
      "segment_ids is given together with offsets; only one of them is allowed", "segment_ids",
      "" },
    { "num_segments with offsets", TABLE, "int32[1] 0", "offsets=int32[1] 0", "num_segments=1",
      TD_INVALID_ARGUMENT, "num_segments is given with offsets; it is only used with segment_ids",
      "", "num_segments" },
    { "fewer segment_ids than indices", TABLE, "int32[2] 0 1", "segment_ids=int32[1] 0", "",
      TD_SHAPE_MISMATCH,
      "segment_ids has shape [1] and indices [2]; expected one element per index", "segment_ids",
      "" },
    { "fewer weights", TABLE, "int32[2] 0 1", "offsets=int32[1] 0; weights=float32[1] 0", "",
      TD_SHAPE_MISMATCH, "weights has shape [1] and indices [2]; expected one element per index",
      "weights", "" },
    { "weights with max", TABLE, "int32[1] 0", "offsets=int32[1] 0; weights=float32[1] 0",
      "mode=max", TD_INVALID_ARGUMENT,
      "weights is given with mode = max; expected sum, mean or sqrtn", "weights", "" },
    { "weights of another dtype", TABLE, "int32[1] 0", "offsets=int32[1] 0; weights=float64[1] 0",
      "", TD_UNSUPPORTED_DTYPE,
      "weights has dtype float64 and params float32; the dtypes must be equal: the op cast with "
      "dtype = float32 rounds weights, and cast with dtype = float64 converts params",
      "weights", "" },
    { "weights of int8 that are not float32", "int8[1,1] 0", "int32[1] 0",
      "offsets=int32[1] 0; weights=float16[1] 0; scale=float32[1] 1; offset=float32[1] 0", "",
      TD_UNSUPPORTED_DTYPE, "weights has dtype float16; expected float32 with params of dtype int8",
      "weights", "" },
    { "int8 without scale", "int8[1,1] 0", "int32[1] 0", "offsets=int32[1] 0", "",
      TD_UNSUPPORTED_DTYPE,
      "params has dtype int8 and scale is missing; without scale, expected float16, bfloat16, "
      "float32 or float64. Rows quantised by deploy/import need scale and offset, which are "
      "the tables X.scale and X.offset beside X",
      "params", "" },
    { "int8 with an offset alone", "int8[1,1] 0", "int32[1] 0",
      "offsets=int32[1] 0; offset=float32[1] 1", "", TD_UNSUPPORTED_DTYPE,
      "params has dtype int8 and scale is missing; without scale, expected float16, bfloat16, "
      "float32 or float64. Rows quantised by deploy/import need scale and offset, which are "
      "the tables X.scale and X.offset beside X",
      "params", "" },
    { "offset and zero_point", "int8[1,1] 0", "int32[1] 0",
      "offsets=int32[1] 0; scale=float32[1] 1; offset=float32[1] 0; zero_point=int8[1] 0", "",
      TD_INVALID_ARGUMENT,
      "zero_point is given together with offset; at most one of them is allowed", "zero_point",
      "" },
    { "a zero_point of floats", TABLE, "int32[1] 0", "offsets=int32[1] 0; zero_point=int32[] 0", "",
      TD_INVALID_ARGUMENT, "zero_point is given without quantised params; expected int8 or uint8",
      "zero_point", "" },
    { "fewer zero points than rows", "int8[2,1] 0 0", "int32[1] 0",
      "offsets=int32[1] 0; scale=float32[] 1; zero_point=int8[1] 0", "", TD_SHAPE_MISMATCH,
      "zero_point has shape [1] and params [2,1]; expected one element per row, or a scalar",
      "zero_point", "" },
    { "a scale of floats", TABLE, "int32[1] 0", "offsets=int32[1] 0; scale=float32[4] 1 1 1 1", "",
      TD_INVALID_ARGUMENT, "scale is given without quantised params; expected int8 or uint8",
      "scale", "" },
    { "fewer scales than rows", "int8[2,1] 0 0", "int32[1] 0",
      "offsets=int32[1] 0; scale=float32[1] 1; offset=float32[2] 0 0", "", TD_SHAPE_MISMATCH,
      "scale has shape [1] and params [2,1]; expected one element per row, or a scalar", "scale",
      "" },
    { "rows too short for their scale", "uint8[1,7] 0..6", "int32[1] 0", "offsets=int32[1] 0",
      "layout=byte_rowwise", TD_SHAPE_MISMATCH,
      "params has shape [1,7]; layout = byte_rowwise expects rows of at least 8 bytes, of which "
      "the last 8 are scale and offset",
      "params", "" },
    { "rows of floats with it", TABLE, "int32[1] 0", "offsets=int32[1] 0", "layout=byte_rowwise",
      TD_UNSUPPORTED_DTYPE, "params has dtype float32; expected uint8 with layout = byte_rowwise",
      "params", "" },
    { "a scale beside it", "uint8[1,8] 0..7", "int32[1] 0",
      "offsets=int32[1] 0; scale=float32[1] 1", "layout=byte_rowwise", TD_INVALID_ARGUMENT,
      "scale is given with layout = byte_rowwise, in which each row has its own", "scale", "" },
    { "a negative padding_index", TABLE, "int32[1] 0", "offsets=int32[1] 0", "padding_index=-1",
      TD_INVALID_ARGUMENT, "padding_index is -1; expected 0 or more", "", "padding_index" },
    { "a padding_index that is no row", TABLE, "int32[1] 0", "offsets=int32[1] 0",
      "padding_index=4", TD_INVALID_ARGUMENT,
      "padding_index is 4; expected a row number of params, whose shape is [4,2]", "",
      "padding_index" },
    { "a dtype of integers", TABLE, "int32[1] 0", "offsets=int32[1] 0", "dtype=int8",
      TD_UNSUPPORTED_DTYPE, "dtype is int8; expected float16, bfloat16, float32 or float64", "",
      "dtype" },
    { "a number of segments that has none", TABLE, "int32[1] 0",
      "segment_ids=int64[1] 9223372036854775807", "", TD_RESOURCE_LIMIT,
      "the output needs 9223372036854775808 elements; the limit is 9223372036854775807", "", "" },
    { "an index above", TABLE, "int32[3] 0 4 -1", "offsets=int32[1] 0", "", TD_INDEX_OUT_OF_BOUNDS,
      "indices[1] = 4 is not in [0, 4)", "indices", "" },
    { "a clip to no row", "float32[0,1]", "int32[1] 0", "offsets=int32[1] 0", "bounds=clip",
      TD_INDEX_OUT_OF_BOUNDS, "indices[0] = 0 is not in [0, 0)", "indices", "" },
    { "a first offset that is not 0", TABLE, "int32[2] 0 1", "offsets=int32[2] 1 2", "",
      TD_INDEX_OUT_OF_BOUNDS, "offsets[0] = 1 is not in [0, 1): the first bag must start at 0",
      "offsets", "" },
    { "an offset beyond indices", TABLE, "int32[2] 0 1", "offsets=int64[2] 0 3", "",
      TD_INDEX_OUT_OF_BOUNDS, "offsets[1] = 3 is not in [0, 3)", "offsets", "" },
    { "an offset below the one before", TABLE, "int32[2] 0 1", "offsets=int16[3] 0 2 1", "",
      TD_INDEX_OUT_OF_BOUNDS,
      "offsets[2] = 1 is below offsets[1] = 2; each element must be at least the element before it",
      "offsets", "" },
    { "segment_ids that decrease", TABLE, "int32[3] 0 1 2", "segment_ids=int32[3] 0 1 0", "",
      TD_INDEX_OUT_OF_BOUNDS,
      "segment_ids[2] = 0 is below segment_ids[1] = 1; each element must be at least the element "
      "before it",
      "segment_ids", "" },
    { "a negative segment", TABLE, "int32[2] 0 1", "segment_ids=int32[2] -1 0", "",
      TD_INDEX_OUT_OF_BOUNDS, "segment_ids[0] = -1 is negative; must be at least 0", "segment_ids",
      "" },
    { "a greatest segment before another", TABLE, "int32[2] 0 1",
      "segment_ids=int64[2] 9223372036854775807 0", "", TD_INDEX_OUT_OF_BOUNDS,
      "segment_ids[1] = 0 is below segment_ids[0] = 9223372036854775807; each element must be at "
      "least the element before it",
      "segment_ids", "" },
    { "a segment above num_segments", TABLE, "int32[2] 0 1", "segment_ids=int32[2] 0 2",
      "num_segments=2", TD_INDEX_OUT_OF_BOUNDS, "segment_ids[1] = 2 is not in [0, 2)",
      "segment_ids", "" },
};

TD_TEST_EACH(embedding_bag_refuses, refusals)
{
    struct op_call call;
    begin(&call, refusals[_i].attrs, refusals[_i].params, refusals[_i].indices, refusals[_i].more);
    call_run(&call, OP, NULL);
    expect_refusal(&call, refusals[_i].status, refusals[_i].message, refusals[_i].input,
                   refusals[_i].attribute, refusals[_i].says);
}

/* ---- Against the definition -------------------------------------------------------------- */

struct sample {
    struct op_call call;
    struct td_tensor params, indices, offsets, weights, scale, offset, zero_point;
    bool by_ids, weighted, quantized, trailer, centred;
    int64_t padding; /* TD_ATTR_UNSET: none */
    td_bag_mode mode;
    td_bounds bounds;
    td_dtype dtype;
    char attrs[160];
};

/* A multiple of 1/8 in [-4, 4), exact in every dtype. */
static double small(void)
{
    return (random_below(64) - 32) / 8.0;
}

static void set_value(struct td_tensor *t, int64_t i, double value)
{
    bool unsure;
    if (t->dtype == TD_DTYPE_FLOAT32)
        ((float *)t->data)[i] = (float)value;
    else if (t->dtype == TD_DTYPE_FLOAT64)
        ((double *)t->data)[i] = value;
    else if (t->dtype == TD_DTYPE_FLOAT16)
        ((uint16_t *)t->data)[i] = td_narrow_round(value, TD_NARROW_FLOAT16, 0, &unsure);
    else if (t->dtype == TD_DTYPE_BFLOAT16)
        ((uint16_t *)t->data)[i] = td_narrow_round(value, TD_NARROW_BFLOAT16, 0, &unsure);
}

static double value_at(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_DTYPE_INT8:
        return ((const int8_t *)t->data)[i];
    case TD_DTYPE_UINT8:
        return ((const uint8_t *)t->data)[i];
    case TD_DTYPE_FLOAT16:
        return (double)td_float16_value(((const uint16_t *)t->data)[i]);
    case TD_DTYPE_BFLOAT16:
        return (double)td_bfloat16_value(((const uint16_t *)t->data)[i]);
    case TD_DTYPE_FLOAT32:
        return (double)((const float *)t->data)[i];
    default:
        return ((const double *)t->data)[i];
    }
}

static struct td_tensor small_values(td_dtype dtype, const struct td_shape *shape)
{
    struct td_tensor t = random_tensor(dtype, shape);
    for (int64_t i = 0; i < t.numel; i++)
        set_value(&t, i, small());
    return t;
}

static struct td_shape vector(int64_t n)
{
    return (struct td_shape){ .rank = 1, .dim = { n } };
}

/* Offsets of n_bags bags of m indices, or the segment of each index. */
static void make_bags(struct sample *s, int64_t m, int64_t n_bags, td_dtype dtype)
{
    struct td_error err;
    int64_t *starts = td_arena_alloc(&test_arena, (size_t)n_bags + 1, sizeof(*starts), &err);
    int64_t *ids = td_arena_alloc(&test_arena, (size_t)m + 1, sizeof(*ids), &err);
    EXPECT(starts && ids, "%s", err.message);
    for (int64_t k = 0; k < n_bags; k++)
        starts[k] = k == 0 ? 0 : random_below((int)m + 1);
    for (int64_t k = 1; k < n_bags; k++) /* by insertion */
        for (int64_t j = k; j > 0 && starts[j] < starts[j - 1]; j--) {
            const int64_t other = starts[j];
            starts[j] = starts[j - 1];
            starts[j - 1] = other;
        }
    for (int64_t i = 0, k = 0; i < m; i++) {
        while (k + 1 < n_bags && starts[k + 1] <= i)
            k++;
        ids[i] = k;
    }
    s->offsets = s->by_ids ? index_vector(dtype, ids, m) : index_vector(dtype, starts, n_bags);
}

static void make_sample(struct sample *s, td_dtype dtype, int64_t m, int64_t n_bags, int64_t n_rows,
                        int64_t columns)
{
    static const td_dtype index_dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    struct td_error err;
    int64_t *indices = td_arena_alloc(&test_arena, (size_t)m + 1, sizeof(*indices), &err);
    EXPECT(indices, "%s", err.message);
    const struct td_shape shape = { .rank = 2, .dim = { n_rows, columns } };
    *s = (struct sample){ .padding = TD_ATTR_UNSET };
    s->quantized = dtype == TD_DTYPE_INT8 || dtype == TD_DTYPE_UINT8;
    s->mode = (td_bag_mode)random_below(4);
    s->bounds = (td_bounds)random_below(TD_BOUNDS_COUNT);
    s->by_ids = random_below(2);
    s->weighted = s->mode != TD_BAG_MAX && random_below(2);
    if (random_below(3) == 0)
        s->padding = random_below((int)n_rows);
    const int wild = s->bounds != TD_BOUNDS_ERROR && random_below(2) ? 3 : 0;
    for (int64_t i = 0; i < m; i++)
        indices[i] = random_below((int)n_rows + 2 * wild) - wild;
    s->indices = index_vector(index_dtypes[random_below(3)], indices, m);
    make_bags(s, m, n_bags, index_dtypes[random_below(3)]);
    s->params = s->quantized ? random_tensor(dtype, &shape) : small_values(dtype, &shape);
    s->scale = small_values(TD_DTYPE_FLOAT32, &(struct td_shape){ .rank = 1, .dim = { n_rows } });
    s->offset = small_values(TD_DTYPE_FLOAT32, &(struct td_shape){ .rank = 1, .dim = { n_rows } });
    const struct td_shape of_indices = vector(m);
    s->weights = small_values(s->quantized ? TD_DTYPE_FLOAT32 : dtype, &of_indices);
    s->dtype = s->quantized ? TD_DTYPE_FLOAT32 : dtype;
    s->trailer = dtype == TD_DTYPE_UINT8 && columns >= 8 && random_below(2);
    s->centred = s->quantized && !s->trailer && random_below(2);
    s->zero_point = random_tensor(TD_DTYPE_INT8, &s->scale.shape);
    if (s->trailer) /* the scales and offsets above, in the rows */
        for (int64_t row = 0; row < n_rows; row++) {
            char *at = (char *)s->params.data + (row + 1) * columns - 8;
            memcpy(at, (const float *)s->scale.data + row, 4);
            memcpy(at + 4, (const float *)s->offset.data + row, 4);
        }
}

static void call_sample(struct sample *s, struct td_exec *exec)
{
    static const char *const modes[] = { "sum", "mean", "sqrtn", "max" };
    static const td_dtype floats[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                       TD_DTYPE_FLOAT64 };
    int length = snprintf(s->attrs, sizeof(s->attrs), "mode=%s bounds=%s", modes[s->mode],
                          td_bounds_name(s->bounds));
    if (s->padding != TD_ATTR_UNSET)
        length += snprintf(s->attrs + length, sizeof(s->attrs) - (size_t)length,
                           " padding_index=%" PRId64, s->padding);
    if (random_below(3) == 0) {
        s->dtype = floats[random_below(4)];
        length += snprintf(s->attrs + length, sizeof(s->attrs) - (size_t)length, " dtype=%s",
                           td_dtype_info(s->dtype)->name);
    }
    if (s->trailer)
        snprintf(s->attrs + length, sizeof(s->attrs) - (size_t)length, " layout=byte_rowwise");
    call_begin(&s->call, OP, s->attrs, s->params, s->indices);
    s->call.args.inputs[s->by_ids ? TD_BAG_SEGMENT_IDS : TD_BAG_OFFSETS] = copied(&s->offsets);
    if (s->weighted)
        s->call.args.inputs[TD_BAG_WEIGHTS] = copied(&s->weights);
    if (s->quantized && !s->trailer) {
        s->call.args.inputs[TD_BAG_SCALE] = copied(&s->scale);
        s->call.args.inputs[s->centred ? TD_BAG_ZERO_POINT : TD_BAG_OFFSET] =
            copied(s->centred ? &s->zero_point : &s->offset);
    }
    call_run(&s->call, OP, exec);
}

static void bag_of(const struct sample *s, int64_t bag, int64_t *from, int64_t *to)
{
    const int64_t m = s->indices.numel;
    if (!s->by_ids) {
        *from = td_tensor_index_at(&s->offsets, bag);
        *to = bag + 1 < s->offsets.numel ? td_tensor_index_at(&s->offsets, bag + 1) : m;
        return;
    }
    for (*from = 0; *from < m && td_tensor_index_at(&s->offsets, *from) < bag;)
        ++*from;
    for (*to = *from; *to < m && td_tensor_index_at(&s->offsets, *to) == bag;)
        ++*to;
}

/* An element of a row of params; TD_ROW_ZERO (-1) has zeros. */
static double element(const struct sample *s, int64_t row, int64_t column)
{
    if (row < 0)
        return 0;
    const double x = value_at(&s->params, row * s->params.shape.dim[1] + column);
    if (s->centred)
        return (x - value_at(&s->zero_point, row)) * value_at(&s->scale, row);
    return s->quantized ? x * value_at(&s->scale, row) + value_at(&s->offset, row) : x;
}

static int64_t row_of(const struct sample *s, int64_t index)
{
    const int64_t n = s->params.shape.dim[0];
    if (index >= 0 && index < n)
        return index;
    if (s->bounds == TD_BOUNDS_CLIP)
        return index < 0 ? 0 : n - 1;
    return s->bounds == TD_BOUNDS_WRAP ? ((index % n) + n) % n : -1;
}

static void expect_bag(const struct sample *s, int64_t bag, const char *what)
{
    const struct td_tensor *out = &s->call.args.outputs[0];
    const int64_t columns = out->shape.dim[1];
    const double digits = s->dtype == TD_DTYPE_FLOAT16    ? 0x1p-10
                          : s->dtype == TD_DTYPE_BFLOAT16 ? 0x1p-7
                                                          : 1e-6;
    int64_t from, to;
    bag_of(s, bag, &from, &to);
    for (int64_t c = 0; c < columns; c++) {
        double sum = 0, magnitude = 0, weights = 0, squares = 0, most = -INFINITY;
        int64_t count = 0;
        for (int64_t i = from; i < to; i++) {
            const int64_t index = td_tensor_index_at(&s->indices, i);
            if (index == s->padding)
                continue;
            const double weight = s->weighted ? value_at(&s->weights, i) : 1;
            const double x = element(s, row_of(s, index), c);
            sum += weight * x;
            magnitude += fabs(weight * x);
            weights += weight;
            squares += weight * weight;
            most = x > most ? x : most;
            count++;
        }
        const double divisor = s->mode == TD_BAG_MEAN    ? weights
                               : s->mode == TD_BAG_SQRTN ? sqrt(squares)
                                                         : 1;
        double want = divisor == 0 ? 0 : sum / divisor;
        double slack = divisor == 0 ? 0 : 1e-6 * magnitude / fabs(divisor);
        if (s->mode == TD_BAG_MAX) {
            want = count > 0 ? most : 0;
            slack = 1e-6 * fabs(want);
        }
        const double got = value_at(out, bag * columns + c);
        EXPECT(fabs(got - want) <= digits * fabs(want) + slack + 1e-7 ||
                   (isinf(got) && fabs(want) > 65000 && s->dtype == TD_DTYPE_FLOAT16),
               "%s: output[%" PRId64 ", %" PRId64 "] is %g, expected %g", what, bag, c, got, want);
    }
}

static const td_dtype dtypes[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                   TD_DTYPE_FLOAT64, TD_DTYPE_INT8,     TD_DTYPE_UINT8 };

TD_TEST_LOOP(any_bags_are_what_their_definition_says, 0, 2 * COUNT_OF(dtypes))
{
    enum { SAMPLES = 60 };
    for (int i = 0; i < SAMPLES; i++) {
        const int seed = _i * SAMPLES + i;
        struct sample s;
        struct thread_exec exec;
        char what[320];
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        const td_dtype dtype = dtypes[_i % COUNT_OF(dtypes)];
        make_sample(&s, dtype, random_below(120), 1 + random_below(20), 1 + random_below(30),
                    1 + random_below(random_below(4) ? 40 : 600));
        thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(9));
        exec.exec.isa = (td_isa)(TD_ISA_GENERIC + random_below(3));
        call_sample(&s, &exec.exec);
        snprintf(what, sizeof(what), "seed %d: %s %s, %s", seed, td_dtype_info(dtype)->name,
                 s.attrs, td_isa_name(td_isa_resolve(exec.exec.isa)));
        EXPECT(s.call.status == TD_OK, "%s: %s", what, s.call.err.message);
        for (int64_t bag = 0; bag < s.call.args.outputs[0].shape.dim[0]; bag++)
            expect_bag(&s, bag, what);
    }
}

/* Bags that are summed in parts, and rows in several blocks of columns. */
static const struct {
    td_dtype dtype;
    int64_t m, n_bags, n_rows, columns;
} large[] = {
    { TD_DTYPE_FLOAT32, 5000, 1, 300, 20 },  { TD_DTYPE_FLOAT32, 9000, 6, 300, 65 },
    { TD_DTYPE_FLOAT64, 4000, 3, 50, 17 },   { TD_DTYPE_FLOAT16, 3000, 2, 100, 40 },
    { TD_DTYPE_UINT8, 6000, 4, 100, 72 },    { TD_DTYPE_FLOAT32, 1100, 2, 20, 4500 },
    { TD_DTYPE_BFLOAT16, 700, 3, 10, 2100 }, { TD_DTYPE_INT8, 5000, 2000, 64, 33 },
};

TD_TEST_EACH(large_bags_do_not_depend_on_how_they_are_split, large)
{
    for (int seed = 0; seed < 6; seed++) {
        static const int64_t grains[] = { 0, 1, 700 };
        struct sample s;
        char what[64];
        td_arena_reset(&test_arena);
        random_seed((uint64_t)(100 * _i + seed));
        make_sample(&s, large[_i].dtype, large[_i].m, large[_i].n_bags, large[_i].n_rows,
                    large[_i].columns);
        const uint64_t again = random_next();
        random_seed(again);
        call_sample(&s, NULL);
        snprintf(what, sizeof(what), "case %d, seed %d", _i, seed);
        EXPECT(s.call.status == TD_OK, "%s: %s", what, s.call.err.message);
        for (int64_t bag = 0; bag < s.call.args.outputs[0].shape.dim[0]; bag += 1 + bag / 8)
            expect_bag(&s, bag, what);
        for (int g = 0; g < COUNT_OF(grains); g++) {
            struct sample parallel = s;
            struct thread_exec exec;
            thread_exec_init(&exec, 3, grains[g]);
            random_seed(again);
            call_sample(&parallel, &exec.exec);
            EXPECT(parallel.call.status == TD_OK, "%s: %s", what, parallel.call.err.message);
            expect_same_tensor(&parallel.call.args.outputs[0], &s.call.args.outputs[0], what);
        }
    }
}
