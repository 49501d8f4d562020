#include "server/calls/oip_tasks.h"

#include "api/oip/oip.h"
#include "api/text/text.h"
#include "server/calls/health.h"
#include "server/calls/models.h"
#include "server/calls/services.h"
#include "server/calls/table_reads.h"
#include "server/store/aliases/aliases.h"
#include "server/store/table_name.h"

#include <string.h>

static struct td_oip_server server_properties(const struct td_call *call)
{
    return (struct td_oip_server){ .version = TD_VERSION,
                                   .shared_memory = call->services->shm != NULL,
                                   .workers = (int)call->services->config.workers };
}

/* Finds the model that the path names, with the shapes of a program. */
static td_status find_described(struct td_call *call, struct td_oip_model *out,
                                struct td_error *problem)
{
    problem->status = TD_OK;
    const td_status status = td_model_find(call, out);
    return status == TD_OK && out->text ? td_model_describe_program(call, out, problem) : status;
}

/* Sends the call to a worker if the model can be a program, which is compiled and planned to
 * describe it. */
static td_status begin_model(struct td_call *call)
{
    char name[TD_TENSOR_NAME];
    const char *model = call->table.model ? call->table.model : call->op->name;
    call->schedule.must_queue =
        td_program_name(model, name) && td_catalog_know(&call->catalog, name);
    return TD_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

td_status td_oip_server_metadata(struct td_call *call)
{
    const struct td_oip_server server = server_properties(call);
    return td_oip_describe_server(&server, &call->arena, &call->reply, &call->error);
}

static td_status write_ready(struct td_call *call)
{
    enum { SIZE = 256 }; /* large enough for the longest tensor name */
    struct td_oip_model model;
    struct td_error problem;
    td_status status = td_health_check(call);
    if (status == TD_OK)
        status = find_described(call, &model, &problem);
    if (status == TD_OK && problem.status != TD_OK) {
        call->error = problem;
        return problem.status;
    }
    char *text = status == TD_OK ? td_arena_alloc(&call->arena, SIZE, 1, &call->error) : NULL;
    if (!text)
        return call->error.status;
    struct td_text body = { .at = text, .end = text + SIZE };
    td_text_string(&body, "{\"name\":");
    td_text_quote(&body, model.name);
    td_text_string(&body, ",\"ready\":true}");
    td_reply_set(&call->reply, 200, "application/json", text, (size_t)(body.at - text));
    return TD_OK;
}

static td_status write_metadata(struct td_call *call)
{
    struct td_oip_model model;
    struct td_error problem;
    const td_status status = find_described(call, &model, &problem);
    return status != TD_OK
               ? status
               : td_oip_describe_model(&model, &call->arena, &call->reply, &call->error);
}

static td_status write_config(struct td_call *call)
{
    const struct td_oip_server server = server_properties(call);
    struct td_oip_model model;
    struct td_error problem;
    const td_status status = find_described(call, &model, &problem);
    return status != TD_OK
               ? status
               : td_oip_describe_config(&model, &server, &call->arena, &call->reply, &call->error);
}

static uint64_t sum(const uint64_t stage_ns[TD_STAGE_COUNT])
{
    uint64_t total = 0;
    for (int i = 0; i < TD_STAGE_COUNT; i++)
        total += stage_ns[i];
    return total;
}

static struct td_oip_stats stats_of(const char *name, const char *version,
                                    const struct td_inference_totals *totals)
{
    const uint64_t n = totals->succeeded;
    return (struct td_oip_stats){ .name = name,
                                  .version = version,
                                  .last_ms = totals->last_ms,
                                  .inferences = n,
                                  .executions = n,
                                  .success = { n, sum(totals->stage_ns) },
                                  .fail = { totals->failed, sum(totals->failed_stage_ns) },
                                  .queue = { n, totals->stage_ns[TD_STAGE_QUEUE] },
                                  .input = { n, totals->stage_ns[TD_STAGE_DECODE] },
                                  .infer = { n, totals->stage_ns[TD_STAGE_COMPUTE] },
                                  .output = { n, totals->stage_ns[TD_STAGE_ENCODE] } };
}

static struct td_oip_stats op_stats(const struct td_metrics *metrics, const struct td_op *op)
{
    struct td_operation_totals totals;
    const struct td_oip_model model = td_oip_model_of(op);
    td_metrics_read(metrics, td_operation_of(op), &totals);
    return stats_of(model.name, model.version, &totals.inferences);
}

static td_status model_statistics(struct td_call *call)
{
    struct td_metrics *metrics = call->services->metrics;
    struct td_oip_model model;
    struct td_oip_stats stats;
    struct td_inference_totals totals;
    const td_status status = td_model_find(call, &model);
    if (status != TD_OK)
        return status;
    if (model.table || model.text) {
        td_table_reads_totals(metrics, model.table ? model.table : model.text, &totals);
        stats = stats_of(model.name, model.version, &totals);
    } else {
        stats = op_stats(metrics, model.op);
    }
    return td_oip_describe_stats(&stats, 1, &call->arena, &call->reply, &call->error);
}

static td_status all_statistics(struct td_call *call)
{
    struct td_metrics *metrics = call->services->metrics;
    struct td_oip_entry *tables;
    int n_ops, n_tables;
    const struct td_op *const *ops = td_ops(&n_ops);
    const td_status status = td_models_counted(call, &tables, &n_tables);
    if (status != TD_OK)
        return status;
    struct td_oip_stats *stats =
        td_arena_alloc(&call->arena, (size_t)n_ops + (size_t)n_tables, sizeof *stats, &call->error);
    if (!stats)
        return call->error.status;
    for (int i = 0; i < n_tables; i++) {
        struct td_inference_totals totals;
        td_metrics_read_table(metrics, tables[i].name, &totals);
        stats[i] = stats_of(tables[i].name, tables[i].version, &totals);
    }
    int n = n_tables;
    for (int i = 0; i < n_ops; i++)
        if (!td_catalog_has_table(&call->catalog, ops[i]->name))
            stats[n++] = op_stats(metrics, ops[i]);
    return td_oip_describe_stats(stats, n, &call->arena, &call->reply, &call->error);
}

td_status td_oip_model_stats(struct td_call *call)
{
    return call->op ? model_statistics(call) : all_statistics(call);
}

const struct td_task td_oip_ready_task = { .begin = begin_model, .encode = write_ready };
const struct td_task td_oip_metadata_task = { .begin = begin_model, .encode = write_metadata };
const struct td_task td_oip_config_task = { .begin = begin_model, .encode = write_config };

/* ---- repository ------------------------------------------------------------------------------ */

/* Sends the call to a worker, because the index compiles programs that have not run yet. */
static td_status begin_index(struct td_call *call)
{
    call->schedule.must_queue = true;
    return TD_OK;
}

/* Checks the body of an index request. Index, load and unload have small bodies and could reply at
 * once. They are tasks that reply in encode, so compressed bodies are accepted. */
static td_status read_index(struct td_call *call)
{
    return td_oip_check_index(call->body, call->body_bytes, &call->arena, &call->error);
}

/* Sets the maximum size of the reply. */
static td_status admit_index(struct td_call *call, struct td_admission *admission)
{
    enum { PER_MODEL = 256 };
    admission->encoded_bound =
        PER_MODEL * ((size_t)td_store_usage(call->services->store).tensors +
                     (size_t)td_store_count_aliases(call->services->store) + TD_OP_COUNT);
    return td_call_admit_memory(call, admission->encoded_bound);
}

static td_status make_index(struct td_call *call)
{
    struct td_oip_entry *entries;
    int count;
    const td_status status = td_models_list(call, &entries, &count);
    return status != TD_OK
               ? status
               : td_oip_write_index(entries, count, &call->arena, &call->reply, &call->error);
}

static td_status find(struct td_call *call)
{
    struct td_oip_model model;
    return td_model_find(call, &model);
}

static td_status load(struct td_call *call)
{
    struct td_oip_model model;
    const td_status status = td_model_find(call, &model);
    return status != TD_OK ? status
                           : td_oip_repository_load(call->body, call->body_bytes, &model,
                                                    &call->arena, &call->reply, &call->error);
}

static td_status unload(struct td_call *call)
{
    struct td_oip_model model;
    const td_status status = td_model_find(call, &model);
    return status != TD_OK ? status
                           : td_oip_repository_unload(call->body, call->body_bytes, &model,
                                                      &call->arena, &call->error);
}

const struct td_task td_oip_index_task = { .begin = begin_index,
                                           .decode = read_index,
                                           .admit = admit_index,
                                           .encode = make_index,
                                           .body_limit = TD_BODY_SMALL };
const struct td_task td_oip_load_task = { .begin = find,
                                          .encode = load,
                                          .body_limit = TD_BODY_SMALL };
const struct td_task td_oip_unload_task = { .begin = find,
                                            .encode = unload,
                                            .body_limit = TD_BODY_SMALL };

/* ---- shared memory --------------------------------------------------------------------------- */

static td_status need_shm(struct td_call *call)
{
    return call->services->shm
               ? TD_OK
               : td_error_set(&call->error, TD_NOT_SUPPORTED,
                              "shared memory is off; the server's option --system-shared-memory "
                              "turns it on");
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
        td_call_reply_json(call, "{}");
    return status;
}

const struct td_task td_oip_register_task = { .begin = need_shm,
                                              .encode = register_region,
                                              .body_limit = TD_BODY_SMALL };

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
    td_call_reply_json(call, "{}");
    return TD_OK;
}

td_status td_oip_no_cuda_regions(struct td_call *call)
{
    if (call->arguments[0])
        return td_error_set(&call->error, TD_NOT_FOUND,
                            "there is no CUDA shared memory region '%.128s'", call->arguments[0]);
    td_call_reply_json(call, "[]");
    return TD_OK;
}

td_status td_oip_no_cuda_unregister(struct td_call *call)
{
    td_call_reply_json(call, "{}");
    return TD_OK;
}

td_status td_oip_no_cuda_register(struct td_call *call)
{
    return td_error_set(&call->error, TD_NOT_SUPPORTED,
                        "CUDA shared memory is not supported; the server's option "
                        "--system-shared-memory allows system shared memory");
}

/* ---- settings -------------------------------------------------------------------------------- */

td_status td_oip_no_trace(struct td_call *call)
{
    struct td_oip_model model;
    if (call->table.model && td_model_find(call, &model) != TD_OK)
        return call->error.status;
    return td_error_set(&call->error, TD_NOT_SUPPORTED, "trace settings are not supported");
}

td_status td_oip_no_logging(struct td_call *call)
{
    return td_error_set(&call->error, TD_NOT_SUPPORTED,
                        "log settings are not supported; the server's option --log-level sets the "
                        "level");
}
