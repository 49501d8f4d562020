/* op_pass.h - describes ops whose calls can share one pass over their data.
 *
 * Several calls that would each read the same large table are prepared one by one, computed
 * together by `run`, and finished one by one. Each call has its own shapes, errors and outputs, and
 * gets the same bits as from td_op.run.
 *
 * Threads  Constants; all functions are reentrant. */
#ifndef TD_KERNELS_OP_PASS_H
#define TD_KERNELS_OP_PASS_H

#include "kernels/op.h"

struct td_op_pass {
    /* True if a pass for one call also serves the other, and takes little longer for both. Both
     * have passed infer. If the relation holds for a and b, and for a and c, it holds for b and c.
     * A call that cannot join itself never shares a pass. */
    bool (*can_join)(const struct td_op_args *a, const struct td_op_args *b);
    /* Returns the address of the data that a call shares, if the call can join itself. */
    const void *(*data)(const struct td_op_args *args);
    /* Checks the values of a call's inputs, and prepares the call in exec->arena. The outputs are
     * allocated as for td_op.run. */
    td_status (*prepare)(struct td_op_args *args, struct td_exec *exec, struct td_error *err);
    /* Computes prepared calls. Each of them can join the first. If this fails, no call has
     * outputs. */
    td_status (*run)(struct td_op_args *const *calls, int n, struct td_exec *exec,
                     struct td_error *err);
    /* Completes the outputs of a computed call. */
    td_status (*finish)(struct td_op_args *args, struct td_exec *exec, struct td_error *err);
};

#endif
