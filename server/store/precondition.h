/* precondition.h - If-Match and If-None-Match, and the entity tags that they list.
 *
 * A version has one tag, "abc". Each format in which it is sent has a tag of its own, since a
 * strong tag stands for bytes: "abc" as JSON, "abc-npy", "abc-safetensors".
 *
 * Source  RFC 9110, sections 8.8.1 (strong tags), 8.8.3 (comparison), 13.1.1 (If-Match), 13.1.2
 *         (If-None-Match) and 13.2.2 (If-Match is evaluated first). */
#ifndef TD_SERVER_STORE_PRECONDITION_H
#define TD_SERVER_STORE_PRECONDITION_H

#include "api/message/message.h"

/* Preconditions on the current version: header values, NULL when absent. */
struct td_condition {
    const char *if_match, *if_none_match;
};

/* Whether a list of entity tags, or "*", matches `etag`; nothing matches NULL, a tensor that
 * does not exist. `etag` is strong; a weak tag in the list matches only if `weak` comparison is
 * requested. MALFORMED_REQUEST, naming the header, for a malformed list. */
TD_MUST_CHECK td_status td_etag_listed(const char *header, const char *list, const char *etag,
                                       bool weak, bool *listed, struct td_error *err);

/* Writes the tag that a version with this tag has in a format. */
enum { TD_ETAG_SIZE = 96 };
void td_etag_of_format(const char *etag, td_format format, char text[TD_ETAG_SIZE]);

/* Matches the tag of the version in any format. PRECONDITION_FAILED, with the current tag, which is
 * of `name`, in err->etag alone, if a condition does not hold. */
TD_MUST_CHECK td_status td_condition_check(const struct td_condition *condition, const char *name,
                                           const char *etag, struct td_error *err);

#endif
