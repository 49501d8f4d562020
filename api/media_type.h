/* media_type.h - parses Content-Type and Accept, and lists of preferences such as Accept-Encoding.
 *
 *     json         application/json; for a body, also a missing type and the default of curl -d
 *     safetensors  application/vnd.safetensors, application/octet-stream
 *     npy          application/x-npy, application/npy
 *
 * Errors     UNSUPPORTED_MEDIA_TYPE, NOT_ACCEPTABLE; both name the supported formats.
 * Source     RFC 9110, sections 8.3, 12.4.2 and 12.5.1. */
#ifndef TD_API_MEDIA_TYPE_H
#define TD_API_MEDIA_TYPE_H

#include "api/message/message.h"

/* Sets of formats are bit masks. */
#define TD_FORMAT_BIT(name) (1u << TD_FORMAT_##name)

/* Finds the format of a body, which must be in the set `formats`. content_type can be NULL.
 * Parameters are ignored, except that JSON with a charset other than UTF-8 is an error. */
TD_MUST_CHECK td_status td_media_of_body(const char *content_type, unsigned formats, td_format *out,
                                         struct td_error *err);

/* True if Content-Type states the type of the body. False if it is missing or is the default type
 * of curl -d and --data-binary. */
bool td_media_is_stated(const char *content_type);

/* Finds the format of a reply from the q-values of Accept, which can be NULL. The format must be in
 * the set `formats`. Among formats with the same q-value, chooses `preferred`, otherwise the first
 * in the order of td_format. */
TD_MUST_CHECK td_status td_media_of_reply(const char *accept, unsigned formats, td_format preferred,
                                          td_format *out, struct td_error *err);

/* Returns the Content-Type of a reply in this format. */
const char *td_media_type(td_format format);

/* Lists the types of the formats, such as "application/json, application/vnd.safetensors or
 * application/x-npy". Returns `text`. */
#define TD_MEDIA_LIST 128
const char *td_media_list(unsigned formats, char text[TD_MEDIA_LIST]);

/* Part of a header's value. td_token_is compares it with a name, ignoring case. */
struct td_token {
    const char *text;
    size_t length;
};
bool td_token_is(struct td_token token, const char *name);

/* Element of a list of preferences, such as "gzip;q=0.8". A missing or malformed q-value counts as
 * 1. */
struct td_preference {
    struct td_token name;
    int weight; /* q-value in thousandths, such as 800 */
};

/* Removes the next element, which can be empty, from a list such as Accept or Accept-Encoding. Sets
 * *list to NULL after the last element. Returns false if *list is already NULL. */
bool td_preference_next(const char **list, const char *end, struct td_preference *out);

#endif
