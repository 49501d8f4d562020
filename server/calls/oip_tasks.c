#include "server/calls/oip_tasks.h"

#include "api/oip/oip.h"
#include "server/calls/services.h"

#include <stdio.h>
#include <string.h>

static void reply_json(struct td_call *call, const char *text)
{
    td_reply_set(&call->reply, 200, "application/json", text, strlen(text));
}

static struct td_oip_server server_properties(const struct td_call *call)
{
    return (struct td_oip_server){ .version = TD_VERSION,
                                   .shared_memory = call->services->shm != NULL,
                                   .workers = (int)call->services->config.workers };
}

/* ---- health ---------------------------------------------------------------------------------- */

static td_status check_ready(struct td_call *call)
{
    return atomic_load_explicit(&call->services->draining, memory_order_relaxed)
               ? td_error_set(&call->error, TD_DRAINING, "the server is stopping")
               : TD_OK;
}

td_status td_oip_live(struct td_call *call)
{
    reply_json(call, "{\"live\":true}");
    return TD_OK;
}

td_status td_oip_ready(struct td_call *call)
{
    const td_status status = check_ready(call);
    if (status == TD_OK)
        reply_json(call, "{\"ready\":true,\"live\":true}");
    return status;
}

td_status td_oip_model_ready(struct td_call *call)
{
    enum { SIZE = 128 };
    const td_status status = check_ready(call);
    char *text = status == TD_OK ? td_arena_alloc(&call->arena, SIZE, 1, &call->error) : NULL;
    if (!text)
        return call->error.status;
    snprintf(text, SIZE, "{\"name\":\"%s\",\"ready\":true}", call->op->name);
    reply_json(call, text);
    return TD_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

td_status td_oip_server_metadata(struct td_call *call)
{
    const struct td_oip_server server = server_properties(call);
    return td_oip_describe_server(&server, &call->arena, &call->reply, &call->error);
}

td_status td_oip_model_metadata(struct td_call *call)
{
    return td_oip_describe_model(call->op, &call->arena, &call->reply, &call->error);
}

td_status td_oip_model_config(struct td_call *call)
{
    const struct td_oip_server server = server_properties(call);
    return td_oip_describe_config(call->op, &server, &call->arena, &call->reply, &call->error);
}

static uint64_t sum(const uint64_t stage_ns[TD_STAGE_COUNT])
{
    uint64_t total = 0;
    for (int i = 0; i < TD_STAGE_COUNT; i++)
        total += stage_ns[i];
    return total;
}

static void read_statistics(const struct td_metrics *metrics, const struct td_op *op,
                            struct td_oip_stats *out)
{
    struct td_operation_totals totals;
    td_metrics_read(metrics, td_operation_of(op), &totals);
    const uint64_t n = totals.succeeded;
    *out = (struct td_oip_stats){ .last_ms = totals.last_ms,
                                  .inferences = n,
                                  .executions = n,
                                  .success = { n, sum(totals.stage_ns) },
                                  .fail = { totals.failed, sum(totals.failed_stage_ns) },
                                  .queue = { n, totals.stage_ns[TD_STAGE_QUEUE] },
                                  .input = { n, totals.stage_ns[TD_STAGE_DECODE] },
                                  .infer = { n, totals.stage_ns[TD_STAGE_COMPUTE] },
                                  .output = { n, totals.stage_ns[TD_STAGE_ENCODE] } };
}

td_status td_oip_statistics(struct td_call *call)
{
    int count = 1;
    const struct td_op *const *ops = call->op ? &call->op : td_ops(&count);
    struct td_oip_stats *stats =
        td_arena_alloc(&call->arena, (size_t)count, sizeof *stats, &call->error);
    if (!stats)
        return call->error.status;
    for (int i = 0; i < count; i++)
        read_statistics(call->services->metrics, ops[i], &stats[i]);
    return td_oip_describe_stats(ops, stats, count, &call->arena, &call->reply, &call->error);
}

/* ---- repository ------------------------------------------------------------------------------ */

/* These have small bodies and reply at once. They are tasks that reply in encode, so that a body
 * may be compressed. */
static td_status make_index(struct td_call *call)
{
    return td_oip_repository_index(call->body, call->body_bytes, &call->arena, &call->reply,
                                   &call->error);
}

static td_status load(struct td_call *call)
{
    return td_oip_repository_load(call->body, call->body_bytes, &call->arena, &call->reply,
                                  &call->error);
}

static td_status unload(struct td_call *call)
{
    return td_oip_repository_unload(call->body, call->body_bytes, &call->arena, &call->reply,
                                    &call->error);
}

const struct td_task td_oip_index_task = { .encode = make_index };
const struct td_task td_oip_load_task = { .encode = load };
const struct td_task td_oip_unload_task = { .encode = unload };

/* ---- shared memory --------------------------------------------------------------------------- */

static td_status need_shm(struct td_call *call)
{
    return call->services->shm
               ? TD_OK
               : td_error_set(&call->error, TD_NOT_SUPPORTED,
                              "shared memory is off; the server's option --system-shared-memory "
                              "allows it");
}

static td_status register_region(struct td_call *call)
{
    struct td_oip_region region = { .name = call->arguments[0] };
    td_status status =
        td_oip_read_region(call->body, call->body_bytes, &call->arena, &region, &call->error);
    if (status == TD_OK)
        status = td_shm_register(call->services->shm, call->arguments[0], region.key, region.offset,
                                 region.bytes, &call->error);
    if (status == TD_OK)
        reply_json(call, "{}");
    return status;
}

const struct td_task td_oip_register_task = { .begin = need_shm, .encode = register_region };

td_status td_oip_region_status(struct td_call *call)
{
    struct td_oip_region *list = NULL;
    int count = 0;
    td_status status = need_shm(call);
    if (status == TD_OK)
        status = td_shm_list(call->services->shm, call->arguments[0], &call->arena, &list, &count,
                             &call->error);
    if (status != TD_OK)
        return status;
    return td_oip_describe_regions(list, count, &call->arena, &call->reply, &call->error);
}

td_status td_oip_unregister(struct td_call *call)
{
    const td_status status = need_shm(call);
    if (status != TD_OK)
        return status;
    td_shm_unregister(call->services->shm, call->arguments[0]);
    reply_json(call, "{}");
    return TD_OK;
}

td_status td_oip_no_cuda_regions(struct td_call *call)
{
    if (call->arguments[0])
        return td_error_set(&call->error, TD_NOT_FOUND,
                            "there is no CUDA shared memory region '%.128s'", call->arguments[0]);
    reply_json(call, "[]");
    return TD_OK;
}

td_status td_oip_no_cuda_unregister(struct td_call *call)
{
    reply_json(call, "{}");
    return TD_OK;
}

td_status td_oip_no_cuda_register(struct td_call *call)
{
    return td_error_set(&call->error, TD_NOT_SUPPORTED,
                        "CUDA shared memory is not supported; system shared memory is, with the "
                        "server's option --system-shared-memory");
}

/* ---- settings -------------------------------------------------------------------------------- */

td_status td_oip_no_trace(struct td_call *call)
{
    return td_error_set(&call->error, TD_NOT_SUPPORTED, "trace settings are not supported");
}

td_status td_oip_no_logging(struct td_call *call)
{
    return td_error_set(&call->error, TD_NOT_SUPPORTED,
                        "log settings are not supported; the server's option --log-level sets the "
                        "level");
}
