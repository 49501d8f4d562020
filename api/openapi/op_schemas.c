#include "api/openapi/op_schemas.h"

#include "api/message/common_members.h"
#include "api/message/table_keys.h"
#include "api/openapi/components.h"
#include "kernels/key_dtype.h"

#include <stdio.h>
#include <string.h>

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Adds a description such as "Rows to pick. Dtypes: int32, int64." */
static bool add_description(cJSON *schema, const char *summary, td_dtype_set dtypes)
{
    char names[512], text[1024];
    snprintf(text, sizeof text, "%s Dtypes: %s.", summary,
             td_dtype_set_text(dtypes, names, sizeof names));
    return td_document_text(schema, "description", text);
}

/* Adds the schemas that an input accepts: a tensor and, if keys can replace row numbers, keys. A
 * schema with a description uses anyOf to refer to other schemas, because client generators do not
 * read anyOf inside allOf. */
static bool add_tensor(cJSON *schema, const struct td_input_spec *spec)
{
    cJSON *any = cJSON_AddArrayToObject(schema, "anyOf");
    return td_document_append(any, td_openapi_ref("schemas", "Tensor")) &&
           (!td_input_is_row_numbers(spec) ||
            td_document_append(any, td_openapi_ref("schemas", "Keys")));
}

static bool add_input(cJSON *properties, const struct td_input_spec *spec)
{
    cJSON *schema = cJSON_AddObjectToObject(properties, spec->name);
    if (!add_description(schema, spec->summary, spec->dtypes))
        return false;
    if (spec->list)
        return td_document_text(schema, "type", "array") &&
               td_document_add(schema, "items", td_openapi_ref("schemas", "Tensor"));
    return add_tensor(schema, spec);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static const char *const types[TD_ATTR_KIND_COUNT] = {
    [TD_ATTR_INT] = "integer",  [TD_ATTR_INTS] = "array",    [TD_ATTR_FLOAT] = "number",
    [TD_ATTR_BOOL] = "boolean", [TD_ATTR_CHOICE] = "string", [TD_ATTR_DTYPE] = "string",
    [TD_ATTR_TEXT] = "string",
};

/* Moves the limits and choices that td_document_attr wrote into the schema. */
static bool move_limits(cJSON *items, cJSON *known)
{
    static const char *const names[][2] = { { "values", "enum" },
                                            { "minimum", "minimum" },
                                            { "maximum", "maximum" } };
    bool complete = true;
    for (int i = 0; i < 3 && complete; i++) {
        cJSON *value = cJSON_DetachItemFromObjectCaseSensitive(known, names[i][0]);
        complete = !value || td_document_add(items, names[i][1], value);
    }
    return complete;
}

/* Adds the summary, whose text includes the default. There is no `default` member, because
 * generated clients would send it, and a default in the query string would conflict with the value
 * in the body. */
static bool add_summary(cJSON *schema, const char *summary, const cJSON *fallback)
{
    char text[512], number[32] = "";
    const char *shown = cJSON_IsString(fallback) ? fallback->valuestring : number;
    if (!fallback)
        return td_document_text(schema, "description", summary);
    if (!cJSON_IsString(fallback) &&
        !cJSON_PrintPreallocated((cJSON *)fallback, number, sizeof number, false))
        return false;
    snprintf(text, sizeof text, "%s Default: %s.", summary, shown);
    return td_document_text(schema, "description", text);
}

static bool set_attr(cJSON *schema, const struct td_attr_spec *spec)
{
    cJSON *items = schema, *known = cJSON_CreateObject();
    bool complete = td_document_attr(known, spec) &&
                    add_summary(schema, spec->summary, cJSON_GetObjectItem(known, "default")) &&
                    td_document_text(schema, "type", types[spec->kind]);
    if (complete && spec->kind == TD_ATTR_INTS) {
        items = cJSON_AddObjectToObject(schema, "items");
        complete = td_document_text(items, "type", "integer") &&
                   td_document_add(schema, "maxItems", cJSON_CreateNumber(TD_MAX_INTS));
    }
    complete = complete && move_limits(items, known);
    cJSON_Delete(known);
    return complete;
}

static bool add_attr(cJSON *properties, const struct td_attr_spec *spec)
{
    return set_attr(cJSON_AddObjectToObject(properties, spec->name), spec);
}

/* Adds an attribute as a query parameter. A list is a single parameter: axes=0,2. */
static bool add_parameter(cJSON *list, const struct td_attr_spec *spec)
{
    char text[512];
    cJSON *parameter = cJSON_CreateObject();
    snprintf(
        text, sizeof text,
        "%s Can be in the query string or in the body. If it is in both, the values must be equal.",
        spec->summary);
    return td_document_append(list, parameter) && td_document_text(parameter, "name", spec->name) &&
           td_document_text(parameter, "in", "query") &&
           td_document_text(parameter, "description", text) &&
           (spec->kind != TD_ATTR_INTS ||
            td_document_add(parameter, "explode", cJSON_CreateFalse())) &&
           set_attr(cJSON_AddObjectToObject(parameter, "schema"), spec);
}

bool td_openapi_add_query(cJSON *parameters, const struct td_op *op)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (!add_parameter(parameters, &op->attrs[i]))
            return false;
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool add_choice(cJSON *properties, const char *name, const char *description,
                       const char *fallback, const char *const *choices)
{
    cJSON *schema = cJSON_AddObjectToObject(properties, name);
    const cJSON shown = { .type = cJSON_String, .valuestring = (char *)(uintptr_t)fallback };
    return add_summary(schema, description, &shown) && td_openapi_choices(schema, choices);
}

/* Writes the schema of a list of the op's outputs. */
static bool set_outputs(cJSON *schema, const struct td_op *op)
{
    cJSON *items = cJSON_AddObjectToObject(schema, "items");
    cJSON *names = cJSON_AddArrayToObject(items, "enum");
    bool complete = td_document_text(schema, "type", "array") &&
                    td_document_text(items, "type", "string") &&
                    td_document_add(schema, "minItems", cJSON_CreateNumber(1)) &&
                    td_document_add(schema, "uniqueItems", cJSON_CreateTrue());
    for (int i = 0; i < op->n_outputs && complete; i++)
        complete = td_document_append(names, cJSON_CreateString(op->outputs[i].name));
    return complete;
}

static const char outputs_summary[] = "The outputs to send or store. Default: all outputs.";

/* Adds the member `outputs` if the op has several outputs. */
static bool add_outputs(cJSON *properties, const struct td_op *op)
{
    if (op->n_outputs == 1)
        return true;
    cJSON *schema = cJSON_AddObjectToObject(properties, "outputs");
    return td_document_text(schema, "description", outputs_summary) && set_outputs(schema, op);
}

bool td_openapi_add_outputs(cJSON *parameters, const struct td_op *op)
{
    if (op->n_outputs == 1)
        return true;
    cJSON *parameter = cJSON_CreateObject();
    return td_document_append(parameters, parameter) &&
           td_document_text(parameter, "name", "outputs") &&
           td_document_text(parameter, "in", "query") &&
           td_document_text(parameter, "description", outputs_summary) &&
           td_document_add(parameter, "explode", cJSON_CreateFalse()) &&
           set_outputs(cJSON_AddObjectToObject(parameter, "schema"), op);
}

/* Adds the common members that are listed in `names`. */
static bool add_common_members(cJSON *properties, const char *names, const struct td_op *op)
{
    static const char timing[] = "{'description':'True to add the header Server-Timing to the "
                                 "reply. Default: false.','type':'boolean'}";
    static const char store[] =
        "{'description':'The name of a resident tensor to store the output in, instead of sending "
        "it, with an optional number of seconds until it disappears.','anyOf':[{'type':'string'},"
        "{'type':'object','required':['name'],'properties':{'name':{'type':'string'},"
        "'ttl_s':" TD_OPENAPI_TTL "},'additionalProperties':false}]}";
    return (!strstr(names, "device") ||
            add_choice(properties, "device", "The device that computes the op.", td_device_names[0],
                       td_device_names)) &&
           (!strstr(names, "response") ||
            add_choice(properties, "response", "The layout of the outputs in JSON.",
                       td_layout_names[0], td_layout_names)) &&
           (!strstr(names, "timing") ||
            td_document_add(properties, "timing", td_openapi_json(timing))) &&
           (!strstr(names, "store") ||
            td_document_add(properties, "store", td_openapi_json(store))) &&
           (!strstr(names, "outputDtype") ||
            (add_choice(properties, "output_dtype",
                        "The dtype to which floating-point outputs are rounded.",
                        "the dtype of the output", td_output_dtype_names) &&
             add_outputs(properties, op)));
}

/* Adds the attributes to a schema and to its list of required members. */
static bool add_attrs(cJSON *properties, cJSON *required, const struct td_op *op)
{
    bool complete = true;
    for (int i = 0; i < op->n_attrs && complete; i++)
        complete = add_attr(properties, &op->attrs[i]) &&
                   (!op->attrs[i].required ||
                    td_document_append(required, cJSON_CreateString(op->attrs[i].name)));
    return complete;
}

/* Makes the schema of an object that can have only the members in *properties. */
static cJSON *make_object(cJSON **required, cJSON **properties, bool *complete)
{
    cJSON *schema = cJSON_CreateObject();
    *required = cJSON_AddArrayToObject(schema, "required");
    *properties = cJSON_AddObjectToObject(schema, "properties");
    *complete = *properties && td_document_text(schema, "type", "object") &&
                td_document_add(schema, "additionalProperties", cJSON_CreateFalse());
    return schema;
}

/* Returns the schema, or deletes it and returns NULL if it is not complete. */
static cJSON *finish(cJSON *schema, bool complete)
{
    if (complete)
        return schema;
    cJSON_Delete(schema);
    return NULL;
}

/* True if the server always sets input i: the keys of the rows of a table that the op changes. */
static bool is_hidden(const struct td_op *op, int i)
{
    return op->change && td_input_is_row_keys(&op->inputs[i]);
}

/* Adds input i. The description of keys of rows says when a request can omit them. */
static bool add_input_of(cJSON *properties, const struct td_op *op, int i)
{
    struct td_input_spec spec = op->inputs[i];
    char summary[256];
    if (!spec.optional && td_op_input_may_be_omitted(op, i)) {
        snprintf(summary, sizeof summary, "%s Omitted if %s is a resident table with keys.",
                 spec.summary, op->inputs[0].name);
        spec.summary = summary;
    }
    return add_input(properties, &spec);
}

/* Adds "keys" as another name for the input `named`, for a table that the path names. Only the
 * description says that a request must use exactly one of the two names. If the schema used anyOf
 * over `required`, generated clients would have no class for the body. If the op has an input with
 * the name "keys", the member is this input for tables without keys. */
static bool add_table_keys(cJSON *schema, cJSON *properties, const struct td_input_spec *named)
{
    const bool has_own = cJSON_HasObjectItem(properties, TD_TABLE_KEYS);
    char summary[192], text[128];
    snprintf(summary, sizeof summary, "The keys to look up, if the table has keys.%s",
             has_own ? " Otherwise, the keys of the rows, a vector of distinct elements." : "");
    snprintf(text, sizeof text, "%s either %s or %s, not both.",
             has_own ? "If the table has keys, give" : "Give", named->name, TD_TABLE_KEYS);
    const struct td_input_spec keys = { .name = TD_TABLE_KEYS,
                                        .summary = summary,
                                        .role = TD_ROLE_KEY,
                                        .dtypes = TD_DTYPES_KEY_GIVEN };
    cJSON_DeleteItemFromObjectCaseSensitive(properties, TD_TABLE_KEYS);
    return add_input(properties, &keys) && td_document_text(schema, "description", text);
}

cJSON *td_openapi_request(const struct td_op *op, bool has_table, const char *common)
{
    const int keys = has_table ? td_op_keys_input(op) : -1;
    bool complete;
    cJSON *required, *properties, *schema = make_object(&required, &properties, &complete);
    for (int i = has_table ? 1 : 0; i < op->n_inputs && complete; i++)
        complete = is_hidden(op, i) ||
                   (add_input_of(properties, op, i) &&
                    (td_op_input_may_be_omitted(op, i) || i == keys ||
                     td_document_append(required, cJSON_CreateString(op->inputs[i].name))));
    if (complete && keys >= 0)
        complete = add_table_keys(schema, properties, &op->inputs[keys]);
    return finish(schema, complete && add_attrs(properties, required, op) &&
                              add_common_members(properties, common, op));
}

cJSON *td_openapi_plan_request(const struct td_op *op)
{
    static const char shapes[] = "{'type':'array','items':{'$ref':'#/components/schemas/Shape'}}";
    bool complete;
    cJSON *required, *properties, *schema = make_object(&required, &properties, &complete);
    return finish(schema,
                  complete && add_attrs(properties, required, op) &&
                      td_document_append(required, cJSON_CreateString("shapes")) &&
                      td_document_add(properties, "shapes", td_openapi_json(shapes)) &&
                      td_document_add(properties, "dtype", td_openapi_ref("schemas", "Dtype")));
}

/* ---- replies --------------------------------------------------------------------------------- */

static bool add_output(cJSON *properties, const struct td_op *op, const struct td_output_spec *spec)
{
    cJSON *schema = cJSON_AddObjectToObject(properties, spec->name);
    if (!add_description(schema, spec->summary, td_op_output_dtypes(op, spec)))
        return false;
    if (spec->list)
        return td_document_text(schema, "type", "array") &&
               td_document_add(schema, "items", td_openapi_ref("schemas", "DescriptionOrTensor"));
    cJSON *any = cJSON_AddArrayToObject(schema, "anyOf");
    return td_document_append(any, td_openapi_ref("schemas", "DescriptionOrTensor"));
}

cJSON *td_openapi_output(const struct td_op *op)
{
    const bool named = td_op_output_form(op) == TD_OUTPUT_NAMED;
    cJSON *schema = cJSON_CreateObject();
    cJSON *properties = cJSON_AddObjectToObject(schema, "properties");
    cJSON *outputs = properties;
    if (named) {
        cJSON *object = cJSON_AddObjectToObject(properties, "outputs");
        outputs = cJSON_AddObjectToObject(object, "properties");
    }
    bool complete = outputs != NULL;
    for (int i = 0; i < op->n_outputs && complete; i++)
        complete = add_output(outputs, op, &op->outputs[i]);
    cJSON *required = cJSON_AddArrayToObject(schema, "required");
    const char *member = td_op_output_form(op) == TD_OUTPUT_ONE ? "output" : "outputs";
    if (complete && td_document_text(schema, "type", "object") &&
        td_document_append(required, cJSON_CreateString(member)) &&
        td_document_add(properties, "bounds", td_openapi_json("{'type':'object'}")))
        return schema;
    cJSON_Delete(schema);
    return NULL;
}
