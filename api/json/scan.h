/* scan.h - reads JSON token by token, in one pass and without memory of its own.
 *
 * Strict: RFC 8259 without extensions. A struct td_json_scan is a position in a text; functions
 * advance it to the end of what they have read. None reads at or after `end`.
 *
 * Errors     MALFORMED_REQUEST, with the byte offset if the text is not JSON, with a JSON Pointer
 *            if it is JSON but not what was expected.
 * Source     RFC 8259 (JSON), RFC 6901 (JSON Pointer). */
#ifndef TD_API_JSON_SCAN_H
#define TD_API_JSON_SCAN_H

#include "kernels/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_json_scan {
    const char *begin, *at, *end;
};

/* The path of a value in the document: a linked list of steps on the stack, innermost first. */
struct td_json_path {
    const struct td_json_path *up; /* NULL for the outermost step */
    const char *key;               /* member name; NULL if the step is an index */
    size_t key_length;
    int64_t index;
};

/* Sets the error for text that is not JSON at `at`. The message starts with what was expected. */
td_status td_json_syntax(const struct td_json_scan *scan, const char *at, struct td_error *err,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Sets the error for a value that is not what was expected. path NULL is the whole document. */
td_status td_json_refuse(const struct td_json_path *path, struct td_error *err, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));

/* Sets the pointer of an error that is already set. */
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

/* Skips white space and returns the next character, '\0' at the end of the text. A NUL in the text
 * is '\0', too; both are rejected wherever they occur. */
static inline char td_json_peek(struct td_json_scan *scan)
{
    scan->at = td_json_skip_space(scan->at, scan->end);
    return (char)(scan->at < scan->end ? *scan->at : '\0');
}

/* Skips white space and `c`, which must be the next character. */
TD_MUST_CHECK td_status td_json_expect(struct td_json_scan *scan, char c, struct td_error *err);

/* Skips white space and `open`, which must be the next character. *more is true if a member or
 * element follows; otherwise `close` is skipped, too. */
TD_MUST_CHECK td_status td_json_open(struct td_json_scan *scan, char open, char close, bool *more,
                                     struct td_error *err);

/* After a member or element: skips a comma, *more is true; or `close`, *more is false. */
TD_MUST_CHECK td_status td_json_next(struct td_json_scan *scan, char close, bool *more,
                                     struct td_error *err);

/* A string as in the text, without its quotes. It is valid UTF-8. */
struct td_json_raw {
    const char *text;
    size_t length;
    bool escaped;
};

/* Reads a string; scan->at must be at the opening quote. */
TD_MUST_CHECK td_status td_json_raw_string(struct td_json_scan *scan, struct td_json_raw *out,
                                           struct td_error *err);

/* Replaces the escapes of a string. Writes at most raw->length bytes and returns the end; NULL with
 * err filled if an escape is invalid. */
char *td_json_unescape(const struct td_json_scan *scan, const struct td_json_raw *raw, char *at,
                       struct td_error *err);

/* Reads and unescapes a string. *text points into the text if there are no escapes, otherwise into
 * the arena. */
TD_MUST_CHECK td_status td_json_string(struct td_json_scan *scan, struct td_arena *arena,
                                       const char **text, size_t *length, struct td_error *err);

/* End of the number token at `at`, checking only the grammar; NULL if there is none. */
const char *td_json_number_end(const char *at, const char *end, bool *is_integer);

/* Sets the error for a malformed number at `at`: td_json_number_end has returned NULL. */
td_status td_json_bad_number(const struct td_json_scan *scan, const char *at, struct td_error *err);

/* The value of a number token that is an integer in any notation: 5, 5.0, 50e-1. False if it has a
 * fraction or needs more than 64 bits. */
bool td_json_integral(const char *at, const char *end, bool *negative, uint64_t *magnitude);

/* Reads an integer. *fits is false and scan->at unchanged if the number has a fraction or exponent
 * or does not fit int64. */
TD_MUST_CHECK td_status td_json_int64(struct td_json_scan *scan, int64_t *out, bool *fits,
                                      struct td_error *err);

/* The kind of value that starts with c, such as "a list"; NULL if none does. For t, f and n this is
 * true, false and null without looking at the rest of the word. */
const char *td_json_kind(char c);

/* The kind of value at scan->at, NULL if there is none. */
const char *td_json_value_kind(const struct td_json_scan *scan);

/* Skips the literal at scan->at and returns it: "true", "false" or "null". NULL with err filled if
 * there is none. */
const char *td_json_literal(struct td_json_scan *scan, struct td_error *err);

/* Reads a value of which nothing is needed, and checks its syntax. At most 64 levels of lists and
 * objects. */
TD_MUST_CHECK td_status td_json_ignore(struct td_json_scan *scan, struct td_arena *arena,
                                       struct td_error *err);

/* Finds the end of the value at `at` from brackets and quotes alone, without checking the syntax.
 * Counts the commas outside strings. NULL if the text ends first. */
const char *td_json_measure(const char *at, const char *end, size_t *commas);

/* A value whose meaning is not known yet, to be read later. */
struct td_json_skipped {
    struct td_json_scan scan; /* at the value; reading advances it */
    const char *end;          /* where td_json_measure found the value to end */
};

/* Skips the value at scan->at. Its syntax is checked when it is read. */
TD_MUST_CHECK td_status td_json_skip_unread(struct td_json_scan *scan,
                                            struct td_json_skipped *skipped, struct td_error *err);

/* Called after the value has been read: it must end where it was skipped to, as 1"a" does not. */
TD_MUST_CHECK td_status td_json_skipped_end(const struct td_json_skipped *skipped,
                                            struct td_error *err);

#endif
