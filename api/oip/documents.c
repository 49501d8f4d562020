#include "api/json/members.h"
#include "api/json/values.h"
#include "api/message/attrs.h"
#include "api/message/document.h"
#include "api/oip/oip.h"
#include "api/oip/types.h"
#include "kernels/name.h"

#include <stdio.h>
#include <string.h>

static const char model_version[] = "1";
static const char platform[] = "tensord_op";

/* ---- the server ---- */

td_status td_oip_describe_server(const struct td_oip_server *server, struct td_arena *arena,
                                 struct td_reply *reply, struct td_error *err)
{
    static const char *const extensions[] = { "binary_tensor_data",  "parameters",
                                              "model_repository",    "model_configuration",
                                              "statistics",          "schedule_policy",
                                              "system_shared_memory" };
    const int n = (int)(sizeof extensions / sizeof *extensions) - !server->shared_memory;
    cJSON *document = cJSON_CreateObject();
    bool complete = td_document_text(document, "name", "tensord") &&
                    td_document_text(document, "version", server->version);
    cJSON *list = complete ? cJSON_AddArrayToObject(document, "extensions") : NULL;
    complete = list != NULL;
    for (int i = 0; i < n && complete; i++)
        complete = td_document_append(list, cJSON_CreateString(extensions[i]));
    return td_document_reply(document, complete, arena, reply, err);
}

/* ---- a model ---- */

/* The datatype in the metadata of a tensor. The protocol cannot express several, so this is what
 * clients use by default. */
static td_dtype default_dtype(td_dtype_set set)
{
    if (set & TD_DTYPE_BIT(FLOAT32))
        return TD_DTYPE_FLOAT32;
    if (set & TD_DTYPE_BIT(INT64))
        return TD_DTYPE_INT64;
    return (td_dtype)__builtin_ctz(set);
}

/* An input or output in the metadata of a model. A list is represented by its first tensor, with
 * which a request is valid. */
struct model_tensor {
    const char *name;
    bool list, optional;
    td_dtype_set dtypes;
};

static struct model_tensor input_of(const struct td_op *op, int i)
{
    const struct td_input_spec *spec = &op->inputs[i];
    return (struct model_tensor){ spec->name, spec->list, spec->optional, spec->dtypes };
}

static struct model_tensor output_of(const struct td_op *op, int i)
{
    const struct td_output_spec *spec = &op->outputs[i];
    return (struct model_tensor){ spec->name, spec->list, false, td_op_output_dtypes(op, spec) };
}

static bool add_name(cJSON *object, const struct model_tensor *tensor)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s", tensor->name, tensor->list ? ".0" : "");
    return td_document_text(object, "name", text);
}

/* Adds the shape [-1]: one dimension, of any size. */
static bool add_dims(cJSON *object, const char *name)
{
    cJSON *list = cJSON_AddArrayToObject(object, name);
    return td_document_append(list, cJSON_CreateNumber(-1));
}

/* Adds parameters for what the protocol's own members cannot express. */
static bool add_tensor_parameters(cJSON *object, const struct model_tensor *tensor)
{
    cJSON *parameters = cJSON_AddObjectToObject(object, "parameters");
    bool complete = td_document_add(parameters, "any_rank", cJSON_CreateTrue());
    cJSON *list = complete ? cJSON_AddArrayToObject(parameters, "datatypes") : NULL;
    complete = list != NULL;
    for (int i = 0; i < TD_DTYPE_COUNT && complete; i++) {
        const char *name = td_dtype_info((td_dtype)i)->oip;
        if (*name && (tensor->dtypes >> i & 1))
            complete = td_document_append(list, cJSON_CreateString(name));
    }
    if (complete && tensor->optional)
        complete = td_document_add(parameters, "optional", cJSON_CreateTrue());
    if (complete && (tensor->dtypes & TD_DTYPE_BIT(COMPLEX64)))
        complete = td_document_add(parameters, "complex", cJSON_CreateTrue());
    if (complete && tensor->list)
        complete = td_document_add(parameters, "variadic", cJSON_CreateTrue()) &&
                   td_document_add(parameters, "min", cJSON_CreateNumber(1)) &&
                   td_document_add(parameters, "max", cJSON_CreateNumber(TD_MAX_LIST));
    return complete;
}

