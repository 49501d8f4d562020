/* problem.h - writes a struct td_error as application/problem+json (RFC 9457), and holds the table
 * of error codes with their HTTP statuses and explanations. */
#ifndef TD_API_MESSAGE_PROBLEM_H
#define TD_API_MESSAGE_PROBLEM_H

#include "api/message/message.h"
#include "api/text/text.h"

struct td_problem {
    int http_status;
    const char *title; /* "Index out of bounds" */
    const char *slug;  /* "index-out-of-bounds", as in /problems/index-out-of-bounds */
    /* A few sentences for clients: what the code means and what to do. */
    const char *explanation;
    /* Complete body without details, used if there is no memory for a body with details. */
    const char *static_body;
};

/* Returns the problem for an error code, never NULL. `status` must not be TD_OK. */
const struct td_problem *td_problem_of(td_status status);

/* Returns the number of seconds for the Retry-After header. The error's own value takes precedence
 * over the value for its code. Returns 0 if waiting does not help or the time is not known. */
unsigned td_problem_retry_after_s(const struct td_error *err);

/* Returns the code that /problems/{slug} describes, or TD_OK if no code has this slug. Also accepts
 * the name of a code, such as INDEX_OUT_OF_BOUNDS. */
td_status td_problem_from_slug(const char *slug, size_t length);

/* Writes the reply for `err`. op_name and request_id can be NULL. Cannot fail. If memory is
 * exhausted, the reply is the static body with type, title, status and code. */
void td_problem_write(const struct td_error *err, const char *op_name, const char *request_id,
                      struct td_arena *arena, struct td_reply *reply);

/* Prints `err` as a document that is valid in both /v1 and /v2, for a request that could be for
 * either API. If `title` is not NULL, it replaces the title of the code, and the HTTP status is
 * omitted. Returns the length, or 0 if the buffer is too small. */
size_t td_problem_print(const struct td_error *err, const char *title, const char *request_id,
                        char *buffer, size_t size);

/* Appends all members of an error except its message (code, op, input, position, ...), each
 * preceded by a comma. */
void td_problem_members(const struct td_error *err, const char *op_name, const char *request_id,
                        struct td_text *text);

/* Writes the JSON document at a problem's "type" URI: type, title, status, code, explanation. */
TD_MUST_CHECK td_status td_problem_describe(td_status status, struct td_arena *arena,
                                            struct td_reply *reply, struct td_error *err);

#endif
