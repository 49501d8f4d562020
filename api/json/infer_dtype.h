/* infer_dtype.h - the elements of a tensor while they are parsed, and the inference of their dtype.
 *
 * For untyped data the first element determines whether the tensor has booleans, strings or
 * numbers. Numbers are int32 (or `integer_dtype`) until an element does not fit: then int64, then
 * uint64 if no element is negative, and float32 if any has a fraction or an exponent. The elements
 * so far are converted each time. With `no_fractions` a number that would need float32 is left to
 * the caller to refuse. Private to api/json.
 *
 * Ownership  Memory is allocated from the arena.
 * Errors     MEMORY_EXHAUSTED. An integer that fits no dtype is recorded, not reported: a later
 *            fraction makes the tensor float32. */
#ifndef TD_API_JSON_INFER_DTYPE_H
#define TD_API_JSON_INFER_DTYPE_H

#include "api/json/parse_scalars.h"

struct td_json_array {
    struct td_json_scan *scan;
    const struct td_json_path *path;
    struct td_arena *arena;
    struct td_error *err;

    td_dtype dtype;
    td_dtype integer_dtype; /* INFERRED: the dtype to try first for integers */
    bool no_fractions;      /* INFERRED: float32 is never inferred */
    td_dtype_set others;    /* that the client may give the values, for advice */
    /* INFERRED: dtype is that of the elements so far, and may be widened */
    enum td_scalar_style style;
    bool started;      /* dtype is known and memory is allocated */
    int64_t capacity;  /* elements that fit into the memory */
    size_t width;      /* bytes per element in `data`; for strings, of an offset */
    char *data;        /* elements; for strings, their offsets */
    size_t text_bytes; /* length of the value's text, an upper bound for its unescaped strings */
    td_parse_scalars_fn *parse;
    struct td_scalar_parser parser; /* stops at `limit`, at most at the end of the memory: */
    const char *memory_end;

    /* The text before this was parsed as integers and converted to float32; or NULL. */
    const char *integers_end;

    /* The first integer that fits neither int64 nor uint64. It is an error unless a later float
     * makes the tensor float32. */
    const char *overflow;
    int64_t overflow_element;

    /* The first integer that float32, to which a later element widens the tensor, does not keep. */
    char rounded[24]; /* its text; empty if there is none */
    int64_t rounded_element;

    int rank;                   /* -1 until the first scalar or empty list */
    int64_t dim[TD_MAX_RANK];   /* -1 until the first list of this level ends */
    int64_t count[TD_MAX_RANK]; /* elements so far in the open list of this level */
};

/* Number of elements read so far. */
static inline int64_t td_json_array_numel(const struct td_json_array *array)
{
    int64_t written = (array->parser.next - array->data) / (int64_t)array->width;
    return written - (array->dtype == TD_DTYPE_STRING);
}

/* Lets the parser read some more elements, until the next check whether to stop. */
void td_json_array_set_limit(struct td_json_array *array);

/* Allocates memory for the elements and selects the parser of the dtype. */
TD_MUST_CHECK td_status td_json_array_start(struct td_json_array *array);

/* Infers the dtype from the first element, which is at p, and starts. */
TD_MUST_CHECK td_status td_json_infer_dtype(struct td_json_array *array, const char *p);

/* Widens an inferred integer dtype for the number at p. *widened is false if there is no number at
 * p or the dtype need not be widened. */
TD_MUST_CHECK td_status td_json_widen_dtype(struct td_json_array *array, const char *p,
                                            bool *widened);

/* Restores the sign of -0 in elements of a float32 tensor that were parsed as integers at first.
 * The index of an element is the number of commas before it, however lists nest. */
void td_json_restore_negative_zeros(struct td_json_array *array, const char *begin,
                                    const char *end);

#endif
