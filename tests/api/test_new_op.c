/* An op that picks rows and that no other code knows: what it declares (op_rows.h) is enough to
 * accept keys in place of its row numbers, to count the rows that it reads, to merge its calls, to
 * split them among parts of the table, and to refuse row numbers out of range. */
#include "kernels/merge.h"
#include "kernels/op_check.h"
#include "kernels/op_rows.h"
#include "kernels/rows/bounds.h"
#include "kernels/split/split.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

/* ---- the op: output[q] = shelf[slot[q]] + tint[q], in int32 ---------------------------------- */

enum { SHELF, SLOT, TINT, INPUTS };

static td_status shade_infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *shelf = args->inputs[SHELF].tensors, *slot = args->inputs[SLOT].tensors;
    struct td_shape shape = slot->shape;
    args->n_outputs = 1;
    args->outputs = td_arena_alloc(arena, 1, sizeof args->outputs[0], err);
    if (!args->outputs)
        return err->status;
    (void)td_shape_append(&shape, &shelf->shape, 1, shelf->shape.rank);
    return td_tensor_describe(args->outputs, "output", TD_DTYPE_INT32, &shape, err);
}

static td_status shade_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *shelf = args->inputs[SHELF].tensors, *slot = args->inputs[SLOT].tensors;
    const int32_t *tint = args->inputs[TINT].tensors->data;
    int32_t *to = args->outputs[0].data;
    (void)exec;
    (void)err;
    for (int64_t q = 0; q < slot->numel; q++) {
        const int64_t n = shelf->numel / shelf->shape.dim[0], row = td_tensor_index_at(slot, q);
        for (int64_t c = 0; c < n; c++)
            *to++ = (row < 0 || row >= shelf->shape.dim[0]
                         ? 0
                         : ((const int32_t *)shelf->data)[row * n + c]) +
                    tint[q];
    }
    return TD_OK;
}

static bool is_plain(const struct td_op_args *args)
{
    (void)args;
    return true;
}

static const struct td_input_spec inputs[INPUTS] = {
    [SHELF] = { .name = "shelf", .dtypes = TD_DTYPE_BIT(INT32), .part = TD_ROW_PART_TABLE },
    [SLOT] = { .name = "slot",
               .role = TD_ROLE_INDEX,
               .dtypes = TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64),
               .part = TD_ROW_PART_QUERY,
               .or_keys = true },
    [TINT] = { .name = "tint", .dtypes = TD_DTYPE_BIT(INT32), .part = TD_ROW_PART_PER_QUERY },
};

static const struct td_attr_spec attrs[] = {
    { .name = "bounds", .kind = TD_ATTR_CHOICE, .choices = td_bounds_names },
};

static const struct td_output_spec outputs[] = {
    { .name = "output", .dtypes = TD_DTYPE_BIT(INT32) },
};

static const struct td_op_rows rows = {
    .is_plain = is_plain,
    .axis_attr = TD_ROWS_NONE,
    .batch_attr = TD_ROWS_NONE,
    .count_attr = TD_ROWS_NONE,
    .policy_attr = 0,
    .found_output = TD_ROWS_NONE,
    .numbers_output = TD_ROWS_NONE,
};

static const struct td_op shade = {
    .name = "shade",
    .inputs = inputs,
    .n_inputs = INPUTS,
    .attrs = attrs,
    .n_attrs = 1,
    .outputs = outputs,
    .n_outputs = 1,
    .infer = shade_infer,
    .run = shade_run,
    .rows = &rows,
};

/* ---- calls ----------------------------------------------------------------------------------- */

#define SHELF_TEXT "int32[4,2] 0 1 10 11 20 21 30 31"

static struct td_error err;
static struct td_exec exec;

static void begin(void)
{
    test_arena_open();
    td_exec_serial(&exec, &test_arena);
}

static void infer(struct td_op_args *args, struct td_tensor *tensors)
{
    memset(args, 0, sizeof *args);
    td_op_set_defaults(&shade, args);
    for (int i = 0; i < INPUTS; i++)
        args->inputs[i] = (struct td_operand){ &tensors[i], 1 };
    EXPECT_OK(td_op_infer(&shade, args, &test_arena, &err), &err);
}

static void run(struct td_op_args *args)
{
    EXPECT_OK(td_tensor_alloc(&args->outputs[0], &test_arena, &err), &err);
    EXPECT_OK(shade.run(args, &exec, &err), &err);
}

/* ---- what follows from the declaration ------------------------------------------------------- */

