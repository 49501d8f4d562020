#include "api/openapi/openapi.h"

#include "api/message/problem.h"
#include "api/openapi/components.h"
#include "api/openapi/op_schemas.h"
#include "api/openapi/operations.h"
#include "kernels/name.h"

#include <stdio.h>
#include <string.h>

static const char safetensors[] = "application/vnd.safetensors";
static const char npy[] = "application/x-npy";

/* The parts of the document to which routes add. */
struct parts {
    cJSON *paths, *components;
};

/* ---- bodies ---------------------------------------------------------------------------------- */

/* Adds and returns the object for a media type. */
static cJSON *add_media(cJSON *content, const char *type, cJSON *schema)
{
    cJSON *media = cJSON_AddObjectToObject(content, type);
    return td_document_add(media, "schema", schema) ? media : NULL;
}

/* Adds a file format, which JSON Schema cannot describe. */
static bool add_file(cJSON *content, const char *type)
{
    return add_media(content, type, cJSON_CreateObject()) != NULL;
}

/* Adds the examples of an op, by title. */
static bool add_examples(cJSON *media, const struct td_op *op)
{
    cJSON *examples = cJSON_AddObjectToObject(media, "examples");
    bool complete = examples != NULL;
    for (const struct td_op_example *at = op->examples; at->title && complete; at++)
        complete = td_document_add(cJSON_AddObjectToObject(examples, at->title), "value",
                                   cJSON_CreateRaw(at->request));
    return complete;
}

/* `op` is the op whose examples are requests, or NULL. `example` can be NULL. */
static bool add_request(cJSON *operation, cJSON *schema, const struct td_op *op,
                        const char *example, bool is_needed, bool is_file, bool is_npy)
{
    cJSON *body = cJSON_AddObjectToObject(operation, "requestBody");
    cJSON *content = cJSON_AddObjectToObject(body, "content");
    cJSON *media = add_media(content, "application/json", schema);
    return media && (!op || add_examples(media, op)) &&
           (!example || td_document_add(media, "example", td_openapi_json(example))) &&
           td_document_add(body, "required", cJSON_CreateBool(is_needed)) &&
           (!is_file || add_file(content, safetensors)) && (!is_npy || add_file(content, npy));
}

/* Writes the members that all success replies have. */
static bool set_reply(cJSON *reply, int status)
{
    cJSON *headers = cJSON_AddObjectToObject(reply, "headers");
    return td_document_text(reply, "description",
                            status == 304   ? "Not modified."
                            : status == 206 ? "Part of the tensor."
                                            : "Success.") &&
           td_document_add(headers, "X-Request-Id", td_openapi_ref("headers", "XRequestId"));
}

/* Adds and returns the success reply. */
static cJSON *add_reply(cJSON *responses, int status)
{
    char text[8];
    snprintf(text, sizeof text, "%d", status);
    cJSON *reply = cJSON_AddObjectToObject(responses, text);
    return set_reply(reply, status) ? reply : NULL;
}

static bool add_header(cJSON *reply, const char *header, const char *component)
{
    return td_document_add(cJSON_GetObjectItemCaseSensitive(reply, "headers"), header,
                           td_openapi_ref("headers", component));
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Adds the parameters that are in braces in the path. */
static bool add_path_parameters(cJSON *list, const char *path)
{
    bool complete = true;
    for (const char *at = strchr(path, '{'); at && complete; at = strchr(at + 1, '{')) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "}"), at + 1);
        cJSON *parameter = cJSON_CreateObject();
        complete = td_document_append(list, parameter) &&
                   td_document_text(parameter, "name", name) &&
                   td_document_text(parameter, "in", "path") &&
                   td_document_add(parameter, "required", cJSON_CreateTrue()) &&
                   td_document_add(parameter, "schema", td_openapi_json("{'type':'string'}"));
    }
    return complete;
}

