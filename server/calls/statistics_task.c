#include "server/calls/statistics_task.h"

#include "api/statistics.h"
#include "server/calls/services.h"
#include "server/calls/tensor_call.h"

static td_status argument(struct td_call *call, const char *name, size_t length, const char *value,
                          size_t value_length)
{
    (void)value;
    (void)value_length;
    return td_tensor_call_unknown(call, name, length, NULL, 0);
}

static td_status admit(struct td_call *call, struct td_admission *admission)
{
    struct td_tensor_call *state = call->state;
    if (state->unmodified)
        return TD_OK;
    state->statistics = td_store_statistics(state->listing.tensor);
    admission->encoded_bound = td_describe_statistics_bound(&state->listing);
    if (!state->statistics)
        admission->cost = td_statistics_cost(state->listing.tensor);
    return td_call_admit_memory(call, admission->encoded_bound + admission->cost.workspace);
}

static td_status compute(struct td_call *call, struct td_worker *worker)
{
    struct td_tensor_call *state = call->state;
    const struct td_tensor *tensor = state->listing.tensor;
    struct td_pool_exec exec;
    if (state->unmodified || state->statistics)
        return TD_OK;
    struct td_statistics *statistics =
        td_arena_alloc(&call->arena, td_statistics_bytes(tensor), 1, &call->error);
    if (!statistics)
        return call->error.status;
    td_pool_exec_init(&exec, worker, &call->arena, td_call_stopped, call);
    exec.base.isa = call->services->config.isa;
    td_status status = td_statistics_run(tensor, &exec.base, statistics, &call->error);
    if (status == TD_OK)
        status = td_store_check(&state->listing, &call->error);
    if (status != TD_OK)
        return status;
    td_store_keep_statistics(call->services->store, tensor, statistics);
    state->statistics = statistics;
    return TD_OK;
}

static td_status encode(struct td_call *call)
{
    const struct td_tensor_call *state = call->state;
    if (state->unmodified)
        return td_tensor_call_unmodified(call);
    td_status status = td_store_check(&state->listing, &call->error);
    if (status == TD_OK)
        status = td_describe_statistics(&state->listing, state->statistics, &call->arena,
                                        &call->reply, &call->error);
    if (status == TD_OK)
        td_tensor_call_add_etag(call);
    return status;
}

const struct td_task td_tensor_statistics_task = { .begin = td_tensor_call_begin,
                                                   .argument = argument,
                                                   .decode = td_tensor_call_find,
                                                   .admit = admit,
                                                   .compute = compute,
                                                   .encode = encode };
