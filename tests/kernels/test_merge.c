/* Compares merged calls with the original ones: all are run by the op's kernel, and the output of
 * the merged call must be the concatenation of the outputs of the original calls. */
#include "kernels/einsum/einsum.h"
#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/merge.h"
#include "kernels/op_rows.h"
#include "tests/support/equations.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_CALLS 9

static const struct td_op *find(const char *name)
{
    return td_op_named(name, strlen(name));
}

static int n_tensors(const struct td_op *op, const struct td_op_args *args)
{
    int n = 0;
    for (int i = 0; i < op->n_inputs; i++)
        n += args->inputs[i].count;
    return n;
}

static struct td_tensor *tensor_at(const struct td_op_args *args, int number)
{
    int i = 0;
    while (number >= args->inputs[i].count)
        number -= args->inputs[i++].count;
    return &args->inputs[i].tensors[number];
}

/* ---- Merging, running, comparing --------------------------------------------------------- */

static void alloc(struct td_tensor *t, const char *case_name)
{
    struct td_error err;
    EXPECT(td_tensor_alloc(t, &test_arena, &err) == TD_OK, "%s: %s", case_name, err.message);
    memset(t->data, 0xA5, t->bytes);
}

/* Fills the inputs of the merged call as merge.h says: shared data from the first call, other data
 * by td_merge_copy. */
static void fill_inputs(const struct td_op *op, struct td_merged *merged,
                        const struct td_op_args *const *calls, int n, uint32_t shared,
                        const char *case_name)
{
    for (int t = 0; t < n_tensors(op, calls[0]); t++) {
        struct td_tensor *to = tensor_at(&merged->args, t);
        EXPECT(to->data == NULL && to->owner == NULL, "%s: tensor %d has data", case_name, t);
        if (shared >> t & 1) {
            *to = *tensor_at(calls[0], t);
            continue;
        }
        alloc(to, case_name);
        td_merge_copy(op, calls, n, t, to->data, NULL, NULL);
    }
}

/* For complex numbers the sign of a 0 may differ: it depends on the order of the sums. */
static bool same_elements(td_dtype dtype, const void *a, const void *b, size_t bytes)
{
    if (memcmp(a, b, bytes) == 0)
        return true;
    bool is_complex = dtype == TD_DTYPE_COMPLEX64 || dtype == TD_DTYPE_COMPLEX128;
    size_t size = dtype == TD_DTYPE_COMPLEX64 ? sizeof(float) : sizeof(double);
    for (size_t at = 0; is_complex && at < bytes; at += size) {
        const void *x = (const char *)a + at, *y = (const char *)b + at;
        if (size == sizeof(float) ? *(const float *)x != *(const float *)y
                                  : *(const double *)x != *(const double *)y)
            return false;
    }
    return is_complex;
}

/* Output j. */
static void expect_slices(const struct td_merged *merged, const struct td_op_args *const *calls,
                          int n, int j, const char *case_name)
{
    const struct td_tensor *out = &merged->args.outputs[j];
    size_t at = 0;
    for (int c = 0; c < n; c++) {
        const struct td_tensor *want = &calls[c]->outputs[j];
        const size_t begin = merged->output_begin[c * merged->args.n_outputs + j];
        EXPECT(begin == at, "%s: output %d begins at %zu, should at %zu", case_name, c, begin, at);
        EXPECT(out->dtype == want->dtype && at + want->bytes <= out->bytes &&
                   same_elements(out->dtype, (char *)out->data + at, want->data, want->bytes),
               "%s: output %d", case_name, c);
        at += want->bytes;
    }
    EXPECT(at == out->bytes, "%s: the output is too large", case_name);
}

static void expect_item_ends(const struct td_op *op, const struct td_merged *merged,
                             const struct td_op_args *const *calls, int n, const char *case_name)
{
    int64_t end = 0;
    for (int c = 0; op->rows && c < n; c++) {
        end += calls[c]->inputs[td_op_rows_input(op, TD_ROW_PART_QUERY)].tensors->numel;
        EXPECT(merged->item_end[c] == end, "%s: item %d", case_name, c);
    }
    EXPECT(!merged->item_end == !op->rows, "%s: items", case_name);
}

static void expect_all_fit(const struct td_op *op, const struct td_op_args *const *calls, int n,
                           uint32_t shared, td_merge_kind kind, const char *case_name)
{
    for (int a = 0; a < n; a++) {
        EXPECT(td_merge_kind_of(op, calls[a], shared) == kind, "%s: kind of %d", case_name, a);
        for (int b = 0; b < n; b++) {
            EXPECT(td_merge_fits(calls[a], calls[b], shared), "%s: %d and %d", case_name, a, b);
            EXPECT(td_merge_key(op, calls[a], shared) == td_merge_key(op, calls[b], shared),
                   "%s: keys of %d and %d", case_name, a, b);
        }
    }
}

static void run(const struct td_op *op, struct td_op_args *args, const char *case_name)
{
    struct td_error err;
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    for (int i = 0; i < args->n_outputs; i++)
        alloc(&args->outputs[i], case_name);
    EXPECT(op->run(args, &exec, &err) == TD_OK, "%s: %s", case_name, err.message);
}

/* Runs the calls, after infer, and the merged call, and compares the outputs. */
static void expect_merges_as(td_merge_kind kind, const char *name, struct op_call *call, int n,
                             uint32_t shared, struct td_merged *merged, const char *case_name)
{
    const struct td_op *op = find(name);
    const struct td_op_args *calls[MAX_CALLS];
    struct td_error err;
    int64_t replaced = 0;
    for (int c = 0; c < n; c++) {
        EXPECT(call[c].status == TD_OK, "%s: %s", case_name, call[c].err.message);
        run(op, &call[c].args, case_name);
        replaced += call[c].args.replaced;
        calls[c] = &call[c].args;
    }
    expect_all_fit(op, calls, n, shared, kind, case_name);
    EXPECT(td_merge_calls(op, calls, n, shared, &test_arena, merged, &err) == TD_OK, "%s: %s",
           case_name, err.message);
    EXPECT(merged->args.n_outputs == call[0].args.n_outputs && !merged->args.outputs[0].data,
           "%s: outputs", case_name);
    fill_inputs(op, merged, calls, n, shared, case_name);
    run(op, &merged->args, case_name);
    for (int j = 0; j < merged->args.n_outputs; j++)
        expect_slices(merged, calls, n, j, case_name);
    expect_item_ends(op, merged, calls, n, case_name);
    EXPECT(merged->args.replaced == replaced, "%s: replaced", case_name);
}

static void expect_merges(const char *name, struct op_call *call, int n, uint32_t shared,
                          struct td_merged *merged, const char *case_name)
{
    expect_merges_as(find(name)->rows ? TD_MERGE_CONCAT : TD_MERGE_STACK, name, call, n, shared,
                     merged, case_name);
}

/* ---- Lookups ----------------------------------------------------------------------------- */

#define TABLE 1u

/* attrs, indices; up to the first without indices. */
struct lookup {
    const char *attrs, *indices;
};

