/* print_scalars.h - prints numbers as JSON, without brackets.
 *
 * Floats are printed as the shortest text that reads back to the same value of their dtype, complex
 * numbers as [re, im].
 *
 * Bounds     TD_JSON_ELEMENTS_SLACK bytes after the end of the text may be overwritten.
 * Cost       About 20 ns per float32. */
#ifndef TD_API_JSON_PRINT_SCALARS_H
#define TD_API_JSON_PRINT_SCALARS_H

#include "kernels/tensor.h"

#define TD_JSON_ELEMENTS_SLACK 40

/* Upper bound of the text of all elements with a comma after each; of strings without what escapes
 * add, and only their quotes if they are not computed yet. False on overflow. */
bool td_json_elements_bound(const struct td_tensor *tensor, size_t *bytes);

/* Writes elements [begin, begin + n), each followed by a comma, and returns the end. Strings are
 * written by print_strings.h. NaN and
 * infinities are the strings "NaN", "Infinity" and "-Infinity". */
char *td_json_write_elements(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n);

/* The same with NaN, Infinity and -Infinity without quotes. That is not JSON, but JavaScript,
 * Python's json and RapidJSON can read it. */
char *td_json_write_oip_elements(char *at, const struct td_tensor *tensor, int64_t begin,
                                 int64_t n);

char *td_json_write_int64(char *at, int64_t value);

#endif
