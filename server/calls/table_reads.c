#include "server/calls/table_reads.h"

#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/gather/gather.h"
#include "kernels/gather_nd/gather_nd.h"
#include "kernels/lookup/lookup.h"
#include "server/calls/services.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

#include <stdio.h>

/* The input that selects rows of params; 0 for an op that is no lookup. */
static int selecting_input(const struct td_op *op)
{
    if (op == &td_op_lookup)
        return TD_LOOKUP_QUERIES;
    return op == &td_op_gather || op == &td_op_batch_gather || op == &td_op_gather_nd ||
           op == &td_op_embedding_bag; /* the second input of each */
}

/* How many indices the call has: in gather_nd each is a row of the input. */
static uint64_t count_indices(const struct td_call *call)
{
    const struct td_tensor *indices = call->request.args.inputs[selecting_input(call->op)].tensors;
    const struct td_shape *shape = &indices->shape;
    const int64_t each =
        call->op == &td_op_gather_nd && shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
    return each > 0 ? (uint64_t)(indices->numel / each) : 0;
}

/* Bytes of the rows that were read: those of the output, but a bag sums many rows into one. */
static uint64_t count_bytes(const struct td_call *call)
{
    const struct td_op_args *args = &call->request.args;
    if (call->request.op == &td_op_embedding_bag) {
        const struct td_embedding_bag_geometry bags = td_embedding_bag_geometry(args);
        return (uint64_t)bags.n_indices * bags.row_bytes;
    }
    /* As they are in the table: gather may have converted them. */
    const struct td_tensor *output = &args->outputs[0];
    const td_dtype dtype = args->inputs[0].tensors->dtype;
    return dtype == TD_DTYPE_STRING ? td_tensor_footprint(output)
                                    : (uint64_t)output->numel * td_dtype_info(dtype)->size;
}

/* The name that all versions are counted under. */
static void name_of(const struct td_tensor *tensor, char name[TD_TENSOR_NAME])
{
    const char *whole;
    uint64_t number;
    name[0] = '\0';
    if (td_store_identity(tensor, &whole, &number))
        snprintf(name, TD_TENSOR_NAME, "%.*s", (int)td_table_base(whole), whole);
}

int td_table_reads_place(struct td_metrics *metrics, const struct td_tensor *tensor)
{
    const char *whole;
    char name[TD_TENSOR_NAME];
    atomic_int *kept = td_store_place_of(tensor, &whole);
    int place = kept ? atomic_load_explicit(kept, memory_order_relaxed) : 0;
    if (kept && place == 0) {
        name_of(tensor, name);
        place = td_metrics_table(metrics, name) + 1;
        atomic_store_explicit(kept, place, memory_order_relaxed);
    }
    return place;
}

/* The place of the table that the call reads, plus one; 0: none. */
static int place_of(const struct td_call *call)
{
    const struct td_operand *params = &call->request.args.inputs[0];
    if (call->table.place > 0)
        return call->table.place;
    return call->operation <= TD_OPERATION_LAST_OP && call->request.decoded && params->count == 1 &&
                   td_op_is_lookup(call->request.op)
               ? td_table_reads_place(call->services->metrics, params->tensors)
               : 0;
}

void td_table_reads_count(const struct td_call *call, int shard, bool succeeded)
{
    struct td_metrics *metrics = call->services->metrics;
    const int place = place_of(call) - 1;
    if (place < 0)
        return;
    td_metrics_count_lookup(metrics, shard, place, succeeded, &call->times);
    if (succeeded && call->request.decoded && selecting_input(call->request.op))
        td_metrics_count_rows(metrics, shard, place, count_indices(call), count_bytes(call));
}

void td_table_reads_totals(struct td_metrics *metrics, const struct td_tensor *tensor,
                           struct td_inference_totals *out)
{
    char name[TD_TENSOR_NAME];
    name_of(tensor, name);
    td_metrics_read_table(metrics, name, out);
}
