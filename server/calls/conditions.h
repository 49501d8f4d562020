/* conditions.h - the conditions If-Match, If-None-Match and If-Range of a request.
 *
 * A call either applies If-Match and If-None-Match or refuses them. A write passes them to the
 * store, which checks them under the lock of the name (server/store/precondition.h). A GET checks
 * If-Match against the version that it found, and replies 304 if If-None-Match lists the ETag of
 * its reply.
 *
 * Ownership  Conditions refer to the text of the headers, which lives as long as the request.
 * Errors     MALFORMED_REQUEST: the call does not accept conditions, or a header is not a list of
 *            entity tags. PRECONDITION_FAILED: the condition is false. */
#ifndef TD_SERVER_CALLS_CONDITIONS_H
#define TD_SERVER_CALLS_CONDITIONS_H

#include "server/calls/call.h"
#include "server/store/precondition.h"

/* Returns the conditions for a write to the store. */
struct td_condition td_conditions_of(const struct td_call *call);

/* Checks If-Match of a GET of `name`, whose current version has this ETag. */
TD_MUST_CHECK td_status td_conditions_check_match(struct td_call *call, const char *name,
                                                  const char *etag);

/* Sets *listed to whether If-None-Match of a GET lists this ETag. The reply is then 304. */
TD_MUST_CHECK td_status td_conditions_list(struct td_call *call, const char *etag, bool *listed);

/* Returns the value of Range that applies to a reply with this ETag, or NULL. HEAD ignores Range.
 * With If-Range, the range applies only to one version in one format, so the client does not mix
 * two versions. */
const char *td_conditions_range(const struct td_call *call, const char *etag);

/* Refuses If-Match and If-None-Match in a call that would ignore them. In the message, `why`
 * follows the header's name. */
TD_MUST_CHECK td_status td_conditions_refuse(struct td_call *call, const char *why);
#define TD_CHANGES_NOTHING                                                                         \
    "applies only to a call that replaces a tensor, such as a call with \"store\"; this call "     \
    "changes nothing, so leave the header out"

#endif
