#include "kernels/split/join_bags.h"

#include "kernels/convert/cast_path.h"
#include "kernels/op_rows.h"

#include <math.h>
#include <string.h>

/* Totals over a bag's queries in all parts. */
struct tally {
    /* Sums of the weights and of their squares. Without weights, each weight is 1. */
    double weights, squares;
    /* zeros: true if a query has a row of zeros. nan: true if the weight of a row of zeros makes
     * the sum NaN. */
    bool zeros, nan;
};

struct joiner {
    const struct td_split *split;
    struct td_op_args *call;
    td_bag_mode mode;
    int64_t n_bags, row_numel, n_queries;
    struct tally *tallies; /* [n_bags] */
    bool *has_queries;     /* [n_bags, n_parts]; true if the part has queries of the bag */
    double *weights;       /* [n_queries], or NULL */
    double *row;           /* [row_numel] */
    struct td_exec *exec;
    struct td_error *err;
};

static td_status read_weights(struct joiner *j)
{
    const int input = td_op_rows_input(j->split->op, TD_ROW_PART_PER_QUERY);
    if (input < 0 || j->call->inputs[input].count == 0)
        return TD_OK;
    const struct td_tensor *weights = j->call->inputs[input].tensors;
    struct td_cast_path path;
    j->weights = td_arena_alloc(j->exec->arena, (size_t)j->n_queries, sizeof j->weights[0], j->err);
    if (!j->weights)
        return j->err->status;
    td_cast_path_find(&path, weights->dtype, TD_DTYPE_FLOAT64, td_isa_resolve(j->exec->isa));
    if (path.n_steps > 0)
        td_cast_path_run(&path, j->weights, weights->data, j->n_queries);
    else
        memcpy(j->weights, weights->data, weights->bytes);
    return TD_OK;
}

static void count_queries(struct joiner *j)
{
    const struct td_split *split = j->split;
    memset(j->tallies, 0, (size_t)j->n_bags * sizeof j->tallies[0]);
    memset(j->has_queries, 0, (size_t)j->n_bags * (size_t)split->n_parts);
    for (int64_t i = 0; i < j->n_queries; i++) {
        struct tally *tally = &j->tallies[split->bag[i]];
        const double weight = j->weights ? j->weights[i] : 1;
        if (split->part[i] == TD_SPLIT_SKIPPED)
            continue;
        tally->weights += weight;
        tally->squares += weight * weight;
        if (split->part[i] >= 0)
            j->has_queries[split->bag[i] * split->n_parts + split->part[i]] = true;
        tally->zeros |= split->part[i] == TD_SPLIT_ZEROS;
        tally->nan |= split->part[i] == TD_SPLIT_ZEROS && !isfinite(weight);
    }
}

static double element_of(const struct td_tensor *tensor, int64_t i)
{
    return tensor->dtype == TD_DTYPE_FLOAT64 ? ((const double *)tensor->data)[i]
                                             : (double)((const float *)tensor->data)[i];
}

/* Sets j->row to the maximum of each column of the bag, including a row of zeros if the bag has
 * one. Propagates NaN. */
static void join_greatest(struct joiner *j, int64_t bag)
{
    bool first = !j->tallies[bag].zeros;
    memset(j->row, 0, (size_t)j->row_numel * sizeof j->row[0]);
    for (int p = 0; p < j->split->n_parts; p++) {
        const struct td_tensor *part = &j->split->parts[p].args.outputs[0];
        if (!j->has_queries[bag * j->split->n_parts + p])
            continue;
        for (int64_t c = 0; c < j->row_numel; c++) {
            const double x = element_of(part, bag * j->row_numel + c);
            if (first || x > j->row[c] || isnan(x))
                j->row[c] = x;
        }
        first = false;
    }
}

/* Returns the divisor of the bag's sum. */
static double divisor_of(const struct joiner *j, int64_t bag)
{
    switch (j->mode) {
    case TD_BAG_MEAN:
        return j->tallies[bag].weights;
    case TD_BAG_SQRTN:
        return sqrt(j->tallies[bag].squares);
    default:
        return 1;
    }
}

static void join_sums(struct joiner *j, int64_t bag)
{
    const double divisor = divisor_of(j, bag);
    memset(j->row, 0, (size_t)j->row_numel * sizeof j->row[0]);
    for (int p = 0; p < j->split->n_parts; p++)
        for (int64_t c = 0; divisor != 0 && c < j->row_numel; c++)
            j->row[c] += element_of(&j->split->parts[p].args.outputs[0], bag * j->row_numel + c);
    for (int64_t c = 0; divisor != 0 && c < j->row_numel; c++)
        j->row[c] = j->tallies[bag].nan ? (double)NAN : j->row[c] / divisor;
}

td_status td_split_join_bags(const struct td_split *split, struct td_op_args *call,
                             struct td_exec *exec, struct td_error *err)
{
    const struct td_op *op = split->op;
    struct td_tensor *out = &call->outputs[0];
    const int64_t n_bags = out->shape.dim[0];
    struct joiner j = {
        .split = split,
        .call = call,
        .mode = (td_bag_mode)td_op_choice(&op->attrs[op->rows->bags->mode_attr], call),
        .n_bags = n_bags,
        .row_numel = out->numel / n_bags,
        .n_queries = call->inputs[td_op_rows_input(op, TD_ROW_PART_QUERY)].tensors->numel,
        .exec = exec,
        .err = err,
    };
    struct td_cast_path path;
    const size_t row_bytes = (size_t)j.row_numel * td_dtype_info(out->dtype)->size;
    j.tallies = td_arena_alloc(exec->arena, (size_t)n_bags, sizeof j.tallies[0], err);
    j.has_queries =
        td_arena_alloc(exec->arena, (size_t)n_bags, (size_t)split->n_parts * sizeof(bool), err);
    j.row = td_arena_alloc(exec->arena, (size_t)j.row_numel, sizeof j.row[0], err);
    if (!j.tallies || !j.has_queries || !j.row || read_weights(&j) != TD_OK)
        return err->status;
    count_queries(&j);
    td_cast_path_find(&path, TD_DTYPE_FLOAT64, out->dtype, td_isa_resolve(exec->isa));
    for (int64_t bag = 0; bag < n_bags; bag++) {
        char *to = (char *)out->data + (size_t)bag * row_bytes;
        if (j.mode == TD_BAG_MAX)
            join_greatest(&j, bag);
        else
            join_sums(&j, bag);
        if (path.n_steps > 0)
            td_cast_path_run(&path, to, j.row, j.row_numel);
        else
            memcpy(to, j.row, row_bytes);
    }
    return TD_OK;
}
