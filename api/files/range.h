/* range.h - applies the Range header of a GET, so that only part of the reply is sent.
 *
 * Supports a single byte range: "bytes=5-9", "bytes=5-" or "bytes=-5". For multiple ranges and
 * malformed headers, the whole reply is sent, as RFC 9110 allows. The caller evaluates If-Range,
 * and passes NULL as `range` if the condition fails.
 *
 * Errors     RANGE_NOT_SATISFIABLE if the reply has no bytes in the range. The reply then has a
 *            Content-Range header with the total size.
 * Source     RFC 9110, section 14. */
#ifndef TD_API_FILES_RANGE_H
#define TD_API_FILES_RANGE_H

#include "api/message/message.h"

/* Reduces a reply with status 200 to the given range without copying, changes the status to 206 and
 * adds Content-Range. If `range` is NULL or the status is not 200, only adds Accept-Ranges, which
 * every reply gets. Header values are in the arena. */
TD_MUST_CHECK td_status td_range_apply(const char *range, struct td_reply *reply,
                                       struct td_arena *arena, struct td_error *err);

#endif
