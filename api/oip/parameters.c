#include "api/json/decode.h"
#include "api/json/values.h"
#include "api/message/attr_values.h"
#include "api/message/attrs.h"
#include "api/oip/reader.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdio.h>
#include <string.h>

/* ---- values ---- */

/* Reads the value of a parameter. A number with an integral value becomes an integer, even if it is
 * written as 5.0 or 5e2. */
static td_status read_scalar(struct td_oip_reader *reader, const struct td_json_path *path,
                             struct td_attr_value *value)
{
    const char c = td_json_peek(&reader->scan), *begin = reader->scan.at;
    if (c == '{' || c == '[' || c == 'n') {
        const char *kind = td_json_value_kind(&reader->scan);
        if (kind)
            return td_json_refuse(
                path, reader->err,
                "the parameter \"%s\" is %s; expected a string, a number, true or false",
                TD_SHOWN(path->key, path->key_length), kind);
    }
    td_status status = td_json_attr(&reader->scan, reader->arena, value, reader->err);
    bool negative;
    uint64_t magnitude;
    if (status != TD_OK || value->kind != TD_VALUE_FLOAT ||
        !td_json_integral(begin, reader->scan.at, &negative, &magnitude) || magnitude > INT64_MAX)
        return status;
    value->kind = TD_VALUE_INT;
    value->integer = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return TD_OK;
}

static td_status refuse_value(struct td_oip_reader *reader, const struct td_json_path *path,
                              const char *name, const char *expected,
                              const struct td_attr_value *value)
{
    td_attr_refuse(reader->err, name, expected, value);
    td_json_set_pointer(path, reader->err);
    return TD_MALFORMED_REQUEST;
}

static td_status as_bool(struct td_oip_reader *reader, const struct td_json_path *path,
                         const char *name, const struct td_attr_value *value, bool *out)
{
    *out = value->boolean;
    return value->kind == TD_VALUE_BOOL ? TD_OK
                                        : refuse_value(reader, path, name, "true or false", value);
}

static td_status as_count(struct td_oip_reader *reader, const struct td_json_path *path,
                          const char *name, const struct td_attr_value *value, uint64_t *out)
{
    if (value->kind != TD_VALUE_INT || value->integer < 0)
        return refuse_value(reader, path, name, "an integer from 0 to 2^63 - 1", value);
    *out = (uint64_t)value->integer;
    return TD_OK;
}

/* ---- parameters of the request ---- */

/* Request parameters that the protocol or its clients define. */
enum reserved {
    BINARY_DATA_OUTPUT,
    PRIORITY,
    TIMEOUT,
    HEADERS,
    SEQUENCE_ID,
    SEQUENCE_START,
    SEQUENCE_END,
    COMPLEX,
    CONTENT_TYPE,
    RESERVED_COUNT
};
static const char *const reserved_names[RESERVED_COUNT] = {
    [BINARY_DATA_OUTPUT] = "binary_data_output",
    [PRIORITY] = "priority",
    [TIMEOUT] = "timeout",
    [HEADERS] = "headers",
    [SEQUENCE_ID] = "sequence_id",
    [SEQUENCE_START] = "sequence_start",
    [SEQUENCE_END] = "sequence_end",
    [COMPLEX] = "complex",
    [CONTENT_TYPE] = "content_type",
};

static td_status apply_reserved(struct td_oip_reader *reader, const struct td_json_path *path,
                                enum reserved which, const struct td_attr_value *value)
{
    const char *name = reserved_names[which];
    uint64_t count;
    bool flag;
    switch (which) {
    case BINARY_DATA_OUTPUT:
        return as_bool(reader, path, name, value, &reader->oip->binary);
    case COMPLEX:
        return as_bool(reader, path, name, value, &reader->oip->pairs);
    case SEQUENCE_START:
    case SEQUENCE_END:
        return as_bool(reader, path, name, value, &flag);
    case PRIORITY: /* accepted without effect */
        return as_count(reader, path, name, value, &count);
    case TIMEOUT:
        return as_count(reader, path, name, value, reader->timeout_us);
    case SEQUENCE_ID:
        if (value->kind == TD_VALUE_TEXT ? value->text_length == 0
                                         : value->kind == TD_VALUE_INT && value->integer == 0)
            return TD_OK;
        return td_json_refuse(path, reader->err,
                              "sequence_id is not supported; models are stateless");
    case HEADERS:
    /* Ignores a parameter that MLServer sends with requests and tensors, because datatype and shape
     * already describe a tensor. */
    case CONTENT_TYPE:
    case RESERVED_COUNT:
        break;
    }
    return TD_OK;
}

