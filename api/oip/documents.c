#include "api/message/document.h"
#include "api/oip/oip.h"
#include "api/oip/types.h"
#include "kernels/name.h"

#include <stdio.h>
#include <string.h>

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

struct td_oip_model td_oip_model_of(const struct td_op *op)
{
    return (struct td_oip_model){ .name = op->name, .version = "1", .op = op };
}

static const char *platform(const struct td_oip_model *model)
{
    return model->table ? "tensord_table" : model->inputs ? "tensord_program" : "tensord_op";
}

/* True if the model takes keys. The metadata of a table with keys mentions only keys, not row
 * numbers. */
static bool takes_keys(const struct td_oip_model *model)
{
    return model->table && model->table->keys;
}

/* Returns the index of the first input that a request must give. If the model is a table, the table
 * is already the first input of the op. */
static int first_input(const struct td_oip_model *model)
{
    return model->table != NULL;
}

/* Returns the datatype to show in the metadata of a tensor that accepts several datatypes. The
 * protocol allows only one, so this is the datatype that clients use by default. */
static td_dtype default_dtype(td_dtype_set set)
{
    if (set & TD_DTYPE_BIT(FLOAT32))
        return TD_DTYPE_FLOAT32;
    if (set & TD_DTYPE_BIT(INT64))
        return TD_DTYPE_INT64;
    return (td_dtype)__builtin_ctz(set);
}

/* An input or output in a model's metadata. The first tensor of a list represents the list, which
 * is enough for a valid request. */
struct model_tensor {
    const char *name;
    bool list, optional;
    td_dtype_set dtypes;
    /* Table whose rows the op looks up, or NULL. */
    const struct td_tensor *table;
    /* Shape of an input or output of a program. NULL if the shape is not known. */
    const struct td_oip_shape *shape;
};

/* Returns the datatypes of an input or output of a program. */
static td_dtype_set dtypes_of(const struct td_oip_shape *shape, td_dtype_set others)
{
    return shape && shape->has_dtype ? (td_dtype_set)1 << shape->dtype : others;
}

static struct model_tensor input_of(const struct td_oip_model *model, int i)
{
    const struct td_input_spec *spec = &model->op->inputs[i];
    if (takes_keys(model) && td_input_is_row_numbers(spec))
        return (struct model_tensor){ .name = TD_OIP_KEYS,
                                      .dtypes = 1U << model->table->keys->dtype };
    return (struct model_tensor){ .name = spec->name,
                                  .list = spec->list,
                                  .optional = spec->optional,
                                  .dtypes = spec->dtypes,
                                  .shape = model->inputs ? &model->inputs[i] : NULL };
}

static struct model_tensor output_of(const struct td_oip_model *model, int i)
{
    const struct td_output_spec *spec = &model->op->outputs[i];
    const struct td_oip_shape *shape = model->outputs ? &model->outputs[i] : NULL;
    return (struct model_tensor){
        .name = spec->name,
        .list = spec->list,
        .dtypes = model->table ? 1U << model->table->dtype
                               : dtypes_of(shape, td_op_output_dtypes(model->op, spec)),
        .table = model->table,
        .shape = shape,
    };
}

/* Returns the datatype to show in a tensor's metadata. Complex numbers have the datatype of their
 * parts. */
static td_dtype datatype_of(const struct model_tensor *tensor)
{
    const td_dtype dtype = default_dtype(tensor->dtypes);
    return dtype == TD_DTYPE_COMPLEX64    ? TD_DTYPE_FLOAT32
           : dtype == TD_DTYPE_COMPLEX128 ? TD_DTYPE_FLOAT64
                                          : dtype;
}

static bool add_name(cJSON *object, const struct model_tensor *tensor)
{
    char text[96];
    snprintf(text, sizeof text, "%s%s", tensor->name, tensor->list ? ".0" : "");
    return td_document_text(object, "name", text);
}

/* True if the rank of the tensor is known. */
static bool has_rank(const struct model_tensor *tensor)
{
    return tensor->shape && tensor->shape->rank >= 0;
}

/* Adds the shape of a tensor of a program. Complex numbers are pairs. */
static bool add_known_dims(cJSON *list, const struct model_tensor *tensor)
{
    const struct td_oip_shape *shape = tensor->shape;
    bool complete = list != NULL;
    for (int i = 0; i < shape->rank && complete; i++)
        complete = td_document_append(list, td_document_integer(shape->dim[i]));
    return complete && (!shape->has_dtype || !td_dtype_is_complex(shape->dtype) ||
                        td_document_append(list, cJSON_CreateNumber(2)));
}

/* Adds the shape of a tensor. It is the known shape for a program, [-1, dimensions of a row...] for
 * rows of a table, and otherwise [-1], which stands for one dimension of any size. */
static bool add_dims(cJSON *object, const char *name, const struct model_tensor *tensor)
{
    const struct td_tensor *table = tensor->table;
    cJSON *list = cJSON_AddArrayToObject(object, name);
    if (has_rank(tensor))
        return add_known_dims(list, tensor);
    bool complete = td_document_append(list, cJSON_CreateNumber(-1));
    if (!table)
        return complete;
    for (int i = 1; i < table->shape.rank && complete; i++)
        complete = td_document_append(list, td_document_integer(table->shape.dim[i]));
    if (complete && td_dtype_is_complex(table->dtype)) /* pairs */
        complete = td_document_append(list, cJSON_CreateNumber(2));
    return complete;
}