static const struct {
    const char *case_name, *op, *params;
    struct lookup calls[4];
    const char *merged_indices, *merged_output; /* shapes */
} lookups[] = {
    { "vectors of indices", "gather", "float32[5,2] 0..9",
      LIST(LIST("", "int32[2] 4 0"), LIST("", "int32[3] 1 1 2")), "[5]", "[5,2]" },
    { "one call", "gather", "float32[5,2] 0..9", LIST(LIST("", "int64[2] 4 0")), "[2]", "[2,2]" },
    { "indices of any rank", "gather", "int16[5] 0..4",
      LIST(LIST("", "int64[] 3"), LIST("", "int64[2,3] 0 1 2 3 4 0"), LIST("", "int64[1,1,1] 2")),
      "[8]", "[8]" },
    { "one call without indices", "gather", "int8[5,3] 0..14",
      LIST(LIST("", "int16[0]"), LIST("", "int16[2] 1 2"), LIST("", "int16[3,0]")), "[2]",
      "[2,3]" },
    { "all calls without indices", "gather", "int8[5,3] 0..14",
      LIST(LIST("", "int16[0]"), LIST("", "int16[0,7]")), "[0]", "[0,3]" },
    { "the first axis, given as different values", "gather", "float64[3,2] 0..5",
      LIST(LIST("axis=0", "int32[1] 2"), LIST("axis=-2 batch_dims=0", "int32[2] 1 0"),
           LIST("batch_dims=-2", "int32[1,2] 1 0"), LIST("", "int32[] 1")),
      "[6]", "[6,2]" },
    { "rows without elements", "gather", "float64[3,0]",
      LIST(LIST("", "int32[1] 2"), LIST("", "int32[2] 1 0")), "[3]", "[3,0]" },
    { "the policy zero", "gather", "complex64[2] 1 2 3 4",
      LIST(LIST("bounds=zero", "int32[2] 1 2"), LIST("bounds=zero", "int32[2] -1 0")), "[4]",
      "[4]" },
    { "clip", "gather", "uint8[3] 1 2 3",
      LIST(LIST("bounds=clip", "int32[2] 1 9"), LIST("bounds=clip", "int32[2] -1 0")), "[4]",
      "[4]" },
    { "wrap", "gather", "bool[3] 1 0 1",
      LIST(LIST("bounds=wrap", "int32[2] 1 9"), LIST("bounds=wrap", "int32[2] -1 0")), "[4]",
      "[4]" },
    { "zeros from an empty table", "gather", "float32[0,2]",
      LIST(LIST("bounds=zero", "int32[2] 0 1"), LIST("bounds=zero", "int32[1] 5")), "[3]",
      "[3,2]" },
    { "a batch_gather without batch dimensions", "batch_gather", "int32[4,2] 0..7",
      LIST(LIST("", "int32[1] 3"), LIST("", "int32[2] 0 1")), "[3]", "[3,2]" },
    { "pairs", "gather_nd", "float32[2,3] 0..5",
      LIST(LIST("", "int32[2,2] 1 2 0 0"), LIST("", "int32[2] 1 1")), "[3,2]", "[3]" },
    { "tuples that pick slices", "gather_nd", "float32[2,3,2] 0..11",
      LIST(LIST("", "int64[1] 1"), LIST("", "int64[2,2,1] 1 0 0 1"), LIST("", "int64[0,1]")),
      "[5,1]", "[5,3,2]" },
    { "empty tuples, which pick all of params", "gather_nd", "float32[2] 3 4",
      LIST(LIST("", "int64[0]"), LIST("", "int64[2,2,0]")), "[5,0]", "[5,2]" },
    { "tuples with the policy clip", "gather_nd", "int16[2,2] 1 2 3 4",
      LIST(LIST("bounds=clip", "int16[1,2] 5 -5"), LIST("bounds=clip", "int16[1,2] 0 1")), "[2,2]",
      "[2]" },
    { "keys", "find", "int64[3] 7 -1 9",
      LIST(LIST("", "int64[2] 9 8"), LIST("", "int64[] -1"), LIST("", "int64[1,2] 7 7")), "[5]",
      "[5]" },
    { "tuples with the policy zero", "gather_nd", "int16[2,2] 1 2 3 4",
      LIST(LIST("bounds=zero", "int16[1,2] 5 -5"), LIST("bounds=zero", "int16[1,2] 0 1")), "[2,2]",
      "[2]" },
};

static int begin_lookups(const char *op, const struct td_tensor *params, const struct lookup *given,
                         struct op_call *call)
{
    int n = 0;
    for (; n < 4 && given[n].indices; n++) {
        call_begin(&call[n], op, given[n].attrs, *params, tensor(given[n].indices));
        call_infer(&call[n], op);
        EXPECT(call[n].status == TD_OK, "%s", call[n].err.message);
    }
    return n;
}

TD_TEST_EACH(lookups_in_one_table_are_merged, lookups)
{
    struct op_call call[4];
    struct td_merged merged;
    struct td_tensor params = tensor(lookups[_i].params);
    int n = begin_lookups(lookups[_i].op, &params, lookups[_i].calls, call);
    expect_merges(lookups[_i].op, call, n, TABLE, &merged, lookups[_i].case_name);
    expect_shape(&merged.args.inputs[1].tensors[0].shape, lookups[_i].merged_indices,
                 lookups[_i].case_name);
    expect_shape(&merged.args.outputs[0].shape, lookups[_i].merged_output, lookups[_i].case_name);
}

static void give(struct op_call *call, int input, const char *text)
{
    if (!text)
        return;
    struct td_tensor *copy = td_arena_alloc(&test_arena, 1, sizeof(*copy), TD_IGNORED);
    ck_assert_ptr_nonnull(copy);
    *copy = tensor(text);
    call->args.inputs[input] = (struct td_operand){ copy, 1 };
}

/* ---- Lookups by key ---------------------------------------------------------------------- */

#define TABLE_AND_KEYS 3u

/* Inputs of a call besides params and keys; up to the first without queries. */
struct keyed_inputs {
    const char *queries, *defaults;
};

static const struct {
    const char *case_name, *params, *keys, *attrs;
    struct keyed_inputs calls[4];
    const char *merged_output;
} keyed[] = {
    { "rows and whether they were found", "float32[3,2] 0..5", "int64[3] 7 -1 9", "missing=zero",
      LIST(LIST("int64[2] 9 8", NULL), LIST("int64[] -1", NULL), LIST("int64[1,2] 7 5", NULL)),
      "[5,2]" },
    { "all must be there", "uint8[2] 4 5", "uint64[2] 1 2", "",
      LIST(LIST("uint64[1] 2", NULL), LIST("uint64[0]", NULL), LIST("uint64[2] 1 1", NULL)),
      "[3]" },
    { "a default for each query", "int16[2,2] 1 2 3 4", "int64[2] 1 2", "missing=default",
      LIST(LIST("int64[2] 2 3", "int16[2,2] 5 6 7 8"), LIST("int64[] 9", "int16[2] -1 -2")),
      "[3,2]" },
};

TD_TEST_EACH(lookups_by_key_are_merged, keyed)
{
    enum { PARAMS, KEYS, QUERIES, DEFAULT };
    struct op_call call[4];
    struct td_merged merged;
    const struct td_tensor params = tensor(keyed[_i].params), keys = tensor(keyed[_i].keys);
    int n = 0;
    for (; n < 4 && keyed[_i].calls[n].queries; n++) {
        call_begin(&call[n], "lookup", keyed[_i].attrs, params, keys);
        give(&call[n], QUERIES, keyed[_i].calls[n].queries);
        give(&call[n], DEFAULT, keyed[_i].calls[n].defaults);
        call_infer(&call[n], "lookup");
    }
    expect_merges("lookup", call, n, TABLE_AND_KEYS, &merged, keyed[_i].case_name);
    expect_shape(&merged.args.outputs[0].shape, keyed[_i].merged_output, keyed[_i].case_name);
}

