/* The C side of bench_json.cc. */
#include "api/codec.h"
#include "api/files/safetensors.h"
#include "api/json/encode.h"
#include "api/message/attrs.h"
#include "api/message/message.h"
#include "api/oip/oip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_call *bench_call_new(size_t arena_bytes);
void bench_call_free(struct bench_call *call);
size_t bench_decode(struct bench_call *call, const char *op, const char *body, size_t bytes);
size_t bench_decode_file(struct bench_call *call, const char *op, const char *body, size_t bytes);
size_t bench_decode_oip(struct bench_call *call, const char *op, const char *body, size_t bytes,
                        size_t json_bytes);
size_t bench_open(struct bench_call *call, const char *file, size_t bytes);
size_t bench_encode_oip(struct bench_call *call, const char *dtype, void *data, int64_t rows,
                        int64_t columns, const char *request, size_t bytes);
size_t bench_encode(struct bench_call *call, const char *dtype, void *data, int64_t rows,
                    int64_t columns, const char *layout);

struct bench_call {
    struct td_arena arena;
    struct td_error err;
    char first[];
};

struct bench_call *bench_call_new(size_t arena_bytes)
{
    struct bench_call *call = malloc(sizeof *call + arena_bytes);
    if (!call)
        abort();
    memset(call->first, 0, arena_bytes); /* populates the pages */
    td_arena_init(&call->arena, call->first, arena_bytes, td_memory_heap());
    return call;
}

void bench_call_free(struct bench_call *call)
{
    td_arena_reset(&call->arena);
    free(call);
}

static void must(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "%s\n", err->message);
    abort();
}

size_t bench_decode(struct bench_call *call, const char *op, const char *body, size_t bytes)
{
    struct td_request request;
    td_arena_reset(&call->arena);
    td_request_init(&request, td_op_named(op, strlen(op)));
    must(td_codec_decode(TD_FORMAT_JSON, body, bytes, NULL, &call->arena, &request, &call->err),
         &call->err);
    return request.args.inputs[0].tensors[0].bytes;
}

size_t bench_decode_file(struct bench_call *call, const char *op, const char *body, size_t bytes)
{
    struct td_request request;
    td_arena_reset(&call->arena);
    td_request_init(&request, td_op_named(op, strlen(op)));
    must(td_codec_decode(TD_FORMAT_SAFETENSORS, body, bytes, NULL, &call->arena, &request,
                         &call->err),
         &call->err);
    return request.args.inputs[0].tensors[0].bytes;
}

static void decode_oip(struct bench_call *call, const char *op, const char *body, size_t bytes,
                       size_t json_bytes, struct td_request *request)
{
    const struct td_oip_source source = { .json_bytes = json_bytes };
    uint64_t timeout_us;
    td_arena_reset(&call->arena);
    td_request_init(request, td_op_named(op, strlen(op)));
    must(td_oip_decode(body, bytes, &source, &call->arena, request, &timeout_us, &call->err),
         &call->err);
}

size_t bench_decode_oip(struct bench_call *call, const char *op, const char *body, size_t bytes,
                        size_t json_bytes)
{
    struct td_request request;
    decode_oip(call, op, body, bytes, json_bytes, &request);
    return request.args.inputs[0].tensors[0].bytes;
}

size_t bench_open(struct bench_call *call, const char *file, size_t bytes)
{
    struct td_safetensors opened;
    td_arena_reset(&call->arena);
    must(td_safetensors_open(file, bytes, &call->arena, &opened, &call->err), &call->err);
    return (size_t)opened.n_entries;
}

static struct td_tensor output_of(struct bench_call *call, const char *dtype, void *data,
                                  int64_t rows, int64_t columns)
{
    struct td_tensor output = { .data = NULL };
    struct td_shape shape = { 2, { rows, columns } };
    td_dtype parsed;
    if (!td_dtype_from_name(dtype, strlen(dtype), &parsed))
        abort();
    must(td_tensor_describe(&output, "output", parsed, &shape, &call->err), &call->err);
    output.data = data;
    return output;
}

size_t bench_encode_oip(struct bench_call *call, const char *dtype, void *data, int64_t rows,
                        int64_t columns, const char *body, size_t bytes)
{
    struct td_request request;
    struct td_reply reply = { .n_headers = 0 };
    struct td_tensor output = output_of(call, dtype, data, rows, columns);
    decode_oip(call, "gather", body, bytes, TD_OIP_NO_HEADER, &request);
    request.args.outputs = &output;
    request.args.n_outputs = 1;
    must(td_oip_encode(&request, &call->arena, &reply, &call->err), &call->err);
    return td_reply_bytes(&reply);
}

size_t bench_encode(struct bench_call *call, const char *dtype, void *data, int64_t rows,
                    int64_t columns, const char *layout)
{
    struct td_request request;
    struct td_reply reply;
    struct td_tensor output = output_of(call, dtype, data, rows, columns);
    bool known;
    td_arena_reset(&call->arena);
    td_request_init(&request, td_op_named("gather", 6));
    request.args.outputs = &output;
    request.args.n_outputs = 1;
    must(td_attrs_set_text(&request, "response", 8, layout, strlen(layout), &call->arena, &known,
                           &call->err),
         &call->err);
    must(td_json_encode(&request, &call->arena, &reply, &call->err), &call->err);
    return td_reply_bytes(&reply);
}
