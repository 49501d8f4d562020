#include "kernels/by_rows.h"
#include "tests/support/op_call.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

enum { FIRST = 1, SECOND = 2, BOTH = 3 }; /* sets of tensors */

static const struct {
    const char *op, *attrs, *first, *second;
    td_tensor_set rows;
    bool by_rows;
} cases[] = {
    /* elementwise */
    { "add", "", "float32[2,3]", "float32[2,3]", BOTH, true },
    { "add", "", "float32[2,3]", "float32[2,3]", FIRST, false },
    { "add", "", "float32[2,3]", "float32[3]", FIRST, true },
    { "add", "", "float32[2,3]", "float32[1,3]", FIRST, true },
    { "add", "", "float32[2,3]", "float32[]", FIRST, true },
    { "add", "", "float32[1,3]", "float32[2,3]", FIRST, false },
    { "add", "", "float32[3]", "float32[3,3]", BOTH, false },
    { "add", "", "float32[]", "float32[]", BOTH, false },
    { "add", "", "float32[2]", "float32[2]", 0, false },
    { "cast", "dtype=int32", "float32[4]", NULL, FIRST, true },
    /* along an axis */
    { "softmax", "", "float32[2,3]", NULL, FIRST, true },
    { "softmax", "axis=0", "float32[2,3]", NULL, FIRST, false },
    { "softmax", "", "float32[3]", NULL, FIRST, false },
    { "layer_norm", "", "float32[2,3]", "float32[3]", FIRST, true },
    { "layer_norm", "axis=0", "float32[2,3]", "float32[2,3]", FIRST, false },
    { "layer_norm", "", "float32[3,3]", "float32[3]", BOTH, false },
    { "reduce_sum", "axes=1", "float32[2,3]", NULL, FIRST, true },
    { "reduce_sum", "axes=-2", "float32[2,3]", NULL, FIRST, false },
    { "reduce_max", "axes=0 keepdims=true", "float32[1,3]", NULL, FIRST, false },
    { "reduce_mean", "", "float32[2,3]", NULL, FIRST, false },
    { "argmax", "axis=1", "float32[2,3]", NULL, FIRST, true },
    { "argmax", "axis=0", "float32[2,2]", NULL, FIRST, false },
    { "cumsum", "axis=1", "float32[2,3]", NULL, FIRST, true },
    { "cumsum", "axis=-2", "float32[2,3]", NULL, FIRST, false },
    { "top_k", "k=2", "float32[2,3]", NULL, FIRST, true },
    { "top_k", "k=2 axis=0", "float32[2,3]", NULL, FIRST, false },
    /* shapes */
    { "reshape", "shape=2,6", "float32[2,3,2]", NULL, FIRST, true },
    { "reshape", "shape=3,4", "float32[2,3,2]", NULL, FIRST, false },
    { "expand_dims", "axis=1", "float32[2,3]", NULL, FIRST, true },
    { "expand_dims", "axis=0", "float32[2,3]", NULL, FIRST, false },
    { "transpose", "perm=0,2,1", "float32[2,3,4]", NULL, FIRST, true },
    { "transpose", "perm=-3,2,1", "float32[2,3,4]", NULL, FIRST, true },
    { "transpose", "", "float32[2,2]", NULL, FIRST, false },
    { "slice", "starts=1 stops=3 axes=1", "float32[2,3]", NULL, FIRST, true },
    { "slice", "starts=0,1 stops=9,3", "float32[2,3]", NULL, FIRST, true },
    { "slice", "starts=1 stops=3", "float32[3,3]", NULL, FIRST, false },
    { "slice", "starts=-1 stops=-9 steps=-1", "float32[3,3]", NULL, FIRST, false },
    { "concat", "axis=1", "float32[2,3]; float32[2,1]", NULL, BOTH, true },
    { "concat", "axis=1", "float32[2,3]; float32[2,1]", NULL, FIRST, false },
    { "concat", "axis=-2", "float32[2,3]; float32[0,3]", NULL, BOTH, false },
    { "stack", "axis=1", "float32[2]; float32[2]", NULL, BOTH, true },
    { "stack", "axis=-1", "float32[2]; float32[2]", NULL, BOTH, true },
    { "stack", "axis=0", "float32[2]; float32[2]", NULL, BOTH, false },
    { "one_hot", "depth=3", "int32[2]", NULL, FIRST, true },
    { "one_hot", "depth=3", "int32[]", NULL, FIRST, false },
    /* rows of a table */
    { "gather", "", "float32[5,2]", "int32[3]", SECOND, true },
    { "gather", "", "float32[5,2]", "int32[3]", FIRST, false },
    { "gather", "", "float32[5,2]", "int32[]", SECOND, false },
    { "gather", "axis=1", "float32[3,5]", "int32[3]", FIRST, true },
    { "gather", "axis=1", "float32[3,5]", "int32[3]", SECOND, false },
    { "gather", "axis=1 batch_dims=1", "float32[3,5]", "int32[3,2]", BOTH, true },
    { "gather", "axis=1", "float32[3,5]", "int32[3]", BOTH, false },
    { "batch_gather", "", "float32[3,5]", "int32[3,2]", BOTH, true },
    { "gather_nd", "", "float32[3,5]", "int32[4,2]", SECOND, true },
    { "find", "", "int64[5]", "int64[3]", SECOND, true },
    { "find", "", "int64[3]", "int64[3]", BOTH, false },
    { "embedding_bag", "", "float32[5,2]", "int32[3,4]", SECOND, true },
    { "embedding_bag", "", "float32[3,2]", "int32[3,4]", BOTH, false },
    { "search", "k=1", "float32[5,2]", "float32[3,2]", SECOND, true },
    { "search", "k=2", "float32[5,2]", "float32[2]", SECOND, false },
    /* sums of products */
    { "einsum", "equation=bd,df->bf", "float32[2,3]; float32[3,4]", NULL, FIRST, true },
    { "einsum", "equation=bd,df->bf", "float32[2,3]; float32[3,4]", NULL, BOTH, false },
    { "einsum", "equation=bd,fd->fb", "float32[2,3]; float32[2,3]", NULL, FIRST, false },
    { "einsum", "equation=bij,bjk->bik", "float32[2,3,4]; float32[2,4,5]", NULL, BOTH, true },
    { "einsum", "equation=bij,bjk->bik", "float32[2,3,4]; float32[2,4,5]", NULL, FIRST, false },
    { "einsum", "equation=bb->b", "float32[3,3]", NULL, FIRST, false },
    { "einsum", "equation=b->bb", "float32[3]", NULL, FIRST, false },
    { "einsum", "equation=bd->d", "float32[3,3]", NULL, FIRST, false },
    { "einsum", "equation=...d,df->...f", "float32[2,3]; float32[3,4]", NULL, FIRST, true },
    { "einsum", "equation=...,...->...", "float32[1,3]; float32[2,3]", NULL, FIRST, false },
    /* others */
    { "unsorted_segment_sum", "num_segments=2", "float32[2]", "int32[2]", BOTH, false },
};

