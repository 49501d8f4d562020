/* attrs.h - fills an op's attributes and the request-wide members from text or typed values.
 *
 * The same attribute may come from a JSON member, from the query string or from safetensors
 * metadata; given twice, in one place or in two, it is MALFORMED_REQUEST. A value of the wrong kind
 * is MALFORMED_REQUEST too (what it means is for the op to judge). Unknown names are
 * MALFORMED_REQUEST with the nearest known one in did_you_mean.
 *
 * Errors   attribute is set to the name; the JSON decoder adds the pointer. */
#ifndef TD_API_MESSAGE_ATTRS_H
#define TD_API_MESSAGE_ATTRS_H

#include "api/message/attr_values.h"
#include "api/message/message.h"

/* A name that is neither input, attribute nor request-wide member. `where` is "member", "query
 * parameter" or "metadata entry". */
td_status td_attrs_unknown(const struct td_op *op, const char *name, size_t length,
                           const char *where, struct td_error *err);

/* Sets what `name` names. *known is false, and nothing else happens, when it is neither an
 * attribute of the op nor a request-wide member (device, response, timing, store). */
TD_MUST_CHECK td_status td_attrs_set(struct td_request *request, const char *name, size_t length,
                                     const struct td_attr_value *value, struct td_arena *arena,
                                     bool *known, struct td_error *err);

/* The same from text alone, as in a query string: "2" is an integer where one is wanted, "0,2" a list. */
TD_MUST_CHECK td_status td_attrs_set_text(struct td_request *request, const char *name,
                                          size_t length, const char *text, size_t text_length,
                                          struct td_arena *arena, bool *known,
                                          struct td_error *err);

/* Names of values, NULL at the end: those of td_device_choice and td_layout, and words for no and yes,
 * of which the odd ones mean yes. */
extern const char *const td_device_names[], *const td_layout_names[], *const td_bool_names[];

/* Which of the choices `text` is, for members that are no op's; -1 with err filled, as above. */
TD_MUST_CHECK int td_attrs_choose(const char *name, const char *const *choices, const char *text,
                                  size_t length, struct td_error *err);

/* Begins a request for op: defaults everywhere, nothing set. */
void td_request_init(struct td_request *request, const struct td_op *op);

/* The inputs that are set before the body is decoded, because the path names them: bit i is
 * input i. */
uint32_t td_inputs_set(const struct td_request *request);

/* The refusal of one that stands in the body all the same: MALFORMED_REQUEST. */
td_status td_input_set_by_path(const struct td_input_spec *spec, struct td_error *err);

#endif
