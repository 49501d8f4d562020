/* named_inputs.h - inputs and outputs that are given by name, as in safetensors and in the Open
 * Inference Protocol: "params", or "indices.3" for a tensor of a list. "indices.3.ref" is the name
 * of a resident tensor for that input. "indices.keys" are keys of rows in place of their numbers,
 * where the input takes them; request->row_keys_name is another name of these.
 *
 * Indices have no leading zeros. Tensors may come in any order: first each is counted
 * (td_named_input_count), then memory for all is allocated (td_named_inputs_alloc), then each is
 * set (td_named_input_tensor, td_named_input_resolve). Inputs that the path names may not be in the
 * body.
 *
 * Errors     MALFORMED_REQUEST: a name that is not an input; an input given twice, or row numbers
 *            and keys; indices with gaps. RESOURCE_LIMIT (tensors). TENSOR_NOT_FOUND. */
#ifndef TD_API_MESSAGE_NAMED_INPUTS_H
#define TD_API_MESSAGE_NAMED_INPUTS_H

#include "api/message/message.h"
#include "api/text/text.h"

struct td_named_input {
    int input;     /* index among the op's inputs; -1: no input has this name */
    int64_t index; /* index in the list; -1 for an input that is not a list */
    bool keys;     /* request->row_keys, in place of the input */
    bool of_table; /* called "keys", as the path names a table with keys */
};

struct td_named_input td_named_input_find(const struct td_request *request, const char *name,
                                          size_t length);

/* Index of an output by its name: "output"; "outputs.3" if the op has a list of outputs; or the
 * name of one of several. -1: no output has this name. */
int64_t td_named_output_find(const struct td_op *op, const char *name, size_t length);

/* Appends the name of output `index`. */
void td_named_output_write(struct td_text *text, const struct td_op *op, int index);

/* The possible names of outputs, for messages: "output", "outputs.0, outputs.1, ...", "values,
 * indices". Returns text. */
#define TD_TENSOR_NAMES_TEXT 160
const char *td_output_names_text(const struct td_op *op, char *text, size_t size);

/* Parses "<name of an input>.ref". False if `key` is not that. */
bool td_named_input_find_ref(const struct td_request *request, const char *key, size_t length,
                             struct td_named_input *out);

/* Finds the input of this name and counts a tensor for it. */
TD_MUST_CHECK td_status td_named_input_count(struct td_request *request, const char *name,
                                             size_t length, struct td_named_input *out,
                                             struct td_error *err);
TD_MUST_CHECK td_status td_named_input_count_ref(struct td_request *request,
                                                 struct td_named_input target,
                                                 struct td_error *err);

/* Allocates the tensors of all inputs, zeroed, after all have been counted. */
TD_MUST_CHECK td_status td_named_inputs_alloc(struct td_request *request, struct td_arena *arena,
                                              struct td_error *err);

/* The tensor of an input, for the caller to set. Fails if it is set already or its index is too
 * large. */
TD_MUST_CHECK td_status td_named_input_tensor(struct td_request *request,
                                              struct td_named_input target,
                                              struct td_tensor **place, struct td_error *err);

/* Sets an input to the resident tensor `name`. */
TD_MUST_CHECK td_status td_named_input_resolve(struct td_request *request,
                                               struct td_named_input target, const char *name,
                                               size_t length, struct td_resolver *resolver,
                                               struct td_arena *arena, struct td_error *err);

/* The names that inputs in the body may have, for messages: "indices.0, indices.1, ...; data.0,
 * data.1, ...". Call it before td_named_inputs_alloc. Returns text. */
const char *td_input_names_text(const struct td_request *request, char *text, size_t size);

/* What has these inputs, for messages: the op, or a table that is a model. */
const char *td_inputs_owner(const struct td_request *request);

#endif
