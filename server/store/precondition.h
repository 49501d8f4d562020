/* precondition.h - If-Match and If-None-Match, and the entity tags that they list (etag.h).
 *
 * Source  RFC 9110, sections 8.8.3 (comparison), 13.1.1 (If-Match), 13.1.2 (If-None-Match) and
 *         13.2.2 (If-Match is evaluated first). */
#ifndef TD_SERVER_STORE_PRECONDITION_H
#define TD_SERVER_STORE_PRECONDITION_H

#include "api/message/message.h"

/* Preconditions on the current version: the values of the headers, or NULL for an absent header. */
struct td_condition {
    const char *if_match, *if_none_match;
};

/* Sets *listed to true if a list of entity tags, or "*", matches `etag`. A NULL `etag` means that
 * the tensor does not exist, and no list matches it. `etag` is strong. A weak tag in the list
 * matches only if `weak` is true. Returns MALFORMED_REQUEST, naming the header, if the list is
 * malformed. */
TD_MUST_CHECK td_status td_etag_listed(const char *header, const char *list, const char *etag,
                                       bool weak, bool *listed, struct td_error *err);

/* Compares the conditions with the version's tags in all formats. If a condition does not hold,
 * returns PRECONDITION_FAILED with the current tag of `name` in err->etag, but not in the
 * message. */
TD_MUST_CHECK td_status td_condition_check(const struct td_condition *condition, const char *name,
                                           const char *etag, struct td_error *err);

#endif
