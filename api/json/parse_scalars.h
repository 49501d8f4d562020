/* parse_scalars.h - parses the elements of one innermost list: numbers, booleans, strings.
 *
 * The server's speed on JSON depends mostly on this parser. It makes one pass, reads eight digits
 * at a time, and rounds floats in double arithmetic if that is provably correct. There is one loop
 * per dtype. array.h handles nesting and shapes.
 *
 * Bounds     The parser reads up to TD_JSON_SCALARS_SLACK bytes after the end of the text, but they
 *            do not influence values. Nothing is written after `limit`.
 * Threads    Reentrant.
 * Errors     A td_scalar_fault and its position. The caller knows the path of the element and turns
 *            the fault into an error.
 * Source     D. Lemire, "Number parsing at a gigabyte per second" (2021), for eight digits at once;
 *            W. Clinger, "How to read floating point numbers accurately" (1990), for rounding in
 *            double arithmetic. */
#ifndef TD_API_JSON_PARSE_SCALARS_H
#define TD_API_JSON_PARSE_SCALARS_H

#include "api/json/parse_floats.h"
#include "api/json/scan.h"
#include "kernels/dtype.h"

/* Number of bytes that the parsers can read after the end of the text. */
#define TD_JSON_SCALARS_SLACK 64

enum td_scalar_fault {
    TD_SCALAR_FAULT_NONE,
    TD_SCALAR_FAULT_VALUE, /* the text is not a value of the dtype or not JSON */
    TD_SCALAR_FAULT_RANGE, /* the number is outside the range of the dtype */
    /* For a float dtype, an integer that td_scalar_keeps_integer rejects. For an integer dtype, a
     * number with a fraction or exponent that a program might have rounded. */
    TD_SCALAR_FAULT_ROUNDED,
    TD_SCALAR_FAULT_REPORTED /* `err` is already set */
};

/* State of the parser, including the end of the text and the memory for elements. */
struct td_scalar_parser {
    const char *end; /* end of the text */
    /* Next element to write, and end of the memory for elements. */
    char *next, *limit;
    enum td_scalar_fault fault;
    /* For strings, `next` points to the offset at which the next string ends, and `bytes` is the
     * memory for the bytes of the strings. */
    char *bytes, *bytes_next;
    struct td_json_scan *scan;
    struct td_error *err;
    /* For float32 and float64, reads groups of elements faster. NULL: no groups. */
    td_parse_floats_fn *group;
};

/* Parses elements from p until the list ends or the memory is full. The memory must have space for
 * at least one element. Returns the position after the last element and the white space that
 * follows it. If `fault` is set, returns the position of the erroneous element. */
typedef const char *td_parse_scalars_fn(struct td_scalar_parser *parser, const char *p);

/* Notation of elements. */
enum td_scalar_style {
    /* Integers can also be written as 5.0 and 5e2. 64-bit integers can also be in quotes, because
     * numbers in JavaScript have 53 bits. NaN and infinities are the strings "NaN", "Infinity" and
     * "-Infinity". */
    TD_SCALARS_TYPED,
    /* Integers have no fraction or exponent. A JSON string is always a string element, even "NaN"
     * and "5". */
    TD_SCALARS_INFERRED,
    /* As in the Open Inference Protocol. Integers are as in TD_SCALARS_TYPED, booleans can also be
     * 0 and 1, and NaN, Infinity and -Infinity have no quotes. Numbers too large for a 16-bit float
     * become infinite. Integers in float tensors are rounded like other numbers. */
    TD_SCALARS_OIP
};

/* Returns the parser for a dtype, or NULL if `style` is TD_SCALARS_INFERRED and infer_dtype.h never
 * infers the dtype. */
td_parse_scalars_fn *td_parse_scalars_of(td_dtype dtype, enum td_scalar_style style);

/* Returns false if the integer token [begin, end), which has no fraction or exponent, would
 * silently become another number in a float dtype. Returns true if the integer is exact in the
 * dtype, or if the token is what a program prints for the rounded value, because JavaScript and Go
 * print floats without ".0". */
bool td_scalar_keeps_integer(const char *begin, const char *end, td_dtype dtype);

/* True if an integer of this magnitude is exact in a float with `bits` significant bits. */
static inline bool td_integer_is_exact(uint64_t magnitude, int bits)
{
    return magnitude == 0 || magnitude >> __builtin_ctzll(magnitude) >> bits == 0;
}
enum { TD_FLOAT32_BITS = 24 };

#endif