/* Adds the parameters listed in `names`, which are separated by spaces. */
static bool add_named_parameters(cJSON *list, const char *names)
{
    for (size_t length; *names; names += length + (names[length] == ' ')) {
        char name[32];
        length = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        if (!td_document_append(list, td_openapi_ref("parameters", name)))
            return false;
    }
    return true;
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool is_oip(const char *path)
{
    return strncmp(path, "/v2", 3) == 0;
}

/* Adds an id for an operation that is not in the table of operations, built from the method and the
 * path, such as get_new_name. */
static bool add_id_of_path(cJSON *operation, const char *method, const char *path)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", method, path);
    size_t length = 0;
    for (const char *at = name; *at; at++)
        if (strchr("/.", *at))
            name[length++] = '_';
        else if (!strchr("{}", *at))
            name[length++] = *at;
    name[length] = '\0';
    return td_document_text(operation, "operationId", name);
}

/* Adds the members that all operations have, except the error replies. `id` can be NULL. Returns
 * the object that holds the replies. */
static cJSON *begin(const struct parts *parts, const struct td_openapi_route *route,
                    const char *path, const char *id, const char *summary, const char *parameters,
                    cJSON **operation)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(parts->paths, path);
    if (!item)
        item = cJSON_AddObjectToObject(parts->paths, path);
    *operation = cJSON_AddObjectToObject(item, route->method);
    cJSON *tags = cJSON_AddArrayToObject(*operation, "tags");
    cJSON *list = cJSON_AddArrayToObject(*operation, "parameters");
    if (!td_document_append(tags, cJSON_CreateString(td_openapi_tag(path))) ||
        !(id ? td_document_text(*operation, "operationId", id)
             : add_id_of_path(*operation, route->method, path)) ||
        !td_document_text(*operation, "summary", summary) || !add_path_parameters(list, path) ||
        !add_named_parameters(list, "XRequestId XRequestTimeoutMs") ||
        !add_named_parameters(list, parameters) ||
        (route->op && !td_openapi_add_query(list, parts->components, route->op)))
        return NULL;
    if (route->open && !cJSON_AddArrayToObject(*operation, "security"))
        return NULL;
    return cJSON_AddObjectToObject(*operation, "responses");
}

/* True if an operation can have an error with this key. `parameters` names the parameter components
 * of the operation. */
static bool can_have(enum td_openapi_error key, const struct td_openapi_route *route,
                     const char *parameters)
{
    switch (key) {
    case TD_OPENAPI_412:
        /* The body of a flip can have conditions, too. */
        return strstr(parameters, "IfMatch") ||
               (strcmp(route->method, "post") == 0 && strcmp(route->pattern, "/v1/aliases") == 0);
    case TD_OPENAPI_416:
        return strstr(parameters, "Range") != NULL;
    case TD_OPENAPI_501:
        return is_oip(route->pattern);
    default:
        return true;
    }
}

/* Adds the error replies after the success replies, because generated clients use the first reply
 * as the type of the result. */
static bool end(cJSON *responses, const struct td_openapi_route *route, const char *parameters)
{
    bool complete = responses != NULL;
    for (int i = 0; i < TD_OPENAPI_ERRORS && complete; i++) {
        const enum td_openapi_error key = (enum td_openapi_error)i;
        complete = !can_have(key, route, parameters) ||
                   td_openapi_add_error(responses, key, is_oip(route->pattern));
    }
    return complete;
}

#define OP_PARAMETERS                                                                              \
    "StoreIfMatch StoreIfNoneMatch device layout timing store storeTtl outputDtype"

/* Returns a reference to the success reply of an op. `id` is the id of its operation. */
static cJSON *share_reply(const struct parts *parts, const struct td_op *op, const char *id,
                          bool has_table)
{
    cJSON *reply = cJSON_CreateObject();
    cJSON *schema = td_openapi_share(parts->components, "schemas", op->name, "", "Reply",
                                     td_openapi_output(op));
    const bool has_headers = set_reply(reply, 200) &&
                             (!has_table || add_header(reply, "X-Tensord-Table", "XTensordTable"));
    cJSON *content = cJSON_AddObjectToObject(reply, "content");
    if (add_media(content, "application/json", schema) && has_headers &&
        add_file(content, safetensors) && add_file(content, npy))
        return td_openapi_share(parts->components, "responses", id, "", "Reply", reply);
    cJSON_Delete(reply);
    return NULL;
}

