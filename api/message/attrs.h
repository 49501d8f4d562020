/* attrs.h - sets an op's attributes and the request-wide members (device, response, timing, store)
 * from text or typed values.
 *
 * A request can set an attribute in its body (as a JSON member or in the metadata of safetensors),
 * in the query string, or in both if the values are equal. The error is MALFORMED_REQUEST if the
 * values differ, if an attribute occurs twice in one place, if a value has the wrong kind, or if a
 * name is unknown. For an unknown name, did_you_mean is the nearest known name. The op itself
 * checks whether a value makes sense.
 *
 * Errors     `attribute` is set to the name. The JSON decoder adds the pointer. */
#ifndef TD_API_MESSAGE_ATTRS_H
#define TD_API_MESSAGE_ATTRS_H

#include "api/message/attr_values.h"
#include "api/message/message.h"

/* Sets the error for a name that is not an input, attribute or request-wide member. `where` is
 * TD_MEMBER, TD_METADATA or "query parameter". */
#define TD_MEMBER   "member"
#define TD_METADATA "metadata entry"
#define TD_PERSIST  "persist" /* query parameter of requests that change a table */
td_status td_attrs_unknown(const struct td_request *request, const char *name, size_t length,
                           const char *where, struct td_error *err);

/* Sets the attribute or request-wide member `name`. If there is neither, sets *known to false and
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

/* NULL-terminated lists of names for the td_device_choice values, the td_layout values and
 * booleans. In td_bool_names, the names at odd indices mean true. */
extern const char *const td_device_names[], *const td_layout_names[], *const td_bool_names[];

/* Hint for a client that asks for an unknown layout. */
#define TD_BINARY_HINT                                                                             \
    "for a binary format, set the header Accept to application/vnd.safetensors or, for a "         \
    "resident tensor, application/x-npy"

/* Like td_attr_choose, for text that is not an attribute of an op. */
TD_MUST_CHECK int td_attrs_choose(const char *name, const char *const *choices, const char *text,
                                  size_t length, struct td_error *err);

/* Initializes a request for the op with default attributes and no inputs. */
void td_request_init(struct td_request *request, const struct td_op *op);

/* Member of the body that holds the keys to look up, whatever the op calls this input. The path of
 * a request with this member names a table with keys. td_table_keys_input returns the index of the
 * input, or -1 if `name` is not TD_TABLE_KEYS. */
#define TD_TABLE_KEYS "keys"
int td_table_keys_input(const struct td_request *request, const char *name, size_t length);

/* Sets the error for an op that needs keys but is used on a table without keys. The message says
 * what to send instead. If `table` is a part of another table, such as its scales, `whole` is the
 * name of that table, otherwise NULL. If the tensor that the request uses as the table might hold
 * the keys of `table`, `tensor` is that tensor, otherwise NULL. */
td_status td_table_without_keys(const char *table, const char *whole,
                                const struct td_tensor *tensor, const struct td_op *op,
                                struct td_error *err);

/* If `name` is "keys" and the request cannot have this member, sets an error that says why and how
 * to select rows. Otherwise returns TD_OK. */
td_status td_table_keys_misplaced(const struct td_request *request, const char *name, size_t length,
                                  struct td_error *err);

/* Returns a set in which bit i is set if input i already has a tensor. Before the body is decoded,
 * only the inputs that the path names have tensors. */
uint32_t td_inputs_set(const struct td_request *request);

/* Sets MALFORMED_REQUEST for an input in the body that the path already gives. */
td_status td_input_set_by_path(const struct td_input_spec *spec, struct td_error *err);

#endif
