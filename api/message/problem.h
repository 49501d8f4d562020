/* problem.h - writes a struct td_error as application/problem+json (RFC 9457); the table of error
 * codes with their HTTP statuses and explanations. */
#ifndef TD_API_MESSAGE_PROBLEM_H
#define TD_API_MESSAGE_PROBLEM_H

#include "api/message/message.h"
#include "api/text/text.h"

struct td_problem {
    int http_status;
    const char *title; /* "Index out of bounds" */
    const char *slug;  /* "index-out-of-bounds", as in /problems/index-out-of-bounds */
    const char
        *explanation; /* for clients: what the code means and what to do, in a few sentences */
    const char *static_body; /* a complete body, used if there is no memory for one with details */
};

/* Never NULL. status must not be TD_OK. */
const struct td_problem *td_problem_of(td_status status);

/* After how many seconds the request may succeed, for the header Retry-After: those of the error,
 * or else of its code; 0: waiting does not help, or nobody knows how long. */
unsigned td_problem_retry_after_s(const struct td_error *err);

/* The code that is described at /problems/{slug}; TD_OK if there is none. The name of the code is
 * accepted too: INDEX_OUT_OF_BOUNDS. */
td_status td_problem_from_slug(const char *slug, size_t length);

/* Writes the reply for err. op_name and request_id may be NULL. Cannot fail: without memory the
 * reply is the static body with type, title, status and code. */
void td_problem_write(const struct td_error *err, const char *op_name, const char *request_id,
                      struct td_arena *arena, struct td_reply *reply);

/* Prints err as a document in the formats of both /v1 and /v2, for a request that may be of either.
 * A title that is not NULL replaces that of the code, whose HTTP status is then left out. Returns
 * the length; 0 if the buffer is too small. */
size_t td_problem_print(const struct td_error *err, const char *title, const char *request_id,
                        char *buffer, size_t size);

/* Appends the members of an error other than its message, each preceded by a comma: code, op,
 * input, position, ... */
void td_problem_members(const struct td_error *err, const char *op_name, const char *request_id,
                        struct td_text *text);

/* The document at a problem's "type" URI, as JSON: type, title, status, code, explanation. */
TD_MUST_CHECK td_status td_problem_describe(td_status status, struct td_arena *arena,
                                            struct td_reply *reply, struct td_error *err);

#endif
