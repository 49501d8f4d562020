/* text.h - writes JSON into a buffer of fixed size, for the small documents that are made by hand.
 *
 * What does not fit is dropped and remembered, so that callers check once, at the end. */
#ifndef TD_API_TEXT_TEXT_H
#define TD_API_TEXT_TEXT_H

#include "kernels/shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_text {
    char *at, *end;
    bool full; /* something was dropped */
};

/* Appends bytes as they are. */
void td_text_add(struct td_text *text, const char *bytes, size_t length);

/* The same for text that ends in NUL, and for a number in decimal: ten times as fast as printing.
 */
void td_text_string(struct td_text *text, const char *string);
void td_text_uint(struct td_text *text, uint64_t value);

/* "2,3": the dimensions of a shape, for the caller's brackets; nothing for a scalar. */
void td_text_dims(struct td_text *text, const struct td_shape *shape);

/* Appends as printf does. */
void td_text_print(struct td_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD. */
void td_text_quote(struct td_text *text, const char *bytes, size_t length);

#endif
