/* op_limits.h - limits of a call of an op: --max-output, --max-flops, and the memory that it needs.
 *
 * Limits are checked at admission, from shapes, before memory is allocated.
 *
 * Errors   RESOURCE_LIMIT, in call->error, with the option that sets the limit */
#ifndef TD_SERVER_CALLS_OP_LIMITS_H
#define TD_SERVER_CALLS_OP_LIMITS_H

#include "server/calls/call.h"

/* Adds the option's name to the error if the error is about this limit. Returns `status`. */
td_status td_op_limits_name(struct td_call *call, td_status status, uint64_t limit,
                            const char *option);

/* Checks the total size of the op's outputs against --max-output, and also the total size of the
 * outputs to send or store, which can have another dtype. Writes the memory that all of these
 * outputs need to *bytes. For strings, counts only the offsets, because `exec` limits their bytes
 * while the op runs. */
TD_MUST_CHECK td_status td_op_limits_check_outputs(struct td_call *call, size_t *bytes);

/* Limits the length of the reply's text to --max-output, and writes an upper bound for it to
 * *bytes. The text of numbers can be several times longer than their bytes, so text of up to eight
 * characters per output byte is accepted in any case. */
TD_MUST_CHECK td_status td_op_limits_check_text(struct td_call *call, size_t *bytes);

TD_MUST_CHECK td_status td_op_limits_check_flops(struct td_call *call, uint64_t flops);

/* Returns the number of bytes needed to compute the outputs and encode the reply, without the
 * inputs. The number of threads is not known yet, so all workers are counted unless the computation
 * is single-threaded. */
size_t td_op_limits_memory(const struct td_call *call, const struct td_admission *admission);

#endif
