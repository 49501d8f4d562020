/* attrs.h - fills an op's attributes and the request-wide members from text or typed values.
 *
 * The same attribute may come from a JSON member, from the query string or from safetensors
 * metadata; given twice, in one place or in two, it is MALFORMED_REQUEST. A value of the wrong kind
 * is MALFORMED_REQUEST too (what it means is for the op to judge). Unknown names are
 * MALFORMED_REQUEST with the nearest known one in did_you_mean.
 *
 * Errors   attribute is set to the name; the JSON decoder adds the pointer. */
#ifndef TD_API_ATTRS_H
#define TD_API_ATTRS_H

#include "api/message.h"

/* A value as the source spelled it. */
struct td_attr_value {
    enum { TD_VALUE_INT, TD_VALUE_TEXT, TD_VALUE_OTHER } kind;
    int64_t integer;  /* TD_VALUE_INT */
    const char *text; /* TD_VALUE_TEXT: the string; TD_VALUE_OTHER: what it is, "a list" */
    size_t text_length;
};

/* A name that is neither input, attribute nor request-wide member. `where` is "member", "query
 * parameter" or "metadata entry". */
td_status td_attrs_unknown(const struct td_op *op, const char *name, size_t length,
                           const char *where, struct td_error *err);

/* Sets what `name` names. *known is false, and nothing else happens, when it is neither an
 * attribute of the op nor a request-wide member (device, bounds, response, timing). */
TD_MUST_CHECK td_status td_attrs_set(struct td_request *request, const char *name, size_t length,
                                     const struct td_attr_value *value, struct td_arena *arena,
                                     bool *known, struct td_error *err);

/* The same from text alone, as in a query string: "2" is an integer where one is wanted. */
TD_MUST_CHECK td_status td_attrs_set_text(struct td_request *request, const char *name,
                                          size_t length, const char *text, size_t text_length,
                                          struct td_arena *arena, bool *known,
                                          struct td_error *err);

/* Begins a request for op: defaults everywhere, nothing set. */
void td_request_init(struct td_request *request, const struct td_op *op);

#endif
