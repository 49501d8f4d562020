#include "api/openapi/components.h"

#include "api/message/common_members.h"
#include "api/message/problem.h"
#include "api/oip/oip.h"

#include <stdio.h>
#include <string.h>

#define TEXT    "{'type':'string'}"
#define BOOLEAN "{'type':'boolean'}"

struct component {
    const char *name, *json;
};

static const struct component schemas[] = {
    { "Tensor",
      "{'description':'A nested list or a scalar, whose dtype is inferred; a typed tensor; or a "
      "resident tensor.','anyOf':[{'$ref':'#/components/schemas/Values'},"
      "{'$ref':'#/components/schemas/TypedTensor'},{'$ref':'#/components/schemas/Reference'}]}" },
    { "TensorOrTable", "{'anyOf':[{'$ref':'#/components/schemas/Tensor'},"
                       "{'$ref':'#/components/schemas/TableAndKeys'}]}" },
    { "Values", "{'description':'A scalar, or nested lists of equal lengths.','anyOf':["
                "{'type':'array','items':{}},{'type':'boolean'},{'type':'number'},"
                "{'type':'string'}]}" },
    { "TypedTensor",
      "{'description':'A tensor whose dtype is given, with either data or base64.',"
      "'type':'object','required':['dtype'],'properties':{"
      "'dtype':{'$ref':'#/components/schemas/Dtype'},'shape':{'$ref':'#/components/schemas/Shape'},"
      "'data':{'$ref':'#/components/schemas/Values'},"
      "'base64':{'type':'string','contentEncoding':'base64','description':'Little-endian "
      "row-major bytes; each string is its length in four bytes, then its bytes.'}},"
      "'additionalProperties':false}" },
    { "Reference", "{'description':'A resident tensor.','type':'object','required':['ref'],"
                   "'properties':{'ref':{'type':'string'}},'additionalProperties':false}" },
    { "Keys", "{'description':'Keys of a table, given instead of row numbers.','type':'object',"
              "'required':['keys'],'properties':{'keys':{'$ref':'#/components/schemas/Tensor'}},"
              "'additionalProperties':false}" },
    { "TableAndKeys",
      "{'type':'object','required':['tensor','keys'],'properties':{"
      "'tensor':{'$ref':'#/components/schemas/Tensor'},"
      "'keys':{'$ref':'#/components/schemas/Tensor'}},'additionalProperties':false}" },
    { "Shape", "{'type':'array','items':{'type':'integer','minimum':0},'maxItems':16}" },
    { "Description",
      "{'description':'A resident tensor.','type':'object','required':['name','dtype','shape',"
      "'bytes','version','etag','persisted'],'properties':{'name':{'type':'string'},"
      "'dtype':{'$ref':'#/components/schemas/Dtype'},'shape':{'$ref':'#/components/schemas/Shape'},"
      "'bytes':{'type':'integer'},'version':{'type':'integer','description':'Increases with every "
      "change within one process. For tensors in memory it starts again when the process "
      "restarts, so only etag identifies the content.'},'etag':{'type':'string'},"
      "'keys':{'$ref':'#/components/schemas/Dtype'},'source':{'type':'string'},"
      "'checksum':{'enum':['none','pending','verified','damaged']},"
      "'device':{'enum':['cpu','gpu']},'replaced':{'type':'integer'},"
      "'appended':{'type':'integer'},'removed':{'type':'integer'},"
      "'dropped_keys':{'description':'After a PUT without keys: the number of keys that the "
      "table had.','type':'integer'},"
      "'ttl_s':{'description':'Seconds until the tensor disappears.','type':'integer'},"
      "'persisted':{'type':'boolean'}}}" },
    { "DescriptionOrTensor", "{'anyOf':[{'$ref':'#/components/schemas/Description'},"
                             "{'$ref':'#/components/schemas/TypedTensor'}]}" },
    { "TensorList",
      "{'type':'object','required':['tensors'],'properties':{'tensors':{'type':"
      "'array','items':{'$ref':'#/components/schemas/Description'}},'next':{"
      "'description':'The last name of this page, if the list continues.','type':'string'}}}" },
    { "Flip",
      "{'type':'object','required':['set'],'properties':{"
      "'set':{'$ref':'#/components/schemas/Targets'},'if':{'$ref':'#/components/schemas/Targets'}},"
      "'additionalProperties':false}" },
    { "Targets", "{'description':'The version that each alias names; null if there is none.',"
                 "'type':'object','additionalProperties':{'type':['string','null']}}" },
    { "Aliases", "{'type':'object','required':['aliases','problems'],'properties':{"
                 "'aliases':{'$ref':'#/components/schemas/Targets'},"
                 "'problems':{'description':'Parts of the data folder that were refused or are "
                 "damaged.','type':'array',"
                 "'items':{'type':'object','required':['source','reason'],'properties':{"
                 "'source':{'type':'string'},'reason':{'type':'string'}}}},"
                 "'problems_not_listed':{'description':'Number of problems that are not in the "
                 "list; absent if there are none.','type':'integer'}}}" },
    { "ChangedAliases",
      "{'type':'object','required':['aliases','persisted'],'properties':{"
      "'aliases':{'$ref':'#/components/schemas/Targets'},'persisted':{'type':'boolean'}}}" },
    { "Program",
      "{'description':'Several ops in one call.','type':'object',"
      "'required':['inputs','steps','outputs'],'properties':{"
      "'inputs':{'description':'The inputs by name.','type':'object',"
      "'additionalProperties':{'$ref':'#/components/schemas/Tensor'}},"
      "'steps':{'description':'The ops in order. A string $NAME in place of a tensor is an input "
      "or "
      "an earlier result.','type':'array','minItems':1,'maxItems':256,'items':{'type':'object',"
      "'required':['op','as'],'properties':{'op':{'type':'string'},'as':{'description':'The name "
      "of the result, the names of a list, or the names by output.',"
      "'type':['string','array','object']}}}},"
      "'outputs':{'description':'The names of the results to return.','type':'array',"
      "'minItems':1,'items':{'type':'string'}},"
      "'device':{'enum':['auto','cpu','gpu']},'response':{'enum':['nested','flat','base64']}}}" },
    { "Outputs", "{'type':'object','required':['outputs'],'properties':{'outputs':{'type':'object',"
                 "'additionalProperties':{'$ref':'#/components/schemas/TypedTensor'}},"
                 "'bounds':{'description':'The steps in which a bounds policy replaced indices.',"
                 "'type':'array','items':{'type':'object','required':['step','policy','replaced'],"
                 "'properties':{'step':{'type':'integer'},'policy':{'type':'string'},"
                 "'replaced':{'type':'integer'}}}}}}" },
    { "Object", "{'type':'object'}" },
    { "Index", "{'type':'object','properties':{'ready':{'type':['boolean','null']}}}" },
    { "Load", "{'type':'object','properties':{'parameters':{'type':['object','null']}}}" },
    { "Region",
      "{'type':'object','required':['key','byte_size'],'properties':{"
      "'key':{'description':'The name of the shared-memory object.','type':'string'},"
      "'offset':{'type':'integer','minimum':0},'byte_size':{'type':'integer','minimum':1}}}" },
    { "List", "{'type':'array','items':{}}" },
    { "Inference",
      "{'type':'object','required':['inputs'],'properties':{'id':{'type':'string'},"
      "'parameters':{'type':'object'},'inputs':{'type':'array','items':{'type':'object',"
      "'required':['name','shape','datatype'],'properties':{'name':{'type':'string'},"
      "'shape':{'type':'array','items':{'type':'integer','minimum':0}},"
      "'datatype':{'type':'string'},'parameters':{'type':'object'},"
      "'data':{'description':'The elements, nested or flat.','type':'array','items':{}}}}},"
      "'outputs':{'type':'array','items':{'type':'object','required':['name'],'properties':{"
      "'name':{'type':'string'},'parameters':{'type':'object'}}}}}}" },
    { "Text", "{'type':'string'}" },
};

