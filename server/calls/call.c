#include "server/calls/call.h"

#include "api/json/decode.h"
#include "api/message/problem.h"
#include "api/oip/oip.h"
#include "kernels/integers.h"
#include "kernels/program/program.h"
#include "server/calls/client_limits.h"
#include "server/calls/drain.h"
#include "server/calls/path_table.h"
#include "server/calls/program_task.h"
#include "server/calls/reply_compression.h"
#include "server/calls/row_keys.h"
#include "server/calls/services.h"
#include "server/calls/table_reads.h"
#include "server/compression/inflate.h"
#include "server/observe/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_SHELLS = 256,
    LOOK_NS = 100000 /* minimum time between two looks at the client's socket */
};

static struct td_call_shell *new_shell(struct td_services *services)
{
    struct td_call_shell *shell = aligned_alloc(64, sizeof *shell);
    pthread_mutex_lock(&services->mutex);
    services->n_calls += shell != NULL;
    pthread_mutex_unlock(&services->mutex);
    return shell;
}

struct td_call *td_call_new(struct td_services *services)
{
    pthread_mutex_lock(&services->mutex);
    struct td_call_shell *shell = services->free_calls;
    if (shell) {
        services->free_calls = shell->next_free;
        services->n_free_calls--;
    }
    pthread_mutex_unlock(&services->mutex);
    if (!shell)
        shell = new_shell(services);
    if (!shell)
        return NULL;
    struct td_call *call = &shell->call;
    memset(call, 0, offsetof(struct td_call, error));
    call->services = services;
    call->socket = -1; /* no connection */
    call->operation = TD_OPERATION_NONE;
    call->headers.inference_header = TD_OIP_NO_HEADER;
    call->schedule.start_by_ns = TD_NEVER;
    call->error.status = TD_OK;
    td_arena_init(&call->arena, shell->block, sizeof shell->block,
                  td_buffer_pool_memory(services->buffers));
    call->arena.stop = (struct td_stop){ td_call_stopped, call };
    td_catalog_init(&call->catalog, services->store);
    return call;
}

void td_request_id_make(struct td_services *services, char id[TD_REQUEST_ID_SIZE])
{
    const uint64_t number =
        atomic_fetch_add_explicit(&services->next_request, 1, memory_order_relaxed);
    /* The odd factor makes this a bijection, so ids do not repeat before the counter wraps. */
    uint64_t digits = (number + services->request_seed) * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 16; i++, digits >>= 4)
        id[i] = "0123456789abcdef"[digits & 15];
    id[16] = '\0';
}

void td_call_free(struct td_call *call)
{
    if (!call)
        return;
    struct td_services *services = call->services;
    struct td_call_shell *shell = (struct td_call_shell *)(void *)call;
    if (call->unsent)
        atomic_fetch_sub(&services->unsent, 1);
    td_arena_reset(&call->arena);
    td_buffer_unref(call->body_buffer);
    td_client_limits_discharge(call);
    td_client_unref(call->client);
    pthread_mutex_lock(&services->mutex);
    const bool keep = services->n_free_calls < KEPT_SHELLS;
    if (keep) {
        shell->next_free = services->free_calls;
        services->free_calls = shell;
        services->n_free_calls++;
    } else {
        services->n_calls--;
    }
    pthread_mutex_unlock(&services->mutex);
    if (!keep)
        free(shell);
}

void td_call_free_shells(struct td_services *services)
{
    while (services->free_calls) {
        struct td_call_shell *shell = services->free_calls;
        services->free_calls = shell->next_free;
        free(shell);
    }
    services->n_free_calls = services->n_calls = 0;
}

/* ---- the stages ----------------------------------------------------------------------------- */

size_t td_call_body_limit(const struct td_call *call)
{
    const struct td_config *config = &call->services->config;
    const int64_t own =
        call->body_limit == TD_BODY_TENSOR ? config->tensor_quota : config->max_body;
    const size_t limit = (size_t)(own < config->memory_limit ? own : config->memory_limit);
    return call->body_limit > 0 && call->body_limit < limit ? call->body_limit : limit;
}