/* Another call may have another default. */
TD_TEST(a_lookup_with_one_default_for_all_is_not_merged)
{
    struct op_call call;
    call_begin(&call, "lookup", "missing=default", tensor("int16[2] 1 2"), tensor("int64[2] 1 2"));
    give(&call, 2, "int64[1] 3");
    give(&call, 3, "int16[] 9");
    call_infer(&call, "lookup");
    ck_assert_int_eq(call.status, TD_OK);
    ck_assert_int_eq(td_merge_kind_of(find("lookup"), &call.args, TABLE_AND_KEYS), TD_MERGE_NONE);
}

/* ---- Bags -------------------------------------------------------------------------------- */

#define SCALE_AND_OFFSET (3u << 3) /* of calls without weights: the tensors after the bags */

/* The inputs of a call besides params, in the order of the descriptor; NULL: not given. */
struct bag_inputs {
    const char *indices, *offsets, *segment_ids, *weights;
};

static const struct {
    const char *case_name, *params, *scale, *attrs;
    struct bag_inputs calls[4];
    const char *merged_bags, *merged_output;
} bags[] = {
    { "offsets are raised by the indices before", "float32[4,2] 0..7", NULL, "",
      LIST(LIST("int32[3] 3 1 0", "int32[2] 0 2", NULL, NULL),
           LIST("int32[2] 2 2", "int32[3] 0 0 2", NULL, NULL),
           LIST("int32[1] 1", "int32[1] 0", NULL, NULL)),
      "int64[6] 0 2 3 3 5 5", "[6,2]" },
    { "segment ids are raised by the bags before", "float32[4,2] 0..7", NULL, "mode=mean",
      LIST(LIST("int64[3] 3 1 0", NULL, "int32[3] 0 0 2", NULL),
           LIST("int64[0]", NULL, "int32[0]", NULL),
           LIST("int64[2] 2 2", NULL, "int32[2] 1 1", NULL)),
      "int64[5] 0 0 2 4 4", "[5,2]" },
    { "weights are concatenated", "float64[4] 1 2 4 8", NULL, "mode=sqrtn padding_index=2",
      LIST(LIST("int32[3] 3 2 0", "int64[1] 0", NULL, "float64[3] 1 2 0.5"),
           LIST("int32[2] 2 1", "int64[2] 0 1", NULL, "float64[2] -1 3")),
      "int64[3] 0 3 4", "[3]" },
    { "scale and offset are of the table", "int8[2,2] 1 -2 3 4", "float32[2] 0.5 2; float32[2] 1 0",
      "mode=max bounds=zero",
      LIST(LIST("int32[2] 1 0", "int16[1] 0", NULL, NULL),
           LIST("int32[3] 0 5 -1", "int16[2] 0 1", NULL, NULL)),
      "int64[3] 0 2 3", "[3,2]" },
    { "calls without indices", "float32[4,2] 0..7", NULL, "",
      LIST(LIST("int32[0]", "int32[2] 0 0", NULL, NULL), LIST("int32[0]", "int32[0]", NULL, NULL)),
      "int64[2] 0 0", "[2,2]" },
};

static void begin_bags(struct op_call *call, const char *attrs, const struct td_tensor *params,
                       const struct td_tensor scale[2], const struct bag_inputs *given)
{
    call_begin(call, "embedding_bag", attrs, *params, tensor(given->indices));
    give(call, TD_BAG_OFFSETS, given->offsets);
    give(call, TD_BAG_SEGMENT_IDS, given->segment_ids);
    give(call, TD_BAG_WEIGHTS, given->weights);
    for (int i = 0; scale && i < 2; i++) {
        struct td_tensor *copy = td_arena_alloc(&test_arena, 1, sizeof(*copy), TD_IGNORED);
        *copy = scale[i];
        call->args.inputs[TD_BAG_SCALE + i] = (struct td_operand){ copy, 1 };
    }
    call_infer(call, "embedding_bag");
    EXPECT(call->status == TD_OK, "%s", call->err.message);
}

TD_TEST_EACH(bags_of_one_table_are_merged, bags)
{
    struct op_call call[4];
    struct td_merged merged;
    struct td_tensor scale[2], params = tensor(bags[_i].params);
    const bool scaled = bags[_i].scale && tensor_list(bags[_i].scale, scale, 2) == 2;
    int n = 0;
    for (; n < 4 && bags[_i].calls[n].indices; n++) {
        begin_bags(&call[n], bags[_i].attrs, &params, scaled ? scale : NULL, &bags[_i].calls[n]);
        ck_assert(td_op_embedding_bag.valid(&call[n].args));
    }
    const uint32_t shared = TABLE | (scaled ? SCALE_AND_OFFSET : 0);
    ck_assert_uint_eq(td_merge_shared(&td_op_embedding_bag, &call[0].args, UINT32_MAX), shared);
    expect_merges("embedding_bag", call, n, shared, &merged, bags[_i].case_name);
    const struct td_tensor *offsets = merged.args.inputs[TD_BAG_OFFSETS].tensors;
    const struct td_tensor *got =
        offsets ? offsets : merged.args.inputs[TD_BAG_SEGMENT_IDS].tensors;
    const struct td_tensor want = tensor(bags[_i].merged_bags);
    EXPECT(got->dtype == want.dtype && got->numel == want.numel, "%s", bags[_i].case_name);
    for (int64_t i = 0; i < want.numel; i++)
        EXPECT(td_tensor_index_at(got, i) == td_tensor_index_at(&want, i), "%s: bag of %" PRId64,
               bags[_i].case_name, i);
    expect_shape(&merged.args.outputs[0].shape, bags[_i].merged_output, bags[_i].case_name);
}

/* a does not merge with b, by what differs from the second case of bags. */
static const struct {
    const char *case_name, *attrs;
    struct bag_inputs inputs;
} other_bags[] = {
    { "another mode", "mode=sum", { "int64[2] 2 2", NULL, "int32[2] 0 1", NULL } },
    { "a padding index", "mode=mean padding_index=0", { "int64[1] 2", NULL, "int32[1] 0", NULL } },
    { "another dtype", "mode=mean dtype=float16", { "int64[1] 2", NULL, "int32[1] 0", NULL } },
    { "another policy", "mode=mean bounds=clip", { "int64[1] 2", NULL, "int32[1] 0", NULL } },
    { "weights", "mode=mean", { "int64[1] 2", NULL, "int32[1] 0", "float32[1] 2" } },
    { "offsets", "mode=mean", { "int64[1] 2", "int32[1] 0", NULL, NULL } },
};

