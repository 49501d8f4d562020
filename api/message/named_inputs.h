/* named_inputs.h - tensors that carry the name of their input: "params", "indices.3" where the input is a
 * list. So they stand in safetensors and in the Open Inference Protocol; "indices.3.ref" is the
 * name of a resident tensor. Outputs are named likewise.
 *
 * Numbers have no leading zeros. First all tensors of a request are counted, whatever their order,
 * then each is put into its place. Inputs that the path has named may not stand in the body.
 *
 * Errors   MALFORMED_REQUEST: a name that no input has; an input given twice; numbers with gaps.
 *          RESOURCE_LIMIT (tensors). TENSOR_NOT_FOUND. */
#ifndef TD_API_MESSAGE_NAMED_INPUTS_H
#define TD_API_MESSAGE_NAMED_INPUTS_H

#include "api/message/message.h"
#include "api/text/text.h"

struct td_named_input {
    int input;     /* -1: no input has this name */
    int64_t index; /* -1 for an input that is no list */
};

struct td_named_input td_named_input_find(const struct td_op *op, const char *name, size_t length);

/* The number of an output by its name: "output", "outputs.3" where the op has a list of them, or the
 * name of one of several; -1: none has this name. */
int64_t td_named_output_find(const struct td_op *op, const char *name, size_t length);

/* Writes the name of an output. */
void td_named_output_write(struct td_text *text, const struct td_op *op, int index);

/* The names that outputs may have: "output", "outputs.0, outputs.1, ...", "values, indices". */
#define TD_TENSOR_NAMES_TEXT 160
const char *td_output_names_text(const struct td_op *op, char *text, size_t size);

/* Is `key` a target's name with ".ref" behind it? */
bool td_named_input_find_ref(const struct td_op *op, const char *key, size_t length,
                             struct td_named_input *out);

/* Counts the tensor of this name, and tells where it belongs. */
TD_MUST_CHECK td_status td_named_input_count(struct td_request *request, const char *name,
                                             size_t length, struct td_named_input *out,
                                             struct td_error *err);
TD_MUST_CHECK td_status td_named_input_count_ref(struct td_request *request,
                                                 struct td_named_input target,
                                                 struct td_error *err);

/* All are counted: allocates their places. */
TD_MUST_CHECK td_status td_named_inputs_alloc(struct td_request *request, struct td_arena *arena,
                                              struct td_error *err);

/* The place of a tensor, which the caller fills. */
TD_MUST_CHECK td_status td_named_input_tensor(struct td_request *request,
                                              struct td_named_input target,
                                              struct td_tensor **place, struct td_error *err);

/* Puts the resident tensor `name` into its place. */
TD_MUST_CHECK td_status td_named_input_resolve(struct td_request *request,
                                               struct td_named_input target, const char *name,
                                               size_t length, struct td_resolver *resolver,
                                               struct td_arena *arena, struct td_error *err);

/* The names that tensors of a request may have, "indices.0, indices.1, ...; data.0, data.1, ...";
 * before td_named_inputs_alloc. */
const char *td_input_names_text(const struct td_request *request, char *text, size_t size);

#endif
