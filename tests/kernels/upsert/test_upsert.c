#include "kernels/key_index/key_index.h"
#include "kernels/op_check.h"
#include "kernels/rows/row_change.h"
#include "kernels/upsert/upsert.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <string.h>

/* A call, and the table that it makes. */
struct call {
    const struct td_op *op;
    struct td_op_args args;
    struct td_exec *exec;
    struct td_row_change change;
    struct td_tensor params, keys; /* of the result */
    struct td_error err;
    td_status status;
};

/* `rows` is NULL for a removal. */
static void begin(struct call *call, const struct td_tensor *params,
                  const struct td_tensor *row_keys, const struct td_tensor *keys,
                  const struct td_tensor *rows, struct td_exec *exec)
{
    static struct td_tensor inputs[4];
    static struct td_exec serial;
    td_exec_serial(&serial, &test_arena);
    *call =
        (struct call){ .op = rows ? &td_op_upsert : &td_op_remove, .exec = exec ? exec : &serial };
    call->exec->output_limit = 1 << 30;
    inputs[TD_UPSERT_PARAMS] = *params;
    inputs[TD_UPSERT_ROW_KEYS] = *row_keys;
    inputs[TD_UPSERT_KEYS] = *keys;
    if (rows)
        inputs[TD_UPSERT_ROWS] = *rows;
    for (int i = 0; i < call->op->n_inputs; i++)
        call->args.inputs[i] = (struct td_operand){ &inputs[i], 1 };
}

/* The tensor with n rows: what the caller of td_row_change_apply prepares. */
static struct td_tensor resized(const struct td_tensor *tensor, int64_t n)
{
    struct td_error err;
    struct td_tensor out;
    struct td_shape shape = tensor->shape;
    shape.dim[0] = n;
    EXPECT(td_tensor_describe(&out, "out", tensor->dtype, &shape, &err) == TD_OK &&
               td_tensor_alloc(&out, &test_arena, &err) == TD_OK,
           "%s", err.message);
    if (tensor->dtype != TD_DTYPE_STRING && out.bytes > 0)
        memcpy(out.data, tensor->data, out.bytes < tensor->bytes ? out.bytes : tensor->bytes);
    return out;
}

static struct td_tensor apply(struct call *call, int table, int rows)
{
    const struct td_tensor *before = call->args.inputs[table].tensors;
    struct td_tensor out = resized(before, call->change.n_rows);
    call->status = td_row_change_apply(&call->change, before, call->args.inputs[rows].tensors, &out,
                                       call->exec, &call->err);
    return out;
}

static void run(struct call *call)
{
    call->status = td_op_infer(call->op, &call->args, &test_arena, &call->err);
    if (call->status == TD_OK)
        call->status =
            call->op == &td_op_upsert
                ? td_op_upsert.change->find(&call->args, call->exec, &call->change, &call->err)
                : td_op_remove.change->find(&call->args, call->exec, &call->change, &call->err);
    if (call->status == TD_OK)
        call->params = apply(call, TD_UPSERT_PARAMS, TD_UPSERT_ROWS);
    if (call->status == TD_OK)
        call->keys = apply(call, TD_UPSERT_ROW_KEYS, TD_UPSERT_KEYS);
}

static void begin_text(struct call *call, const char *params, const char *row_keys,
                       const char *keys, const char *rows)
{
    const struct td_tensor p = tensor(params), r = tensor(row_keys), k = tensor(keys);
    const struct td_tensor new = tensor(rows ? rows : "bool[] 0");
    begin(call, &p, &r, &k, rows ? &new : NULL, NULL);
}