/* Common members that are also parameters of a request. The other common members affect only
 * replies of /v1. */
static const enum td_common_member common[] = { TD_COMMON_DEVICE, TD_COMMON_OUTPUT_DTYPE };

static td_status refuse_parameter(struct td_oip_reader *reader, const struct td_json_path *path,
                                  struct td_json_name name)
{
    const struct td_op *op = reader->request->op;
    const char *names[TD_MAX_ATTRS + TD_COMMON_MEMBER_COUNT + 1];
    char allowed[256];
    int n = 0;
    for (; n < op->n_attrs; n++)
        names[n] = op->attrs[n].name;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        names[n++] = td_common_member_names[common[i]];
    names[n++] = reserved_names[COMPLEX];
    td_json_refuse(path, reader->err, "%s has no parameter \"%s\"; expected %s, <input>.ref",
                   op->name, TD_OIP_SHOWN(name), td_names_text(names, n, allowed, sizeof allowed));
    td_suggest(reader->err, name.text, name.length, names, n);
    return TD_MALFORMED_REQUEST;
}

static td_status add_ref(struct td_oip_reader *reader, const struct td_json_path *path,
                         struct td_json_name name, struct td_named_input target,
                         const struct td_attr_value *value)
{
    if (value->kind != TD_VALUE_TEXT)
        return refuse_value(reader, path, TD_OIP_SHOWN(name), "the name of a resident tensor",
                            value);
    td_status status = td_named_input_count_ref(reader->request, target, reader->err);
    if (status != TD_OK)
        return status;
    struct td_oip_ref *refs =
        td_oip_grow(reader, reader->refs, reader->n_refs, &reader->ref_capacity, sizeof *refs);
    if (!refs)
        return reader->err->status;
    reader->refs = refs;
    refs[reader->n_refs++] = (struct td_oip_ref){ target, value->text, value->text_length };
    return TD_OK;
}

/* True for attributes of the op and for the common members that are parameters. */
static bool is_attr(const struct td_op *op, struct td_json_name name)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (td_json_name_is(name, op->attrs[i].name))
            return true;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (td_json_name_is(name, td_common_member_names[common[i]]))
            return true;
    return false;
}

static bool is_list(const struct td_op *op, struct td_json_name name)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (td_json_name_is(name, op->attrs[i].name))
            return op->attrs[i].kind == TD_ATTR_INTS;
    return false;
}

static td_status read_parameter(void *context, const struct td_json_path *path,
                                struct td_json_name name)
{
    struct td_oip_reader *reader = context;
    struct td_request *request = reader->request;
    struct td_attr_value value = { .kind = TD_VALUE_OTHER, .text = "" };
    struct td_named_input target;
    td_status status = read_scalar(reader, path, &value);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < RESERVED_COUNT; i++)
        if (td_json_name_is(name, reserved_names[i]))
            return apply_reserved(reader, path, (enum reserved)i, &value);
    if (td_named_input_find_ref(request, name.text, name.length, &target))
        return add_ref(reader, path, name, target, &value);
    if (td_name_begins("triton_", name.text, name.length))
        return td_json_refuse(path, reader->err, "the parameter \"%s\" is not supported",
                              TD_OIP_SHOWN(name));
    if (!is_attr(request->op, name))
        return refuse_parameter(reader, path, name);
    bool known;
    /* Lists of integers are given as text, such as "0,2". */
    if (value.kind == TD_VALUE_TEXT && is_list(request->op, name))
        status = td_attrs_set_text(request, name.text, name.length, value.text, value.text_length,
                                   reader->arena, &known, reader->err);
    else
        status = td_attrs_set(request, name.text, name.length, &value, reader->arena, &known,
                              reader->err);
    if (status != TD_OK)
        td_json_set_pointer(path, reader->err);
    return status;
}