TD_TEST(keys_of_the_table_may_stand_in_place_of_its_row_numbers)
{
    static const char body[] = "{\"shelf\":{\"ref\":\"table\"},\"slot\":{\"keys\":[\"b\",\"a\"]},"
                               "\"tint\":[1,2]}";
    struct td_tensor table = tensor(SHELF_TEXT);
    const struct td_tensor keys = tensor("string[4] 'a' 'b' 'c' 'd'");
    struct test_resolver resolver;
    struct decoded decoded;
    table.keys = &keys;
    test_resolver_init(&resolver, table);
    decode_json(&decoded, &shade, body, sizeof body - 1, &resolver.base);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    ck_assert_int_eq(decoded.request.row_keys[0].input, SLOT);
    expect_tensor(decoded.request.row_keys[0].keys, "string[2] 'b' 'a'", "keys");
}

TD_TEST(the_rows_that_it_reads_are_counted)
{
    struct td_tensor tensors[] = { tensor(SHELF_TEXT), tensor("int32[3] 0 2 2"),
                                   tensor("int32[3] 0 0 0") };
    struct td_op_args args;
    infer(&args, tensors);
    const struct td_rows_read read = td_op_rows_read(&shade, &args);
    ck_assert_uint_eq(read.rows, 3);
    ck_assert_uint_eq(read.bytes, sizeof(int32_t) * 2 * 3);
}

TD_TEST(calls_on_one_table_are_merged)
{
    const struct td_tensor shelf = tensor(SHELF_TEXT);
    struct td_tensor first[] = { shelf, tensor("int32[1] 3"), tensor("int32[1] 100") },
                     second[] = { shelf, tensor("int32[2] 1 0"), tensor("int32[2] 200 300") };
    struct td_op_args a, b;
    struct td_merged merged;
    infer(&a, first);
    infer(&b, second);
    const uint32_t shared = td_merge_shared(&shade, &a, UINT32_MAX);
    ck_assert_uint_eq(shared, 1u << SHELF);
    ck_assert_int_eq(td_merge_kind_of(&shade, &a, shared), TD_MERGE_CONCAT);
    ck_assert(td_merge_fits(&a, &b, shared));
    const struct td_op_args *calls[] = { &a, &b };
    EXPECT_OK(td_merge_calls(&shade, calls, 2, shared, &test_arena, &merged, &err), &err);
    merged.args.inputs[SHELF].tensors[0] = shelf;
    for (int i = SLOT; i <= TINT; i++) {
        struct td_tensor *to = &merged.args.inputs[i].tensors[0];
        EXPECT_OK(td_tensor_alloc(to, &test_arena, &err), &err);
        td_merge_copy(&shade, calls, 2, i, to->data, NULL, NULL);
    }
    run(&merged.args);
    expect_tensor(&merged.args.outputs[0], "int32[3,2] 130 131 210 211 300 301", "merged");
    ck_assert_int_eq(merged.item_end[0], 1);
}

TD_TEST(the_table_may_be_in_parts)
{
    struct td_tensor tensors[] = { tensor(SHELF_TEXT), tensor("int32[2,2] 3 0 1 9"),
                                   tensor("int32[2,2] 100 200 300 400") };
    const int64_t begins[] = { 0, 1, 4 };
    struct td_op_args args;
    struct td_split split;
    infer(&args, tensors);
    td_op_set_choice(&attrs[0], &args, TD_BOUNDS_ZERO);
    ck_assert(td_split_possible(&shade, &args));
    EXPECT_OK(td_split_call(&shade, &args, begins, 2, NULL, NULL, &exec, &split, &err), &err);
    expect_tensor(&split.parts[0].args.inputs[SLOT].tensors[0], "int64[1] 0", "the first part");
    expect_tensor(&split.parts[1].args.inputs[SLOT].tensors[0], "int64[2] 2 0", "the second part");
    expect_tensor(&split.parts[1].args.inputs[TINT].tensors[0], "int32[2] 100 300", "its tints");
    for (int p = 0; p < 2; p++)
        run(&split.parts[p].args);
    EXPECT_OK(td_tensor_alloc(&args.outputs[0], &test_arena, &err), &err);
    EXPECT_OK(td_split_join(&split, &args, &exec, &err), &err);
    expect_tensor(&args.outputs[0], "int32[2,2,2] 130 131 200 201 310 311 0 0", "joined");
    ck_assert_int_eq(args.replaced, 1);
}

TD_TEST(a_row_number_out_of_range_is_refused_with_its_place_and_the_bound_of_the_whole_table)
{
    struct td_tensor tensors[] = { tensor(SHELF_TEXT), tensor("int32[3] 0 1 4"),
                                   tensor("int32[3] 0 0 0") };
    const int64_t begins[] = { 0, 2, 4 };
    struct td_op_args args;
    struct td_split split;
    infer(&args, tensors);
    ck_assert_int_eq(td_split_call(&shade, &args, begins, 2, NULL, NULL, &exec, &split, &err),
                     TD_INDEX_OUT_OF_BOUNDS);
    EXPECT_MESSAGE(&err, "slot[2] = 4 is not in [0, 4)");
    ck_assert_int_eq(err.position[0], 2);
    ck_assert_int_eq(err.bound, 4);
}

TD_FIXTURE(begin, test_arena_close);