TD_TEST_EACH(bags_of_other_calls_are_not_merged, other_bags)
{
    const struct bag_inputs plain = { "int64[2] 2 2", NULL, "int32[2] 0 1", NULL };
    struct td_tensor params = tensor("float32[4,2] 0..7");
    struct op_call a, b, c;
    begin_bags(&a, "mode=mean", &params, NULL, &plain);
    begin_bags(&b, other_bags[_i].attrs, &params, NULL, &other_bags[_i].inputs);
    begin_bags(&c, "mode=mean num_segments=7", &params, NULL, &plain);
    const struct td_op *op = &td_op_embedding_bag;
    EXPECT(!td_merge_fits(&a.args, &b.args, TABLE), "%s", other_bags[_i].case_name);
    EXPECT(td_merge_key(op, &a.args, TABLE) != td_merge_key(op, &b.args, TABLE), "%s",
           other_bags[_i].case_name);
    ck_assert(td_merge_fits(&a.args, &c.args, TABLE)); /* another number of segments */
}

TD_TEST(indices_in_no_bag_are_not_merged)
{
    const struct bag_inputs none = { "int32[2] 1 2", "int32[0]", NULL, NULL };
    struct td_tensor params = tensor("float32[4,2] 0..7");
    struct op_call call;
    begin_bags(&call, "", &params, NULL, &none);
    ck_assert_int_eq(td_merge_kind_of(&td_op_embedding_bag, &call.args, TABLE), TD_MERGE_NONE);
}

static const struct {
    const char *case_name;
    struct bag_inputs inputs;
    bool valid;
} orders[] = {
    { "offsets", { "int32[3] 0 1 2", "int16[3] 0 1 3", NULL, NULL }, true },
    { "no bags", { "int32[3] 0 1 2", "int32[0]", NULL, NULL }, true },
    { "offsets that do not begin at 0", { "int32[3] 0 1 2", "int32[2] 1 2", NULL, NULL }, false },
    { "offsets that decrease", { "int32[3] 0 1 2", "int64[3] 0 2 1", NULL, NULL }, false },
    { "offsets beyond the end", { "int32[3] 0 1 2", "int32[2] 0 4", NULL, NULL }, false },
    { "segment ids", { "int32[3] 0 1 2", NULL, "int16[3] 1 1 2", NULL }, true },
    { "no segment ids", { "int32[0]", NULL, "int32[0]", NULL }, true },
    { "segment ids that decrease", { "int32[3] 0 1 2", NULL, "int32[3] 1 0 2", NULL }, false },
    { "negative segment ids", { "int32[3] 0 1 2", NULL, "int64[3] -1 0 2", NULL }, false },
};

TD_TEST_EACH(a_device_gets_valid_offsets_and_segment_ids_only, orders)
{
    struct td_tensor params = tensor("float32[4,2] 0..7");
    struct op_call call;
    begin_bags(&call, "", &params, NULL, &orders[_i].inputs);
    EXPECT(td_op_embedding_bag.valid(&call.args) == orders[_i].valid, "%s", orders[_i].case_name);
}

/* ---- Sums of products -------------------------------------------------------------------- */

static const struct {
    const char *case_name, *equation, *merged, *inputs;
    uint32_t shared;
} sums[] = {
    { "products of matrices", "ij,jk->ik", "aij,ajk->aik", "float32[2,3] 0..5; float32[3,2] 1..6",
      0 },
    { "the second input is shared", "ij,jk->ik", "aij,jk->aik",
      "float32[2,3] 0..5; float32[3,2] 1..6", 2 },
    { "the first input is shared", "ij,jk->ik", "ij,ajk->aik",
      "float32[2,3] 0..5; float32[3,2] 1..6", 1 },
    { "an implicit output is sorted", "kj,ji", "akj,aji->aik", "int32[2,3] 0..5; int32[3,4] 0..11",
      0 },
    { "the new label comes first in the output, whatever its code point", "ab,bc", "dab,dbc->dac",
      "int32[2,3] 0..5; int32[3,4] 0..11", 0 },
    { "the new label is the only one of the output", "i,i", "ai,ai->a",
      "int64[3] 1 2 3; int64[3] 4 5 6", 0 },
    { "spaces are removed", " i j , j -> i ", "aij,aj->ai", "uint8[2,2] 1 2 3 4; uint8[2] 5 6", 0 },
    { "the ellipsis keeps its position", "i...j,...j->j...i", "ai...j,a...j->aj...i",
      "int32[2,2,3] 0..11; int32[4,1,3] 0..11", 0 },
    { "the ellipsis of a shared input keeps its position", "...ij,jk->...ik", "...ij,ajk->a...ik",
      "int32[2,2,3] 0..11; int32[3,1] 1 2 3", 1 },
    { "an ellipsis in an implicit output", "i...,...j", "ai...,a...j->a...ij",
      "int32[2,3] 0..5; int32[3,4] 0..11", 0 },
    { "an ellipsis without dimensions is removed", "i...j->...ji", "aij->aji", "int32[2,3] 0..5",
      0 },
    { "an ellipsis of a scalar is removed", "...,...i->...i", "a,a...i->a...i",
      "int32[] 3; int32[2,3] 0..5", 0 },
    { "a diagonal", "ii->i", "aii->ai", "int16[3,3] 0..8", 0 },
    { "a trace", "ii", "aii->a", "int16[3,3] 0..8", 0 },
    { "a diagonal of the output", "i->ii", "ai->aii", "int16[3] 1 2 3", 0 },
    { "scalars", "->", "a->a", "float64[] 2.5", 0 },
    { "an empty equation", "", "a->a", "float64[] 2.5", 0 },
    { "a shared scalar", ",i->i", ",ai->ai", "int8[] 3; int8[2] 1 2", 1 },
    { "an input whose labels are not in the output", "i,j->i", "i,aj->ai",
      "int8[2] 3 4; int8[2] 1 2", 1 },
    { "labels that are not ASCII letters",
      "\xc3\xa9\xe2\x88\x91,\xe2\x88\x91"
      "1->1\xc3\xa9",
      "a\xc3\xa9\xe2\x88\x91,a\xe2\x88\x91"
      "1->a1\xc3\xa9",
      "int32[2,3] 0..5; int32[3,2] 1..6", 0 },
    { "all ASCII letters are used", "abcdefghijklm,nopqrstuvwxyz,ABCDEFGHIJKLM,NOPQRSTUVWXYZ->Z",
      "\xc4\x80"
      "abcdefghijklm,\xc4\x80nopqrstuvwxyz,\xc4\x80"
      "ABCDEFGHIJKLM,NOPQRSTUVWXYZ->\xc4\x80Z",
      "int8[1,1,1,1,1,1,1,1,1,1,1,1,1] 2; int8[1,1,1,1,1,1,1,1,1,1,1,1,1] 3; "
      "int8[1,1,1,1,1,1,1,1,1,1,1,1,1] 4; int8[1,1,1,1,1,1,1,1,1,1,1,1,2] 5 6",
      8 },
    { "an empty output", "ij,jk->ik", "aij,ajk->aik", "int32[0,3]; int32[3,2] 1..6", 0 },
    { "empty sums", "ij,jk->ik", "aij,ajk->aik", "int32[2,0]; int32[0,2]", 0 },
    { "sixteen inputs", "i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i->i",
      "ai,i,ai,i,ai,i,ai,i,ai,i,ai,i,ai,i,ai,i->ai",
      "int64[2] 1 2; int64[2] 2 3; int64[2] 3 4; int64[2] 4 5; int64[2] 5 6; int64[2] 6 7; "
      "int64[2] 7 8; int64[2] 8 9; int64[2] 9 1; int64[2] 1 2; int64[2] 2 3; int64[2] 3 4; "
      "int64[2] 4 5; int64[2] 5 6; int64[2] 6 7; int64[2] 7 8",
      0xaaaa },
    { "15 dimensions", "abcdefghijklmno->onmlkjihgfedcba", "pabcdefghijklmno->ponmlkjihgfedcba",
      "int8[1,2,1,1,1,1,1,1,3,1,1,1,1,1,2] 0..11", 0 },
    { "a shared input of 16 dimensions", "abcdefghijklmnop,p->p", "abcdefghijklmnop,qp->qp",
      "int8[1,2,1,1,1,1,1,1,3,1,1,1,1,1,1,2] 0..11; int8[2] 3 4", 1 },
};

