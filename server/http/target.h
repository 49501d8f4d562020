/* target.h - reads what a request line asks for.
 *
 * A target is a path ("/v1/ops"), a whole URI of http, of which proxies send the like and which a
 * server has to accept (RFC 9112, 3.2.2), or "*" of OPTIONS. Its query has been taken off.
 *
 * The HTTP library decodes nothing: a path that it has decoded does not tell a slash from %2F, so
 * that "/v1%2fgather" would be a route here and none for a proxy that has rules for "/v1/". Paths
 * are split as they were sent, and each segment is decoded alone; likewise the arguments of a query.
 *
 * Ownership  Decoded text is in the arena, text without '%' where it was.
 * Errors     MALFORMED_REQUEST, which shows the target or the escape. */
#ifndef TD_SERVER_HTTP_TARGET_H
#define TD_SERVER_HTTP_TARGET_H

#include "kernels/arena.h"
#include "kernels/status.h"
#include "server/http/origin.h"

#include <stddef.h>

struct td_target {
    struct td_field authority; /* takes the place of Host; absent of a path */
    const char *path;          /* "*" for the server as a whole; the text itself on failure */
};

/* MALFORMED_REQUEST for any other form, and for a URI of another scheme, without a host or with a
 * user. */
TD_MUST_CHECK td_status td_target_read(const char *method, const char *text, struct td_target *out,
                                       struct td_error *err);

/* Where a target's path begins, whether the target is good or not; "" where it has none. */
const char *td_target_path(const char *text);

/* Is every '%' of the text followed by two hexadecimal digits? what: "the path", for the error. */
TD_MUST_CHECK td_status td_target_check(const char *text, size_t length, const char *what,
                                        struct td_error *err);

/* Undoes percent-encoding: "%41" becomes "A". The result may hold any byte; a NUL
 * follows it. Errors as td_target_check has them, and MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_target_decode(const char **text, size_t *length, const char *what,
                                         struct td_arena *arena, struct td_error *err);

#endif
