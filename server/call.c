#include "server/call.h"

#include "api/codec.h"
#include "api/problem.h"
#include "server/clock.h"
#include "server/inflate.h"
#include "server/server.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_SHELLS = 256 };

static struct td_call *new_shell(struct td_server *server)
{
    struct td_call *call = aligned_alloc(64, (sizeof *call + 63) / 64 * 64);
    pthread_mutex_lock(&server->mutex);
    server->n_calls += call != NULL;
    pthread_mutex_unlock(&server->mutex);
    return call;
}

struct td_call *td_call_new(struct td_server *server)
{
    pthread_mutex_lock(&server->mutex);
    struct td_call *call = server->free_calls;
    if (call) {
        server->free_calls = call->next_free;
        server->n_free_calls--;
    }
    pthread_mutex_unlock(&server->mutex);
    if (!call)
        call = new_shell(server);
    if (!call)
        return NULL;
    /* All but the first block, which is scratch; the large texts of the error are set before they
     * count. */
    memset(call, 0, offsetof(struct td_call, request));
    call->accepted = call->answered = call->sending = call->close_connection = false;
    call->gone = call->decoded = call->admitted = false;
    call->error.status = TD_OK;
    memset(&call->reply, 0, sizeof call->reply);
    memset(&call->times, 0, sizeof call->times);
    call->server = server;
    call->socket = -1; /* none to look at */
    td_arena_init(&call->arena, call->first_block, sizeof call->first_block,
                  td_buffer_pool_memory(server->buffers));
    return call;
}

void td_call_free(struct td_call *call)
{
    if (!call)
        return;
    struct td_server *server = call->server;
    td_arena_reset(&call->arena);
    td_buffer_unref(call->body_buffer);
    pthread_mutex_lock(&server->mutex);
    const bool keep = server->n_free_calls < KEPT_SHELLS;
    if (keep) {
        call->next_free = server->free_calls;
        server->free_calls = call;
        server->n_free_calls++;
    } else {
        server->n_calls--;
    }
    pthread_mutex_unlock(&server->mutex);
    if (!keep)
        free(call);
}

void td_call_free_shells(struct td_server *server)
{
    while (server->free_calls) {
        struct td_call *call = server->free_calls;
        server->free_calls = call->next_free;
        free(call);
    }
    server->n_free_calls = server->n_calls = 0;
}

/* ---- the stages ----------------------------------------------------------------------------- */

size_t td_call_body_limit(const struct td_call *call)
{
    const struct td_config *config = &call->server->config;
    const size_t limit =
        (size_t)(config->max_body < config->memory_limit ? config->max_body : config->memory_limit);
    return call->body_limit > 0 && call->body_limit < limit ? call->body_limit : limit;
}

td_status td_call_expand(struct td_call *call)
{
    struct td_buffer *expanded = NULL;
    size_t bytes = 0;
    if (!call->encoded)
        return TD_OK;
    const td_status status =
        td_inflate(call->body, call->body_bytes, td_call_body_limit(call), TD_JSON_PADDING,
                   td_buffer_pool_memory(call->server->buffers), &expanded, &bytes, &call->error);
    if (status != TD_OK)
        return status;
    td_buffer_unref(call->body_buffer);
    call->body_buffer = expanded;
    call->body = expanded->data;
    call->body_bytes = bytes;
    return TD_OK;
}

/* Time since the last lap; one reading of the clock a stage. */
static int64_t lap(struct td_call *call)
{
    const int64_t now = td_now_ns(), elapsed = now - call->times.lap;
    call->times.lap = now;
    return elapsed;
}

td_status td_call_decode(struct td_call *call)
{
    td_status status = td_call_expand(call);
    if (status == TD_OK)
        status = td_codec_decode(call->body_format, call->body, call->body_bytes,
                                 td_store_resolver(call->server->store), &call->arena,
                                 &call->request, &call->error);
    call->decoded = status == TD_OK;
    call->times.decode = lap(call);
    return status;
}

/* Are the outputs within --max-output? *bytes is their sum; strings count with their offsets only,
 * their bytes are limited by the op itself, through exec. */
