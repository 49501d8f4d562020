/* float_text.h - prints and parses floats as decimal text, exactly. The implementation is the only
 * C++ code in api/, because algorithms that are both exact and fast are available as C++ headers.
 *
 * Printing writes the shortest digits that read back as the same value, without an exponent if that
 * form is short. The text is always valid JSON. Whole numbers end in ".0" to show that they are
 * floats. NaN and infinities are the strings "NaN", "Infinity" and "-Infinity". Each function
 * writes the n values at `values`, which can be unaligned, with a comma after each value and
 * without a NUL, and returns the end of the text. `at` must have space for TD_FLOATxx_TEXT bytes
 * per value, plus one per comma, plus TD_FLOAT_SLACK.
 *
 * Parsing takes a complete JSON number token, [begin, end), and rounds the decimal value once, to
 * nearest, ties to even. The functions return false if the value is too large for the type. Values
 * that are too small become zero. parse_scalars.h parses most numbers by a faster method and calls
 * these functions for the others.
 *
 * Source  J. Jeon, "Dragonbox: A New Floating-Point Binary-to-Decimal Conversion Algorithm" (2022);
 *         std::from_chars (ISO/IEC 14882:2020, [charconv.from.chars]). */
#ifndef TD_API_JSON_FLOAT_TEXT_H
#define TD_API_JSON_FLOAT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#define TD_FLOAT16_TEXT 12 /* length of -0.000061035 or, for bfloat16, -123400000.0 */
#define TD_FLOAT32_TEXT 16 /* -0.0000123456789 */
#define TD_FLOAT64_TEXT 24 /* -1.2345678901234567e-308 */
#define TD_FLOAT_SLACK  40 /* number of bytes after the end that can be overwritten */

#ifdef __cplusplus
extern "C" {
#endif

char *td_float64_list(char *at, const void *values, int64_t n);
char *td_float32_list(char *at, const void *values, int64_t n);
char *td_float16_list(char *at, const void *values, int64_t n);
char *td_bfloat16_list(char *at, const void *values, int64_t n);

bool td_float64_read(const char *begin, const char *end, double *out);
bool td_float32_read(const char *begin, const char *end, float *out);
bool td_float16_read(const char *begin, const char *end, uint16_t *out);
bool td_bfloat16_read(const char *begin, const char *end, uint16_t *out);

#ifdef __cplusplus
}
#endif

#endif
