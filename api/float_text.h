/* float_text.h - decimal text of floats, both ways and exact: the only C++ in api/, because the
 * algorithms that are both exact and fast come as C++ headers.
 *
 * Printing gives the shortest digits that read back to the same value, as plain decimals where those
 * are short, else with an exponent, always as a legal JSON number. Whole numbers end in ".0", so
 * that the text still says float. Each writes at most TD_FLOAT_TEXT bytes, no NUL, and returns the
 * end; bytes up to TD_FLOAT_TEXT behind the beginning may be overwritten. Finite values only.
 *
 * Reading takes a complete JSON number token, [begin, end), and rounds it to nearest, ties to even:
 * once, from the decimal text. False when it is too large for the type; what is too small is zero.
 * This is the deciding word; json_array.c settles most numbers faster and asks here about the rest.
 *
 * Source  J. Jeon, "Dragonbox: A New Floating-Point Binary-to-Decimal Conversion Algorithm" (2022);
 *         std::from_chars (ISO/IEC 14882:2020, [charconv.from.chars]). */
#ifndef TD_API_FLOAT_TEXT_H
#define TD_API_FLOAT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#define TD_FLOAT_TEXT 40

#ifdef __cplusplus
extern "C" {
#endif

char *td_float64_text(char *at, double value);
char *td_float32_text(char *at, float value);
char *td_float16_text(char *at, uint16_t bits);
char *td_bfloat16_text(char *at, uint16_t bits);

bool td_float64_read(const char *begin, const char *end, double *out);
bool td_float32_read(const char *begin, const char *end, float *out);
bool td_float16_read(const char *begin, const char *end, uint16_t *out);
bool td_bfloat16_read(const char *begin, const char *end, uint16_t *out);

#ifdef __cplusplus
}
#endif

#endif