static bool add_metadata(cJSON *list, const struct model_tensor *tensor)
{
    cJSON *item = cJSON_CreateObject();
    return td_document_append(list, item) && add_name(item, tensor) &&
           td_document_text(item, "datatype", td_dtype_info(default_dtype(tensor->dtypes))->oip) &&
           add_dims(item, "shape") && add_tensor_parameters(item, tensor);
}

/* Adds a parameter that every model has. */
static bool add_parameter(cJSON *parameters, const char *name, const char *type,
                          cJSON *default_value)
{
    cJSON *item = cJSON_AddObjectToObject(parameters, name);
    bool complete = item && td_document_text(item, "type", type);
    if (complete)
        return td_document_add(item, "default", default_value);
    cJSON_Delete(default_value);
    return false;
}

static bool add_parameters(cJSON *document, const struct td_op *op)
{
    cJSON *parameters = cJSON_AddObjectToObject(document, "parameters");
    bool complete = parameters != NULL;
    for (int i = 0; i < op->n_attrs && complete; i++) {
        cJSON *item = cJSON_AddObjectToObject(parameters, op->attrs[i].name);
        complete = item && td_document_attr(item, &op->attrs[i]);
    }
    return complete && add_parameter(parameters, "device", "string", cJSON_CreateString("auto")) &&
           add_parameter(parameters, "complex", "bool", cJSON_CreateFalse());
}

td_status td_oip_describe_model(const struct td_op *op, struct td_arena *arena,
                                struct td_reply *reply, struct td_error *err)
{
    cJSON *document = cJSON_CreateObject();
    bool complete = td_document_text(document, "name", op->name);
    cJSON *versions = complete ? cJSON_AddArrayToObject(document, "versions") : NULL;
    complete = td_document_append(versions, cJSON_CreateString(model_version)) &&
               td_document_text(document, "platform", platform);
    cJSON *inputs = complete ? cJSON_AddArrayToObject(document, "inputs") : NULL;
    complete = inputs != NULL;
    for (int i = 0; i < op->n_inputs && complete; i++) {
        const struct model_tensor input = input_of(op, i);
        complete = add_metadata(inputs, &input);
    }
    cJSON *outputs = complete ? cJSON_AddArrayToObject(document, "outputs") : NULL;
    complete = outputs != NULL;
    for (int i = 0; i < op->n_outputs && complete; i++) {
        const struct model_tensor output = output_of(op, i);
        complete = add_metadata(outputs, &output);
    }
    complete = complete && add_parameters(document, op);
    return td_document_reply(document, complete, arena, reply, err);
}

/* ---- a model's configuration ---- */

static bool add_config(cJSON *list, const struct model_tensor *tensor)
{
    char type[TD_OIP_CONFIG_TEXT];
    cJSON *item = cJSON_CreateObject();
    return td_document_append(list, item) && add_name(item, tensor) &&
           td_document_text(item, "data_type",
                            td_oip_config_name(default_dtype(tensor->dtypes), type, sizeof type)) &&
           add_dims(item, "dims");
}

static bool add_input_config(cJSON *list, const struct model_tensor *tensor)
{
    if (!add_config(list, tensor))
        return false;
    cJSON *item = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
    return td_document_text(item, "format", "FORMAT_NONE") &&
           td_document_add(item, "is_shape_tensor", cJSON_CreateFalse()) &&
           td_document_add(item, "allow_ragged_batch", cJSON_CreateFalse()) &&
           td_document_add(item, "optional", cJSON_CreateBool(tensor->optional));
}

static bool add_output_config(cJSON *list, const struct model_tensor *tensor)
{
    if (!add_config(list, tensor))
        return false;
    cJSON *item = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
    return td_document_text(item, "label_filename", "") &&
           td_document_add(item, "is_shape_tensor", cJSON_CreateFalse());
}

