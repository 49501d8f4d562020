/* op_call.h - runs an op in a test, from arguments written down to its output or its refusal. */
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
 * with spaces stands in quotes: "equation='ij, jk'". args.inputs has copies, in test_arena. */
void call_begin(struct op_call *call, const char *op, const char *attrs, struct td_tensor first,
                struct td_tensor second);

/* The same with lists of tensors, of any length; the second counts only where the op takes it. */
void call_begin_lists(struct op_call *call, const char *op, const char *attrs, int n_first,
                      const struct td_tensor *first, int n_second, const struct td_tensor *second);

/* Checks the arguments and describes the output; status tells. */
void call_infer(struct op_call *call, const char *op);

/* From inference to the output, in test_arena. exec may be NULL: then on this thread. The output is
 * filled with rubbish before, as a warm buffer would be. */
void call_run(struct op_call *call, const char *op, struct td_exec *exec);

/* All of it. */
void call_op(struct op_call *call, const char *op, const char *attrs, struct td_tensor first,
             struct td_tensor second, struct td_exec *exec);

#endif
