#include "api/openapi/components.h"

#include "api/message/common_members.h"
#include "api/message/problem.h"
#include "api/oip/oip.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TEXT        "{'type':'string'}"
#define BOOLEAN     "{'type':'boolean'}"
#define REF(schema) "{'$ref':'#/components/schemas/" schema "'}"

/* JSON schema for a time to live in seconds. */
#define TTL "{'type':'integer','minimum':1,'maximum':" TD_TEXT_NUMBER(TD_STORE_TTL_MAX) "}"

/* The members of a program that a call and a plan have, in a JSON schema. */
#define PROGRAM_STEPS                                                                              \
    "'steps':{'description':'The ops in order. A string $NAME in place of a tensor is an input "   \
    "or an earlier result.','type':'array','minItems':1,'maxItems':256,'items':{'type':'object',"  \
    "'required':['op','as'],'properties':{'op':{'type':'string'},'as':{'description':'The name "   \
    "of the result, the names of a list, or the names by output.',"                                \
    "'type':['string','array','object']}}}},"                                                      \
    "'outputs':{'description':'The names of the results to return.','type':'array',"               \
    "'minItems':1,'items':{'type':'string'}},"                                                     \
    "'device':{'enum':['auto','cpu','gpu']},"

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
    { "Program", "{'description':'Several ops in one call.','type':'object',"
                 "'required':['inputs','steps','outputs'],'properties':{"
                 "'inputs':{'description':'The inputs by name.','type':'object',"
                 "'additionalProperties':{'$ref':'#/components/schemas/Tensor'}}," PROGRAM_STEPS
                 "'response':{'enum':['nested','flat','base64']}}}" },
    { "ProgramToPlan",
      "{'description':'A program whose inputs can have a dtype and a shape without data, or with "
      "the parameter program, the inputs and arguments of a stored program.',"
      "'type':'object','properties':{"
      "'inputs':{'description':'The inputs by name.','type':'object'}," PROGRAM_STEPS
      "'timing':{'type':'boolean'}}}" },
    { "Outputs", "{'type':'object','required':['outputs'],'properties':{'outputs':{'type':'object',"
                 "'additionalProperties':{'$ref':'#/components/schemas/TypedTensor'}},"
                 "'bounds':{'description':'The steps in which a bounds policy replaced indices.',"
                 "'type':'array','items':{'type':'object','required':['step','policy','replaced'],"
                 "'properties':{'step':{'type':'integer'},'policy':{'type':'string'},"
                 "'replaced':{'type':'integer'}}}},"
                 "'steps':{'description':'With timing, the time of each step.','type':'array',"
                 "'items':{'type':'object','required':['step','as','ms'],'properties':{"
                 "'step':{'type':'integer'},'last':{'type':'integer'},'as':{'type':'string'},"
                 "'ms':{'type':'number'}}}}}}" },
    { "StoredProgram",
      "{'description':'A program whose inputs have dtypes and shapes.','type':'object',"
      "'required':['inputs','steps','outputs'],'properties':{"
      "'inputs':{'type':'object','additionalProperties':{'type':'object',"
      "'required':['dtype','shape'],'properties':{'dtype':{'type':'string'},"
      "'shape':{'description':'Numbers, and letters that stand for sizes.','type':'array',"
      "'items':{'type':['integer','string']}}}}},"
      "'steps':{'description':'As in Program. An attribute can be an argument of a call: "
      "{attr: NAME, default: VALUE}.','type':'array','minItems':1,'maxItems':256,"
      "'items':{'type':'object','required':['op','as']}},"
      "'outputs':{'type':'array','minItems':1,'items':{'type':'string'}}}}" },
    { "ProgramDescription",
      "{'description':'A check of a program has no version and no etag.','type':'object',"
      "'required':['name','ready','inputs','arguments','outputs',"
      "'steps','program'],'properties':{'name':{'type':'string'},'version':{'type':'integer'},"
      "'etag':{'type':'string'},'bytes':{'type':'integer'},'source':{'type':'string'},"
      "'persisted':{'type':'boolean'},'ready':{'type':'boolean'},"
      "'reason':{'description':'Why the program is not ready.','type':'string'},"
      "'inputs':{'type':'array','items':{'type':'object'}},"
      "'arguments':{'type':'array','items':{'type':'object'}},"
      "'outputs':{'type':'array','items':{'type':'object'}},"
      "'steps':{'type':'array','items':{'type':'object'}},'program':{'$ref':'#/components/schemas/"
      "StoredProgram'}}}" },
    { "ProgramList",
      "{'type':'object','required':['programs'],'properties':{'programs':{'type':'array',"
      "'items':{'type':'object','required':['name','version','etag','bytes','persisted']}},"
      "'next':{'type':'string'}}}" },
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
    { "Timing", "{'description':'True to add the header Server-Timing to the reply. Default: "
                "false.','type':'boolean'}" },
    { "Store", "{'description':'The name of a resident tensor to store the output in, instead of "
               "sending it, with an optional number of seconds until it disappears.',"
               "'anyOf':[{'type':'string'},{'type':'object','required':['name'],'properties':{"
               "'name':{'type':'string'},'ttl_s':" TTL "},'additionalProperties':false}]}" },
};