static bool add_instances(cJSON *document, const struct td_op *op, int workers)
{
    cJSON *list = cJSON_AddArrayToObject(document, "instance_group"), *item = cJSON_CreateObject();
    return td_document_append(list, item) && td_document_text(item, "name", op->name) &&
           td_document_text(item, "kind", "KIND_CPU") &&
           td_document_add(item, "count", cJSON_CreateNumber(workers)) &&
           cJSON_AddArrayToObject(item, "gpus");
}

td_status td_oip_describe_config(const struct td_op *op, const struct td_oip_server *server,
                                 struct td_arena *arena, struct td_reply *reply,
                                 struct td_error *err)
{
    cJSON *document = cJSON_CreateObject();
    bool complete = td_document_text(document, "name", op->name) &&
                    td_document_text(document, "platform", platform) &&
                    td_document_text(document, "backend", "tensord");
    cJSON *policy = complete ? cJSON_AddObjectToObject(document, "version_policy") : NULL;
    cJSON *latest = policy ? cJSON_AddObjectToObject(policy, "latest") : NULL;
    complete = td_document_add(latest, "num_versions", cJSON_CreateNumber(1)) &&
               td_document_add(document, "max_batch_size", cJSON_CreateNumber(0));
    cJSON *inputs = complete ? cJSON_AddArrayToObject(document, "input") : NULL;
    complete = inputs != NULL;
    for (int i = 0; i < op->n_inputs && complete; i++) {
        const struct model_tensor input = input_of(op, i);
        complete = add_input_config(inputs, &input);
    }
    cJSON *outputs = complete ? cJSON_AddArrayToObject(document, "output") : NULL;
    complete = outputs != NULL;
    for (int i = 0; i < op->n_outputs && complete; i++) {
        const struct model_tensor output = output_of(op, i);
        complete = add_output_config(outputs, &output);
    }
    complete = complete && add_instances(document, op, server->workers) &&
               cJSON_AddObjectToObject(document, "parameters");
    return td_document_reply(document, complete, arena, reply, err);
}

/* ---- bodies of the other requests ---- */

/* The reader of a small JSON object. The body may be empty. */
struct small_body {
    struct td_json_scan scan;
    struct td_arena *arena;
    struct td_error *err;
    struct td_oip_region *region; /* set by td_oip_read_region */
};

static td_status read_small(struct small_body *small, td_json_member_fn *member)
{
    struct td_json_scan *scan = &small->scan;
    td_json_peek(scan);
    if (scan->at == scan->end)
        return TD_OK;
    td_status status =
        td_json_object(scan, NULL, "the body", member, small, small->arena, small->err);
    if (status != TD_OK)
        return status;
    td_json_peek(scan);
    return scan->at == scan->end
               ? TD_OK
               : td_json_syntax(scan, scan->at, small->err, "expected the end of the body");
}

static struct small_body small_body(const char *body, size_t bytes, struct td_arena *arena,
                                    struct td_error *err)
{
    return (struct small_body){ .scan = { .begin = body, .at = body, .end = body + bytes },
                                .arena = arena,
                                .err = err };
}

/* ---- the repository ---- */

static td_status read_index_member(void *context, const struct td_json_path *path,
                                   struct td_json_name name)
{
    struct small_body *small = context;
    const char c = td_json_peek(&small->scan);
    td_status status = td_json_skip(&small->scan, 1, small->arena, small->err);
    if (status != TD_OK || !td_json_name_is(name, "ready") || c == 't' || c == 'f' || c == 'n')
        return status;
    return td_json_refuse(path, small->err, "ready is %s; true or false is expected",
                          td_json_kind(c));
}

