/* etag.h - entity tags, and the conditions that name them.
 *
 * Source  RFC 9110, sections 8.8.3 (comparison), 13.1.1 (If-Match), 13.1.2 (If-None-Match) and
 *         13.2.2 (If-Match goes first). */
#ifndef TD_SERVER_STORE_ETAG_H
#define TD_SERVER_STORE_ETAG_H

#include "kernels/status.h"

/* What has to be true of the current version: header values, NULL when absent. */
struct td_condition {
    const char *if_match, *if_none_match;
};

/* Does a list of entity tags, or "*", name `etag`? NULL stands for what does not exist, which
 * nothing names. Tags are strong here: of those in the list a weak one counts only where `weak`
 * comparison is asked for. MALFORMED_REQUEST, naming the header, where it is no such list. */
TD_MUST_CHECK td_status td_etag_listed(const char *header, const char *list, const char *etag,
                                       bool weak, bool *listed, struct td_error *err);

/* PRECONDITION_FAILED, with the current tag in err->etag, unless a writer may go on. */
TD_MUST_CHECK td_status td_condition_check(const struct td_condition *condition, const char *name,
                                           const char *etag, struct td_error *err);

#endif