/* Returns a reference to the schema of a request of an op. */
static cJSON *share_request(const struct parts *parts, const char *id, cJSON *schema)
{
    return td_openapi_share(parts->components, "schemas", id, "", "Request", schema);
}

static bool add_op(const struct parts *parts, const struct td_openapi_route *route,
                   const struct td_op *op, bool has_table)
{
    char path[128], id[64];
    cJSON *operation;
    snprintf(path, sizeof path, has_table ? "/v1/tensors/{table}/%s" : "/v1/%s", op->name);
    snprintf(id, sizeof id, has_table ? "%s_in_table" : "%s", op->name);
    cJSON *responses = begin(parts, route, path, id, op->summary, OP_PARAMETERS, &operation);
    cJSON *parameters = cJSON_GetObjectItem(operation, "parameters");
    return td_openapi_add_query(parameters, parts->components, op) &&
           td_openapi_add_outputs(parameters, parts->components, op) &&
           add_request(
               operation,
               share_request(parts, id,
                             td_openapi_request(op, has_table, OP_PARAMETERS, parts->components)),
               has_table ? NULL : op, NULL, true, true, true) &&
           td_document_add(responses, "200", share_reply(parts, op, id, has_table)) &&
           end(responses, route, OP_PARAMETERS);
}

static bool add_ops(const struct parts *parts, const struct td_openapi_route *route, bool has_table)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++)
        if ((!has_table || td_op_takes_table(ops[i])) && !add_op(parts, route, ops[i], has_table))
            return false;
    return true;
}

static bool add_success(cJSON *responses, const struct td_openapi_operation *known, int status)
{
    cJSON *reply = add_reply(responses, status);
    if ((strstr(known->parameters, "IfNoneMatch") && status != 204 &&
         !add_header(reply, "ETag", "ETag")) ||
        (status == 201 && !add_header(reply, "Location", "Location")) ||
        (status == 206 && !add_header(reply, "Content-Range", "ContentRange")))
        return false;
    if (!known->reply || status == 304)
        return reply != NULL;
    cJSON *content = cJSON_AddObjectToObject(reply, "content");
    if (known->media == TD_OPENAPI_TEXT || status == 206)
        return add_file(content, "*/*");
    return add_media(content, "application/json", td_openapi_ref("schemas", known->reply)) &&
           (known->media != TD_OPENAPI_TENSOR ||
            (add_file(content, safetensors) && add_file(content, npy)));
}

/* Adds a route that is not in the table of operations. */
static bool add_unknown(const struct parts *parts, const struct td_openapi_route *route)
{
    char summary[160];
    cJSON *operation;
    snprintf(summary, sizeof summary, "%s %s", route->method, route->pattern);
    cJSON *responses = begin(parts, route, route->pattern, NULL, summary, "", &operation);
    cJSON *content = cJSON_AddObjectToObject(add_reply(responses, 200), "content");
    return add_file(content, "*/*") && end(responses, route, "");
}

static bool is_needed(const char *request)
{
    return strcmp(request, "Index") != 0 && strcmp(request, "Load") != 0;
}

/* Adds and returns an operation without its request. Returns NULL if no memory is left. */
static cJSON *add_known(const struct parts *parts, const struct td_openapi_route *route,
                        const struct td_openapi_operation *known)
{
    cJSON *operation;
    cJSON *responses = begin(parts, route, route->pattern, known->id, known->summary,
                             known->parameters, &operation);
    const bool complete =
        responses && add_success(responses, known, known->status) &&
        (!strstr(known->parameters, "Range") || add_success(responses, known, 206)) &&
        (!known->other_status || add_success(responses, known, known->other_status)) &&
        end(responses, route, known->parameters);
    return complete ? operation : NULL;
}