/* Makes calls with one equation: the first has these inputs, the others different values in inputs
 * that are not shared. */
static void begin_sums(const char *equation, const struct td_tensor *inputs, int n_inputs,
                       uint32_t shared, struct op_call *call, int n)
{
    char attrs[1000];
    snprintf(attrs, sizeof(attrs), "equation='%s'", equation);
    for (int c = 0; c < n; c++) {
        call_begin_lists(&call[c], "einsum", attrs, n_inputs, inputs, 0, NULL);
        for (int i = 0; c > 0 && i < n_inputs; i++) {
            struct td_tensor *t = &call[c].args.inputs[0].tensors[i];
            if (shared >> i & 1)
                continue;
            alloc(t, equation);
            size_t size = td_dtype_info(t->dtype)->size;
            for (int64_t k = 0; k < t->numel; k++) /* reversed: different values of the same kind */
                memcpy((char *)t->data + (size_t)k * size,
                       (const char *)inputs[i].data + (size_t)((k + c) % t->numel) * size, size);
        }
        call_infer(&call[c], "einsum");
        EXPECT(call[c].status == TD_OK, "%s: %s", equation, call[c].err.message);
    }
}

static const char *equation_of(const struct td_op_args *args)
{
    struct td_einsum_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.equation;
}

TD_TEST_EACH(sums_of_products_are_stacked, sums)
{
    struct op_call call[3];
    struct td_merged merged;
    struct td_tensor inputs[16];
    int n_inputs = tensor_list(sums[_i].inputs, inputs, 16);
    for (int n = 1; n <= 3; n++) {
        begin_sums(sums[_i].equation, inputs, n_inputs, sums[_i].shared, call, n);
        expect_merges("einsum", call, n, sums[_i].shared, &merged, sums[_i].case_name);
        ck_assert_msg(strcmp(equation_of(&merged.args), sums[_i].merged) == 0, "%s: %s",
                      sums[_i].case_name, equation_of(&merged.args));
        for (int i = 0; i < n_inputs; i++) {
            const struct td_shape *shape = &merged.args.inputs[0].tensors[i].shape;
            bool stacked = !(sums[_i].shared >> i & 1);
            ck_assert_int_eq(shape->rank, inputs[i].shape.rank + stacked);
            ck_assert(!stacked || shape->dim[0] == n);
        }
    }
}

/* The largest number of labels, 255 (one input of rank 15, the others of rank 16): the new label is
 * the 256th. */
TD_TEST(a_new_label_is_found_for_any_equation)
{
    char equation[16 * 16 * 3 + 32], *at = equation;
    struct td_tensor inputs[16];
    struct op_call call[2];
    struct td_merged merged;
    for (int i = 0, label = 0; i < 16; i++) {
        struct td_shape dims = { .rank = i < 15 ? 16 : 15 };
        for (int d = 0; d < dims.rank; d++, label++) {
            dims.dim[d] = 1 + (d == 3);
            *at++ = (char)(0xd0 + label / 64); /* from U+0400 on */
            *at++ = (char)(0x80 + label % 64);
        }
        *at++ = i < 15 ? ',' : '-';
        inputs[i] = random_tensor(TD_DTYPE_INT32, &dims);
    }
    strcpy(at, ">\xd0\x83");
    begin_sums(equation, inputs, 16, 0x7fff, call, 2);
    expect_merges("einsum", call, 2, 0x7fff, &merged, equation);
}

/* ---- Searches ---------------------------------------------------------------------------- */

static const struct {
    const char *case_name, *attrs, *queries[3];
} searches[] = {
    { "single queries", "k=2", { "float32[2] 1 2", "float32[2] 3 -1", "float32[2] 0 1" } },
    { "matrices of queries",
      "k=3; metric=cosine",
      { "float32[2,2] 1 2 3 4", "float32[2,2] 4 -3 2 1", "float32[2,2] 0 0 1 1" } },
    { "matrices of one query",
      "k=9; metric=l2",
      { "float64[1,2] 1 2", "float64[1,2] 3 4", "float64[1,2] 5 6" } },
    { "no queries", "k=1", { "float32[0,2]", "float32[0,2]", "float32[0,2]" } },
};

TD_TEST_EACH(searches_of_one_table_are_stacked, searches)
{
    struct op_call call[3];
    struct td_merged merged;
    struct td_tensor inputs[2];
    tensor_list("float32[4,2] 1 2 3 4 4 3 2 1", inputs, 1);
    for (int n = 1; n <= 3; n++) {
        for (int c = 0; c < n; c++) {
            tensor_list(searches[_i].queries[c], &inputs[1], 1);
            call_begin_lists(&call[c], "search", searches[_i].attrs, 1, &inputs[0], 1, &inputs[1]);
            call_infer(&call[c], "search");
        }
        expect_merges("search", call, n, TABLE, &merged, searches[_i].case_name);
    }
}

/* ---- Rows -------------------------------------------------------------------------------- */

/* The inputs of three calls. An input with one text is shared. */
static const struct {
    const char *op, *attrs, *first[3], *second[3];
} rows[] = {
    { "softmax", "", { "float32[2,2] 1 2 3 4", "float32[1,2] 0 9", "float32[3,2] 0..5" }, { 0 } },
    { "layer_norm",
      "",
      { "float32[1,3] 1 2 4", "float32[2,3] 0 9 3 5 5 5", "float32[0,3]" },
      { "float32[3] 1 -1 2" } },
    { "add",
      "",
      { "int32[1,2] 1 2", "int32[2,2] 3 4 5 6", "int32[1,2] 7 8" },
      { "int32[1,2] 5 5", "int32[2,2] 0 1 0 1", "int32[1,2] 9 9" } },
    { "multiply",
      "",
      { "float32[1,2] 1 2", "float32[2,2] 3 4 5 6", "float32[1,2] 7 8" },
      { "float32[2] 10 100" } },
    { "reduce_sum",
      "axes=1",
      { "float32[1,2] 1 2", "float32[2,2] 3 4 5 6", "float32[0,2]" },
      { 0 } },
    { "top_k", "k=1", { "float32[1,2] 1 2", "float32[2,2] 3 4 6 5", "float32[3,2] 0..5" }, { 0 } },
    { "transpose",
      "perm=0,2,1",
      { "int8[1,2,2] 1 2 3 4", "int8[2,2,2] 0..7", "int8[1,2,2] 4 3 2 1" },
      { 0 } },
    { "embedding_bag",
      "",
      { "float32[4,2] 0..7" },
      { "int32[1,3] 3 0 0", "int32[2,3] 1 2 3 0 0 0", "int32[1,3] 2 2 2" } },
    { "embedding_bag",
      "bounds=zero",
      { "float32[4,2] 0..7" },
      { "int32[1,3] 3 9 0", "int32[2,3] 1 2 3 -4 -5 0", "int32[1,3] 2 2 2" } },
    { "search",
      "k=2",
      { "float32[4,1] 5 1 7 3" },
      { "float32[5,1] 1 2 3 -4 5", "float32[6,1] 0..5", "float32[5,1] 0 1 0 -1 0" } },
};