td_status td_oip_repository_index(const char *body, size_t bytes, struct td_arena *arena,
                                  struct td_reply *reply, struct td_error *err)
{
    struct small_body small = small_body(body, bytes, arena, err);
    td_status status = read_small(&small, read_index_member);
    if (status != TD_OK)
        return status;
    int count;
    const struct td_op *const *ops = td_ops(&count);
    cJSON *document = cJSON_CreateArray();
    bool complete = document != NULL;
    for (int i = 0; i < count && complete; i++) {
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(document, item) &&
                   td_document_text(item, "name", ops[i]->name) &&
                   td_document_text(item, "version", model_version) &&
                   td_document_text(item, "state", "READY") && td_document_text(item, "reason", "");
    }
    return td_document_reply(document, complete, arena, reply, err);
}

static td_status read_load_parameter(void *context, const struct td_json_path *path,
                                     struct td_json_name name)
{
    struct small_body *small = context;
    if (td_json_name_is(name, "config") || td_name_begins("file:", name.text, name.length)) {
        td_json_refuse(path, small->err, "built-in op, configuration cannot be replaced");
        return TD_MALFORMED_REQUEST;
    }
    return td_json_skip(&small->scan, 2, small->arena, small->err);
}

static td_status read_load_member(void *context, const struct td_json_path *path,
                                  struct td_json_name name)
{
    struct small_body *small = context;
    if (td_json_name_is(name, "parameters"))
        return td_json_object(&small->scan, path, "parameters", read_load_parameter, small,
                              small->arena, small->err);
    return td_json_skip(&small->scan, 1, small->arena, small->err);
}

td_status td_oip_repository_load(const char *body, size_t bytes, struct td_arena *arena,
                                 struct td_reply *reply, struct td_error *err)
{
    struct small_body small = small_body(body, bytes, arena, err);
    td_status status = read_small(&small, read_load_member);
    if (status == TD_OK)
        td_reply_set(reply, 200, "application/json", "{}", 2);
    return status;
}

static td_status skip_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct small_body *small = context;
    (void)path;
    (void)name;
    return td_json_skip(&small->scan, 1, small->arena, small->err);
}

td_status td_oip_repository_unload(const char *body, size_t bytes, struct td_arena *arena,
                                   struct td_reply *reply, struct td_error *err)
{
    struct small_body small = small_body(body, bytes, arena, err);
    (void)reply;
    td_status status = read_small(&small, skip_member);
    return status == TD_OK
               ? td_error_set(err, TD_INVALID_ARGUMENT, "built-in op cannot be unloaded")
               : status;
}

/* ---- statistics ---- */

static bool add_stat(cJSON *object, const char *name, struct td_oip_stat stat)
{
    cJSON *item = cJSON_AddObjectToObject(object, name);
    return item && td_document_add(item, "count", td_document_count(stat.count)) &&
           td_document_add(item, "ns", td_document_count(stat.ns));
}

static bool add_compute(cJSON *object, const struct td_oip_stats *stats)
{
    return add_stat(object, "compute_input", stats->input) &&
           add_stat(object, "compute_infer", stats->infer) &&
           add_stat(object, "compute_output", stats->output);
}

static bool add_model_stats(cJSON *list, const struct td_op *op, const struct td_oip_stats *stats)
{
    const struct td_oip_stat none = { 0, 0 };
    cJSON *item = cJSON_CreateObject();
    bool complete =
        td_document_append(list, item) && td_document_text(item, "name", op->name) &&
        td_document_text(item, "version", model_version) &&
        td_document_add(item, "last_inference", td_document_count(stats->last_ms)) &&
        td_document_add(item, "inference_count", td_document_count(stats->inferences)) &&
        td_document_add(item, "execution_count", td_document_count(stats->executions));
    cJSON *inference = complete ? cJSON_AddObjectToObject(item, "inference_stats") : NULL;
    complete = inference && add_stat(inference, "success", stats->success) &&
               add_stat(inference, "fail", stats->fail) &&
               add_stat(inference, "queue", stats->queue) && add_compute(inference, stats) &&
               add_stat(inference, "cache_hit", none) && add_stat(inference, "cache_miss", none) &&
               cJSON_AddObjectToObject(item, "response_stats");
    cJSON *batches = complete ? cJSON_AddArrayToObject(item, "batch_stats") : NULL;
    complete = batches != NULL;
    if (complete && stats->executions > 0) { /* every request is a batch of one */
        cJSON *batch = cJSON_CreateObject();
        complete = td_document_append(batches, batch) &&
                   td_document_add(batch, "batch_size", cJSON_CreateNumber(1)) &&
                   add_compute(batch, stats);
    }
    return complete && cJSON_AddArrayToObject(item, "memory_usage");
}

