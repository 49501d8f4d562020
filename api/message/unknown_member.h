/* unknown_member.h - refuses members, metadata entries and query parameters that a request cannot
 * have.
 *
 * The error lists the names that the request can have. did_you_mean is the nearest of them. The
 * name of an input outside the body, and `persist` inside the body, have their own messages. */
#ifndef TD_API_MESSAGE_UNKNOWN_MEMBER_H
#define TD_API_MESSAGE_UNKNOWN_MEMBER_H

#include "api/message/message.h"

/* Places of a name in a request. */
#define TD_MEMBER   "member"
#define TD_METADATA "metadata entry"
#define TD_QUERY    "query parameter"

#define TD_PERSIST "persist" /* query parameter of requests that change a table */

/* Sets MALFORMED_REQUEST for a name that is not an input, attribute or common member. `where` is
 * one of the places above. */
td_status td_unknown_member(const struct td_request *request, const char *name, size_t length,
                            const char *where, struct td_error *err);

#endif