TD_TEST_EACH(calls_whose_rows_are_independent_are_merged, rows)
{
    struct op_call call[3];
    struct td_merged merged;
    struct td_tensor lists[2][1];
    const bool second = rows[_i].second[0] != NULL;
    uint32_t shared = !rows[_i].first[1];
    shared |= second && !rows[_i].second[1] ? 2 : 0;
    for (int c = 0; c < 3; c++) {
        if (c == 0 || rows[_i].first[1])
            tensor_list(rows[_i].first[c], lists[0], 1);
        if (second && (c == 0 || rows[_i].second[1]))
            tensor_list(rows[_i].second[c], lists[1], 1);
        call_begin_lists(&call[c], rows[_i].op, rows[_i].attrs, 1, lists[0], second, lists[1]);
        call_infer(&call[c], rows[_i].op);
    }
    expect_merges_as(TD_MERGE_ROWS, rows[_i].op, call, 3, shared, &merged, rows[_i].op);
}

/* ---- What does not merge ----------------------------------------------------------------- */

static const struct {
    const char *case_name, *op, *attrs, *first, *second;
    uint32_t shared;
} unmergeable[] = {
    { "another axis", "gather", "axis=1", "int32[2,3] 0..5", "int32[1] 0", 1 },
    { "batches", "gather", "batch_dims=1", "int32[2,3] 0..5", "int32[2] 0 1", 1 },
    { "batch dimensions, counted from the end", "gather", "batch_dims=-1", "int32[2,3] 0..5",
      "int32[2,1] 0 1", 1 },
    { "a table that is not shared", "gather", "", "int32[2,3] 0..5", "int32[1] 0", 0 },
    { "indices that are shared", "gather", "", "int32[2,3] 0..5", "int32[1] 0", 3 },
    { "strings", "gather", "", "string[2] 'a' 'b'", "int32[1] 0", 1 },
    { "keys that are not shared", "find", "", "int64[2] 1 2", "int64[1] 2", 0 },
    { "keys that are strings", "find", "", "string[2] 'a' 'b'", "string[1] 'a'", 1 },
    { "batch dimensions of batch_gather", "batch_gather", "", "int32[2,3] 0..5", "int32[2,1] 0 1",
      1 },
    { "batch dimensions of gather_nd", "gather_nd", "batch_dims=1", "int32[2,3] 0..5",
      "int32[2,1] 0 1", 1 },
    { "tuples into a table that is not shared", "gather_nd", "", "int32[2,3] 0..5", "int32[1] 0",
      0 },
    { "strings in gather_nd", "gather_nd", "", "string[2] 'a' 'b'", "int32[1] 0", 1 },
    { "empty tuples whose number overflows", "gather_nd", "", "int32[0]",
      "int32[4611686018427387904,4,0]", 1 },
    { "a table that is not shared", "search", "k=1", "float32[2,1] 1 2", "float32[1] 1", 0 },
    { "a shared query", "search", "k=1", "float32[2,1] 1 2", "float32[1] 1", 3 },
    { "all inputs are shared", "einsum", "equation=ij,jk", "int32[1,2] 1 2; int32[2,1] 1 2", NULL,
      3 },
    { "an input of rank 16", "einsum", "equation=abcdefghijklmnop->",
      "int32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 1", NULL, 0 },
    { "an output of rank 16", "einsum", "equation=abcdefgh,ijklmnop",
      "int32[1,1,1,1,1,1,1,1] 1; int32[1,1,1,1,1,1,1,1] 1", NULL, 1 },
    { "stitching", "dynamic_stitch", "", "int32[1] 0; int32[] 1", "int32[1] 5; int32[] 6", 0 },
    { "an op without merge", "parallel_dynamic_stitch", "", "int32[1] 0", "int32[1] 5", 0 },
    { "partitions", "dynamic_partition", "num_partitions=2", "int32[2] 5 6", "int32[2] 0 1", 0 },
};

static void begin_call(struct op_call *call, const char *op, const char *attrs, const char *first,
                       const char *second)
{
    struct td_tensor lists[2][16];
    int n_first = tensor_list(first, lists[0], 16);
    int n_second = second ? tensor_list(second, lists[1], 16) : 0;
    call_begin_lists(call, op, attrs, n_first, lists[0], n_second, lists[1]);
    call_infer(call, op);
    EXPECT(call->status == TD_OK, "%s", call->err.message);
}

TD_TEST_EACH(some_calls_cannot_be_merged, unmergeable)
{
    struct op_call call;
    begin_call(&call, unmergeable[_i].op, unmergeable[_i].attrs, unmergeable[_i].first,
               unmergeable[_i].second);
    const struct td_op *op = find(unmergeable[_i].op);
    ck_assert_msg(td_merge_kind_of(op, &call.args, unmergeable[_i].shared) == TD_MERGE_NONE, "%s",
                  unmergeable[_i].case_name);
    ck_assert_msg(td_merge_key(op, &call.args, unmergeable[_i].shared) == 0, "%s",
                  unmergeable[_i].case_name);
}

/* `same`: the set of tensors that both calls have in common. */
static const struct {
    const char *case_name, *op, *a_attrs, *a, *a_indices, *b_attrs, *b, *b_indices;
    uint32_t shared, same;
} incompatible[] = {
    { "another table", "gather", "", "int32[2] 1 2", "int32[1] 0", "", "int32[2] 1 2", "int32[1] 0",
      1, 0 },
    { "another policy", "gather", "bounds=clip", "int32[2] 1 2", "int32[1] 0", "bounds=wrap",
      "int32[2] 1 2", "int32[1] 0", 1, 1 },
    { "indices of another dtype", "gather", "", "int32[2] 1 2", "int32[1] 0", "", "int32[2] 1 2",
      "int64[1] 0", 1, 1 },
    { "equal attributes, which mean a batch with these indices", "gather", "batch_dims=-1",
      "int32[2,2] 1 2 3 4", "int32[1] 0", "batch_dims=-1", "int32[2,2] 1 2 3 4", "int32[2,1] 0 0",
      1, 1 },
    { "another policy of batch_gather", "batch_gather", "bounds=clip", "int32[2] 1 2", "int32[1] 0",
      "", "int32[2] 1 2", "int32[1] 0", 1, 1 },
    { "longer tuples", "gather_nd", "", "int32[2,2] 1 2 3 4", "int32[1,1] 0", "",
      "int32[2,2] 1 2 3 4", "int32[1,2] 0 0", 1, 1 },
    { "another equation", "einsum", "equation=ij->ij", "int32[2,2] 1 2 3 4", NULL,
      "equation=ij->ji", "int32[2,2] 1 2 3 4", NULL, 0, 0 },
    { "a longer equation", "einsum", "equation=ij->i", "int32[2,2] 1 2 3 4", NULL,
      "equation=ij->ij", "int32[2,2] 1 2 3 4", NULL, 0, 0 },
    { "another dtype", "einsum", "equation=ij->ij", "int32[2,2] 1 2 3 4", NULL, "equation=ij->ij",
      "uint32[2,2] 1 2 3 4", NULL, 0, 0 },
    { "another shape", "einsum", "equation=ij->ij", "int32[2,2] 1 2 3 4", NULL, "equation=ij->ij",
      "int32[1,4] 1 2 3 4", NULL, 0, 0 },
    { "another rank", "einsum", "equation=...->...", "int32[4] 1 2 3 4", NULL, "equation=...->...",
      "int32[4,1] 1 2 3 4", NULL, 0, 0 },
    { "another number of inputs", "einsum", "equation=i,i", "int32[1] 1; int32[1] 1", NULL,
      "equation=i,i,i", "int32[1] 1; int32[1] 1; int32[1] 1", NULL, 0, 0 },
    { "another matrix than the shared input", "einsum", "equation=ij,j", "int32[1,1] 1; int32[1] 1",
      NULL, "equation=ij,j", "int32[1,1] 1; int32[1] 1", NULL, 1, 0 },
};

