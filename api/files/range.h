/* range.h - a part of a reply's bytes: the Range header of a GET.
 *
 * One range of bytes is served: "bytes=5-9", "bytes=5-", "bytes=-5". Of several, or of what cannot
 * be understood, nothing: the whole reply is a right answer to that. If-Range is the caller's: a
 * condition that fails makes `range` NULL.
 *
 * Errors     RANGE_NOT_SATISFIABLE where nothing of the range is there; the reply then has the
 *            Content-Range that belongs to it, "bytes * / size", among its headers.
 * Source     RFC 9110, section 14. */
#ifndef TD_API_FILES_RANGE_H
#define TD_API_FILES_RANGE_H

#include "api/message/message.h"

/* Cuts a 200 reply down to what `range` asks for (NULL: nothing), without copying: 206 with
 * Content-Range; else it is untouched. Adds Accept-Ranges in any case. Header texts lie in the
 * arena. */
TD_MUST_CHECK td_status td_range_apply(const char *range, struct td_reply *reply,
                                       struct td_arena *arena, struct td_error *err);

#endif