/* Adds parameters for properties that the protocol's own members cannot express. */
static bool add_tensor_parameters(cJSON *object, const struct model_tensor *tensor)
{
    cJSON *parameters = cJSON_AddObjectToObject(object, "parameters");
    bool complete = td_document_add(parameters, "any_rank", cJSON_CreateBool(!has_rank(tensor)));
    cJSON *list = complete ? cJSON_AddArrayToObject(parameters, "datatypes") : NULL;
    complete = list != NULL;
    for (int i = 0; i < TD_DTYPE_COUNT && complete; i++) {
        const char *name = td_dtype_info((td_dtype)i)->oip;
        if (*name && ((tensor->dtypes | 1U << datatype_of(tensor)) >> i & 1))
            complete = td_document_append(list, cJSON_CreateString(name));
    }
    if (complete && tensor->optional)
        complete = td_document_add(parameters, "optional", cJSON_CreateTrue());
    if (complete && (tensor->dtypes & (TD_DTYPE_BIT(COMPLEX64) | TD_DTYPE_BIT(COMPLEX128))))
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
           td_document_text(item, "datatype", td_dtype_info(datatype_of(tensor))->oip) &&
           add_dims(item, "shape", tensor) && add_tensor_parameters(item, tensor);
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

td_status td_oip_describe_model(const struct td_oip_model *model, struct td_arena *arena,
                                struct td_reply *reply, struct td_error *err)
{
    const struct td_op *op = model->op;
    cJSON *document = cJSON_CreateObject();
    bool complete = td_document_text(document, "name", model->name);
    cJSON *versions = complete ? cJSON_AddArrayToObject(document, "versions") : NULL;
    complete = td_document_append(versions, cJSON_CreateString(model->version)) &&
               td_document_text(document, "platform", platform(model));
    cJSON *inputs = complete ? cJSON_AddArrayToObject(document, "inputs") : NULL;
    complete = inputs != NULL;
    for (int i = first_input(model); i < op->n_inputs && complete; i++) {
        const struct model_tensor input = input_of(model, i);
        complete = add_metadata(inputs, &input);
    }
    cJSON *outputs = complete ? cJSON_AddArrayToObject(document, "outputs") : NULL;
    complete = outputs != NULL;
    for (int i = 0; i < op->n_outputs && complete; i++) {
        const struct model_tensor output = output_of(model, i);
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
                            td_oip_config_name(datatype_of(tensor), type, sizeof type)) &&
           add_dims(item, "dims", tensor);
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

static bool add_instances(cJSON *document, const char *name, int workers)
{
    cJSON *list = cJSON_AddArrayToObject(document, "instance_group"), *item = cJSON_CreateObject();
    return td_document_append(list, item) && td_document_text(item, "name", name) &&
           td_document_text(item, "kind", "KIND_CPU") &&
           td_document_add(item, "count", cJSON_CreateNumber(workers)) &&
           cJSON_AddArrayToObject(item, "gpus");
}

td_status td_oip_describe_config(const struct td_oip_model *model,
                                 const struct td_oip_server *server, struct td_arena *arena,
                                 struct td_reply *reply, struct td_error *err)
{
    const struct td_op *op = model->op;
    cJSON *document = cJSON_CreateObject();
    bool complete = td_document_text(document, "name", model->name) &&
                    td_document_text(document, "platform", platform(model)) &&
                    td_document_text(document, "backend", "tensord");
    cJSON *policy = complete ? cJSON_AddObjectToObject(document, "version_policy") : NULL;
    cJSON *latest = policy ? cJSON_AddObjectToObject(policy, "latest") : NULL;
    complete = td_document_add(latest, "num_versions", cJSON_CreateNumber(1)) &&
               td_document_add(document, "max_batch_size", cJSON_CreateNumber(0));
    cJSON *inputs = complete ? cJSON_AddArrayToObject(document, "input") : NULL;
    complete = inputs != NULL;
    for (int i = first_input(model); i < op->n_inputs && complete; i++) {
        const struct model_tensor input = input_of(model, i);
        complete = add_input_config(inputs, &input);
    }
    cJSON *outputs = complete ? cJSON_AddArrayToObject(document, "output") : NULL;
    complete = outputs != NULL;
    for (int i = 0; i < op->n_outputs && complete; i++) {
        const struct model_tensor output = output_of(model, i);
        complete = add_output_config(outputs, &output);
    }
    complete = complete && add_instances(document, model->name, server->workers) &&
               cJSON_AddObjectToObject(document, "parameters");
    return td_document_reply(document, complete, arena, reply, err);
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

static bool add_model_stats(cJSON *list, const struct td_oip_stats *stats)
{
    const struct td_oip_stat none = { 0, 0 };
    cJSON *item = cJSON_CreateObject();
    bool complete =
        td_document_append(list, item) && td_document_text(item, "name", stats->name) &&
        td_document_text(item, "version", stats->version) &&
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

td_status td_oip_describe_stats(const struct td_oip_stats *stats, int count, struct td_arena *arena,
                                struct td_reply *reply, struct td_error *err)
{
    cJSON *document = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(document, "model_stats");
    bool complete = list != NULL;
    for (int i = 0; i < count && complete; i++)
        complete = add_model_stats(list, &stats[i]);
    return td_document_reply(document, complete, arena, reply, err);
}