static const struct {
    const char *says;
    const char *params, *row_keys, *keys, *rows; /* rows NULL: remove */
    const char *params_after, *keys_after;
    int n_found;
} results[] = {
    { "a row is replaced", "int32[2,2] 1 2 3 4", "int64[2] 7 8", "int64[1] 8", "int32[1,2] 5 6",
      "int32[2,2] 1 2 5 6", "int64[2] 7 8", 1 },
    { "new rows are appended in their order", "int32[2] 1 2", "string[2] 'a' 'b'",
      "string[4] 'd' 'a' 'c' ''", "int32[4] 3 4 5 6", "int32[5] 4 2 3 5 6",
      "string[5] 'a' 'b' 'd' 'c' ''", 1 },
    { "strings", "string[2,2] 'p' 'q' 'r' 's'", "uint64[2] 1 2", "uint64[2] 3 1",
      "string[2,2] 'long' '' 'x' '\\x00'", "string[3,2] 'x' '\\x00' 'r' 's' 'long' ''",
      "uint64[3] 1 2 3", 1 },
    { "an empty table grows", "float64[0,1]", "int64[0]", "int64[2] 1 2", "float64[2,1] 1 2",
      "float64[2,1] 1 2", "int64[2] 1 2", 0 },
    { "nothing is put", "float64[1] 4", "int64[1] 9", "int64[0]", "float64[0]", "float64[1] 4",
      "int64[1] 9", 0 },
    { "rows without bytes", "int8[1,0]", "int64[1] 9", "int64[2] 8 9", "int8[2,0]", "int8[2,0]",
      "int64[2] 9 8", 1 },
    { "empty rows of strings", "string[1,0]", "int64[1] 9", "int64[2] 8 9", "string[2,0]",
      "string[2,0]", "int64[2] 9 8", 1 },
    { "of equal keys the last row counts, at the place of the first", "int32[1] 1", "int64[1] 1",
      "int64[5] 5 1 6 5 1", "int32[5] 2 3 4 5 6", "int32[3] 6 5 4", "int64[3] 1 5 6", 1 },
    { "also of strings", "string[1] 'p'", "string[1] 'a'", "string[4] '' 'a\\x00' '' 'a\\x00'",
      "string[4] 'q' 'r' 's' 't'", "string[3] 'p' 's' 't'", "string[3] 'a' '' 'a\\x00'", 0 },
    { "the last row moves up", "int32[3] 1 2 3", "int64[3] 7 8 9", "int64[1] 7", NULL,
      "int32[2] 3 2", "int64[2] 9 8", 1 },
    { "the first gap gets the last row", "int32[5] 1 2 3 4 5", "int64[5] 1 2 3 4 5", "int64[2] 2 1",
      NULL, "int32[3] 5 4 3", "int64[3] 5 4 3", 2 },
    { "rows at the end go without a move", "int32[4] 1 2 3 4", "int64[4] 1 2 3 4", "int64[3] 4 3 1",
      NULL, "int32[1] 2", "int64[1] 2", 3 },
    { "unknown and repeated keys count once at most", "int32[2] 1 2", "string[2] 'a' 'b'",
      "string[4] 'b' 'x' 'b' ''", NULL, "int32[1] 1", "string[1] 'a'", 1 },
    { "all strings go", "string[2] 'p' 'q'", "string[2] 'a' 'b'", "string[2] 'b' 'a'", NULL,
      "string[0]", "string[0]", 2 },
    { "nothing is removed", "string[2] 'p' 'q'", "string[2] 'a' 'b'", "string[0]", NULL,
      "string[2] 'p' 'q'", "string[2] 'a' 'b'", 0 },
};

TD_TEST_EACH(a_change_gives, results)
{
    struct call call;
    begin_text(&call, results[_i].params, results[_i].row_keys, results[_i].keys, results[_i].rows);
    run(&call);
    ck_assert_msg(call.status == TD_OK, "%s: %s", results[_i].says, call.err.message);
    expect_tensor(&call.params, results[_i].params_after, results[_i].says);
    expect_tensor(&call.keys, results[_i].keys_after, results[_i].says);
    ck_assert_int_eq(call.change.n_found, results[_i].n_found);
}

static const struct {
    const char *says;
    const char *params, *row_keys, *keys, *rows;
    td_status status;
    const char *message, *input, *shapes;
} refusals[] = {
    { "a matrix of keys", "int32[1] 1", "int64[1] 1", "int64[1,1] 1", "int32[1] 1",
      TD_SHAPE_MISMATCH, "keys has shape [1,1]; expected a vector", "keys", "keys" },
    { "fewer rows than keys", "int32[1] 1", "int64[1] 1", "int64[2] 1 2", "int32[1] 1",
      TD_SHAPE_MISMATCH, "rows has shape [1]; expected one row of params per key, [2]", "rows",
      "params keys rows" },
    { "wider rows", "int32[1,1] 1", "int64[1] 1", "int64[1] 1", "int32[1,2] 1 2", TD_SHAPE_MISMATCH,
      "rows has shape [1,2]; expected one row of params per key, [1,1]", "rows",
      "params keys rows" },
    { "keys of another dtype", "int32[1] 1", "int64[1] 1", "uint64[1] 1", NULL,
      TD_UNSUPPORTED_DTYPE,
      "keys has dtype uint64 and table.keys int64; the dtypes must be equal: pass it as int64; a "
      "value that does not fit cannot be one of the keys",
      "keys", "" },
    { "rows of another dtype", "int32[1] 1", "int64[1] 1", "int64[1] 1", "int8[1] 1",
      TD_UNSUPPORTED_DTYPE,
      "rows has dtype int8 and params int32; the dtypes must be equal: the op cast with dtype = "
      "int32 converts rows",
      "rows", "" },
    { "a table without a key for each row", "int32[2] 1 2", "int64[1] 1", "int64[1] 5",
      "int32[1] 1", TD_SHAPE_MISMATCH,
      "the keys of the table are not a vector with a key for each row", "table.keys", "" },
    { "a scalar", "int32[] 1", "int64[1] 1", "int64[1] 5", NULL, TD_SHAPE_MISMATCH,
      "the keys of the table are not a vector with a key for each row", "table.keys", "" },
};