static const struct component headers[] = {
    { "XRequestId", "{'description':'The id of the request, or a generated id.',"
                    "'schema':{'type':'string'}}" },
    { "ETag", "{'description':'The ETag of the version in the format of the reply.',"
              "'schema':{'type':'string'}}" },
    { "Location",
      "{'description':'The path of the created resource.','schema':{'type':'string'}}" },
    { "ContentRange", "{'description':'The part of the tensor in the reply, such as bytes 5-9/44.',"
                      "'schema':{'type':'string'}}" },
    { "XTensordTable", "{'description':'The version that was read, as NAME@VERSION, "
                       "percent-encoded as in a path. Version numbers of tables in memory start "
                       "again when the process restarts.',"
                       "'schema':{'type':'string'}}" },
    { "RetryAfter",
      "{'description':'Seconds to wait before trying again, if a later attempt can succeed.',"
      "'schema':{'type':'string'}}" },
};

/* A parameter component, whose schema is given as JSON or as a list of choices. */
static const struct parameter {
    const char *component, *name, *place, *description, *schema;
    const char *const *choices;
} parameters[] = {
    { "XRequestId", "X-Request-Id", "header", "An id for logs, returned in the reply.", TEXT,
      NULL },
    { "XRequestTimeoutMs", "X-Request-Timeout-Ms", "header", "The deadline of the request.",
      "{'type':'integer','minimum':1,'maximum':86400000}", NULL },
    { "IfMatch", "If-Match", "header",
      "Condition: the tensor has one of these ETags; * means that it exists.", TEXT, NULL },
    { "IfNoneMatch", "If-None-Match", "header",
      "Condition: the tensor has none of these ETags; * means that it does not exist.", TEXT,
      NULL },
    { "StoreIfMatch", "If-Match", "header",
      "Only with store. Condition: the tensor to store the output in has one of these ETags; * "
      "means that it exists.",
      TEXT, NULL },
    { "StoreIfNoneMatch", "If-None-Match", "header",
      "Only with store. Condition: the tensor to store the output in has none of these ETags; * "
      "means that it does not exist.",
      TEXT, NULL },
    { "Range", "Range", "header",
      "The part of the tensor to return: bytes=5-9, bytes=5- or bytes=-5. Ignored for the "
      "description, and if it is malformed.",
      TEXT, NULL },
    { "IfRange", "If-Range", "header",
      "Range applies only if the tensor has this ETag in the format of the reply.", TEXT, NULL },
    { "persist", "persist", "query",
      "True to write the change to the data folder before the reply.", BOOLEAN, NULL },
    { "response", "response", "query", "The layout of the tensor in JSON.", NULL, td_layout_names },
    { "device", "device", "query", "The device that computes the op.", NULL, td_device_names },
    { "upload", "device", "query", "gpu: also upload the tensor to the GPU.", NULL,
      td_device_names },
    { "timing", "timing", "query", "True to add the header Server-Timing to the reply.", BOOLEAN,
      NULL },
    { "prefix", "prefix", "query", "List only names that start with this prefix.", TEXT, NULL },
    { "after", "after", "query",
      "List only names after this name. For the next page, pass `next` from the previous page.",
      TEXT, NULL },
    { "limit", "limit", "query", "The maximum number of names.",
      "{'type':'integer','minimum':1,'maximum':9223372036854775807}", NULL },
    { "store", "store", "query",
      "The name of a resident tensor to store the output in, instead of sending it.", TEXT, NULL },
    { "storeTtl", "store.ttl_s", "query", "Seconds until the stored tensor disappears.",
      TD_OPENAPI_TTL, NULL },
    { "outputDtype", "output_dtype", "query",
      "The dtype to which floating-point outputs are rounded. Default: the dtype of the output.",
      NULL, td_output_dtype_names },
};

