/* attrs.h - sets an op's attributes and the request-wide members (device, response, timing, store)
 * from text or typed values.
 *
 * An attribute may be given as a JSON member or in the metadata of safetensors, and in the query
 * string with the same value. Another value there, an attribute that is given twice in one of
 * these, a value of the wrong kind and an unknown name are MALFORMED_REQUEST; for the last
 * did_you_mean is the nearest known name. Whether a value makes sense is checked by the op.
 *
 * Errors     `attribute` is set to the name; the JSON decoder adds the pointer. */
#ifndef TD_API_MESSAGE_ATTRS_H
#define TD_API_MESSAGE_ATTRS_H

#include "api/message/attr_values.h"
#include "api/message/message.h"

/* Sets the error for a name that is neither an input, an attribute nor a request-wide member.
 * `where` is TD_MEMBER, TD_METADATA or "query parameter". */
#define TD_MEMBER   "member"
#define TD_METADATA "metadata entry"
#define TD_PERSIST  "persist" /* in the query string of a change of a table */
td_status td_attrs_unknown(const struct td_request *request, const char *name, size_t length,
                           const char *where, struct td_error *err);

/* Sets the attribute or request-wide member `name`. If there is none of that name, *known is false
 * and nothing is set. */
TD_MUST_CHECK td_status td_attrs_set(struct td_request *request, const char *name, size_t length,
                                     const struct td_attr_value *value, struct td_arena *arena,
                                     bool *known, struct td_error *err);

/* As td_attrs_set, with a value given as text: "2" is an integer if the attribute is one, "0,2" a
 * list. */
TD_MUST_CHECK td_status td_attrs_set_text(struct td_request *request, const char *name,
                                          size_t length, const char *text, size_t text_length,
                                          struct td_arena *arena, bool *known,
                                          struct td_error *err);

/* As td_attrs_set_text, for the query string, which is read before the body. */
TD_MUST_CHECK td_status td_attrs_set_query(struct td_request *request, const char *name,
                                           size_t length, const char *text, size_t text_length,
                                           struct td_arena *arena, bool *known,
                                           struct td_error *err);

/* NULL-terminated lists of names: of the values of td_device_choice, of those of td_layout, and of
 * booleans, where odd indices are true. */
extern const char *const td_device_names[], *const td_layout_names[], *const td_bool_names[];

/* A hint for a client that asks for a layout that there is not. */
#define TD_BINARY_HINT                                                                             \
    "the header Accept selects a binary format, application/vnd.safetensors, for a resident "      \
    "tensor also application/x-npy"

/* As td_attr_choose, for text that is not an attribute of an op. */
TD_MUST_CHECK int td_attrs_choose(const char *name, const char *const *choices, const char *text,
                                  size_t length, struct td_error *err);

/* Initializes a request for op: default attributes, no inputs. */
void td_request_init(struct td_request *request, const struct td_op *op);

/* "keys" in the body of a request whose path names a table with keys: the keys to look up, whatever
 * the op calls them. Returns their input; -1 if `name` is not that. */
#define TD_TABLE_KEYS "keys"
int td_table_keys_input(const struct td_request *request, const char *name, size_t length);

/* Reports that a table has no keys, for an op that was to find its rows by them, and what to give
 * instead. `whole`: the table of which it is a part, whose keys number its rows; NULL for none.
 * `tensor` is in its place, perhaps the keys of the table; NULL: the table itself. */
td_status td_table_without_keys(const char *table, const char *whole,
                                const struct td_tensor *tensor, const struct td_op *op,
                                struct td_error *err);

/* If `name` is "keys", which the request cannot have as a member, reports why and how its rows are
 * chosen. Otherwise returns TD_OK. */
td_status td_table_keys_misplaced(const struct td_request *request, const char *name, size_t length,
                                  struct td_error *err);

/* Bit i is set if input i has a tensor already. Before the body is decoded, these are the inputs
 * that the path names. */
uint32_t td_inputs_set(const struct td_request *request);

/* Sets MALFORMED_REQUEST for an input that is in the body although the path names it. */
td_status td_input_set_by_path(const struct td_input_spec *spec, struct td_error *err);

#endif
