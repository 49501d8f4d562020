/* parse_scalars.h - the elements of one innermost list: numbers, truth values, strings.
 *
 * The speed of the server on JSON is the speed of this file: one pass, eight digits at a time,
 * floats settled in double arithmetic whenever that can be proved to round correctly. One loop per
 * dtype; array.h has what is around it, nesting and shapes.
 *
 * Bounds     Up to TD_JSON_SCALARS_SLACK bytes behind the end of the text are read, whatever they
 *            are; none of them becomes part of a value. Nothing is written behind the room.
 * Threads    Reentrant.
 * Errors     A fault and its place, not yet an error: the caller knows the path to the element.
 * Source     D. Lemire, "Number parsing at a gigabyte per second" (2021), for eight digits at once;
 *            W. Clinger, "How to read floating point numbers accurately" (1990), for the fast path.
 */
#ifndef TD_API_JSON_PARSE_SCALARS_H
#define TD_API_JSON_PARSE_SCALARS_H

#include "api/json/scan.h"
#include "kernels/dtype.h"

/* Bytes behind the end of the text that may be read. */
#define TD_JSON_SCALARS_SLACK 64

enum td_scalar_fault {
    TD_SCALAR_FAULT_NONE,
    TD_SCALAR_FAULT_VALUE,   /* not a value of the dtype, or not JSON */
    TD_SCALAR_FAULT_RANGE,   /* a number that does not fit */
    TD_SCALAR_FAULT_REPORTED /* the error is set */
};

/* Where elements come from and go to. */
struct td_scalar_parser {
    const char *end;    /* of the text */
    char *next, *limit; /* next element to write, and the end of the room for them */
    enum td_scalar_fault fault;
    /* Strings: next is the end offset of the next string. */
    char *bytes, *bytes_next;
    struct td_json_scan *scan;
    struct td_error *err;
};

/* Reads the elements of one list, from the one at p on, to the end of the list or of the room,
 * which has place for one at least. Returns the place behind the last, white space skipped; with
 * fault set, the place of the element at fault. */
typedef const char *td_parse_scalars_fn(struct td_scalar_parser *parser, const char *p);

/* How values are spelled. */
enum td_scalar_style {
    TD_SCALARS_TYPED,    /* integers without fraction or exponent; "NaN", "Infinity", "-Infinity" */
    TD_SCALARS_INFERRED, /* the same, but a string is a string, "NaN" too */
    /* As the Open Inference Protocol has them: integers as any number that is one, 5.0 and 5e2; 0
     * and 1 among truth values; NaN, Infinity and -Infinity without quotes; what is too large for a
     * float of 16 bits is infinite. */
    TD_SCALARS_OIP
};

/* The loop of a dtype. */
td_parse_scalars_fn *td_parse_scalars_of(td_dtype dtype, enum td_scalar_style style);

#endif
