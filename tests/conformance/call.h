/* call.h - a request through the steps of server/calls/op_task.c: decode, infer, run, encode; with
 * memory that is counted and can be made to fail.
 *
 * The linker replaces the functions of kernels/arena.h that allocate (--wrap, in CMakeLists.txt).
 *
 * Threads    One call at a time; memory is taken by the test's own thread only, as exec.h says. */
#ifndef TD_TESTS_CONFORMANCE_CALL_H
#define TD_TESTS_CONFORMANCE_CALL_H

#include "kernels/op.h"
#include "tests/conformance/forms.h"

struct call {
    const struct td_op *op;
    enum form form;
    const struct body *body;
    struct td_exec *exec; /* NULL: this thread */
    td_isa isa;
    int parts; /* of the table, each computed by itself where the op can be split; 0: not split */
};

#define MOST_PARTS 4

/* Which allocations of a call fail. */
struct failing {
    int from; /* number of the first one, from 1; 0: none */
    bool all; /* those after it, too */
};

struct answer {
    td_status status;
    int http_status;
    const char *content_type;
    struct text body;
    size_t json_bytes; /* Inference-Header-Content-Length, or SIZE_MAX */
    int allocations;   /* tried */
};

/* Takes a call to its reply, or to that of its error. The body of the answer is in the arena; all
 * other memory of the call has been released, or the test fails. */
void call_answer(const struct call *call, struct failing failing, struct td_arena *arena,
                 struct answer *out);

#endif
