/* print_scalars.h - the elements of a tensor as JSON, without the brackets around them.
 *
 * Floats print as the shortest text that reads back to the same value of their dtype, complex
 * numbers as [re, im].
 *
 * Bounds     TD_JSON_ELEMENTS_SLACK bytes behind the end of what is written may be written too.
 * Cost       About 20 ns a float32. */
#ifndef TD_API_JSON_PRINT_SCALARS_H
#define TD_API_JSON_PRINT_SCALARS_H

#include "kernels/tensor.h"

#define TD_JSON_ELEMENTS_SLACK 40

/* Upper bound of the text of all elements and a comma behind each. Of strings that are not there
 * yet nothing but their quotes counts. False on overflow. */
bool td_json_elements_bound(const struct td_tensor *tensor, size_t *bytes);

/* Can every string be a JSON string? */
bool td_json_is_text(const struct td_tensor *strings);

/* Writes elements [begin, begin + n) with a comma behind each, and returns the end. NaN and the
 * infinities are the strings "NaN", "Infinity" and "-Infinity". */
char *td_json_write_elements(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n);

/* The same for all elements, with NaN, Infinity and -Infinity as they are: no JSON, but what
 * JavaScript, Python's json and RapidJSON read. */
char *td_json_write_oip_elements(char *at, const struct td_tensor *tensor);

char *td_json_write_int64(char *at, int64_t value);

#endif
