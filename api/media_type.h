/* media_type.h - Content-Type and Accept become formats; lists of preferences.
 *
 *     json         application/json; of a body also none at all, and what curl -d sends
 *     safetensors  application/vnd.safetensors, application/octet-stream
 *     npy          application/x-npy, application/npy
 *
 * Errors     UNSUPPORTED_MEDIA_TYPE, NOT_ACCEPTABLE; both name the formats that there are.
 * Source     RFC 9110, sections 8.3, 12.4.2 and 12.5.1. */
#ifndef TD_API_MEDIA_TYPE_H
#define TD_API_MEDIA_TYPE_H

#include "api/message/message.h"

/* A set of formats. */
#define TD_FORMAT_BIT(name) (1u << TD_FORMAT_##name)

/* One of `formats`. content_type may be NULL. Parameters are ignored but for a charset other than
 * UTF-8 on JSON, which is refused. */
TD_MUST_CHECK td_status td_media_of_body(const char *content_type, unsigned formats, td_format *out,
                                         struct td_error *err);

/* One of `formats`, by the q-values; of those that are liked equally `preferred`, or else the first
 * in the order of td_format. accept may be NULL. */
TD_MUST_CHECK td_status td_media_of_reply(const char *accept, unsigned formats, td_format preferred,
                                          td_format *out, struct td_error *err);

/* The type that a reply of this format has. */
const char *td_media_type(td_format format);

/* A piece of a header's text, and whether it is this name in upper or lower case. */
struct td_token {
    const char *text;
    size_t length;
};
bool td_token_is(struct td_token token, const char *name);

/* What a client likes, and how well: "gzip;q=0.8". A q-value that is missing, or is none, is 1. */
struct td_preference {
    struct td_token name;
    int weight; /* in thousandths: 800 */
};

/* Takes the next element off a list of them, as Accept and Accept-Encoding have; it may be empty.
 * False where *list is NULL, as it is after the last. */
bool td_preference_next(const char **list, const char *end, struct td_preference *out);

#endif
