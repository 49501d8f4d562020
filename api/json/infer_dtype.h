/* infer_dtype.h - holds the elements of a tensor during parsing and infers their dtype.
 *
 * For untyped data, the first element determines whether the tensor has booleans, strings or
 * numbers. Numbers are int32 (or `integer_dtype`) until an element does not fit. The dtype is then
 * widened to int64, to uint64 if no element is negative, or to float32 if any element has a
 * fraction or an exponent. Widening converts the elements read so far. If `no_fractions` is true,
 * the caller refuses a number that would need float32.
 *
 * Ownership  Memory is allocated from the arena.
 * Errors     MEMORY_EXHAUSTED. An integer that fits no dtype is recorded but not reported, because
 *            a later fraction can make the tensor float32. */
#ifndef TD_API_JSON_INFER_DTYPE_H
#define TD_API_JSON_INFER_DTYPE_H

#include "api/json/parse_scalars.h"
#include "kernels/op.h"

/* The dtypes of untyped JSON values. */
struct td_untyped {
    td_dtype empty; /* [] */
    /* The narrowest dtype for integers: int64 for keys, float32 if the input accepts float32 but
     * not int32, otherwise int32. */
    td_dtype integer;
    bool no_fractions; /* only integers are accepted, as for indices and keys */
    /* Other dtypes that the client can choose, for advice. 0 if another tensor determines the
     * dtype. */
    td_dtype_set others;
};
struct td_untyped td_json_untyped(const struct td_input_spec *spec);

struct td_json_array {
    struct td_json_scan *scan;
    const struct td_json_path *path;
    struct td_arena *arena;
    struct td_error *err;

    td_dtype dtype;
    td_dtype integer_dtype; /* first integer dtype to try, if the dtype is inferred */
    bool no_fractions;      /* true if float32 is never inferred */
    td_dtype_set others;    /* dtypes that error messages suggest instead */
    /* With TD_SCALARS_INFERRED, `dtype` fits the elements read so far but can still be widened. */
    enum td_scalar_style style;
    bool started;     /* `dtype` is known and memory is allocated */
    int64_t capacity; /* number of elements that fit into the memory */
    /* Bytes per element in `data`. For strings, bytes per offset. */
    size_t width;
    char *data; /* elements, or the offsets of the strings */
    /* Length of the value's text, which is an upper bound for its unescaped strings. */
    size_t text_bytes;
    td_parse_scalars_fn *parse;
    /* The parser stops at parser.limit, which is never beyond memory_end. */
    struct td_scalar_parser parser;
    const char *memory_end; /* end of the allocation at `data` */

    /* End of the text that was parsed as integers and converted to float32. NULL if nothing was
     * converted. */
    const char *integers_end;

    /* The first integer that fits neither int64 nor uint64. It is an error unless a later float
     * makes the tensor float32. */
    const char *overflow;
    int64_t overflow_element;

    /* Text of the first integer whose value changed when a later element widened the tensor to
     * float32. Empty if no value changed. */
    char rounded[24];
    int64_t rounded_element;

    int rank; /* number of dimensions; -1 until the first scalar or empty list */
    /* Length of the lists at each level. -1 until the first list at the level ends. */
    int64_t dim[TD_MAX_RANK];
    /* Number of elements read so far in the open list at each level. */
    int64_t count[TD_MAX_RANK];
};

/* Returns the number of elements read so far. */
static inline int64_t td_json_array_numel(const struct td_json_array *array)
{
    /* A shift instead of a division, because the width is a power of two. */
    const int64_t written = (array->parser.next - array->data) >> __builtin_ctzll(array->width);
    return written - (array->dtype == TD_DTYPE_STRING);
}

/* Lets the parser read up to TD_STOP_ELEMENTS more elements before the next check for a stop. */
void td_json_array_set_limit(struct td_json_array *array);

/* Allocates memory for the elements and selects the parser for the dtype. */
TD_MUST_CHECK td_status td_json_array_start(struct td_json_array *array);

/* Infers the dtype from the first element, which is at p, and calls td_json_array_start. */
TD_MUST_CHECK td_status td_json_infer_dtype(struct td_json_array *array, const char *p);

/* Widens an inferred integer dtype to hold the number at p. Sets *widened to false if there is no
 * number at p or the dtype cannot be widened. */
TD_MUST_CHECK td_status td_json_widen_dtype(struct td_json_array *array, const char *p,
                                            bool *widened);

/* Restores the sign of -0 in a float32 tensor whose first elements were parsed as integers. The
 * index of an element is the number of commas before it, whatever the nesting. */
void td_json_restore_negative_zeros(struct td_json_array *array, const char *begin,
                                    const char *end);

#endif
