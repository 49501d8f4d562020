/* target.h - parses the request target of a request line.
 *
 * A target is a path ("/v1/ops"), an absolute http URI, which proxies send and a server has to
 * accept (RFC 9112, 3.2.2), or "*" with OPTIONS. Its query has been removed.
 *
 * The HTTP library decodes nothing: in a decoded path %2F cannot be distinguished from a slash, so
 * "/v1%2fgather" would be a route here but not for a proxy with rules for "/v1/". Paths are split
 * as sent, and each segment is decoded separately, as are the arguments of a query.
 *
 * Ownership  Decoded text is in the arena; text without '%' is not copied.
 * Errors     MALFORMED_REQUEST, which shows the target or the escape. */
#ifndef TD_SERVER_HTTP_TARGET_H
#define TD_SERVER_HTTP_TARGET_H

#include "kernels/arena.h"
#include "kernels/status.h"
#include "server/http/origin.h"

#include <stddef.h>

struct td_target {
    struct td_field authority; /* replaces Host; absent for a path */
    const char *path;          /* "*": the whole server; the text itself on failure */
};

/* MALFORMED_REQUEST for any other form, and for a URI of another scheme, without a host or with a
 * user. */
TD_MUST_CHECK td_status td_target_read(const char *method, const char *text, struct td_target *out,
                                       struct td_error *err);

/* The path of a target, valid or not; "" if it has none. */
const char *td_target_path(const char *text);

/* Is every '%' of the text followed by two hexadecimal digits? what: "the path", for the error. */
TD_MUST_CHECK td_status td_target_check(const char *text, size_t length, const char *what,
                                        struct td_error *err);

/* Undoes percent-encoding: "%41" becomes "A". The result may hold any byte; a NUL
 * follows it. Errors of td_target_check, and MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_target_decode(const char **text, size_t *length, const char *what,
                                         struct td_arena *arena, struct td_error *err);

#endif
