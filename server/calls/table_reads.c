#include "server/calls/table_reads.h"

#include "kernels/embedding_bag/embedding_bag.h"
#include "kernels/gather/gather.h"
#include "kernels/gather_nd/gather_nd.h"
#include "kernels/lookup/lookup.h"
#include "server/calls/services.h"
#include "server/store/store.h"

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

/* Its place in the metrics. */
static int place_of(struct td_metrics *metrics, atomic_int *kept, const char *name)
{
    int place = atomic_load_explicit(kept, memory_order_relaxed) - 1;
    if (place < 0) {
        place = td_metrics_table(metrics, name);
        atomic_store_explicit(kept, place + 1, memory_order_relaxed);
    }
    return place;
}

void td_table_reads_count(const struct td_call *call, int shard)
{
    struct td_metrics *metrics = call->services->metrics;
    const char *name;
    if (!call->request.decoded || !selecting_input(call->op))
        return;
    const struct td_op_args *args = &call->request.args;
    atomic_int *kept = td_store_place_of(args->inputs[0].tensors, &name);
    if (kept)
        td_metrics_count_rows(metrics, shard, place_of(metrics, kept, name), count_indices(call),
                              td_tensor_footprint(&args->outputs[0]));
}