static bool add_operation(const struct parts *parts, const struct td_openapi_route *route)
{
    const struct td_openapi_operation *known = td_openapi_operation(route->method, route->pattern);
    if (!known)
        return add_unknown(parts, route);
    const bool is_table = strncmp(route->pattern, "/v1/tensors/", 12) == 0;
    cJSON *operation = add_known(parts, route, known);
    return operation &&
           (!known->request ||
            add_request(operation, td_openapi_ref("schemas", known->request), NULL, known->example,
                        is_needed(known->request), is_table, strcmp(route->method, "put") == 0));
}

/* Adds the route of an op that changes a table. */
static bool add_change(const struct parts *parts, const struct td_openapi_route *route)
{
    const struct td_op *op = route->op;
    char id[64];
    snprintf(id, sizeof id, "%s_in_table", op->name);
    const struct td_openapi_operation known = { .id = id,
                                                .summary = op->summary,
                                                .reply = "Description",
                                                .parameters =
                                                    TD_OPENAPI_CONDITIONS "persist device timing",
                                                .status = 200 };
    cJSON *operation = add_known(parts, route, &known);
    return operation && add_request(operation,
                                    share_request(parts, id,
                                                  td_openapi_request(op, true, known.parameters,
                                                                     parts->components)),
                                    NULL, NULL, true, true, false);
}

static bool add_plan(const struct parts *parts, const struct td_openapi_route *route)
{
    const struct td_op *op = route->op;
    char id[64], summary[128];
    snprintf(id, sizeof id, "plan_%s", op->name);
    snprintf(summary, sizeof summary, "Plans a call of %s from shapes alone.", op->name);
    const struct td_openapi_operation known = {
        .id = id, .summary = summary, .reply = "Object", .parameters = "", .status = 200
    };
    cJSON *operation = add_known(parts, route, &known);
    return operation &&
           add_request(operation,
                       share_request(parts, id, td_openapi_plan_request(op, parts->components)),
                       NULL, op->plan_example, true, false, false);
}

static bool add_route(const struct parts *parts, const struct td_openapi_route *route)
{
    if (strcmp(route->pattern, "/v1/{op}") == 0)
        return add_ops(parts, route, false);
    if (strcmp(route->pattern, "/v1/tensors/{table}/{row_op}") == 0)
        return add_ops(parts, route, true);
    if (route->op && route->op->change)
        return add_change(parts, route);
    if (route->op && route->op->explain &&
        td_name_ends("/plan", route->pattern, strlen(route->pattern)))
        return add_plan(parts, route);
    return add_operation(parts, route);
}

/* ---- the document ---------------------------------------------------------------------------- */

static bool add_tags(cJSON *document)
{
    cJSON *list = cJSON_AddArrayToObject(document, "tags");
    bool complete = list != NULL;
    for (int i = 0; i < TD_OPENAPI_TAGS && complete; i++) {
        cJSON *tag = cJSON_CreateObject();
        complete = td_document_append(list, tag) &&
                   td_document_text(tag, "name", td_openapi_tags[i][0]) &&
                   td_document_text(tag, "description", td_openapi_tags[i][1]);
    }
    return complete;
}

td_status td_openapi_reply(const struct td_openapi_route *routes, int n_routes, const char *version,
                           struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    cJSON *document = cJSON_CreateObject();
    cJSON *info = cJSON_AddObjectToObject(document, "info");
    bool complete = td_document_text(document, "openapi", "3.1.0") &&
                    td_document_text(info, "title", "tensord") &&
                    td_document_text(info, "version", version) &&
                    td_document_text(info, "summary", "A network tensor-compute daemon") &&
                    td_document_add(document, "security", td_openapi_json("[{},{'token':[]}]")) &&
                    add_tags(document);
    const struct parts parts = { cJSON_AddObjectToObject(document, "paths"),
                                 td_openapi_components() };
    complete = complete && td_document_add(document, "components", parts.components);
    for (int i = 0; i < n_routes && complete; i++)
        complete = add_route(&parts, &routes[i]);
    return td_document_reply(document, complete, arena, reply, err);
}