/* Describes the tensors of a list without data. Returns their number. */
static int describe(const char *list, struct td_tensor tensors[2])
{
    char text[64];
    int n = 0;
    snprintf(text, sizeof(text), "%s", list ? list : "");
    for (char *rest, *one = strtok_r(text, "; ", &rest); one; one = strtok_r(NULL, "; ", &rest))
        tensors[n++] = tensor_without_data(one);
    return n;
}

TD_TEST_EACH(an_op_computes_rows_of_some_inputs, cases)
{
    struct op_call call;
    struct td_tensor lists[2][2];
    const int n_first = describe(cases[_i].first, lists[0]);
    const int n_second = describe(cases[_i].second, lists[1]);
    call_begin_lists(&call, cases[_i].op, cases[_i].attrs, n_first, lists[0], n_second, lists[1]);
    call_infer(&call, cases[_i].op);
    ck_assert_msg(call.status == TD_OK, "%s %s: %s", cases[_i].op, cases[_i].attrs,
                  call.err.message);
    ck_assert_msg(td_op_by_rows(&call.args, cases[_i].rows) == cases[_i].by_rows,
                  "%s %s with %s and %s", cases[_i].op, cases[_i].attrs, cases[_i].first,
                  cases[_i].second ? cases[_i].second : "nothing");
}