static td_status check_outputs(struct td_call *call, size_t *bytes)
{
    const struct td_op_args *args = &call->request.args;
    const uint64_t limit = (uint64_t)call->server->config.max_output;
    *bytes = 0;
    for (int i = 0; i < args->n_outputs; i++)
        if (!td_size_add(*bytes, td_tensor_footprint(&args->outputs[i]), bytes))
            *bytes = SIZE_MAX;
    return *bytes <= limit
               ? TD_OK
               : td_error_resource(&call->error, "output_bytes", *bytes, limit, "the output");
}

/* The same for the answer's text. It may be several times as long as the tensors' bytes; what has
 * no such reason for its length, nested lists of empty lists, say, is held to the limit itself. */
static td_status check_encoded(struct td_call *call, size_t outputs, size_t *bytes)
{
    enum { TEXT_PER_BYTE = 8 }; /* [-127, of an int8 nested in a list of its own */
    const uint64_t limit = (uint64_t)call->server->config.max_output;
    if (!td_codec_encoded_bound(call->reply_format, &call->request, bytes))
        *bytes = SIZE_MAX;
    return *bytes <= limit || *bytes / TEXT_PER_BYTE <= outputs
               ? TD_OK
               : td_error_resource(&call->error, "output_bytes", *bytes, limit,
                                   "the answer, written out,");
}

static td_status check_flops(struct td_call *call, uint64_t flops)
{
    const uint64_t limit = (uint64_t)call->server->config.max_flops;
    return limit == 0 || flops <= limit
               ? TD_OK
               : td_error_resource(&call->error, "flops", flops, limit, call->op->name);
}

/* a + b, or what is more than any memory. */
static size_t plus(size_t a, uint64_t b)
{
    size_t sum;
    return b <= SIZE_MAX && td_size_add(a, (size_t)b, &sum) ? sum : SIZE_MAX;
}

/* All that computing and writing the answer will take beside the inputs. How many threads will have
 * a hand in what one does not do alone is not known yet: as many as there may be. */
static size_t memory_needed(const struct td_call *call, size_t outputs, const struct td_cost *cost)
{
    const uint64_t threads = cost->alone ? 1 : (uint64_t)call->server->config.workers;
    uint64_t slots;
    if (__builtin_mul_overflow(cost->workspace_per_thread, threads, &slots))
        slots = UINT64_MAX;
    return plus(plus(plus(outputs, call->encoded_bound), cost->workspace), slots);
}

td_status td_call_check_device(struct td_call *call)
{
    return call->request.options.device != TD_DEVICE_GPU
               ? TD_OK
               : td_error_set(&call->error, TD_DEVICE_UNAVAILABLE,
                              "device is 'gpu', but this server has none; 'auto' or 'cpu' is "
                              "expected");
}

td_status td_call_admit(struct td_call *call)
{
    const struct td_op *op = call->op;
    struct td_op_args *args = &call->request.args;
    size_t outputs;
    td_status status = td_call_check_device(call);
    if (status == TD_OK)
        status = td_op_infer(op, args, &call->arena, &call->error);
    if (status == TD_OK)
        status = td_codec_can_encode(call->reply_format, &call->request, &call->error);
    if (status != TD_OK)
        return status;
    status = check_outputs(call, &outputs);
    if (status != TD_OK)
        return status;
    status = check_encoded(call, outputs, &call->encoded_bound);
    if (status != TD_OK)
        return status;
    const struct td_cost cost = op->cost(args);
    status = check_flops(call, cost.flops);
    if (status != TD_OK)
        return status;
    const size_t needed = memory_needed(call, outputs, &cost);
    if (needed > sizeof call->first_block / 2) { /* what is smaller fits the call itself */
        const size_t held = call->arena.taken + (call->body_buffer ? call->body_buffer->size : 0);
        status = td_buffer_pool_admit(call->server->buffers, held, needed, &call->error);
        if (status != TD_OK)
            return status;
    }
    call->admitted = true;
    return TD_OK;
}

