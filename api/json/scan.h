/* scan.h - reads JSON token by token, in one pass, without building a tree.
 *
 * The parser is strict and accepts RFC 8259 without extensions. A struct td_json_scan is a position
 * in a text, which functions advance past the text that they have read. No function reads at or
 * after `end`.
 *
 * Errors     MALFORMED_REQUEST. The error has a byte offset if the text is not JSON, or a JSON
 *            Pointer if a value is not as expected.
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

/* Path of a value in the document: a linked list of steps on the stack, innermost first. */
struct td_json_path {
    const struct td_json_path *up; /* NULL for the outermost step */
    const char *key;               /* member name; NULL if the step is an index */
    size_t key_length;
    int64_t index;
};

/* Sets the error for text at `at` that is not JSON. The message starts with the expected token. */
td_status td_json_syntax(const struct td_json_scan *scan, const char *at, struct td_error *err,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Sets the error for the value at `path`, which is valid JSON but not acceptable. A NULL `path`
 * means the whole document. */
td_status td_json_refuse(const struct td_json_path *path, struct td_error *err, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));

/* Sets the JSON Pointer of an error that is already set. */
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

/* Skips white space and returns the next character, or '\0' at the end of the text. Also returns
 * '\0' for a NUL in the text, because every caller rejects both. */
static inline char td_json_peek(struct td_json_scan *scan)
{
    scan->at = td_json_skip_space(scan->at, scan->end);
    return (char)(scan->at < scan->end ? *scan->at : '\0');
}

/* Skips white space and then `c`, which must be the next character. */
TD_MUST_CHECK td_status td_json_expect(struct td_json_scan *scan, char c, struct td_error *err);

/* Skips white space and then `open`, which must be the next character. If a member or element
 * follows, sets *more to true. Otherwise, skips `close` and sets *more to false. */
TD_MUST_CHECK td_status td_json_open(struct td_json_scan *scan, char open, char close, bool *more,
                                     struct td_error *err);

/* Skips a comma and sets *more to true, or skips `close` and sets *more to false. Called after each
 * member or element. */
TD_MUST_CHECK td_status td_json_next(struct td_json_scan *scan, char close, bool *more,
                                     struct td_error *err);

/* A string as written in the text, with its escapes but without its quotes. The string is valid
 * UTF-8. */
struct td_json_raw {
    const char *text;
    size_t length;
    bool escaped;
};

/* Reads a string. scan->at must be at the opening quote. */
TD_MUST_CHECK td_status td_json_raw_string(struct td_json_scan *scan, struct td_json_raw *out,
                                           struct td_error *err);

/* Replaces the escapes of a string. Writes at most raw->length bytes and returns the end of the
 * result, or NULL with err filled if an escape is invalid. */
char *td_json_unescape(const struct td_json_scan *scan, const struct td_json_raw *raw, char *at,
                       struct td_error *err);

/* Reads a string and replaces its escapes. *text points into the input if the string has no
 * escapes, otherwise into the arena. */
TD_MUST_CHECK td_status td_json_string(struct td_json_scan *scan, struct td_arena *arena,
                                       const char **text, size_t *length, struct td_error *err);

/* Returns the end of the number token at `at`, checking only the grammar, or NULL if there is no
 * number. */
const char *td_json_number_end(const char *at, const char *end, bool *is_integer);

/* Sets the error for a malformed number at `at`, for which td_json_number_end has returned NULL. */
td_status td_json_bad_number(const struct td_json_scan *scan, const char *at, struct td_error *err);

/* Computes the value of a number token that is an integer in any notation: 5, 5.0, 50e-1. Returns
 * false if the number has a fraction or needs more than 64 bits. */
bool td_json_integral(const char *at, const char *end, bool *negative, uint64_t *magnitude);

/* Reads an integer. If the number has a fraction or exponent or does not fit in int64, sets *fits
 * to false and leaves scan->at unchanged. */
TD_MUST_CHECK td_status td_json_int64(struct td_json_scan *scan, int64_t *out, bool *fits,
                                      struct td_error *err);

/* Returns the kind of value that starts with `c`, such as "a list", or NULL if no value starts with
 * `c`. Returns "true", "false" or "null" for t, f and n without checking the rest of the word. */
const char *td_json_kind(char c);

/* Returns the kind of the value at scan->at, or NULL if there is no value. */
const char *td_json_value_kind(const struct td_json_scan *scan);

/* Skips the literal at scan->at and returns it: "true", "false" or "null". Returns NULL with err
 * filled if there is no literal. */
const char *td_json_literal(struct td_json_scan *scan, struct td_error *err);

/* Skips a value and checks its syntax. Lists and objects can nest at most 64 levels deep. */
TD_MUST_CHECK td_status td_json_ignore(struct td_json_scan *scan, struct td_arena *arena,
                                       struct td_error *err);

/* Finds the end of the value at `at` from brackets and quotes alone, without checking the syntax.
 * Counts the commas outside strings. Returns NULL if the text ends before the value, with the
 * number of commas up to that point. */
const char *td_json_measure(const char *at, const char *end, size_t *commas);

/* A skipped value, to be read when its dtype and shape are known. */
struct td_json_skipped {
    struct td_json_scan scan; /* start of the value; reading advances it */
    const char *end;          /* end of the value as found by td_json_measure */
};

/* Skips the value at scan->at without checking its syntax, which is checked when the value is
 * read. */
TD_MUST_CHECK td_status td_json_skip_unread(struct td_json_scan *scan,
                                            struct td_json_skipped *skipped, struct td_error *err);

/* Checks, after a skipped value has been read, that reading ended at the same place as skipping.
 * For example, 1"a" is skipped as one value but read as 1. */
TD_MUST_CHECK td_status td_json_skipped_end(const struct td_json_skipped *skipped,
                                            struct td_error *err);

#endif