/* ---- making JSON ----------------------------------------------------------------------------- */

cJSON *td_openapi_json(const char *text)
{
    cJSON *raw = cJSON_CreateRaw(text);
    for (char *at = raw ? raw->valuestring : NULL; at && (at = strchr(at, '\'')); at++)
        *at = '"';
    return raw;
}

cJSON *td_openapi_ref(const char *kind, const char *name)
{
    char path[128];
    cJSON *object = cJSON_CreateObject();
    snprintf(path, sizeof path, "#/components/%s/%s", kind, name);
    if (td_document_text(object, "$ref", path))
        return object;
    cJSON_Delete(object);
    return NULL;
}

bool td_openapi_choices(cJSON *schema, const char *const *choices)
{
    cJSON *list = cJSON_AddArrayToObject(schema, "enum");
    bool complete = list != NULL;
    for (; *choices && complete; choices++)
        complete = td_document_append(list, cJSON_CreateString(*choices));
    return complete;
}

/* Parses JSON into an object to which members can be added. */
static cJSON *parse(const char *text)
{
    cJSON *raw = td_openapi_json(text);
    cJSON *object = raw ? cJSON_Parse(raw->valuestring) : NULL;
    cJSON_Delete(raw);
    return object;
}

static cJSON *add_schemas(cJSON *all)
{
    cJSON *object = cJSON_AddObjectToObject(all, "schemas");
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas && object; i++)
        if (!td_document_add(object, schemas[i].name, parse(schemas[i].json)))
            return NULL;
    return object;
}