TD_TEST_EACH(some_calls_cannot_be_merged_with_each_other, incompatible)
{
    struct op_call a, b;
    begin_call(&a, incompatible[_i].op, incompatible[_i].a_attrs, incompatible[_i].a,
               incompatible[_i].a_indices);
    begin_call(&b, incompatible[_i].op, incompatible[_i].b_attrs, incompatible[_i].b,
               incompatible[_i].b_indices);
    const struct td_op *op = find(incompatible[_i].op);
    for (int t = 0; t < n_tensors(op, &b.args); t++)
        if (incompatible[_i].same >> t & 1)
            *tensor_at(&b.args, t) = *tensor_at(&a.args, t);
    const uint32_t shared = incompatible[_i].shared;
    ck_assert_msg(!td_merge_fits(&a.args, &b.args, shared), "%s", incompatible[_i].case_name);
    ck_assert_msg(!td_merge_fits(&b.args, &a.args, shared), "%s", incompatible[_i].case_name);
    bool both = td_merge_kind_of(op, &a.args, shared) != TD_MERGE_NONE &&
                td_merge_kind_of(op, &b.args, shared) != TD_MERGE_NONE;
    ck_assert_msg(!both || td_merge_key(op, &a.args, shared) != td_merge_key(op, &b.args, shared),
                  "%s: keys", incompatible[_i].case_name);
}

TD_TEST(an_equation_is_compared_by_its_text)
{
    struct op_call a, b;
    begin_call(&a, "einsum", "equation=ij->i", "int32[2,2] 1 2 3 4", NULL);
    begin_call(&b, "einsum", "equation=ij->i", "int32[2,2] 1 2 3 4", NULL);
    ck_assert_ptr_ne(equation_of(&a.args), equation_of(&b.args));
    ck_assert(td_merge_fits(&a.args, &b.args, 0));
}

/* ---- What is too large ------------------------------------------------------------------- */

static const struct {
    const char *case_name, *op, *attrs, *first, *second, *input;
    int n;
    uint32_t shared;
} large[] = {
    { "indices", "gather", "", "int8[4]", "int16[2305843009213693952]", "indices", 2, 1 },
    { "rows of indices", "gather", "", "int8[4]", "int16[2305843009213693952]", "", 4, 1 },
    { "elements of indices", "gather_nd", "", "int8[1,1]", "int16[1152921504606846976,2]", "", 4,
      1 },
    { "the output", "gather", "", "int8[4,8]", "int16[288230376151711744]", "output", 4, 1 },
    { "tuples", "gather_nd", "", "int8[3,0]", "int16[4611686018427387904,0]", "", 2, 1 },
    { "an input", "einsum", "equation=i->", "float32[1152921504606846976]", NULL, "inputs", 2, 0 },
    { "the output of a shared input", "einsum", "equation=i,->i", "int8[4611686018427387904]",
      "int8[] 1", "output", 2, 1 },
};

TD_TEST_EACH(a_merged_call_that_is_too_large_is_refused, large)
{
    struct op_call call;
    struct td_tensor inputs[2] = { tensor_without_data(large[_i].first) };
    bool is_einsum = strcmp(large[_i].op, "einsum") == 0;
    int n_first = 1;
    if (large[_i].second)
        inputs[1] = tensor_without_data(large[_i].second), n_first += is_einsum;
    call_begin_lists(&call, large[_i].op, large[_i].attrs, n_first, inputs, !is_einsum, inputs + 1);
    call_infer(&call, large[_i].op);
    ck_assert_msg(call.status == TD_OK, "%s: %s", large[_i].case_name, call.err.message);
    const struct td_op_args *calls[] = { &call.args, &call.args, &call.args, &call.args };
    const struct td_op *op = find(large[_i].op);
    struct td_merged merged;
    struct td_error err;
    ck_assert(td_merge_fits(&call.args, &call.args, large[_i].shared));
    td_status status =
        td_merge_calls(op, calls, large[_i].n, large[_i].shared, &test_arena, &merged, &err);
    ck_assert_msg(status == TD_RESOURCE_LIMIT && err.status == status, "%s", large[_i].case_name);
    ck_assert_msg(strcmp(err.input, large[_i].input) == 0, "%s: %s", large[_i].case_name,
                  err.message);
    ck_assert_int_eq(
        td_merge_calls(op, calls, large[_i].n, large[_i].shared, &test_arena, &merged, TD_IGNORED),
        TD_RESOURCE_LIMIT);
    ck_assert_int_eq(td_merge_calls(op, calls, 1, large[_i].shared, &test_arena, &merged, &err),
                     TD_OK);
}

/* Each allocation fails in turn. */
TD_TEST(exhausted_memory_is_reported)
{
    static _Alignas(64) char block[1 << 14];
    struct op_call lookup, sum;
    begin_call(&lookup, "gather", "", "int32[2] 1 2", "int32[1] 0");
    begin_call(&sum, "einsum", "equation=ij,jk", "int32[1,2] 1 2; int32[2,1] 1 2", NULL);
    for (int kind = 0; kind < 2; kind++) {
        const struct td_op_args *calls[] = { kind ? &sum.args : &lookup.args,
                                             kind ? &sum.args : &lookup.args };
        td_status status = TD_MEMORY_EXHAUSTED;
        int n_failed = 0;
        for (size_t size = 0; status != TD_OK && size <= sizeof(block); size += 32) {
            struct td_arena arena;
            struct td_merged merged;
            struct td_error err;
            td_arena_init(&arena, block, size, &no_memory);
            status = td_merge_calls(kind ? &td_op_einsum : find("gather"), calls, 2, !kind, &arena,
                                    &merged, &err);
            EXPECT(status == TD_OK || status == TD_MEMORY_EXHAUSTED, "%zu bytes", size);
            n_failed += status != TD_OK;
            td_arena_reset(&arena);
        }
        ck_assert_int_eq(status, TD_OK);
        ck_assert_int_gt(n_failed, 3);
    }
}

/* ---- At random --------------------------------------------------------------------------- */

