#include "kernels/find/find.h"

#include "kernels/key_dtype.h"
#include "kernels/key_index/search.h"
#include "kernels/op_rows.h"

enum { KEYS, QUERIES, INPUTS };

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_tensor *keys = args->inputs[KEYS].tensors;
    const struct td_tensor *queries = args->inputs[QUERIES].tensors;
    const td_status status = td_key_search_check(keys, "keys", err);
    return status == TD_OK ? td_op_output(args, TD_DTYPE_INT64, &queries->shape, arena, err)
                           : status;
}

static struct td_cost cost(const struct td_op_args *args)
{
    struct td_cost cost = { .bytes_written = args->outputs[0].bytes };
    td_key_search_add_cost(args->inputs[KEYS].tensors, args->inputs[QUERIES].tensors, &cost);
    return cost;
}

struct job {
    struct td_key_search search;
    int64_t *rows;
};

static void find_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    td_key_search_rows(&job->search, begin, end - begin, job->rows + begin);
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *queries = args->inputs[QUERIES].tensors;
    struct job job = { .rows = args->outputs[0].data };
    td_status status =
        td_key_search_begin(&job.search, args->inputs[KEYS].tensors, "keys", queries, exec, err);
    if (status != TD_OK)
        return status;
    return td_exec_for(exec, queries->numel, TD_KEY_SEARCH_GRAIN, find_range, &job, err);
}

/* Always true, because each query gives one row number. */
static bool is_plain(const struct td_op_args *args)
{
    (void)args;
    return true;
}

static const struct td_op_rows rows = {
    .is_plain = is_plain,
    .axis_attr = TD_ROWS_NONE,
    .batch_attr = TD_ROWS_NONE,
    .count_attr = TD_ROWS_NONE,
    .policy_attr = TD_ROWS_NONE,
    .found_output = TD_ROWS_NONE,
    .numbers_output = 0,
};

/* ---- Descriptor -------------------------------------------------------------------------- */

static const struct td_input_spec inputs_specs[] = {
    [KEYS] = {
        .name = "keys",
        .summary = "The keys, a vector of distinct elements.",
        .role = TD_ROLE_KEY,
        .dtypes = TD_DTYPES_KEY_GIVEN,
        .one_dtype = true,
        .part = TD_ROW_PART_PER_ROW,
    },
    [QUERIES] = {
        .name = "queries",
        .summary = "The keys to find, a tensor of any rank.",
        .role = TD_ROLE_KEY,
        .dtypes = TD_DTYPES_KEY_GIVEN,
        .one_dtype = true,
        .part = TD_ROW_PART_QUERY,
    },
};

static const td_status errors[] = {
    TD_SHAPE_MISMATCH, TD_UNSUPPORTED_DTYPE, TD_INVALID_ARGUMENT, TD_RESOURCE_LIMIT, TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The position of each query in keys, or -1 if no key is equal to it.",
        .shape_rule = "queries.shape",
        .dtypes = TD_DTYPE_BIT(INT64),
    },
};

static const struct td_op_example examples[] = {
    { "integer keys", "{\"keys\":[30,10,20],\"queries\":[10,99]}" },
    { "string keys",
      "{\"keys\":[\"Mercury\",\"Venus\",\"Earth\"],\"queries\":[[\"Earth\",\"Mars\"]]}" },
    { NULL, NULL },
};

const struct td_op td_op_find = {
    .name = "find",
    .summary = "Finds the position of each query in a list of distinct keys.",
    .source =
        "tf.lookup.StaticHashTable (TensorFlow 2 API reference), from keys to their positions, "
        "with -1 as the default value",
    .inputs = inputs_specs,
    .n_inputs = INPUTS,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = errors,
    .examples = examples,
    .infer = infer,
    .cost = cost,
    .run = run,
    .rows = &rows,
};
