/* outputs.h - the outputs that a request sends or stores: the members `outputs` and `output_dtype`.
 *
 *     select     the value of `outputs` as a set of the op's outputs
 *     describe   after the op's infer: request->outputs, without data
 *     convert    after the op's run: the data
 *
 * Dtypes     Outputs of a floating-point dtype are converted as in the op cast: rounded once to
 *            nearest, ties to even; too large: infinity. Other outputs, complex outputs included,
 *            do not change.
 * Ownership  request->outputs is in the arena. Outputs that are not converted share their data with
 *            args.outputs.
 * Errors     MALFORMED_REQUEST for a name that is not an output, a repeated name or an empty list;
 *            INVALID_ARGUMENT for an output that the call does not have; RESOURCE_LIMIT;
 *            MEMORY_EXHAUSTED; those of exec. */
#ifndef TD_API_MESSAGE_OUTPUTS_H
#define TD_API_MESSAGE_OUTPUTS_H

#include "api/message/message.h"

/* Sets *set to the bit set of the outputs that the value lists. */
TD_MUST_CHECK td_status td_outputs_select(const struct td_op *op, const struct td_attr_value *value,
                                          uint64_t *set, struct td_error *err);

/* Describes the outputs to send or store. Requests without the two members keep
 * request->outputs = NULL. */
TD_MUST_CHECK td_status td_outputs_describe(struct td_request *request, struct td_arena *arena,
                                            struct td_error *err);

/* True if output i to send or store differs in dtype from the op's output. */
bool td_output_is_converted(const struct td_request *request, int i);

/* Sets the data of request->outputs. The caller has allocated the outputs that are converted. */
TD_MUST_CHECK td_status td_outputs_convert(struct td_request *request, struct td_exec *exec,
                                           struct td_error *err);

#endif
