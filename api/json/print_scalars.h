/* print_scalars.h - prints numbers as JSON, without brackets.
 *
 * Floats are printed as the shortest text that reads back as the same value of their dtype, and
 * complex numbers as [re, im].
 *
 * Bounds     Up to TD_JSON_ELEMENTS_SLACK bytes after the end of the text can be overwritten.
 * Cost       About 20 ns per float32. */
#ifndef TD_API_JSON_PRINT_SCALARS_H
#define TD_API_JSON_PRINT_SCALARS_H

#include "kernels/tensor.h"

#define TD_JSON_ELEMENTS_SLACK 40

/* Computes an upper bound for the length of the text of all elements, with a comma after each. For
 * strings, the bound excludes the escapes, and counts only the quotes of strings that are not
 * computed yet. Returns false on overflow. */
bool td_json_elements_bound(const struct td_tensor *tensor, size_t *bytes);

/* Writes elements [begin, begin + n), each followed by a comma, and returns the end of the text.
 * NaN and infinities are the strings "NaN", "Infinity" and "-Infinity". The tensor must not contain
 * strings, which print_strings.h writes. */
char *td_json_write_elements(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n);

/* Like td_json_write_elements, but writes NaN, Infinity and -Infinity without quotes. The text is
 * not valid JSON, but JavaScript, Python's json and RapidJSON can read it. */
char *td_json_write_oip_elements(char *at, const struct td_tensor *tensor, int64_t begin,
                                 int64_t n);

char *td_json_write_int64(char *at, int64_t value);

#endif
