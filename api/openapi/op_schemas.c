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

/* Describes an attribute. The text includes the default. There is no `default` member, because
 * generated clients would send it, and a default in the query string would conflict with the value
 * in the body. */
static bool describe_attr(cJSON *described, const struct td_attr_spec *spec)
{
    char text[512], number[32] = "";
    cJSON *known = cJSON_CreateObject();
    bool complete = td_document_attr(known, spec);
    cJSON *fallback = cJSON_GetObjectItem(known, "default");
    const char *shown = cJSON_IsString(fallback) ? fallback->valuestring : number;
    if (fallback && !cJSON_IsString(fallback))
        complete = cJSON_PrintPreallocated(fallback, number, sizeof number, false);
    if (fallback)
        snprintf(text, sizeof text, "%s Default: %s.", spec->summary, shown);
    complete =
        complete && td_document_text(described, "description", fallback ? text : spec->summary);
    cJSON_Delete(known);
    return complete;
}

static bool has_choices(const struct td_attr_spec *spec)
{
    return spec->kind == TD_ATTR_CHOICE || spec->kind == TD_ATTR_DTYPE;
}

/* Returns the schema of the values of an attribute, without a description. Choices are a component,
 * so generated clients have one class for equal choices. */
static cJSON *values_of(cJSON *components, const struct td_op *op, const struct td_attr_spec *spec)
{
    cJSON *schema = cJSON_CreateObject(), *items = schema, *known = cJSON_CreateObject();
    bool complete =
        td_document_attr(known, spec) && td_document_text(schema, "type", types[spec->kind]);
    if (complete && spec->kind == TD_ATTR_INTS) {
        items = cJSON_AddObjectToObject(schema, "items");
        complete = td_document_text(items, "type", "integer") &&
                   td_document_add(schema, "maxItems", cJSON_CreateNumber(TD_MAX_INTS));
    }
    complete = complete && move_limits(items, known);
    cJSON_Delete(known);
    if (complete)
        return has_choices(spec)
                   ? td_openapi_share(components, "schemas", op->name, spec->name, "", schema)
                   : schema;
    cJSON_Delete(schema);
    return NULL;
}

/* Adds an attribute as a member of the body. */
static bool add_attr(cJSON *properties, cJSON *components, const struct td_op *op,
                     const struct td_attr_spec *spec)
{
    cJSON *values = values_of(components, op, spec);
    if (!has_choices(spec))
        return td_document_add(properties, spec->name, values) && describe_attr(values, spec);
    cJSON *schema = cJSON_AddObjectToObject(properties, spec->name);
    return td_document_append(cJSON_AddArrayToObject(schema, "anyOf"), values) &&
           describe_attr(schema, spec);
}

/* Writes a query parameter. A list is a single parameter: axes=0,2. */
static bool set_parameter(cJSON *parameter, const char *name, bool is_list, cJSON *schema)
{
    return td_document_add(parameter, "schema", schema) &&
           td_document_text(parameter, "name", name) &&
           td_document_text(parameter, "in", "query") &&
           (!is_list || td_document_add(parameter, "explode", cJSON_CreateFalse()));
}

/* Appends a reference to the parameter, or deletes the parameter if it is not complete. */
static bool add_parameter(cJSON *list, cJSON *components, const struct td_op *op, const char *name,
                          cJSON *parameter, bool complete)
{
    if (complete)
        return td_document_append(
            list, td_openapi_share(components, "parameters", op->name, name, "", parameter));
    cJSON_Delete(parameter);
    return false;
}

/* Adds an attribute as a query parameter. */
static bool add_attr_parameter(cJSON *list, cJSON *components, const struct td_op *op,
                               const struct td_attr_spec *spec)
{
    cJSON *parameter = cJSON_CreateObject();
    const bool complete = set_parameter(parameter, spec->name, spec->kind == TD_ATTR_INTS,
                                        values_of(components, op, spec)) &&
                          describe_attr(parameter, spec);
    return add_parameter(list, components, op, spec->name, parameter, complete);
}

bool td_openapi_add_query(cJSON *parameters, cJSON *components, const struct td_op *op)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (!add_attr_parameter(parameters, components, op, &op->attrs[i]))
            return false;
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

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

bool td_openapi_add_outputs(cJSON *parameters, cJSON *components, const struct td_op *op)
{
    if (op->n_outputs == 1)
        return true;
    cJSON *schema = cJSON_CreateObject(), *parameter = cJSON_CreateObject();
    const bool complete = set_parameter(parameter, "outputs", true, schema) &&
                          td_document_text(parameter, "description", outputs_summary) &&
                          set_outputs(schema, op);
    return add_parameter(parameters, components, op, "outputs", parameter, complete);
}

/* Adds the common members that are listed in `names`. */
static bool add_common_members(cJSON *properties, const char *names, const struct td_op *op)
{
    static const struct {
        const char *listed, *member, *schema;
    } common[] = {
        { "device", "device", "Device" },
        { "layout", "response", "Layout" },
        { "timing", "timing", "Timing" },
        { "store", "store", "Store" },
        { "outputDtype", "output_dtype", "OutputDtype" },
    };
    bool complete = true;
    for (size_t i = 0; i < sizeof common / sizeof *common && complete; i++)
        complete = !strstr(names, common[i].listed) ||
                   td_document_add(properties, common[i].member,
                                   td_openapi_ref("schemas", common[i].schema));
    return complete && (!strstr(names, "outputDtype") || add_outputs(properties, op));
}

/* Adds the attributes to a schema and to its list of required members. */
static bool add_attrs(cJSON *properties, cJSON *required, cJSON *components, const struct td_op *op)
{
    bool complete = true;
    for (int i = 0; i < op->n_attrs && complete; i++)
        complete = add_attr(properties, components, op, &op->attrs[i]) &&
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

cJSON *td_openapi_request(const struct td_op *op, bool has_table, const char *common,
                          cJSON *components)
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
    return finish(schema, complete && add_attrs(properties, required, components, op) &&
                              add_common_members(properties, common, op));
}

cJSON *td_openapi_plan_request(const struct td_op *op, cJSON *components)
{
    static const char shapes[] = "{'type':'array','items':{'$ref':'#/components/schemas/Shape'}}";
    bool complete;
    cJSON *required, *properties, *schema = make_object(&required, &properties, &complete);
    return finish(schema,
                  complete && add_attrs(properties, required, components, op) &&
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
        td_document_add(properties, "bounds", td_openapi_ref("schemas", "Object")))
        return schema;
    cJSON_Delete(schema);
    return NULL;
}
