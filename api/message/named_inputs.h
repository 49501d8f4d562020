/* named_inputs.h - resolves inputs and outputs given by name, as in safetensors and in the Open
 * Inference Protocol: "params", or "indices.3" for a tensor of a list. "indices.3.ref" names a
 * resident tensor to use as this input. "indices.keys" holds keys of rows that replace row numbers
 * if the input accepts keys. request->row_keys_name can replace the name "indices.keys".
 *
 * Indices have no leading zeros. Tensors can come in any order. The caller first counts each tensor
 * (td_named_input_count), then allocates memory for all (td_named_inputs_alloc), then sets each
 * tensor (td_named_input_tensor, td_named_input_resolve). Inputs that the path names cannot be in
 * the body.
 *
 * Errors     MALFORMED_REQUEST: a name that is not an input; an input given twice, or row numbers
 *            together with keys; indices with gaps. RESOURCE_LIMIT (tensors). TENSOR_NOT_FOUND. */
#ifndef TD_API_MESSAGE_NAMED_INPUTS_H
#define TD_API_MESSAGE_NAMED_INPUTS_H

#include "api/message/message.h"
#include "api/text/text.h"

struct td_named_input {
    int input;     /* index among the op's inputs, or -1 if no input has this name */
    int64_t index; /* index in the list, or -1 if the input is not a list */
    bool keys;     /* true if these are row keys instead of the input */
    bool of_table; /* true if the request uses the name "keys" for the input */
};

struct td_named_input td_named_input_find(const struct td_request *request, const char *name,
                                          size_t length);

/* Returns the index of the output with this name, or -1 if there is none. The name is "output",
 * "outputs.3" if the op has a list of outputs, or the output's own name if the op has several
 * outputs. */
int64_t td_named_output_find(const struct td_op *op, const char *name, size_t length);

/* Appends the name of output `index`. */
void td_named_output_write(struct td_text *text, const struct td_op *op, int index);

/* Writes the possible names of outputs, for error messages: "output", "outputs.0, outputs.1, ..."
 * or "values, indices". Returns `text`. */
#define TD_TENSOR_NAMES_TEXT 160
const char *td_output_names_text(const struct td_op *op, char *text, size_t size);

/* Parses "INPUT.ref", where INPUT is the name of an input. Returns false if `key` does not have
 * this form. */
bool td_named_input_find_ref(const struct td_request *request, const char *key, size_t length,
                             struct td_named_input *out);

/* Finds the input with this name and counts one more tensor for this input. */
TD_MUST_CHECK td_status td_named_input_count(struct td_request *request, const char *name,
                                             size_t length, struct td_named_input *out,
                                             struct td_error *err);
TD_MUST_CHECK td_status td_named_input_count_ref(struct td_request *request,
                                                 struct td_named_input target,
                                                 struct td_error *err);

/* Allocates the tensors of all inputs, zeroed, after all tensors have been counted. */
TD_MUST_CHECK td_status td_named_inputs_alloc(struct td_request *request, struct td_arena *arena,
                                              struct td_error *err);

/* Sets *place to the tensor of an input, which the caller then fills in. Fails if the tensor is
 * already set or its index is too large. */
TD_MUST_CHECK td_status td_named_input_tensor(struct td_request *request,
                                              struct td_named_input target,
                                              struct td_tensor **place, struct td_error *err);

/* Sets an input to the resident tensor `name`. */
TD_MUST_CHECK td_status td_named_input_resolve(struct td_request *request,
                                               struct td_named_input target, const char *name,
                                               size_t length, struct td_resolver *resolver,
                                               struct td_arena *arena, struct td_error *err);

/* Writes the possible names of inputs in the body, for error messages: "indices.0, indices.1, ...;
 * data.0, data.1, ...". Must run before td_named_inputs_alloc. Returns `text`. */
const char *td_input_names_text(const struct td_request *request, char *text, size_t size);

/* Returns the owner of the inputs for error messages: the name of the op or, if the model is a
 * table, "the table". */
const char *td_inputs_owner(const struct td_request *request);

#endif
