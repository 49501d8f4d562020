/* float_text.h - decimal text of floats, both ways and exact: the only C++ in api/, because the
 * algorithms that are both exact and fast come as C++ headers.
 *
 * Printing gives the shortest digits that read back to the same value, as plain decimals where
 * those are short, else with an exponent, always as legal JSON. Whole numbers end in ".0", so that
 * the text still says float; NaN and the infinities are the strings "NaN", "Infinity" and
 * "-Infinity". Each function writes n values at `values`, unaligned as they may be, with a comma
 * behind every one, no NUL, and returns the end. It needs room for TD_FLOATxx_TEXT bytes a value
 * (commas not counted) and TD_FLOAT_SLACK once.
 *
 * Reading takes a complete JSON number token, [begin, end), and rounds it to nearest, ties to even:
 * once, from the decimal text. False when it is too large for the type; what is too small is zero.
 * This is the deciding word; parse_scalars.c settles most numbers faster and asks here about the
 * rest.
 *
 * Source  J. Jeon, "Dragonbox: A New Floating-Point Binary-to-Decimal Conversion Algorithm" (2022);
 *         std::from_chars (ISO/IEC 14882:2020, [charconv.from.chars]). */
#ifndef TD_API_JSON_FLOAT_TEXT_H
#define TD_API_JSON_FLOAT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#define TD_FLOAT16_TEXT 12 /* -0.000061035; bfloat16 as well, -123400000.0 */
#define TD_FLOAT32_TEXT 16 /* -0.0000123456789 */
#define TD_FLOAT64_TEXT 24 /* -1.2345678901234567e-308 */
#define TD_FLOAT_SLACK  40 /* bytes that may be written behind the end */

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
