/* target.h - parses the request target of a request line.
 *
 * A target is a path ("/v1/ops"), an absolute http URI, or "*" with OPTIONS. Proxies send absolute
 * URIs, and servers must accept them (RFC 9112, 3.2.2). The library has already removed the query.
 *
 * The HTTP library decodes nothing. In a decoded path, %2F would look like a slash, so
 * "/v1%2fgather" would be a route here but not for a proxy with rules for "/v1/". Paths are split
 * as they were sent. Each segment is then decoded separately, and so is each argument of a query.
 *
 * Ownership  Decoded text is in the arena. Text without '%' is not copied.
 * Errors     MALFORMED_REQUEST, with the target or the escape in the message. */
#ifndef TD_SERVER_HTTP_TARGET_H
#define TD_SERVER_HTTP_TARGET_H

#include "kernels/arena.h"
#include "kernels/status.h"
#include "server/http/origin.h"

#include <stddef.h>

struct td_target {
    /* Authority that replaces Host. Absent if the target is a path. */
    struct td_field authority;
    /* "*" for the whole server. On failure, the text itself. */
    const char *path;
};

/* Parses a target. Returns MALFORMED_REQUEST for any other form, and for a URI that has another
 * scheme, no host, or a user. */
TD_MUST_CHECK td_status td_target_read(const char *method, const char *text, struct td_target *out,
                                       struct td_error *err);

/* Returns the path of a target, valid or not, or "" if it has no path. */
const char *td_target_path(const char *text);

/* Checks that every '%' in the text is followed by two hexadecimal digits. `what` describes the
 * text in the error, such as "the path". */
TD_MUST_CHECK td_status td_target_check(const char *text, size_t length, const char *what,
                                        struct td_error *err);

/* Decodes percent-encoding: "%41" becomes "A". The result can contain any bytes and is followed by
 * a NUL. Returns the errors of td_target_check, and MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_target_decode(const char **text, size_t *length, const char *what,
                                         struct td_arena *arena, struct td_error *err);

/* Decodes a segment of the path. Refuses a NUL (%00), which no name contains. */
TD_MUST_CHECK td_status td_target_decode_segment(const char **text, size_t *length,
                                                 struct td_arena *arena, struct td_error *err);

#endif