TD_TEST_EACH(a_change_refuses, refusals)
{
    struct call call;
    begin_text(&call, refusals[_i].params, refusals[_i].row_keys, refusals[_i].keys,
               refusals[_i].rows);
    run(&call);
    ck_assert_msg(call.status == refusals[_i].status, "%s: %s", refusals[_i].says,
                  call.err.message);
    ck_assert_str_eq(call.err.message, refusals[_i].message);
    ck_assert_str_eq(call.err.input, refusals[_i].input);
    expect_shape_names(&call.err, refusals[_i].shapes);
}

/* Each row has the value of its key, at first and after any changes: so a row that is misplaced is
 * seen. */
enum { MOST_ROWS = 40000, MOST_KEYS = 10000, DOMAIN = 60000 };

static struct td_tensor vector(td_dtype dtype, int64_t n)
{
    struct td_error err;
    struct td_tensor out;
    const struct td_shape shape = { .rank = 1, .dim = { n } };
    EXPECT(td_tensor_describe(&out, "vector", dtype, &shape, &err) == TD_OK &&
               td_tensor_alloc(&out, &test_arena, &err) == TD_OK,
           "%s", err.message);
    return out;
}

/* Distinct keys. */
static struct td_tensor random_keys(int64_t n)
{
    static unsigned char used[DOMAIN];
    struct td_tensor out = vector(TD_DTYPE_INT64, n);
    memset(used, 0, sizeof used);
    for (int64_t i = 0; i < n; i++) {
        int64_t key;
        do
            key = (int64_t)random_below(DOMAIN);
        while (used[key]);
        used[key] = 1;
        ((int64_t *)out.data)[i] = key;
    }
    return out;
}

static struct td_tensor rows_of(const struct td_tensor *keys, int64_t version)
{
    struct td_tensor out = vector(TD_DTYPE_INT64, keys->numel);
    for (int64_t i = 0; i < keys->numel; i++)
        ((int64_t *)out.data)[i] = ((const int64_t *)keys->data)[i] * 100 + version;
    return out;
}

TD_TEST(any_changes_are_those_of_a_map)
{
    static int64_t model[DOMAIN]; /* the row of each key; -1: none */
    struct thread_exec exec;
    thread_exec_init(&exec, MOST_THREADS, 0);
    exec.exec.arena = &test_arena;
    struct td_tensor keys = random_keys(MOST_ROWS), params = rows_of(&keys, 0);
    memset(model, -1, sizeof model);
    for (int64_t i = 0; i < keys.numel; i++)
        model[((int64_t *)keys.data)[i]] = ((int64_t *)params.data)[i];
    for (int version = 1; version < 8; version++) {
        struct call call;
        const bool removes = version % 2;
        const struct td_tensor given = random_keys(MOST_KEYS), rows = rows_of(&given, version);
        begin(&call, &params, &keys, &given, removes ? NULL : &rows, &exec.exec);
        run(&call);
        ck_assert_msg(call.status == TD_OK, "%s", call.err.message);
        for (int64_t i = 0; i < given.numel; i++)
            model[((int64_t *)given.data)[i]] = removes ? -1 : ((int64_t *)rows.data)[i];
        params = call.params;
        keys = call.keys;
        int64_t n = 0;
        for (int i = 0; i < DOMAIN; i++)
            n += model[i] >= 0;
        ck_assert_int_eq(n, keys.numel);
        ck_assert_int_eq(n, params.numel);
        for (int64_t i = 0; i < n; i++)
            EXPECT(model[((int64_t *)keys.data)[i]] == ((int64_t *)params.data)[i], "row %d",
                   (int)i);
    }
}