static void random_indices(struct td_tensor *indices, const struct td_shape *params, int depth,
                           bool any)
{
    size_t size = td_dtype_info(indices->dtype)->size;
    for (int64_t i = 0; i < indices->numel; i++) {
        int64_t bound = params->dim[depth > 0 ? i % depth : 0];
        int64_t index = bound > 0 ? random_below((int)bound) : 0;
        if (any && random_below(4) == 0)
            index = random_below(40) - 20;
        memcpy((char *)indices->data + (size_t)i * size, &index, size);
    }
}

/* Writes random attributes that mean axis 0 without batch dimensions. */
static void random_attrs(char *text, size_t size, int op, td_bounds policy,
                         const struct td_shape *params, const struct td_shape *indices)
{
    int used = snprintf(text, size, "bounds=%s", td_bounds_name(policy));
    if (op == 0 && random_below(2))
        used += snprintf(text + used, size - (size_t)used, " axis=%d",
                         random_below(2) ? 0 : -params->rank);
    if (op == 0 && random_below(2))
        snprintf(text + used, size - (size_t)used, " batch_dims=%d",
                 random_below(2) ? 0 : -indices->rank);
}

TD_TEST_LOOP(random_lookups_are_merged, 0, 10)
{
    static const char *const ops[] = { "gather", "batch_gather", "gather_nd" };
    static const td_dtype index_dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    for (int seed = _i * 100; seed < (_i + 1) * 100; seed++) {
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        const int op = random_below(3), n = 1 + random_below(MAX_CALLS);
        td_bounds policy = (td_bounds)random_below(TD_BOUNDS_COUNT);
        struct td_shape table = { .rank = 1 + random_below(4) };
        for (int d = 0; d < table.rank; d++)
            table.dim[d] = random_below(15) ? 1 + random_below(6) : 0;
        int depth = random_below(table.rank + 1);
        for (int d = 0; d < (op == 2 ? depth : 1); d++)
            if (table.dim[d] == 0)
                policy = TD_BOUNDS_ZERO; /* the only policy that is not an error */
        struct td_tensor params = random_tensor((td_dtype)random_below(TD_DTYPE_STRING), &table);
        td_dtype dtype = index_dtypes[random_below(3)];
        struct op_call call[MAX_CALLS];
        char case_name[100] = "", attrs[80];
        snprintf(case_name, sizeof(case_name), "seed %d: %s", seed, ops[op]);
        for (int c = 0; c < n; c++) {
            struct td_shape dims = { .rank = op == 1 ? 1 : random_below(4) };
            for (int d = 0; d < dims.rank; d++)
                dims.dim[d] = random_below(10) ? 1 + random_below(5) : 0;
            if (op == 2)
                dims.dim[dims.rank++] = depth;
            struct td_tensor indices = random_tensor(dtype, &dims);
            /* With an empty table all indices are out of range, and only the policy zero has an
             * output. */
            random_indices(&indices, &table, op == 2 ? depth : 0, policy != TD_BOUNDS_ERROR);
            random_attrs(attrs, sizeof(attrs), op, policy, &table, &dims);
            call_begin(&call[c], ops[op], attrs, params, indices);
            call_infer(&call[c], ops[op]);
        }
        struct td_merged merged;
        expect_merges(ops[op], call, n, TABLE, &merged, case_name);
    }
}

static const td_dtype number_dtypes[] = { TD_DTYPE_INT8,      TD_DTYPE_UINT16,  TD_DTYPE_INT32,
                                          TD_DTYPE_UINT64,    TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16,
                                          TD_DTYPE_FLOAT32,   TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX64,
                                          TD_DTYPE_COMPLEX128 };

/* Integers so small that their sums are exact, and no negative zeros. */
static void fill_small_integers(struct td_tensor *t)
{
    static const uint16_t float16[] = { 0, 0x3c00, 0x4000 }, bfloat16[] = { 0, 0x3f80, 0x4000 };
    bool is_double = t->dtype == TD_DTYPE_FLOAT64 || t->dtype == TD_DTYPE_COMPLEX128;
    size_t size = t->dtype == TD_DTYPE_FLOAT16 || t->dtype == TD_DTYPE_BFLOAT16 ? 2
                  : is_double                                                   ? 8
                                                                                : 4;
    for (size_t at = 0; at < t->bytes; at += size) {
        int small = random_below(3);
        const double wide = small;
        const float single = (float)small;
        const void *from = is_double                       ? (const void *)&wide
                           : t->dtype == TD_DTYPE_FLOAT16  ? (const void *)&float16[small]
                           : t->dtype == TD_DTYPE_BFLOAT16 ? (const void *)&bfloat16[small]
                                                           : (const void *)&single;
        memcpy((char *)t->data + at, from, size);
    }
}

static struct td_tensor numbers(td_dtype dtype, const struct td_shape *dims)
{
    struct td_tensor t = random_tensor(dtype, dims);
    if (dtype >= TD_DTYPE_FLOAT16)
        fill_small_integers(&t);
    return t;
}

static bool can_be_stacked(const struct random_equation *e, uint32_t shared)
{
    bool room = e->output.rank < TD_MAX_RANK, any = false;
    for (int i = 0; i < e->n_inputs; i++) {
        room &= shared >> i & 1 || e->shapes[i].rank < TD_MAX_RANK;
        any |= !(shared >> i & 1);
    }
    return room && any;
}

static void merge_random_sums(uint64_t seed, bool product)
{
    struct random_equation e;
    char case_name[700], attrs[600];
    if (product)
        random_product(seed * 1000003 + 11, &e);
    else
        random_equation(seed * 1000003 + 11, 2000, &e);
    random_seed(seed);
    const int n = 1 + random_below(product ? 3 : MAX_CALLS);
    const uint32_t shared = (uint32_t)random_next() & (uint32_t)random_next();
    td_dtype dtype = number_dtypes[random_below(COUNT_OF(number_dtypes))];
    snprintf(case_name, sizeof(case_name), "seed %" PRIu64 ", %d times %s, %s", seed, n,
             td_dtype_info(dtype)->name, e.text);
    snprintf(attrs, sizeof(attrs), "equation='%s'", e.text);
    struct td_tensor inputs[MAX_EQUATION_INPUTS];
    struct op_call call[MAX_CALLS];
    for (int c = 0; c < n; c++) {
        for (int i = 0; i < e.n_inputs; i++)
            if (c == 0 || !(shared >> i & 1))
                inputs[i] = numbers(dtype, &e.shapes[i]);
        call_begin_lists(&call[c], "einsum", attrs, e.n_inputs, inputs, 0, NULL);
        call_infer(&call[c], "einsum");
        EXPECT(call[c].status == TD_OK, "%s: %s", case_name, call[c].err.message);
    }
    struct td_merged merged;
    if (can_be_stacked(&e, shared))
        expect_merges("einsum", call, n, shared, &merged, case_name);
    else
        EXPECT(td_merge_kind_of(&td_op_einsum, &call[0].args, shared) == TD_MERGE_NONE, "%s",
               case_name);
    td_arena_reset(&test_arena);
}

TD_TEST(random_sums_are_merged)
{
    for (uint64_t seed = 0; seed < 1500; seed++)
        merge_random_sums(seed, false);
}

TD_TEST(random_matrix_products_are_merged)
{
    for (uint64_t seed = 0; seed < 150; seed++)
        merge_random_sums(seed, true);
}