bool td_call_client_left(const struct td_call *call)
{
    struct pollfd poller = { .fd = call->socket, .events = POLLRDHUP };
    return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Between the chunks of a long computation: is the answer still wanted? */
static td_status stopped(void *context, struct td_error *err)
{
    struct td_call *call = context;
    if (td_now_ns() > call->deadline_ns)
        return td_error_set(err, TD_DEADLINE_EXCEEDED,
                            "the deadline passed while %s was being computed", call->op->name);
    if (td_call_client_left(call)) {
        call->gone = true;
        return td_error_set(err, TD_DEADLINE_EXCEEDED,
                            "the client left while %s was being computed", call->op->name);
    }
    return TD_OK;
}

td_status td_call_compute(struct td_call *call, struct td_worker *worker)
{
    struct td_pool_exec exec;
    struct td_op_args *args = &call->request.args;
    td_status status = TD_OK;
    /* Not before: who waits in the queue holds no more than its inputs. */
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = td_tensor_alloc(&args->outputs[i], &call->arena, &call->error);
    if (status != TD_OK)
        return status;
    td_pool_exec_init(&exec, worker, &call->arena, stopped, call);
    exec.base.output_limit = (uint64_t)call->server->config.max_output;
    exec.base.isa = call->server->config.isa;
    status = call->op->run(args, &exec.base, &call->error);
    call->times.compute += lap(call);
    return status;
}

td_status td_call_encode(struct td_call *call)
{
    size_t outputs, bytes; /* how long strings are is known only now */
    td_status status = check_outputs(call, &outputs);
    if (status == TD_OK)
        status = check_encoded(call, outputs, &bytes);
    if (status == TD_OK && call->times.lap > call->deadline_ns)
        status = td_error_set(&call->error, TD_DEADLINE_EXCEEDED,
                              "the deadline passed while %s was being computed", call->op->name);
    if (status == TD_OK)
        status = td_codec_encode(call->reply_format, &call->request, &call->arena, &call->reply,
                                 &call->error);
    call->times.encode = lap(call);
    return status;
}

void td_call_refuse(struct td_call *call)
{
    /* Where memory is short, the answer takes the place of what the request held. */
    if (call->error.status == TD_MEMORY_EXHAUSTED || call->error.status == TD_RESOURCE_LIMIT) {
        call->decoded = false;
        td_arena_reset(&call->arena);
    }
    td_problem_write(&call->error, call->op ? call->op->name : NULL, call->request_id, &call->arena,
                     &call->reply);
}

/* ---- the log line --------------------------------------------------------------------------- */

/* "params[16,8] indices[4]" */
static void describe_inputs(const struct td_call *call, char *text, size_t size)
{
    size_t length = 0;
    char shape[TD_SHAPE_TEXT];
    text[0] = '\0';
    for (int i = 0; call->decoded && i < call->op->n_inputs; i++) {
        const struct td_operand *operand = &call->request.args.inputs[i];
        for (int j = 0; j < operand->count && length < size; j++)
            length += (size_t)snprintf(
                text + length, size - length, "%s%s%s", length ? " " : "", call->op->inputs[i].name,
                td_shape_text(&operand->tensors[j].shape, shape, sizeof shape));
    }
}

void td_call_log(const struct td_call *call)
{
    const struct td_log *log = &call->server->log;
    const bool failed = call->reply.http_status >= 500 && !call->gone;
    const enum td_log_level level = failed ? TD_LOG_WARN : TD_LOG_DEBUG;
    char inputs[1024];
    if (!td_log_wants(log, level))
        return;
    describe_inputs(call, inputs, sizeof inputs);
    td_log(log, level, call->gone ? "request_dropped" : "request",
           TD_TEXT("request_id", call->request_id), TD_TEXT("method", call->method),
           TD_TEXT("path", call->path), TD_TEXT("op", call->op ? call->op->name : NULL),
           TD_TEXT("inputs", inputs[0] ? inputs : NULL),
           TD_INT("status", call->gone ? 0 : call->reply.http_status),
           TD_TEXT("code",
                   call->error.status && !call->gone ? td_status_name(call->error.status) : NULL),
           TD_INT("body_bytes", call->body_bytes),
           TD_INT("reply_bytes", td_reply_bytes(&call->reply)),
           TD_MS("decode_ms", call->times.decode), TD_MS("queue_ms", call->times.queue),
           TD_MS("compute_ms", call->times.compute), TD_MS("encode_ms", call->times.encode),
           TD_TEXT("detail", call->error.status && !call->gone ? call->error.message : NULL),
           TD_TEXT("traceparent", call->headers.traceparent));
}
