/* range.h - applies the Range header of a GET, so that only part of the reply is sent.
 *
 * Supports a single byte range: "bytes=5-9", "bytes=5-" or "bytes=-5". Multiple ranges and
 * malformed headers are ignored, as RFC 9110 allows, so the whole reply is sent. The caller
 * evaluates If-Range and passes NULL as `range` if its condition fails.
 *
 * Errors     RANGE_NOT_SATISFIABLE if the reply has no bytes in the range. The reply then has a
 *            Content-Range header with the total size.
 * Source     RFC 9110, section 14. */
#ifndef TD_API_FILES_RANGE_H
#define TD_API_FILES_RANGE_H

#include "api/message/message.h"

/* Reduces a reply with status 200 to the given range, without copying, changes its status to 206
 * and adds Content-Range. Adds Accept-Ranges in all cases, and nothing else if `range` is NULL or
 * the status is not 200. Header values are in the arena. */
TD_MUST_CHECK td_status td_range_apply(const char *range, struct td_reply *reply,
                                       struct td_arena *arena, struct td_error *err);

#endif