/* A schema of a member that has one of several values. */
static const struct choice {
    const char *name, *description;
    const char *const *values;
} choice_schemas[] = {
    { "Device", "The device that computes the op. Default: auto.", td_device_names },
    { "Layout", "The layout of the outputs in JSON. Default: nested.", td_layout_names },
    { "OutputDtype",
      "The dtype to which floating-point outputs are rounded. Default: the dtype of the output.",
      td_output_dtype_names },
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
    { "check", "check", "query", "True to check the program without storing it.", BOOLEAN, NULL },
    { "program", "program", "query",
      "The stored program to plan. The body is then the body of its call.", TEXT, NULL },
    { "response", "response", "query", "The layout of the tensor in JSON.", NULL, td_layout_names },
    { "layout", "response", "query", "The layout of the outputs in JSON.", REF("Layout"), NULL },
    { "device", "device", "query", "The device that computes the op.", REF("Device"), NULL },
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
    { "storeTtl", "store.ttl_s", "query", "Seconds until the stored tensor disappears.", TTL,
      NULL },
    { "outputDtype", "output_dtype", "query",
      "The dtype to which floating-point outputs are rounded. Default: the dtype of the output.",
      REF("OutputDtype"), NULL },
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
    char path[192];
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

static bool add_choice(cJSON *all, const struct choice *choice)
{
    cJSON *schema = cJSON_AddObjectToObject(all, choice->name);
    return td_document_text(schema, "description", choice->description) &&
           td_openapi_choices(schema, choice->values);
}

static cJSON *add_schemas(cJSON *all)
{
    cJSON *object = cJSON_AddObjectToObject(all, "schemas");
    bool complete = object != NULL;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas && complete; i++)
        complete = td_document_add(object, schemas[i].name, parse(schemas[i].json));
    for (size_t i = 0; i < sizeof choice_schemas / sizeof *choice_schemas && complete; i++)
        complete = add_choice(object, &choice_schemas[i]);
    return complete ? object : NULL;
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

static const char *const error_keys[TD_OPENAPI_ERRORS] = { "412", "416", "4XX", "501", "5XX" };

static enum td_openapi_error key_of(int http_status)
{
    switch (http_status) {
    case 412:
        return TD_OPENAPI_412;
    case 416:
        return TD_OPENAPI_416;
    case 501:
        return TD_OPENAPI_501;
    default:
        return http_status < 500 ? TD_OPENAPI_4XX : TD_OPENAPI_5XX;
    }
}

/* Adds a description with a line for each code: "- 404 CODE: explanation". Viewers show the lines
 * as a list. */
static bool add_explanations(cJSON *response, enum td_openapi_error key, bool oip)
{
    char text[16384];
    struct td_text out = { .at = text, .end = text + sizeof text - 1 };
    for (int i = 1; i < TD_STATUS_COUNT; i++) {
        const int http_status = status_of(i, oip);
        if (key_of(http_status) != key)
            continue;
        td_text_string(&out, "- ");
        td_text_uint(&out, (uint64_t)http_status);
        td_text_string(&out, " ");
        td_text_string(&out, td_status_name((td_status)i));
        td_text_string(&out, ": ");
        td_text_string(&out, td_problem_of((td_status)i)->explanation);
        td_text_string(&out, "\n");
    }
    *out.at = '\0';
    return !out.full && td_document_text(response, "description", text);
}

static void error_name(enum td_openapi_error key, bool oip, char name[32])
{
    snprintf(name, 32, "%s%s", oip ? "OipError" : "Problem", error_keys[key]);
}

static bool add_error(cJSON *responses, enum td_openapi_error key, bool oip)
{
    char name[32];
    error_name(key, oip, name);
    cJSON *response = cJSON_AddObjectToObject(responses, name);
    cJSON *sent =
        add_explanations(response, key, oip) ? cJSON_AddObjectToObject(response, "headers") : NULL;
    cJSON *content = cJSON_AddObjectToObject(response, "content");
    cJSON *media =
        cJSON_AddObjectToObject(content, oip ? "application/json" : "application/problem+json");
    const bool can_be_later = key == TD_OPENAPI_4XX || key == TD_OPENAPI_5XX; /* 429, 503 */
    return td_document_add(sent, "X-Request-Id", td_openapi_ref("headers", "XRequestId")) &&
           (!can_be_later ||
            td_document_add(sent, "Retry-After", td_openapi_ref("headers", "RetryAfter"))) &&
           td_document_add(media, "schema",
                           td_openapi_ref("schemas", oip ? "OipError" : "Problem"));
}

static bool add_errors(cJSON *responses, bool oip)
{
    bool complete = responses != NULL;
    for (int key = 0; key < TD_OPENAPI_ERRORS && complete; key++)
        complete = add_error(responses, (enum td_openapi_error)key, oip);
    return complete;
}

bool td_openapi_add_error(cJSON *responses, enum td_openapi_error key, bool oip)
{
    char name[32];
    error_name(key, oip, name);
    return td_document_add(responses, error_keys[key], td_openapi_ref("responses", name));
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* Appends gather_nd as GatherNd. */
static void append_words(struct td_text *out, const char *words)
{
    bool starts = true;
    for (; *words; words++) {
        char letter = *words;
        if (starts)
            letter = (char)toupper((unsigned char)letter);
        starts = letter == '_';
        if (!starts)
            td_text_add(out, &letter, 1);
    }
}

/* Returns the name of the component that is equal to the object, or NULL. */
static const char *equal_name(const cJSON *components, const cJSON *object)
{
    const cJSON *component;
    cJSON_ArrayForEach(component, components)
    {
        if (cJSON_Compare(component, object, true))
            return component->string;
    }
    return NULL;
}

cJSON *td_openapi_share(cJSON *components, const char *kind, const char *first, const char *second,
                        const char *suffix, cJSON *object)
{
    char name[160];
    struct td_text out = { .at = name, .end = name + sizeof name - 1 };
    cJSON *all = cJSON_GetObjectItemCaseSensitive(components, kind);
    const char *equal = equal_name(all, object);
    if (equal) {
        cJSON_Delete(object);
        return td_openapi_ref(kind, equal);
    }
    append_words(&out, first);
    append_words(&out, second);
    td_text_string(&out, suffix);
    *out.at = '\0';
    return td_document_add(all, name, object) ? td_openapi_ref(kind, name) : NULL;
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
        add_errors(responses, false) && add_errors(responses, true) &&
        td_document_add(all, "securitySchemes", td_openapi_json(security)))
        return all;
    cJSON_Delete(all);
    return NULL;
}
