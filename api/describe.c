#include "api/describe.h"

#include "api/problem.h"

#include <cjson/cJSON.h>

#include <stdio.h>
#include <string.h>

/* cJSON answers NULL where it has no memory, and passes NULL on, so one look at the end is enough.
 * The document is printed into the arena. */
static td_status reply_with(cJSON *document, bool complete, struct td_arena *arena,
                            struct td_reply *reply, struct td_error *err)
{
    td_status status = TD_OK;
    char *text = complete ? cJSON_PrintUnformatted(document) : NULL;
    cJSON_Delete(document);
    if (!text)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for this description");
    size_t length = strlen(text);
    char *copy = td_arena_text(arena, text, length, err);
    if (copy)
        td_reply_set(reply, 200, "application/json", copy, length);
    else
        status = err->status;
    cJSON_free(text);
    return status;
}

/* Adds `item` to an object; false, and item is freed, when either is NULL or memory is out. */
static bool add(cJSON *object, const char *name, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, name, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool append(cJSON *array, cJSON *item)
{
    if (item && cJSON_AddItemToArray(array, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool add_text(cJSON *object, const char *name, const char *text)
{
    return add(object, name, cJSON_CreateString(text));
}

/* A 64-bit integer, which cJSON's numbers (doubles) would round. */
static cJSON *integer(int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return cJSON_CreateRaw(text);
}

static bool add_endpoint(cJSON *object, const char *name, const char *method, const char *path,
                         const char *op)
{
    char endpoint[128];
    snprintf(endpoint, sizeof endpoint, "%s%s%s", method, path, op);
    return add_text(object, name, endpoint);
}

/* ---- ops ---- */

td_status td_describe_ops(struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    cJSON *document = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(document, "ops");
    bool complete = list != NULL;
    for (int i = 0; i < count && complete; i++) {
        cJSON *item = cJSON_CreateObject();
        complete = append(list, item) && add_text(item, "name", ops[i]->name) &&
                   add_text(item, "summary", ops[i]->summary) &&
                   add_endpoint(item, "endpoint", "POST ", "/v1/", ops[i]->name) &&
                   add_endpoint(item, "href", "", "/v1/ops/", ops[i]->name);
    }
    return reply_with(document, complete, arena, reply, err);
}

static cJSON *dtype_list(td_dtype_set set)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if ((set >> i & 1) && !append(list, cJSON_CreateString(td_dtype_info((td_dtype)i)->name))) {
            cJSON_Delete(list);
            return NULL;
        }
    return list;
}

static bool add_inputs(cJSON *document, const struct td_op *op)
{
    cJSON *list = cJSON_AddArrayToObject(document, "inputs");
    bool complete = list != NULL;
    for (int i = 0; i < op->n_inputs && complete; i++) {
        const struct td_input_spec *spec = &op->inputs[i];
        cJSON *item = cJSON_CreateObject();
        complete = append(list, item) && add_text(item, "name", spec->name) &&
                   add_text(item, "summary", spec->summary) &&
                   add(item, "list", cJSON_CreateBool(spec->list)) &&
                   add(item, "dtypes", dtype_list(spec->dtypes));
    }
    return complete;
}

/* The default as JSON: a number, a name, or the words that say what it depends on. */
static cJSON *default_value(const struct td_attr_spec *spec)
{
    if (spec->kind == TD_ATTR_INT && spec->default_int != TD_ATTR_UNSET)
        return integer(spec->default_int);
    return cJSON_CreateString(spec->default_text ? spec->default_text : "");
}

static cJSON *bounds_list(void)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < TD_BOUNDS_COUNT; i++)
        if (!append(list, cJSON_CreateString(td_bounds_name((td_bounds)i)))) {
            cJSON_Delete(list);
            return NULL;
        }
    return list;
}

static bool add_attrs(cJSON *document, const struct td_op *op)
{
    static const char *const kinds[] = {
        [TD_ATTR_INT] = "int64", [TD_ATTR_BOUNDS] = "string", [TD_ATTR_TEXT] = "string"
    };
    cJSON *list = cJSON_AddArrayToObject(document, "attributes");
    bool complete = list != NULL;
    for (int i = 0; i < op->n_attrs && complete; i++) {
        const struct td_attr_spec *spec = &op->attrs[i];
        cJSON *item = cJSON_CreateObject();
        complete = append(list, item) && add_text(item, "name", spec->name) &&
                   add_text(item, "summary", spec->summary) &&
                   add_text(item, "type", kinds[spec->kind]) &&
                   add(item, "required", cJSON_CreateBool(spec->required));
        if (complete && !spec->required)
            complete = add(item, "default", default_value(spec));
        if (complete && spec->kind == TD_ATTR_BOUNDS)
            complete = add(item, "values", bounds_list());
    }
    return complete;
}

static bool add_errors(cJSON *document, const struct td_op *op)
{
    cJSON *list = cJSON_AddArrayToObject(document, "errors");
    bool complete = list != NULL;
    for (int i = 0; op->errors[i] != TD_OK && complete; i++) {
        const struct td_problem *problem = td_problem_of(op->errors[i]);
        cJSON *item = cJSON_CreateObject();
        complete = append(list, item) && add_text(item, "code", td_status_name(op->errors[i])) &&
                   add(item, "status", cJSON_CreateNumber(problem->http_status)) &&
                   add_endpoint(item, "type", "", "/problems/", problem->slug);
    }
    return complete;
}

td_status td_describe_op(const struct td_op *op, const char *plan, struct td_arena *arena,
                         struct td_reply *reply, struct td_error *err)
{
    cJSON *document = cJSON_CreateObject();
    bool complete =
        add_text(document, "name", op->name) && add_text(document, "summary", op->summary) &&
        add_text(document, "source", op->source) &&
        add_endpoint(document, "endpoint", "POST ", "/v1/", op->name) &&
        (!plan || add_endpoint(document, "plan", "POST ", plan, "")) && add_inputs(document, op) &&
        add_attrs(document, op) &&
        add_text(document, "output", op->output_list ? "outputs" : "output") &&
        add_text(document, "shape_rule", op->shape_rule) &&
        add(document, "max_rank", cJSON_CreateNumber(TD_MAX_RANK)) && add_errors(document, op);
    cJSON *example = complete ? cJSON_AddObjectToObject(document, "example") : NULL;
    complete = example && add_endpoint(example, "endpoint", "POST ", "/v1/", op->name) &&
               add(example, "request", cJSON_CreateRaw(op->example));
    return reply_with(document, complete, arena, reply, err);
}

/* ---- tensors ---- */

static cJSON *listing(const struct td_tensor_listing *tensor)
{
    const struct td_tensor *described = tensor->tensor;
    cJSON *item = cJSON_CreateObject();
    bool complete = add_text(item, "name", tensor->name) &&
                    add_text(item, "dtype", td_dtype_info(described->dtype)->name);
    cJSON *shape = complete ? cJSON_AddArrayToObject(item, "shape") : NULL;
    complete = shape != NULL;
    for (int i = 0; i < described->shape.rank && complete; i++)
        complete = append(shape, integer(described->shape.dim[i]));
    complete = complete && add(item, "bytes", integer((int64_t)td_tensor_footprint(described)));
    if (complete && tensor->source)
        complete = add_text(item, "source", tensor->source);
    if (complete)
        return item;
    cJSON_Delete(item);
    return NULL;
}

td_status td_describe_tensors(const struct td_tensor_listing *list, int count,
                              struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    cJSON *document = cJSON_CreateObject(), *items = cJSON_AddArrayToObject(document, "tensors");
    bool complete = items != NULL;
    for (int i = 0; i < count && complete; i++)
        complete = append(items, listing(&list[i]));
    return reply_with(document, complete, arena, reply, err);
}

td_status td_describe_tensor(const struct td_tensor_listing *tensor, struct td_arena *arena,
                             struct td_reply *reply, struct td_error *err)
{
    cJSON *document = listing(tensor);
    return reply_with(document, document != NULL, arena, reply, err);
}
