/* scan.h - reading JSON text token by token, in one pass and without memory of its own.
 *
 * Strict: RFC 8259 and nothing beside it. A struct td_json_scan is a place in a text; functions
 * move it behind what they read. None reads at or behind `end`.
 *
 * Errors     MALFORMED_REQUEST. What is not JSON is told by byte offset, what is JSON but not what
 *            was wanted by a JSON Pointer.
 * Source     RFC 8259 (JSON), RFC 6901 (JSON Pointer).
 */
#ifndef TD_API_JSON_SCAN_H
#define TD_API_JSON_SCAN_H

#include "kernels/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_json_scan {
    const char *begin, *at, *end;
};

/* Where a value stands in the document: a chain of steps on the stack, innermost first. */
struct td_json_path {
    const struct td_json_path *up; /* NULL at the outermost step */
    const char *key;               /* member name; NULL when the step is an index */
    size_t key_length;
    int64_t index;
};

/* The text is not JSON at `at`. The message begins with what was expected. */
td_status td_json_syntax(const struct td_json_scan *scan, const char *at, struct td_error *err,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The value at path is not what it should be; path NULL is the whole document. */
td_status td_json_refuse(const struct td_json_path *path, struct td_error *err, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));

/* Adds the pointer to an error that somebody else has begun. */
void td_json_set_pointer(const struct td_json_path *path, struct td_error *err);

static inline bool td_json_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *td_json_skip_space(const char *at, const char *end)
{
    while (at < end && td_json_is_space(*at))
        at++;
    return at;
}

/* Skips white space; the character there, or '\0' at the end of the text (a NUL within the text is
 * '\0' as well: both are refused wherever they are met). */
static inline char td_json_peek(struct td_json_scan *scan)
{
    scan->at = td_json_skip_space(scan->at, scan->end);
    return (char)(scan->at < scan->end ? *scan->at : '\0');
}

/* Skips white space and `c`, which has to be there. */
TD_MUST_CHECK td_status td_json_expect(struct td_json_scan *scan, char c, struct td_error *err);

/* Skips white space and `open`, which has to be there, and `close` where nothing is between: *more
 * is whether a member or element comes. */
TD_MUST_CHECK td_status td_json_open(struct td_json_scan *scan, char open, char close, bool *more,
                                     struct td_error *err);

/* After a member or element: *more is true behind a comma, false behind `close`. */
TD_MUST_CHECK td_status td_json_next(struct td_json_scan *scan, char close, bool *more,
                                     struct td_error *err);

/* A string as it stands in the text, between its quotes, its UTF-8 checked. */
struct td_json_raw {
    const char *text;
    size_t length;
    bool escaped;
};

/* scan->at is at the opening quote. */
TD_MUST_CHECK td_status td_json_raw_string(struct td_json_scan *scan, struct td_json_raw *out,
                                           struct td_error *err);

/* Writes at most raw->length bytes and returns the end; NULL with err filled for a bad escape. */
char *td_json_unescape(const struct td_json_scan *scan, const struct td_json_raw *raw, char *at,
                       struct td_error *err);

/* A string read and unescaped; points into the text where it can, else into the arena. */
TD_MUST_CHECK td_status td_json_string(struct td_json_scan *scan, struct td_arena *arena,
                                       const char **text, size_t *length, struct td_error *err);

/* End of the number token at `at`, by the grammar alone; NULL when none begins there. */
const char *td_json_number_end(const char *at, const char *end, bool *is_integer);

/* The value of a number token that is an integer, however it is spelled: 5, 5.0, 50e-1. False where
 * it has a fraction, or more than 64 bits. */
bool td_json_integral(const char *at, const char *end, bool *negative, uint64_t *magnitude);

/* An integer token as int64. *fits is false, and nothing is moved, where it has a fraction or
 * exponent or is too large. */
TD_MUST_CHECK td_status td_json_int64(struct td_json_scan *scan, int64_t *out, bool *fits,
                                      struct td_error *err);

/* What kind of value begins with c, "a list"; NULL when none does. A word that begins with t, f or n
 * need not be a value: */
const char *td_json_kind(char c);

/* What kind of value begins where the scan stands; NULL when none does. */
const char *td_json_value_kind(const struct td_json_scan *scan);

/* Skips the literal that begins at scan->at and returns its text: "true", "false" or "null". NULL
 * with err filled when it is none of these. */
const char *td_json_literal(struct td_json_scan *scan, struct td_error *err);

/* Finds the end of the value at `at` by brackets and quotes alone, without checking what is
 * between; counts the commas outside strings. NULL when the text ends first. */
const char *td_json_measure(const char *at, const char *end, size_t *commas);

#endif
