#include "api/message/problem.h"

#include "api/text/text.h"
#include "kernels/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* `slug` and `title` are ASCII without quotes, so static_body needs no escaping. */
#define PROBLEM(code, http, title, slug, explanation)                                              \
    [TD_##code] = { http, title, slug, explanation,                                                \
                    "{\"type\":\"/problems/" slug "\",\"title\":\"" title "\",\"status\":" #http   \
                    ",\"code\":\"" #code "\"}" }

static const struct td_problem problems[TD_STATUS_COUNT] = {
    PROBLEM(OK, 500, "No problem", "no-problem", "Nothing went wrong."),
    PROBLEM(
        MALFORMED_REQUEST, 400, "Malformed request", "malformed-request",
        "The body, the query string or a header could not be understood: it is not well-formed, a "
        "member is unknown or given twice, or a value has the wrong kind or does not fit its "
        "dtype. `pointer` (a JSON Pointer) or `offset` (a byte position) gives the place."),
    PROBLEM(INDEX_OUT_OF_BOUNDS, 422, "Index out of bounds", "index-out-of-bounds",
            "An index is outside [0, bound). `position` is the position of the first such index in "
            "row-major order, and `bad_count` is the number of such indices. Correct the indices, "
            "or choose another policy with `bounds` (zero, clip or wrap) if the op has it."),
    PROBLEM(SHAPE_MISMATCH, 422, "Shape mismatch", "shape-mismatch",
            "The shapes of the inputs do not match. `shapes` lists the shapes at fault. The op's "
            "page under /v1/ops gives the rule that the shapes must follow."),
    PROBLEM(INVALID_AXIS, 422, "Invalid axis", "invalid-axis",
            "`axis` is not a dimension of the input; it must be in [-rank, rank)."),
    PROBLEM(INVALID_BATCH_DIMS, 422, "Invalid batch_dims", "invalid-batch-dims",
            "`batch_dims` does not fit the ranks of the inputs, or exceeds `axis`."),
    PROBLEM(INVALID_EQUATION, 422, "Invalid equation", "invalid-equation",
            "The equation is malformed. `offset` is the byte position of the mistake. The `plan` "
            "on the op's page under /v1/ops checks an equation without any data."),
    PROBLEM(UNSUPPORTED_DTYPE, 422, "Unsupported dtype", "unsupported-dtype",
            "The op does not accept this dtype for this input; its page under /v1/ops lists the "
            "accepted dtypes. If the problem has the member `device`, that device has no kernel "
            "for the op and this dtype; `device: auto` computes it on the CPU."),
    PROBLEM(INVALID_ARGUMENT, 422, "Invalid argument", "invalid-argument",
            "An input or attribute is missing, or has a value that the op cannot use."),
    PROBLEM(
        KEY_NOT_FOUND, 422, "Key not found", "key-not-found",
        "The table has no row with this key. `position` is the position of the first such key in "
        "row-major order, `key` is the key, and `bad_count` is the number of such keys. Some ops "
        "have an attribute that gives unknown keys a row of zeros or a default."),
    PROBLEM(DIVISION_BY_ZERO, 422, "Division by zero", "division-by-zero",
            "Integers cannot be divided by 0. `position` is the position of the first 0 in "
            "row-major order, and `bad_count` is the number of zeros. Floats can be divided by 0, "
            "which gives infinity or NaN."),
    PROBLEM(UNKNOWN_OP, 404, "Unknown op", "unknown-op",
            "No op has this name. GET /v1/ops lists all ops; `did_you_mean` is the nearest name."),
    PROBLEM(TENSOR_NOT_FOUND, 404, "Tensor not found", "tensor-not-found",
            "No resident tensor has this name. GET /v1/tensors lists all resident tensors."),
    PROBLEM(NOT_FOUND, 404, "Not found", "not-found",
            "This path does not exist. GET /v1/ops lists the ops, and GET /v1/tensors lists the "
            "resident tensors."),
    PROBLEM(METHOD_NOT_ALLOWED, 405, "Method not allowed", "method-not-allowed",
            "The path does not support this method. The Allow header lists the supported methods."),
    PROBLEM(NOT_ACCEPTABLE, 406, "Not acceptable", "not-acceptable",
            "The result cannot be written in a format that the Accept header allows. Results are "
            "available as application/json and, except for strings and complex128, as "
            "application/vnd.safetensors. A single tensor is also available as "
            "application/x-npy, except for strings and bfloat16."),
    PROBLEM(UNSUPPORTED_MEDIA_TYPE, 415, "Unsupported media type", "unsupported-media-type",
            "The Content-Type or Content-Encoding of the body is not supported. The supported "
            "types are application/json, application/vnd.safetensors and, for a resident tensor "
            "and the body of an op, application/x-npy. The supported encodings are gzip and "
            "deflate."),
    PROBLEM(PRECONDITION_FAILED, 412, "Precondition failed", "precondition-failed",
            "The condition in If-Match or If-None-Match is false. `etag` and the ETag header give "
            "the current ETag; they are absent if the tensor does not exist."),
    PROBLEM(
        CONFLICT, 409, "Conflict", "conflict",
        "The change conflicts with the current state. For example, the number of keys differs from "
        "the number of rows, the version exists and cannot be changed, or the name is an alias."),
    PROBLEM(
        PAYLOAD_TOO_LARGE, 413, "Payload too large", "payload-too-large",
        "The body exceeds the server's limit, given as `limit`. Send smaller requests, or store "
        "the large tensor as a resident tensor and refer to it."),
    PROBLEM(RANGE_NOT_SATISFIABLE, 416, "Range not satisfiable", "range-not-satisfiable",
            "The Range header asks for bytes beyond the end. The Content-Range header gives the "
            "total number of bytes."),
    PROBLEM(RESOURCE_LIMIT, 422, "Resource limit", "resource-limit",
            "The request is well-formed but too large for this server. `resource` names the limit; "
            "`needed` and `limit` are the amounts. Nothing was computed."),
    PROBLEM(
        UNAUTHENTICATED, 401, "Unauthenticated", "unauthenticated",
        "The request has no valid token. Send a token of the server's --token-file in the header "
        "`Authorization: Bearer TOKEN`."),
    PROBLEM(
        FORBIDDEN, 403, "Forbidden", "forbidden",
        "The token does not allow this, the server is read-only, or the server has no permission "
        "to write the file. Requests from browsers are also forbidden if they come from a page of "
        "another site or use a host name that is not the server's. In this case `attribute` names "
        "the header; the options --allow-origin and --allow-host list the allowed values."),
    PROBLEM(REQUEST_TIMEOUT, 408, "Request timeout", "request-timeout",
            "The headers of the request did not arrive in time, or its body arrived more slowly "
            "than the server allows. The connection is closed."),
    PROBLEM(CLIENT_LIMIT, 429, "Client limit", "client-limit",
            "The client has used its share of the server. A client is identified by its token or, "
            "without a token, by the address of its requests. `resource` names the limit that the "
            "client has reached, and `limit` is the maximum for one client. Try again after the "
            "number of seconds in the Retry-After header."),
    PROBLEM(CONNECTION_LIMIT, 503, "Connection limit", "connection-limit",
            "The server has reached its maximum number of connections. Until a connection ends, "
            "new connections can only ask for the server's health. Try again after the number of "
            "seconds in the Retry-After header."),
    PROBLEM(QUEUE_FULL, 429, "Queue full", "queue-full",
            "The queue of the server is full. Try again after the number of seconds in the "
            "Retry-After header."),
    PROBLEM(
        MEMORY_EXHAUSTED, 503, "Memory exhausted", "memory-exhausted",
        "Other requests and resident tensors use the server's memory budget (--memory-limit). Try "
        "again after the number of seconds in the Retry-After header."),
    PROBLEM(DRAINING, 503, "Draining", "draining",
            "The server is shutting down and accepts no new work. Use another instance."),
    PROBLEM(DATA_DIR_LOCKED, 503, "Data folder locked", "data-dir-locked",
            "Another process holds the lock of the data folder, so this server cannot change the "
            "folder. The server tries to get the lock every second. Try again after the number of "
            "seconds in the Retry-After header, or send the change to the other process."),
    PROBLEM(DEVICE_UNAVAILABLE, 503, "Device unavailable", "device-unavailable",
            "The device or the tensor file that the request needs is absent, damaged or refused, "
            "or the aliases could not be read; `detail` says which. After you have repaired a "
            "file, a folder or aliases.json, send SIGHUP to the server to serve it again. "
            "`problems` of GET /v1/aliases lists everything that is refused. If a device failed, "
            "`device: auto` falls back to the CPU."),
    PROBLEM(DEADLINE_EXCEEDED, 504, "Deadline exceeded", "deadline-exceeded",
            "The time allowed by X-Request-Timeout-Ms or by the server ran out before the result "
            "was ready."),
    PROBLEM(NOT_SUPPORTED, 501, "Not supported", "not-supported",
            "The Open Inference Protocol defines this, but the server does not implement it or "
            "does not allow it."),
    PROBLEM(INTERNAL, 500, "Internal error", "internal",
            "The server has a bug. Please report it with the request_id."),
};

#undef PROBLEM

static const char content_type[] = "application/problem+json";

const struct td_problem *td_problem_of(td_status status)
{
    return &problems[(unsigned)status < TD_STATUS_COUNT ? status : TD_INTERNAL];
}

unsigned td_problem_retry_after_s(const struct td_error *err)
{
    if (err->retry_after_s > 0)
        return err->retry_after_s;
    switch (err->status) {
    case TD_CLIENT_LIMIT:
    case TD_CONNECTION_LIMIT:
    case TD_MEMORY_EXHAUSTED:
    case TD_DATA_DIR_LOCKED: /* the server retries the lock every second */
        return 1;
    default:
        return 0;
    }
}

td_status td_problem_from_slug(const char *slug, size_t length)
{
    for (int i = 1; i < TD_STATUS_COUNT; i++)
        if (td_name_is(problems[i].slug, slug, length) ||
            td_name_is(td_status_name((td_status)i), slug, length))
            return (td_status)i;
    return TD_OK;
}

/* Appends ,"name":"value" unless the value is empty. */
static void add_text(struct td_text *text, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    td_text_print(text, ",\"%s\":", name);
    td_text_quote(text, value);
}

static void add_dims(struct td_text *text, const int64_t *dims, int rank)
{
    td_text_string(text, "[");
    td_text_dims(text, dims, rank);
    td_text_string(text, "]");
}

static void add_shapes(struct td_text *text, const struct td_error *err)
{
    for (int i = 0; i < err->n_shapes; i++) {
        td_text_print(text, i ? "," : ",\"shapes\":{");
        td_text_quote(text, err->shapes[i].name);
        td_text_string(text, ":");
        add_dims(text, err->shapes[i].shape.dim, err->shapes[i].shape.rank);
    }
    if (err->n_shapes)
        td_text_string(text, "}");
}

static void add_position(struct td_text *text, const struct td_error *err)
{
    td_text_string(text, ",\"position\":");
    add_dims(text, err->position, err->position_rank);
}

static void add_index(struct td_text *text, const struct td_error *err)
{
    add_position(text, err);
    td_text_print(text, ",\"index\":%" PRId64, err->index);
    if (err->has_bound)
        td_text_print(text, ",\"bound\":%" PRId64 ",\"axis\":%d", err->bound, err->axis);
    td_text_print(text, ",\"bad_count\":%" PRId64, err->bad_count);
}

static void add_key(struct td_text *text, const struct td_error *err)
{
    add_position(text, err);
    td_text_string(text, ",\"key\":");
    if (err->key_is_number)
        td_text_string(text, err->key);
    else
        td_text_quote_bytes(text, err->key, err->key_length);
    td_text_print(text, ",\"bad_count\":%" PRId64, err->bad_count);
}

/* Size of the buffer for a problem: twice the maximum size of the strings and numbers in a struct
 * td_error. An escaped byte takes six bytes. */
#define PROBLEM_TEXT 16384
#define REQUEST_ID   256

void td_problem_members(const struct td_error *err, const char *op_name, const char *request_id,
                        struct td_text *text)
{
    add_text(text, "code", td_status_name(err->status));
    add_text(text, "op", err->has_step ? err->op : op_name);
    if (err->has_step) {
        td_text_print(text, ",\"step\":%d", err->step);
        add_text(text, "as", err->as);
    }
    add_text(text, "input", err->input);
    if (err->has_index)
        add_index(text, err);
    if (err->has_key)
        add_key(text, err);
    if (err->has_position) {
        add_position(text, err);
        td_text_print(text, ",\"bad_count\":%" PRId64, err->bad_count);
    }
    if (err->has_equal)
        td_text_print(text, ",\"positions\":[[%" PRId64 "],[%" PRId64 "]]", err->equal[0],
                      err->equal[1]);
    add_text(text, "attribute", err->attribute);
    add_text(text, "device", err->device);
    if (err->has_pointer) {
        td_text_string(text, ",\"pointer\":");
        td_text_quote_bytes(text, err->pointer, err->pointer_length);
    }
    if (err->offset >= 0)
        td_text_print(text, ",\"offset\":%" PRId64, err->offset);
    add_text(text, "label", err->label);
    if (err->has_extents) {
        td_text_string(text, ",\"extents\":");
        add_dims(text, err->extents, 2);
    }
    add_shapes(text, err);
    add_text(text, "did_you_mean", err->did_you_mean);
    add_text(text, "etag", err->etag);
    if (err->resource[0]) {
        add_text(text, "resource", err->resource);
        td_text_print(text, ",\"needed\":%" PRIu64, err->needed);
    }
    if (err->limit)
        td_text_print(text, ",\"limit\":%" PRIu64, err->limit);
    if (request_id && *request_id) {
        td_text_string(text, ",\"request_id\":");
        td_text_quote_bytes(text, request_id, strnlen(request_id, REQUEST_ID));
    }
}

/* Appends the members that RFC 9457 defines. Omits the status if `title` replaces the title of the
 * code. */
static void add_standard(struct td_text *text, const struct td_error *err, const char *title)
{
    const struct td_problem *problem = td_problem_of(err->status);
    td_text_print(text, "\"type\":\"/problems/%s\"", problem->slug);
    add_text(text, "title", title ? title : problem->title);
    if (!title)
        td_text_print(text, ",\"status\":%d", problem->http_status);
    td_text_string(text, ",\"detail\":");
    td_text_quote(text, err->message);
}

static size_t write_problem(const struct td_error *err, const char *op_name, const char *request_id,
                            char *buffer)
{
    struct td_text text = { .at = buffer, .end = buffer + PROBLEM_TEXT };
    td_text_string(&text, "{");
    add_standard(&text, err, NULL);
    td_problem_members(err, op_name, request_id, &text);
    td_text_string(&text, "}");
    return text.full ? 0 : (size_t)(text.at - buffer);
}

size_t td_problem_print(const struct td_error *err, const char *title, const char *request_id,
                        char *buffer, size_t size)
{
    struct td_text text = { .at = buffer, .end = buffer + size };
    td_text_string(&text, "{\"error\":");
    td_text_quote(&text, err->message);
    td_text_string(&text, ",");
    add_standard(&text, err, title);
    td_problem_members(err, NULL, request_id, &text);
    td_text_string(&text, "}\n");
    return text.full ? 0 : (size_t)(text.at - buffer);
}

void td_problem_write(const struct td_error *err, const char *op_name, const char *request_id,
                      struct td_arena *arena, struct td_reply *reply)
{
    char buffer[PROBLEM_TEXT];
    struct td_error no_memory;
    const struct td_problem *problem = td_problem_of(err->status);
    size_t length = write_problem(err, op_name, request_id, buffer);
    char *body = length ? td_arena_alloc(arena, length, 1, &no_memory) : NULL;
    if (body) {
        memcpy(body, buffer, length);
        td_reply_set(reply, problem->http_status, content_type, body, length);
    } else {
        td_reply_set(reply, problem->http_status, content_type, problem->static_body,
                     strlen(problem->static_body));
    }
}

td_status td_problem_describe(td_status status, struct td_arena *arena, struct td_reply *reply,
                              struct td_error *err)
{
    enum { CAPACITY = 2048 };
    const struct td_problem *problem = td_problem_of(status);
    char *body = td_arena_alloc(arena, CAPACITY, 1, err);
    if (!body)
        return err->status;
    struct td_text text = { .at = body, .end = body + CAPACITY };
    td_text_print(&text,
                  "{\"type\":\"/problems/%s\",\"title\":\"%s\",\"status\":%d,\"code\":\"%s\"",
                  problem->slug, problem->title, problem->http_status, td_status_name(status));
    add_text(&text, "explanation", problem->explanation);
    td_text_string(&text, "}");
    td_reply_set(reply, 200, "application/json", body, (size_t)(text.at - body));
    return TD_OK;
}