/* Allocator for a decompressed body. Charges the client before it allocates. */
struct charged_memory {
    struct td_memory base; /* must be first, because take_charged casts back */
    struct td_call *call;
    size_t charged;
};

static struct td_buffer *take_charged(struct td_memory *base, size_t bytes, struct td_error *err)
{
    struct charged_memory *self = (struct charged_memory *)(void *)base;
    struct td_memory *memory = td_buffer_pool_memory(self->call->services->buffers);
    const size_t more = bytes > self->charged ? bytes - self->charged : 0;
    if (td_client_limits_charge(self->call, more) != TD_OK)
        return NULL;
    self->charged += more;
    return memory->take(memory, bytes, err);
}

/* Decompresses the body. So far, the client has been charged only for the compressed body. */
static td_status expand(struct td_call *call)
{
    struct charged_memory memory = { .base = { take_charged }, .call = call };
    const size_t compressed = call->limits.charged;
    struct td_buffer *expanded = NULL;
    size_t bytes = 0;
    const struct td_inflate_limits limits = {
        .bytes = td_call_body_limit(call),
        .ratio = (size_t)call->services->config.max_expansion,
    };
    if (!call->encoded)
        return TD_OK;
    const td_status status =
        td_inflate(call->body, call->body_bytes, &limits, TD_JSON_PADDING, &memory.base,
                   &call->arena.stop, &expanded, &bytes, &call->error);
    if (status != TD_OK) {
        td_client_limits_give_back(call, memory.charged);
        return status;
    }
    td_buffer_unref(call->body_buffer);
    call->body_buffer = expanded;
    call->body = expanded->data;
    call->body_bytes = bytes;
    td_client_limits_give_back(call, compressed);
    return TD_OK;
}

/* Decodes the body. Decodes it again if the resident tensors that it names were not all current at
 * the same time (catalog.h). */
static td_status decode(struct td_call *call)
{
    enum { ROUNDS = 100 }; /* each further round needs a change in the few microseconds before it */
    const struct td_request request = call->request;
    for (int round = 0; round < ROUNDS; round++) {
        bool again;
        td_status status = call->task->decode(call);
        if (status == TD_OK)
            status = td_catalog_agree(&call->catalog, &call->arena, &again, &call->error);
        if (status != TD_OK || !again)
            return status;
        call->request = request;
    }
    return td_error_set(&call->error, TD_CONFLICT,
                        "the tensors that the request names are being replaced all the time, so "
                        "they were never current together; send it again");
}

td_status td_call_decode(struct td_call *call)
{
    td_status status = expand(call);
    if (status == TD_OK && call->task->decode)
        status = decode(call);
    if (status == TD_OK)
        call->schedule.next = TD_NEXT_ADMIT;
    td_times_end(&call->times, "decode", &call->times.decode, td_now_ns());
    return status;
}

td_status td_call_admit(struct td_call *call, struct td_admission *admission)
{
    const td_status status = call->task->admit ? call->task->admit(call, admission) : TD_OK;
    if (status == TD_OK)
        call->schedule.next = TD_NEXT_COMPUTE;
    return status;
}

td_status td_call_compute(struct td_call *call, struct td_worker *worker)
{
    const td_status status = call->task->compute ? call->task->compute(call, worker) : TD_OK;
    td_times_end(&call->times, "compute", &call->times.compute, td_now_ns());
    return status;
}

td_status td_call_change(struct td_call *call, struct td_worker *worker)
{
    const td_status status = call->task->change(call, worker);
    td_times_end(&call->times, "change", &call->times.compute, td_now_ns());
    return status;
}

td_status td_call_encode(struct td_call *call)
{
    td_status status = call->task->encode ? call->task->encode(call) : TD_OK;
    if (status == TD_OK)
        status = td_reply_compression_apply(call);
    td_times_end(&call->times, "encode", &call->times.encode, td_now_ns());
    return status;
}

