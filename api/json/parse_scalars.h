/* parse_scalars.h - parses the elements of one innermost list: numbers, booleans, strings.
 *
 * The speed of the server on JSON is mostly the speed of this file. It makes one pass, reads eight
 * digits at a time, and rounds floats in double arithmetic if that is provably correct. There is
 * one loop per dtype. array.h handles nesting and shapes.
 *
 * Bounds     Up to TD_JSON_SCALARS_SLACK bytes after the end of the text are read; they do not
 *            influence values. Nothing is written after `limit`.
 * Threads    Reentrant.
 * Errors     A td_scalar_fault and its position; the caller, which knows the path of the element,
 *            makes it an error.
 * Source     D. Lemire, "Number parsing at a gigabyte per second" (2021), for eight digits at once;
 *            W. Clinger, "How to read floating point numbers accurately" (1990), for rounding in
 *            double arithmetic. */
#ifndef TD_API_JSON_PARSE_SCALARS_H
#define TD_API_JSON_PARSE_SCALARS_H

#include "api/json/scan.h"
#include "kernels/dtype.h"

/* Number of bytes after the end of the text that may be read. */
#define TD_JSON_SCALARS_SLACK 64

enum td_scalar_fault {
    TD_SCALAR_FAULT_NONE,
    TD_SCALAR_FAULT_VALUE, /* not a value of the dtype, or not JSON */
    TD_SCALAR_FAULT_RANGE, /* a number that does not fit the dtype */
    /* An integer that td_scalar_keeps_integer refuses; for an integer dtype, a number with fraction
     * or exponent that a program may have rounded. */
    TD_SCALAR_FAULT_ROUNDED,
    TD_SCALAR_FAULT_REPORTED /* `err` is already set */
};

/* The state of parsing: the end of the text, and the memory for elements. */
struct td_scalar_parser {
    const char *end;    /* end of the text */
    char *next, *limit; /* next element to write, and the end of the memory for elements */
    enum td_scalar_fault fault;
    /* Strings: `next` points to the offset at which the next string ends; `bytes` is the memory for
     * their bytes. */
    char *bytes, *bytes_next;
    struct td_json_scan *scan;
    struct td_error *err;
};

/* Parses elements starting with the one at p, until the list ends or the memory, which has room for
 * one at least, is full. Returns the position after the last element and white space; if fault is
 * set, the position of the element in error. */
typedef const char *td_parse_scalars_fn(struct td_scalar_parser *parser, const char *p);

/* How elements may be written. */
enum td_scalar_style {
    /* Integers also as 5.0 and 5e2; 64-bit integers also in quotes, because JavaScript's numbers
     * have 53 bits; "NaN", "Infinity" and "-Infinity" as strings. */
    TD_SCALARS_TYPED,
    /* Integers without fraction or exponent; strings are only strings, also "NaN" and "5". */
    TD_SCALARS_INFERRED,
    /* As in the Open Inference Protocol: integers as TD_SCALARS_TYPED; booleans also as 0 and 1;
     * NaN, Infinity and -Infinity without quotes; numbers too large for a 16-bit float are
     * infinite; integers are rounded to floats as other numbers are. */
    TD_SCALARS_OIP
};

/* The parser of a dtype; NULL with TD_SCALARS_INFERRED for a dtype that infer_dtype.h never
 * infers. */
td_parse_scalars_fn *td_parse_scalars_of(td_dtype dtype, enum td_scalar_style style);

/* True unless the integer token [begin, end), without fraction and exponent, would silently become
 * another number in a float dtype: it is exact there, or it is the text that a program prints for
 * the rounded value, as JavaScript and Go print floats without ".0". */
bool td_scalar_keeps_integer(const char *begin, const char *end, td_dtype dtype);

/* True if an integer of this magnitude is exact in a float of `bits` significant bits. */
static inline bool td_integer_is_exact(uint64_t magnitude, int bits)
{
    return magnitude == 0 || magnitude >> __builtin_ctzll(magnitude) >> bits == 0;
}
enum { TD_FLOAT32_BITS = 24 };

#endif
