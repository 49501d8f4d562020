/* parse_floats.h - parses runs of plain numbers in groups of four, with AVX2.
 *
 * A plain number has no exponent and at most 15 characters after its sign, such as -0.0825 or 17.
 * An integer above 2^24 is plain only with a point.
 * Most lists of floats contain only such numbers, without white space or with one space after each
 * comma. The parsers of parse_scalars.h read everything else, including all errors.
 *
 * Bounds     As in parse_scalars.h.
 * Threads    Pure functions.
 * Source     W. Mula, "Parsing decimal numbers, part 2: SSE" (2014), for combining digits. A
 *            quotient of two exact doubles is rounded once: see parse_scalars.h. */
#ifndef TD_API_JSON_PARSE_FLOATS_H
#define TD_API_JSON_PARSE_FLOATS_H

#include "kernels/dtype.h"
#include "kernels/isa.h"

#include <stddef.h>

/* Number of elements of a group. Groups at the end of a list can be smaller. */
enum { TD_FLOAT_GROUP = 4 };

/* Parses elements at p, up to the end of the list or to the first group with an element that is not
 * plain. Writes at most `room` elements to `to`, which has space for at least a group. Other
 * elements of that space can be overwritten. Sets *n to the number of elements, and returns the
 * position of the ',' or ']' after the last one. If the first group has an element that is not
 * plain, returns NULL and leaves *n unchanged. */
typedef const char *td_parse_floats_fn(const char *p, const char *end, char *to, size_t room,
                                       size_t *n);

/* Returns the function for a dtype, or NULL if there is none, because the dtype is not float32 or
 * float64 or because the instruction set is below AVX2. */
td_parse_floats_fn *td_parse_floats_of(td_dtype dtype, td_isa isa);

/* Only for td_parse_floats_of. The processor must have AVX2. */
td_parse_floats_fn td_parse_float32_avx2, td_parse_float64_avx2;

#endif