/* ---- shared by tasks ------------------------------------------------------------------------- */

td_status td_call_admit_memory(struct td_call *call, size_t bytes)
{
    if (bytes <= TD_CALL_BLOCK / 2) /* fits in the call's own block */
        return TD_OK;
    const size_t held = call->arena.taken + (call->body_buffer ? call->body_buffer->size : 0);
    const td_status status =
        td_buffer_pool_admit(call->services->buffers, held, bytes, &call->error);
    return status == TD_OK ? td_client_limits_charge(call, bytes) : status;
}

void td_call_reply_json(struct td_call *call, const char *text)
{
    td_reply_set(&call->reply, 200, "application/json", text, strlen(text));
}

td_status td_call_reserve_reply(struct td_call *call)
{
    return td_arena_reserve(&call->arena, TD_ARENA_RESERVE, &call->error);
}

td_status td_call_late(struct td_call *call, const char *when)
{
    if (call->times.stage_end <= call->schedule.deadline_ns)
        return TD_OK;
    return td_error_set(&call->error, TD_DEADLINE_EXCEEDED, "the deadline passed %s", when);
}

bool td_call_client_left(const struct td_call *call)
{
    struct pollfd poller = { .fd = call->socket, .events = POLLRDHUP };
    if (call->socket < 0) /* not suspended, so skip poll() */
        return false;
    return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Returns what the call is currently doing, for example "the request was being read". */
static const char *activity(const struct td_call *call, char *text, size_t size)
{
    if (call->schedule.next == TD_NEXT_DECODE)
        return "the request was being read";
    if (call->schedule.next == TD_NEXT_ENCODE ||
        (call->schedule.next >= TD_NEXT_CHANGE && !call->task->change))
        return "the reply was being written";
    snprintf(text, size, "%s was being computed", td_call_subject(call));
    return text;
}

/* True if the client has disconnected. Looks only when LOOK_NS have passed since the last look and
 * since the start of the stage, because poll() costs as much as a small loop. */
static bool client_left(struct td_call *call, int64_t now)
{
    if (now - td_larger(call->looked_ns, call->times.stage_end) < LOOK_NS)
        return false;
    call->looked_ns = now;
    return td_call_client_left(call);
}

td_status td_call_stopped(void *context, struct td_error *err)
{
    struct td_call *call = context;
    const int64_t now = td_now_ns();
    char text[96];
    if (td_drain_stops_running(call))
        return td_drain_stop_running(activity(call, text, sizeof text), err);
    if (now > call->schedule.deadline_ns)
        return td_error_set(err, TD_DEADLINE_EXCEEDED, "the deadline passed while %s",
                            activity(call, text, sizeof text));
    if (client_left(call, now)) {
        call->gone = true;
        return td_error_set(err, TD_DEADLINE_EXCEEDED, "the client disconnected while %s",
                            activity(call, text, sizeof text));
    }
    return TD_OK;
}

void td_call_count_unsent(struct td_call *call)
{
    if (!call->unsent)
        atomic_fetch_add(&call->services->unsent, 1);
    call->unsent = true;
}

/* Releases everything that the request holds, except what its log line needs. */
static void release_request(struct td_call *call)
{
    call->request.decoded = false;
    if (call->op && td_program_of(call->op)) /* the program is in the arena */
        call->op = call->request.op = &td_posted_program;
    call->schedule.away = NULL;
    call->schedule.pass = NULL;
    td_arena_reset(&call->arena);
    td_buffer_unref(call->body_buffer);
    call->body_buffer = NULL;
    call->body = NULL;
    call->body_capacity = 0;
    td_client_limits_discharge(call);
}

/* Appends to the error the deadline that passed or would pass, and the source of this deadline. */
static void name_deadline(struct td_call *call)
{
    const bool queued = call->schedule.start_by_ns < call->schedule.deadline_ns &&
                        td_now_ns() <= call->schedule.deadline_ns;
    const size_t used = strlen(call->error.message), room = sizeof call->error.message - used;
    char *at = call->error.message + used;
    if (queued) /* the limit on the time in the queue applies */
        snprintf(at, room, " (the parameter timeout is %lld us)",
                 (long long)((call->schedule.start_by_ns - call->times.arrived) / 1000));
    else if (call->headers.timeout_ms)
        snprintf(at, room, " (X-Request-Timeout-Ms is %lld)",
                 (long long)((call->schedule.deadline_ns - call->times.begun) / 1000000));
    else
        snprintf(at, room, " (--default-timeout-ms is %lld; X-Request-Timeout-Ms sets another)",
                 (long long)call->services->config.default_timeout_ms);
}

void td_call_refuse(struct td_call *call)
{
    if (call->error.status == TD_DEADLINE_EXCEEDED && !call->gone)
        name_deadline(call);
    td_row_keys_explain_number(call);
    td_path_table_explain(call);
    const bool unknown = call->table.model && !call->table.known;
    char name[TD_TENSOR_NAME]; /* the name of a stored program can be in the arena */
    snprintf(name, sizeof name, "%s", call->op ? call->op->name : "");
    const char *op_name = call->op && !unknown ? name : NULL;
    const char *model = call->table.known ? call->table.model : op_name;
    /* If memory is short, the reply reuses the memory of the request. A delayed refusal holds no
     * memory. */
    if (call->error.status == TD_MEMORY_EXHAUSTED || call->error.status == TD_RESOURCE_LIMIT ||
        call->error.status == TD_CLIENT_LIMIT || call->schedule.refusal_due_ns)
        release_request(call);
    if (call->error.status != TD_RANGE_NOT_SATISFIABLE) /* a 416 reply keeps its Content-Range */
        call->reply.n_headers = 0;                      /* the headers were set for another reply */
    td_catalog_hide_etag(&call->catalog, &call->error);
    if (call->program && call->error.has_step) /* points into the stored text, not the body */
        call->error.has_pointer = false;
    if (call->style == TD_STYLE_OIP)
        td_oip_problem(&call->error, model, op_name, call->request_id, &call->arena, &call->reply);
    else
        td_problem_write(&call->error, op_name, call->request_id, &call->arena, &call->reply);
}

/* ---- counting ------------------------------------------------------------------------------- */

td_transport td_call_transport(const struct td_call *call)
{
    static const td_transport transports[] = { [TD_FORMAT_JSON] = TD_TRANSPORT_JSON,
                                               [TD_FORMAT_NPY] = TD_TRANSPORT_NPY,
                                               [TD_FORMAT_SAFETENSORS] = TD_TRANSPORT_SAFETENSORS,
                                               [TD_FORMAT_OIP] = TD_TRANSPORT_OIP };
    if (call->operation == TD_OPERATION_GET_TENSOR)
        return transports[call->reply_format];
    if (!call->task || call->body_limit == TD_BODY_NONE || call->operation >= TD_OPERATION_HEALTH)
        return TD_TRANSPORT_NONE;
    return call->style == TD_STYLE_OIP ? TD_TRANSPORT_OIP : transports[call->body_format];
}

size_t td_call_reply_bytes(const struct td_call *call)
{
    size_t size = 0;
    if (!call->gone && strcmp(call->method, "HEAD") != 0)
        for (int i = 0; i < call->reply.n_chunks; i++)
            size += call->reply.chunks[i].size;
    return size;
}

void td_call_count(const struct td_call *call, int shard)
{
    const struct td_request_record record = { .operation = call->operation,
                                              .transport = td_call_transport(call),
                                              .code = call->gone ? TD_CODE_GONE
                                                                 : call->reply.http_status,
                                              .error = call->gone ? TD_OK : call->error.status,
                                              .times = &call->times,
                                              .bytes_in = call->body_bytes,
                                              .bytes_out = td_call_reply_bytes(call) };
    td_metrics_count(call->services->metrics, shard, &record);
    td_table_reads_count(call, shard, record.error == TD_OK && !call->gone);
}
