/* attrs.h - sets an op's attributes and the common members from text or typed values.
 *
 * A request can set them in its body (as JSON members or in the metadata of safetensors), in the
 * query string, or in both if the values are equal. The error is MALFORMED_REQUEST if the values
 * differ, if a name occurs twice in one place, or if a value has the wrong kind. The op itself
 * checks whether the value of an attribute makes sense.
 *
 * Errors     `attribute` is set to the name. The JSON decoder adds the pointer. */
#ifndef TD_API_MESSAGE_ATTRS_H
#define TD_API_MESSAGE_ATTRS_H

#include "api/message/attr_values.h"
#include "api/message/message.h"

/* Sets the attribute or common member `name`. If there is neither, sets *known to false and
 * changes nothing. */
TD_MUST_CHECK td_status td_attrs_set(struct td_request *request, const char *name, size_t length,
                                     const struct td_attr_value *value, struct td_arena *arena,
                                     bool *known, struct td_error *err);

/* Like td_attrs_set, for a value given as text: "2" becomes an integer if the attribute is an
 * integer, and "0,2" becomes a list. */
TD_MUST_CHECK td_status td_attrs_set_text(struct td_request *request, const char *name,
                                          size_t length, const char *text, size_t text_length,
                                          struct td_arena *arena, bool *known,
                                          struct td_error *err);

/* Like td_attrs_set_text, for the query string, which is read before the body. */
TD_MUST_CHECK td_status td_attrs_set_query(struct td_request *request, const char *name,
                                           size_t length, const char *text, size_t text_length,
                                           struct td_arena *arena, bool *known,
                                           struct td_error *err);

#endif
