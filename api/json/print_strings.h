/* print_strings.h - prints the elements of a string tensor as JSON, without brackets.
 *
 * Both functions check regularly whether to stop, even within a long string.
 *
 * Bounds     The size of the text of n strings is the size of the strings, plus 3 bytes per string
 *            for the quotes and the comma, plus the bytes that escapes add.
 * Cost       Each function takes about 1 ns per byte. */
#ifndef TD_API_JSON_PRINT_STRINGS_H
#define TD_API_JSON_PRINT_STRINGS_H

#include "kernels/stop.h"
#include "kernels/tensor.h"

/* Properties of the strings that determine the size of their text. */
struct td_json_strings {
    bool valid;          /* true if all strings are UTF-8, which JSON requires */
    size_t escape_bytes; /* number of bytes that escapes add, if `valid` */
};

/* Reads all strings once and fills *out. */
TD_MUST_CHECK td_status td_json_measure_strings(const struct td_tensor *tensor,
                                                const struct td_stop *stop,
                                                struct td_json_strings *out, struct td_error *err);

/* Writes elements [begin, begin + n), each followed by a comma. Returns the end of the text, or
 * NULL with err filled. */
char *td_json_write_strings(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n,
                            struct td_stop_meter *meter, struct td_error *err);

#endif