td_status td_oip_read_parameters(struct td_oip_reader *reader, const struct td_json_path *path)
{
    return td_json_object(&reader->scan, path, "parameters", read_parameter, reader, reader->arena,
                          reader->err);
}

/* ---- parameters of a tensor ---- */

static const char region_name[] = "shared_memory_region";

/* True if the JSON string is region_name after its escapes are replaced. Each character can be an
 * escape sequence. */
static bool is_region_name(const struct td_json_scan *scan, const struct td_json_raw *raw)
{
    enum { LENGTH = sizeof region_name - 1, ESCAPE = sizeof "\\u0000" - 1 };
    char text[LENGTH * ESCAPE];
    if (raw->length > sizeof text)
        return false;
    const char *end = td_json_unescape(scan, raw, text, TD_IGNORED);
    return end && td_name_is(region_name, text, (size_t)(end - text));
}

bool td_oip_names_shared_memory(const char *json, size_t bytes)
{
    struct td_json_scan scan = { .begin = json, .at = json, .end = json + bytes };
    if (memmem(json, bytes, region_name, sizeof region_name - 1))
        return true;
    if (!memchr(json, '\\', bytes))
        return false;
    while ((scan.at = memchr(scan.at, '"', (size_t)(scan.end - scan.at)))) {
        struct td_json_raw raw;
        if (td_json_raw_string(&scan, &raw, TD_IGNORED) != TD_OK)
            return false;
        if (raw.escaped && is_region_name(&scan, &raw))
            return true;
    }
    return false;
}

/* Tensor parameters that the protocol or its clients define, plus `complex`. */
enum tensor_parameter {
    BINARY_DATA_SIZE,
    INPUT_COMPLEX,
    BINARY_DATA,
    CLASSIFICATION,
    REGION,
    REGION_BYTES,
    REGION_OFFSET,
    TENSOR_CONTENT_TYPE,
    TENSOR_PARAMETER_COUNT
};
enum { OF_INPUT = 1 << TD_OIP_INPUT, OF_OUTPUT = 1 << TD_OIP_OUTPUT };
static const struct {
    const char *name;
    unsigned of; /* OF_INPUT, OF_OUTPUT or both */
} tensor_parameters[TENSOR_PARAMETER_COUNT] = {
    [BINARY_DATA_SIZE] = { "binary_data_size", OF_INPUT },
    [INPUT_COMPLEX] = { "complex", OF_INPUT },
    [BINARY_DATA] = { "binary_data", OF_OUTPUT },
    [CLASSIFICATION] = { "classification", OF_OUTPUT },
    [REGION] = { region_name, OF_INPUT | OF_OUTPUT },
    [REGION_BYTES] = { "shared_memory_byte_size", OF_INPUT | OF_OUTPUT },
    [REGION_OFFSET] = { "shared_memory_offset", OF_INPUT | OF_OUTPUT },
    [TENSOR_CONTENT_TYPE] = { "content_type", OF_INPUT | OF_OUTPUT },
};

static td_status refuse_tensor_parameter(struct td_oip_reader *reader,
                                         const struct td_json_path *path, struct td_json_name name)
{
    const bool output = reader->tensor_parameters->output;
    const char *names[TENSOR_PARAMETER_COUNT];
    char listed[160];
    int n = 0;
    bool of_request = is_attr(reader->request->op, name);
    for (int i = 0; i < RESERVED_COUNT; i++)
        of_request = of_request || td_json_name_is(name, reserved_names[i]);
    if (of_request)
        return td_json_refuse(path, reader->err,
                              "\"%s\" is a parameter of %s; it belongs in the parameters of the "
                              "request, not of a tensor",
                              TD_OIP_SHOWN(name), reader->request->op->name);
    for (int i = 0; i < TENSOR_PARAMETER_COUNT; i++)
        if (tensor_parameters[i].of & (output ? OF_OUTPUT : OF_INPUT))
            names[n++] = tensor_parameters[i].name;
    td_json_refuse(path, reader->err, "%s has no parameter \"%s\"; expected %s",
                   output ? "an output" : "an input", TD_OIP_SHOWN(name),
                   td_names_text(names, n, listed, sizeof listed));
    td_suggest(reader->err, name.text, name.length, names, n);
    return TD_MALFORMED_REQUEST;
}