static bool add_headers(cJSON *all)
{
    cJSON *object = cJSON_AddObjectToObject(all, "headers");
    bool complete = object != NULL;
    for (size_t i = 0; i < sizeof headers / sizeof *headers && complete; i++)
        complete = td_document_add(object, headers[i].name, td_openapi_json(headers[i].json));
    return complete;
}

static bool add_parameter(cJSON *object, const struct parameter *spec)
{
    cJSON *parameter = cJSON_AddObjectToObject(object, spec->component);
    return td_document_text(parameter, "name", spec->name) &&
           td_document_text(parameter, "in", spec->place) &&
           td_document_text(parameter, "description", spec->description) &&
           (spec->schema
                ? td_document_add(parameter, "schema", td_openapi_json(spec->schema))
                : td_openapi_choices(cJSON_AddObjectToObject(parameter, "schema"), spec->choices));
}

static bool add_parameters(cJSON *all)
{
    cJSON *object = cJSON_AddObjectToObject(all, "parameters");
    bool complete = object != NULL;
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters && complete; i++)
        complete = add_parameter(object, &parameters[i]);
    return complete;
}

/* ---- problems -------------------------------------------------------------------------------- */

static cJSON *codes(void)
{
    cJSON *names = cJSON_CreateArray();
    for (int i = 1; i < TD_STATUS_COUNT; i++)
        if (!td_document_append(names, cJSON_CreateString(td_status_name((td_status)i)))) {
            cJSON_Delete(names);
            return NULL;
        }
    return names;
}

/* Members common to problems and to errors of the Open Inference Protocol. */
#define PROBLEM_MEMBERS                                                                            \
    "'code':{'$ref':'#/components/schemas/Code'},"                                                 \
    "'request_id':{'type':'string'},'op':{'type':'string'},'input':{'type':'string'},"             \
    "'attribute':{'type':'string'},'device':{'type':'string'},'pointer':{'type':'string'},"        \
    "'offset':{'type':'integer'},'position':{'$ref':'#/components/schemas/Shape'},"                \
    "'index':{'type':'integer'},'bound':{'type':'integer'},'axis':{'type':'integer'},"             \
    "'bad_count':{'type':'integer'},'key':{'type':['integer','string']},"                          \
    "'positions':{'type':'array','items':{}},'label':{'type':'string'},"                           \
    "'extents':{'type':'array','items':{}},'shapes':{'type':'object'},"                            \
    "'did_you_mean':{'type':'string'},'etag':{'type':'string'},'resource':{'type':'string'},"      \
    "'needed':{'type':'integer'},'limit':{'type':'integer'}"

static bool add_problem_schema(cJSON *all, const char *name, const char *required,
                               const char *members)
{
    cJSON *schema = cJSON_AddObjectToObject(all, name);
    return td_document_text(schema, "type", "object") &&
           td_document_add(schema, "required", td_openapi_json(required)) &&
           td_document_add(schema, "properties", td_openapi_json(members));
}

static bool add_problem_schemas(cJSON *all)
{
    cJSON *code = cJSON_AddObjectToObject(all, "Code");
    return td_document_add(code, "enum", codes()) &&
           add_problem_schema(
               all, "Problem", "['type','title','code']",
               "{'type':{'type':'string'},'title':{'type':'string'},"
               "'status':{'type':'integer'},'detail':{'type':'string'}," PROBLEM_MEMBERS "}") &&
           add_problem_schema(all, "OipError", "['error']",
                              "{'error':{'type':'string'}," PROBLEM_MEMBERS "}");
}

