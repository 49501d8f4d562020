/* print_strings.h - prints the elements of a string tensor as JSON, without brackets.
 *
 * Both functions check between steps, also within a long string, whether to stop.
 *
 * Bounds     The text of n strings is as long as their bytes, 3 for the quotes and the comma of
 *            each, and what their escapes add.
 * Cost       About 1 ns per byte each. */
#ifndef TD_API_JSON_PRINT_STRINGS_H
#define TD_API_JSON_PRINT_STRINGS_H

#include "kernels/stop.h"
#include "kernels/tensor.h"

/* What their text depends on. */
struct td_json_strings {
    bool valid;          /* all strings are UTF-8, as JSON needs */
    size_t escape_bytes; /* that escapes add, if they are valid */
};

/* Reads all strings once. */
TD_MUST_CHECK td_status td_json_measure_strings(const struct td_tensor *tensor,
                                                const struct td_stop *stop,
                                                struct td_json_strings *out, struct td_error *err);

/* Writes elements [begin, begin + n), each followed by a comma. Returns the end, or NULL with err
 * filled. */
char *td_json_write_strings(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n,
                            struct td_stop_meter *meter, struct td_error *err);

#endif
