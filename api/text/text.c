#include "api/text/text.h"

#include "kernels/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void td_text_uint(struct td_text *text, uint64_t value)
{
    int digits = 1;
    for (uint64_t rest = value; rest >= 10; rest /= 10)
        digits++;
    if (digits > text->end - text->at) {
        text->full = true;
        return;
    }
    text->at += digits;
    for (char *at = text->at; digits > 0; digits--, value /= 10)
        *--at = (char)('0' + value % 10);
}

void td_text_dims(struct td_text *text, const int64_t *dims, int rank)
{
    for (int i = 0; i < rank; i++) {
        if (i > 0)
            td_text_string(text, ",");
        td_text_uint(text, (uint64_t)dims[i]);
    }
}

void td_text_print(struct td_text *text, const char *format, ...)
{
    size_t capacity = (size_t)(text->end - text->at);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->at, capacity, format, arguments);
    va_end(arguments);
    /* vsnprintf also writes a NUL, which needs one byte more than `length`. */
    if (length < 0 || (size_t)length >= capacity)
        text->full = true;
    else
        text->at += length;
}

/* Returns the length of the longest prefix that needs no escape in a JSON string. */
static size_t plain_prefix(const char *bytes, size_t length)
{
    size_t i = 0;
    while (i < length && bytes[i] >= ' ' && bytes[i] < 0x7f && bytes[i] != '"' && bytes[i] != '\\')
        i++;
    return i;
}

void td_text_quote_bytes(struct td_text *text, const char *bytes, size_t length)
{
    td_text_add(text, "\"", 1);
    for (size_t i = 0; i < length;) {
        size_t plain = plain_prefix(bytes + i, length - i);
        td_text_add(text, bytes + i, plain);
        i += plain;
        if (i == length)
            break;
        unsigned char c = (unsigned char)bytes[i];
        size_t size = td_utf8_character((const unsigned char *)bytes + i, length - i);
        if (size == 0)
            td_text_add(text, "\xef\xbf\xbd", 3);
        else if (c == '"' || c == '\\')
            td_text_add(text, (const char[]){ '\\', (char)c }, 2);
        else if (c == '\n')
            td_text_add(text, "\\n", 2);
        else if (c < ' ')
            td_text_print(text, "\\u%04x", c);
        else
            td_text_add(text, bytes + i, size);
        i += size ? size : 1;
    }
    td_text_add(text, "\"", 1);
}

static bool is_segment_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~:@", c) != NULL);
}

void td_text_segment(struct td_text *text, const char *name, size_t length)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t plain = 0; /* number of plain characters before i that are not written yet */
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)name[i];
        const char escaped[] = { '%', digits[c / 16], digits[c % 16] };
        if (is_segment_character(name[i])) {
            plain++;
            continue;
        }
        td_text_add(text, name + i - plain, plain);
        td_text_add(text, escaped, sizeof escaped);
        plain = 0;
    }
    td_text_add(text, name + length - plain, plain);
}