/* Reads content_type, which names a codec in MLServer. Ignores the parameter, because datatype and
 * shape describe a tensor, but refuses "base64", because its text is not the value itself. */
static td_status read_content_type(struct td_oip_reader *reader, const struct td_json_path *path)
{
    struct td_attr_value value = { .kind = TD_VALUE_OTHER, .text = "" };
    if (td_json_peek(&reader->scan) != '"')
        return td_json_skip(&reader->scan, 4, reader->arena, reader->err);
    td_status status = read_scalar(reader, path, &value);
    if (status == TD_OK && td_name_is("base64", value.text, value.text_length))
        status = td_json_refuse(
            path, reader->err,
            "content_type is \"base64\", but BYTES in JSON must be text; use %s for bytes",
            reader->tensor_parameters->output ? "binary_data" : "binary_data_size");
    return status;
}

static td_status read_tensor_parameter(void *context, const struct td_json_path *path,
                                       struct td_json_name name)
{
    struct td_oip_reader *reader = context;
    struct td_oip_tensor_parameters *parameters = reader->tensor_parameters;
    struct td_attr_value value = { .kind = TD_VALUE_OTHER, .text = "" };
    uint64_t count;
    int which = 0;
    while (which < TENSOR_PARAMETER_COUNT &&
           !(tensor_parameters[which].of & (parameters->output ? OF_OUTPUT : OF_INPUT) &&
             td_json_name_is(name, tensor_parameters[which].name)))
        which++;
    if (which == TENSOR_PARAMETER_COUNT)
        return refuse_tensor_parameter(reader, path, name);
    if (which == TENSOR_CONTENT_TYPE)
        return read_content_type(reader, path);
    const char *known = tensor_parameters[which].name;
    td_status status = read_scalar(reader, path, &value);
    if (status != TD_OK)
        return status;
    switch (which) {
    case BINARY_DATA_SIZE:
        status = as_count(reader, path, known, &value, &count);
        parameters->binary_size = status == TD_OK ? (int64_t)count : -1;
        return status;
    case INPUT_COMPLEX:
        parameters->has_complex = true;
        return as_bool(reader, path, known, &value, &parameters->is_complex);
    case BINARY_DATA:
        parameters->has_binary = true;
        return as_bool(reader, path, known, &value, &parameters->binary);
    case REGION:
        if (value.kind != TD_VALUE_TEXT)
            return refuse_value(reader, path, known, "a string", &value);
        parameters->range.region = value.text;
        parameters->range.region_length = value.text_length;
        return TD_OK;
    case REGION_BYTES:
        parameters->has_range_bytes = true;
        return as_count(reader, path, known, &value, &parameters->range.bytes);
    case REGION_OFFSET:
        parameters->has_range_offset = true;
        return as_count(reader, path, known, &value, &parameters->range.offset);
    default: /* CLASSIFICATION */
        status = as_count(reader, path, known, &value, &count);
        if (status == TD_OK && count > 0)
            status = td_json_refuse(path, reader->err, "classification is not supported");
        return status;
    }
}

td_status td_oip_read_tensor_parameters(struct td_oip_reader *reader,
                                        const struct td_json_path *path,
                                        struct td_oip_tensor_parameters *parameters)
{
    reader->tensor_parameters = parameters;
    td_status status = td_json_object(&reader->scan, path, "parameters", read_tensor_parameter,
                                      reader, reader->arena, reader->err);
    if (status != TD_OK)
        return status;
    bool region = parameters->range.region != NULL;
    if (region != parameters->has_range_bytes || (!region && parameters->has_range_offset))
        return td_json_refuse(path, reader->err,
                              "shared_memory_region and shared_memory_byte_size belong together; "
                              "%s is missing",
                              region ? "shared_memory_byte_size" : region_name);
    return TD_OK;
}

/* ---- parameters in the wrong place, and misspelt members ---- */

