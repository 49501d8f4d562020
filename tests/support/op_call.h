/* op_call.h - runs an op in a test: arguments as text, an output or an error as the result. */
#ifndef TD_TESTS_SUPPORT_OP_CALL_H
#define TD_TESTS_SUPPORT_OP_CALL_H

#include "kernels/op.h"

struct op_call {
    struct td_op_args args;
    struct td_exec serial;
    struct td_error err;
    td_status status;
};

/* Takes the two inputs, and attributes as "axis=1 bounds=zero" ("" leaves the defaults); a value
 * with spaces is quoted: "equation='ij, jk'". args.inputs has copies in test_arena. */
void call_begin(struct op_call *call, const char *op, const char *attrs, struct td_tensor first,
                struct td_tensor second);

/* call_begin with lists of tensors of any length; the second list is ignored when the op has only
 * one input. */
void call_begin_lists(struct op_call *call, const char *op, const char *attrs, int n_first,
                      const struct td_tensor *first, int n_second, const struct td_tensor *second);

/* Checks the arguments and describes the output; sets call->status. */
void call_infer(struct op_call *call, const char *op);

/* call_infer, then allocates the output in test_arena and runs the op. exec NULL: on this thread.
 * The output is filled with arbitrary bytes first, as in a reused buffer. */
void call_run(struct op_call *call, const char *op, struct td_exec *exec);

/* Runs the op with memory for 0, 16, 32, ... bytes and no more. The first call must be refused for
 * want of memory, the last one succeed. */
void expect_memory_needed(const char *op, const char *attrs, struct td_tensor first,
                          struct td_tensor second);

/* Runs the op with time for all ranges, and with time for fewer: it ends with DEADLINE_EXCEEDED. It
 * must need more than `least` ranges. call_begin has set its arguments. */
void expect_deadlines(struct op_call *call, const char *op, int64_t least, const char *case_name);

/* The call has ended with this error. */
void expect_refusal(const struct op_call *call, td_status status, const char *message,
                    const char *input, const char *attribute, const char *case_name);

/* The error is an index out of bounds with this message. Its position and index, and its bound if
 * it has one, are those in the message. */
void expect_index_error(const struct td_error *err, const char *input, const char *message,
                        int64_t bad_count);

/* The shapes of the error have these names, with a space between two of them. */
void expect_shape_names(const struct td_error *err, const char *names);

/* call_begin and call_run. */
void call_op(struct op_call *call, const char *op, const char *attrs, struct td_tensor first,
             struct td_tensor second, struct td_exec *exec);

#endif