static int status_of(int code, bool oip)
{
    const td_status status = (td_status)code;
    return oip ? td_oip_http_status(status) : td_problem_of(status)->http_status;
}

/* True if no earlier code has the same HTTP status. */
static bool is_first(int code, bool oip)
{
    for (int i = 1; i < code; i++)
        if (status_of(i, oip) == status_of(code, oip))
            return false;
    return true;
}

/* Adds a description with one line per code of this HTTP status: "CODE: explanation". */
static bool add_explanations(cJSON *response, int http_status, bool oip)
{
    char text[8192];
    struct td_text out = { .at = text, .end = text + sizeof text - 1 };
    for (int i = 1; i < TD_STATUS_COUNT; i++) {
        if (status_of(i, oip) != http_status)
            continue;
        td_text_string(&out, td_status_name((td_status)i));
        td_text_string(&out, ": ");
        td_text_string(&out, td_problem_of((td_status)i)->explanation);
        td_text_string(&out, "\n");
    }
    *out.at = '\0';
    return !out.full && td_document_text(response, "description", text);
}

static bool add_problem_reply(cJSON *responses, int http_status, bool oip)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", oip ? "OipError" : "Problem", http_status);
    cJSON *response = cJSON_AddObjectToObject(responses, name);
    cJSON *sent = add_explanations(response, http_status, oip)
                      ? cJSON_AddObjectToObject(response, "headers")
                      : NULL;
    cJSON *content = cJSON_AddObjectToObject(response, "content");
    cJSON *media =
        cJSON_AddObjectToObject(content, oip ? "application/json" : "application/problem+json");
    cJSON *schema = cJSON_AddObjectToObject(media, "schema");
    return td_document_add(sent, "X-Request-Id", td_openapi_ref("headers", "XRequestId")) &&
           ((http_status != 429 && http_status != 503) ||
            td_document_add(sent, "Retry-After", td_openapi_ref("headers", "RetryAfter"))) &&
           td_document_text(schema, "$ref",
                            oip ? "#/components/schemas/OipError" : "#/components/schemas/Problem");
}

static bool add_problem_replies(cJSON *responses, bool oip)
{
    bool complete = responses != NULL;
    for (int i = 1; i < TD_STATUS_COUNT && complete; i++)
        complete = !is_first(i, oip) || add_problem_reply(responses, status_of(i, oip), oip);
    return complete;
}

int td_openapi_problem_statuses(bool oip, int statuses[TD_STATUS_COUNT])
{
    int n = 0;
    for (int i = 1; i < TD_STATUS_COUNT; i++)
        if (is_first(i, oip))
            statuses[n++] = status_of(i, oip);
    return n;
}

bool td_openapi_add_problem(cJSON *responses, int http_status, bool oip)
{
    char status[8], name[32];
    snprintf(status, sizeof status, "%d", http_status);
    snprintf(name, sizeof name, "%s%d", oip ? "OipError" : "Problem", http_status);
    return td_document_add(responses, status, td_openapi_ref("responses", name));
}

/* ---- all ------------------------------------------------------------------------------------- */

cJSON *td_openapi_components(void)
{
    static const char security[] = "{'token':{'type':'http','scheme':'bearer',"
                                   "'description':'Required if the server has --token-file.'}}";
    cJSON *all = cJSON_CreateObject();
    cJSON *list = add_schemas(all), *responses = cJSON_AddObjectToObject(all, "responses");
    cJSON *dtype = cJSON_AddObjectToObject(list, "Dtype");
    if (td_document_add(dtype, "enum", td_document_dtypes(TD_DTYPES_ALL)) &&
        add_problem_schemas(list) && add_headers(all) && add_parameters(all) &&
        add_problem_replies(responses, false) && add_problem_replies(responses, true) &&
        td_document_add(all, "securitySchemes", td_openapi_json(security)))
        return all;
    cJSON_Delete(all);
    return NULL;
}
