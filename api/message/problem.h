/* problem.h - a struct td_error as application/problem+json (RFC 9457), and what each code means.
 *
 * The only place that knows which HTTP status a td_status has. */
#ifndef TD_API_MESSAGE_PROBLEM_H
#define TD_API_MESSAGE_PROBLEM_H

#include "api/message/message.h"
#include "api/text/text.h"

struct td_problem {
    int http_status;
    const char *title;       /* "Index out of bounds" */
    const char *slug;        /* "index-out-of-bounds", as in /problems/index-out-of-bounds */
    const char *explanation; /* what it means and what a client can do, a few sentences */
    const char *bare;        /* the whole body, for when there is no memory for a better one */
};

/* Never NULL; TD_OK is a programming error. */
const struct td_problem *td_problem_of(td_status status);

/* The code whose page /problems/{slug} is; TD_OK when there is none. */
td_status td_problem_from_slug(const char *slug, size_t length);

/* Writes the reply for err. op_name and request_id may be NULL. Cannot fail: where the arena has no
 * memory it falls back to the static body of the code: type, title, status and code. */
void td_problem_write(const struct td_error *err, const char *op_name, const char *request_id,
                      struct td_arena *arena, struct td_reply *reply);

/* Writes the members of an error beside its sentence, a comma in front of each: code, op, input,
 * position, ... */
void td_problem_members(const struct td_error *err, const char *op_name, const char *request_id,
                        struct td_text *text);

/* The page behind a problem's "type", as JSON: type, title, status, code, explanation. */
TD_MUST_CHECK td_status td_problem_describe(td_status status, struct td_arena *arena,
                                            struct td_reply *reply, struct td_error *err);

#endif
