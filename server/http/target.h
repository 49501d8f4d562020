/* target.h - reads what a request line asks for.
 *
 * The HTTP library decodes nothing: a path that it has decoded does not tell a slash from %2F, so
 * that "/v1%2fgather" would be a route here and none for a proxy that has rules for "/v1/". Paths
 * are split as they were sent, and each segment is decoded alone; likewise the arguments of a query.
 *
 * Ownership  Decoded text is in the arena, text without '%' where it was.
 * Errors     MALFORMED_REQUEST, which shows the escape. */
#ifndef TD_SERVER_HTTP_TARGET_H
#define TD_SERVER_HTTP_TARGET_H

#include "kernels/arena.h"
#include "kernels/status.h"

#include <stddef.h>

/* Is every '%' of the text followed by two hexadecimal digits? what: "the path", for the error. */
TD_MUST_CHECK td_status td_target_check(const char *text, size_t length, const char *what,
                                        struct td_error *err);

/* Undoes percent-encoding: "%41" becomes "A". The result may hold any byte; a NUL
 * follows it. Errors as td_target_check has them, and MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_target_decode(const char **text, size_t *length, const char *what,
                                         struct td_arena *arena, struct td_error *err);

#endif
