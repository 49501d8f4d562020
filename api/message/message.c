#include "api/message/message.h"

#include "api/text/text.h"
#include "kernels/shown_text.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

void td_request_init(struct td_request *request, const struct td_op *op)
{
    memset(request, 0, sizeof *request);
    request->op = op;
    td_op_set_defaults(op, &request->args);
}

td_bounds td_request_bounds(const struct td_request *request)
{
    return td_op_bounds(request->op, &request->args);
}

static void write_replaced(struct td_text *text, td_bounds policy, int64_t replaced)
{
    td_text_print(text, "\"policy\":\"%s\",\"replaced\":%" PRId64 "}", td_bounds_name(policy),
                  replaced);
}

bool td_replaced_write(const struct td_request *request, const char *before, struct td_text *text)
{
    const struct td_op_args *args = &request->args;
    if (!args->replaced && args->n_replaced_in == 0)
        return false;
    td_text_string(text, before);
    if (args->replaced) {
        td_text_string(text, "{");
        write_replaced(text, td_request_bounds(request), args->replaced);
        return true;
    }
    for (int i = 0; i < args->n_replaced_in; i++) {
        const struct td_step_replaced *in = &args->replaced_in[i];
        td_text_print(text, "%s{\"step\":%d,", i ? "," : "[", in->step);
        write_replaced(text, in->policy, in->replaced);
    }
    td_text_string(text, "]");
    return true;
}

size_t td_replaced_bound(const struct td_request *request)
{
    enum { PER_STEP = 80 };
    return PER_STEP * (size_t)(1 + request->args.n_replaced_in);
}

void td_step_times_write(const struct td_request *request, const char *before, struct td_text *text)
{
    const struct td_op_args *args = &request->args;
    for (int i = 0; i < args->n_times; i++) {
        const struct td_step_time *time = &args->times[i];
        td_text_print(text, "%s{\"step\":%d,", i ? "," : before, time->first);
        if (time->last > time->first)
            td_text_print(text, "\"last\":%d,", time->last);
        td_text_print(text, "\"as\":\"%s\",\"ms\":%.4f}", time->as, (double)time->ns / 1e6);
    }
    if (args->n_times > 0)
        td_text_string(text, "]");
}

size_t td_step_times_bound(const struct td_request *request)
{
    enum { PER_STEP = 160 };
    return PER_STEP * (size_t)request->args.n_times;
}

td_status td_resolve(struct td_resolver *resolver, const char *name, size_t length,
                     struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    if (resolver)
        return resolver->resolve(resolver, name, length, arena, out, err);
    return td_error_set(err, TD_TENSOR_NOT_FOUND,
                        "tensor \"%s\" does not exist; no tensors are resident",
                        TD_SHOWN(name, length));
}

void td_reply_set(struct td_reply *reply, int http_status, const char *content_type,
                  const void *data, size_t size)
{
    reply->http_status = http_status;
    reply->content_type = content_type;
    reply->own[0] = (struct td_chunk){ .data = data, .size = size };
    reply->chunks = reply->own;
    reply->n_chunks = 1;
}

void td_reply_header(struct td_reply *reply, const char *name, const char *value)
{
    assert(reply->n_headers < TD_REPLY_HEADERS);
    reply->headers[reply->n_headers++] = (struct td_header){ name, value };
}

size_t td_reply_bytes(const struct td_reply *reply)
{
    size_t bytes = 0;
    for (int i = 0; i < reply->n_chunks; i++)
        bytes += reply->chunks[i].size;
    return bytes;
}

struct td_row_keys *td_request_row_keys(struct td_request *request, int input)
{
    for (int i = 0; i < request->n_row_keys; i++)
        if (request->row_keys[i].input == input)
            return &request->row_keys[i];
    return NULL;
}

struct td_row_keys *td_request_add_row_keys(struct td_request *request, int input,
                                            struct td_tensor *keys)
{
    struct td_row_keys *row_keys = &request->row_keys[request->n_row_keys++];
    *row_keys = (struct td_row_keys){ input, keys };
    return row_keys;
}