static const struct {
    const char *what;
    const char *members[6]; /* member names; the list ends with NULL */
} places[] = {
    [TD_OIP_REQUEST] = { "the request", { "id", "inputs", "outputs", "parameters" } },
    [TD_OIP_INPUT] = { "an input", { "name", "datatype", "shape", "data", "parameters" } },
    [TD_OIP_OUTPUT] = { "an output", { "name", "parameters" } },
};

/* Returns the kind of object that a parameter with this name belongs to, or NULL if no parameter
 * that changes the reply has this name. Prefers the object at `place`. */
static const char *parameter_owner(const struct td_request *request, struct td_json_name name,
                                   enum td_oip_place place)
{
    struct td_named_input target;
    unsigned of = 0;
    for (int i = 0; i < TENSOR_PARAMETER_COUNT; i++)
        if (i != TENSOR_CONTENT_TYPE && td_json_name_is(name, tensor_parameters[i].name))
            of = tensor_parameters[i].of;
    if (of & (1u << place))
        return places[place].what;
    if (is_attr(request->op, name) || td_json_name_is(name, reserved_names[COMPLEX]) ||
        td_json_name_is(name, reserved_names[BINARY_DATA_OUTPUT]) ||
        td_named_input_find_ref(request, name.text, name.length, &target))
        return places[TD_OIP_REQUEST].what;
    return of ? places[of & OF_INPUT ? TD_OIP_INPUT : TD_OIP_OUTPUT].what : NULL;
}

/* Returns the member that the client probably meant, or NULL. Never suggests "id", because it does
 * not change the result and many names resemble it. */
static const char *nearest_member(struct td_json_name name, enum td_oip_place place)
{
    const int first = place == TD_OIP_REQUEST;
    const char *const *members = places[place].members + first;
    uint32_t work;
    int n = 0;
    if (td_json_name_is(name, "params") || td_json_name_is(name, "param"))
        return "parameters";
    while (members[n])
        n++;
    return td_nearest_name(name.text, name.length, members, n, &work);
}

static td_status refuse_misspelt(const struct td_json_path *path, struct td_json_name name,
                                 enum td_oip_place place, const char *nearest, struct td_error *err)
{
    char listed[64];
    int n = 0;
    while (places[place].members[n])
        n++;
    td_json_refuse(path, err, "%s has no member \"%s\"; expected %s", places[place].what,
                   TD_OIP_SHOWN(name),
                   td_names_text(places[place].members, n, listed, sizeof listed));
    snprintf(err->did_you_mean, sizeof err->did_you_mean, "%s", nearest);
    return TD_MALFORMED_REQUEST;
}

td_status td_oip_check_unknown(const struct td_request *request, const struct td_json_path *path,
                               struct td_json_name name, enum td_oip_place place,
                               struct td_error *err)
{
    const bool is_dtype = place == TD_OIP_INPUT && td_json_name_is(name, "dtype");
    const char *owner = is_dtype ? NULL : parameter_owner(request, name, place);
    if (owner)
        return td_json_refuse(path, err,
                              "\"%s\" is a parameter of %s; it belongs in its member "
                              "\"parameters\"",
                              TD_OIP_SHOWN(name), owner);
    const char *nearest = is_dtype ? "datatype" : nearest_member(name, place);
    if (nearest)
        return refuse_misspelt(path, name, place, nearest, err);
    if (place != TD_OIP_REQUEST || td_named_input_find(request, name.text, name.length).input < 0)
        return TD_OK;
    return td_json_refuse(path, err, "\"%s\" is an input; it belongs in the list \"inputs\"",
                          TD_OIP_SHOWN(name));
}

td_status td_oip_check_query(const struct td_request *request, const char *name, size_t length,
                             struct td_error *err)
{
    const struct td_json_name given = { name, length };
    const char *owner = parameter_owner(request, given, TD_OIP_REQUEST);
    if (!owner)
        return TD_OK;
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "\"%s\" is a parameter of %s; it belongs in the body, in the member "
                 "\"parameters\" of %s, not in the query string",
                 TD_OIP_SHOWN(given), owner, owner);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, TD_OIP_SHOWN(given));
}