td_status td_oip_describe_stats(const struct td_op *const *ops, const struct td_oip_stats *stats,
                                int count, struct td_arena *arena, struct td_reply *reply,
                                struct td_error *err)
{
    cJSON *document = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(document, "model_stats");
    bool complete = list != NULL;
    for (int i = 0; i < count && complete; i++)
        complete = add_model_stats(list, ops[i], &stats[i]);
    return td_document_reply(document, complete, arena, reply, err);
}

/* ---- regions of shared memory ---- */

static td_status read_size(struct small_body *small, const struct td_json_path *path,
                           const char *name, uint64_t *out)
{
    struct td_attr_value value = { .kind = TD_VALUE_OTHER, .text = "" };
    td_status status = td_json_attr(&small->scan, small->arena, &value, small->err);
    if (status != TD_OK)
        return status;
    if (value.kind == TD_VALUE_INT && value.integer >= 0) {
        *out = (uint64_t)value.integer;
        return TD_OK;
    }
    td_attrs_refuse(small->err, name, "an integer from 0 to 2^63 - 1", &value);
    td_json_set_pointer(path, small->err);
    return TD_MALFORMED_REQUEST;
}

static td_status read_key(struct small_body *small, const struct td_json_path *path)
{
    const char *text = "";
    size_t length = 0;
    td_status status =
        td_json_text(&small->scan, small->arena, path, "key", &text, &length, small->err);
    if (status != TD_OK)
        return status;
    if (memchr(text, '\0', length))
        return td_json_refuse(path, small->err, "key has a NUL character");
    small->region->key = td_arena_text(small->arena, text, length, small->err);
    return small->region->key ? TD_OK : small->err->status;
}

static td_status read_region_member(void *context, const struct td_json_path *path,
                                    struct td_json_name name)
{
    struct small_body *small = context;
    if (td_json_name_is(name, "key"))
        return read_key(small, path);
    if (td_json_name_is(name, "offset"))
        return read_size(small, path, "offset", &small->region->offset);
    if (td_json_name_is(name, "byte_size"))
        return read_size(small, path, "byte_size", &small->region->bytes);
    return td_json_skip(&small->scan, 1, small->arena, small->err);
}

td_status td_oip_read_region(const char *body, size_t bytes, struct td_arena *arena,
                             struct td_oip_region *out, struct td_error *err)
{
    struct small_body small = small_body(body, bytes, arena, err);
    memset(out, 0, sizeof *out);
    small.region = out;
    td_status status = read_small(&small, read_region_member);
    if (status != TD_OK)
        return status;
    if (out->key && out->bytes > 0)
        return TD_OK;
    return td_json_refuse(NULL, err,
                          "%s; expected {\"key\": a name, \"offset\": a number, \"byte_size\": a "
                          "number above 0}",
                          out->key ? "byte_size is missing or 0" : "key is missing");
}

td_status td_oip_describe_regions(const struct td_oip_region *list, int count,
                                  struct td_arena *arena, struct td_reply *reply,
                                  struct td_error *err)
{
    cJSON *document = cJSON_CreateArray();
    bool complete = document != NULL;
    for (int i = 0; i < count && complete; i++) {
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(document, item) &&
                   td_document_text(item, "name", list[i].name) &&
                   td_document_text(item, "key", list[i].key) &&
                   td_document_add(item, "offset", td_document_count(list[i].offset)) &&
                   td_document_add(item, "byte_size", td_document_count(list[i].bytes));
    }
    return td_document_reply(document, complete, arena, reply, err);
}
