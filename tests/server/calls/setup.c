#include "tests/server/calls/setup.h"

#include "api/json/decode.h"
#include "api/message/message.h"
#include "server/calls/op_task.h"
#include "server/calls/scheduler.h"
#include "server/calls/services_open.h"
#include "server/config/load.h"
#include "server/observe/clock.h"
#include "tests/server/folder.h"
#include "tests/support/tensors.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the server ------------------------------------------------------------------------------ */

struct td_services services;
static bool is_open;
static sem_t finished_calls;

enum { MOST_CALLS = 64 };
static struct td_call *calls[MOST_CALLS]; /* of call_of_bytes, that have not been freed */
static pthread_mutex_t calls_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Puts `by` in the place of `call`, NULL standing for a free place. True if there is one. */
static bool replace_call(const struct td_call *call, struct td_call *by)
{
    int i = 0;
    pthread_mutex_lock(&calls_mutex);
    while (i < MOST_CALLS && calls[i] != call)
        i++;
    if (i < MOST_CALLS)
        calls[i] = by;
    pthread_mutex_unlock(&calls_mutex);
    return i < MOST_CALLS;
}

void __real_td_call_free(struct td_call *call);
void __wrap_td_call_free(struct td_call *call);
void __wrap_td_call_free(struct td_call *call)
{
    (void)replace_call(call, NULL);
    __real_td_call_free(call);
}

void server_open(const char *const *options)
{
    enum { MOST_OPTIONS = 4 };
    /* In the environment, so that the options of a test win. */
    static char workers[] = "TENSORD_WORKERS=1", *environment[] = { workers, NULL };
    char *arguments[MOST_OPTIONS + 2] = { (char *)(uintptr_t) "tensord" };
    char message[TD_CONFIG_MESSAGE];
    int n = 1;
    server_close();
    for (; options && *options; options++)
        arguments[n++] = (char *)(uintptr_t)*options;
    memset(&services, 0, sizeof services);
    services.log.fd = -1;
    ck_assert_msg(td_config_load(&services.config, n, arguments, environment, message) ==
                      TD_CONFIG_RUN,
                  "%s", message);
    ck_assert(td_services_open(&services));
    is_open = true;
    sem_init(&finished_calls, 0, 0);
}

void server_close(void)
{
    if (!is_open)
        return;
    is_open = false;
    td_services_stop_workers(&services);
    for (int i = 0; i < MOST_CALLS; i++)
        if (calls[i])
            td_call_free(calls[i]);
    ck_assert_int_eq(atomic_load(&services.suspended), 0); /* every call was resumed */
    ck_assert_uint_eq(td_buffer_pool_usage(services.buffers).in_use, 0); /* every call was freed */
    td_services_close(&services);
    td_config_free(&services.config);
}

void server_end(void)
{
    td_arena_reset(&test_arena);
    server_close();
}

const char *data_dir_option(void)
{
    static char option[100];
    snprintf(option, sizeof option, "--data-dir=%s", folder);
    return option;
}

void put_zeros(const char *name, int n, int shift)
{
    enum { BEFORE = 10 };
    char header[200] = "\x93NUMPY\x01";
    const int size = 128 + shift;
    header[8] = (char)(size - BEFORE);
    const int length = snprintf(header + BEFORE, sizeof header - BEFORE,
                                "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }", n);
    memset(header + BEFORE + length, ' ', (size_t)(size - BEFORE - length));
    header[size - 1] = '\n';
    put_file(name, header, (size_t)size);
    ck_assert_int_eq(truncate(path_of(name), size + 4L * n), 0);
}

static void stop_worker(struct td_job *job, struct td_worker *worker)
{
    (void)worker;
    gate_pass(&((struct stopping_job *)(void *)job)->gate);
}

void stopping_job_submit(struct stopping_job *stopping)
{
    stopping->job = (struct td_job){ .deadline_ns = TD_NEVER, .run = stop_worker };
    gate_init(&stopping->gate);
    ck_assert(td_worker_pool_reserve(services.workers, NULL));
    td_worker_pool_submit(services.workers, &stopping->job);
}

static struct stopping_job holding;

void hold_worker(void)
{
    stopping_job_submit(&holding);
    gate_await(&holding.gate);
}

void release_worker(void)
{
    gate_open(&holding.gate);
}

/* ---- calls ----------------------------------------------------------------------------------- */

void call_finished(struct td_call *call)
{
    call->http.answered = true;
    sem_post(&finished_calls);
}

void await_calls(int n)
{
    for (int i = 0; i < n; i++)
        await(&finished_calls);
}

struct td_call *call_of_bytes(const char *op, const void *body, size_t bytes)
{
    struct td_call *call = td_call_new(&services);
    ck_assert_ptr_nonnull(call);
    ck_assert(replace_call(NULL, call));
    call->catalog.access = (struct td_access){ .role = TD_ACCESS_ADMIN };
    call->op = td_op_named(op, strlen(op));
    call->task = &td_op_task;
    ck_assert_ptr_nonnull(call->op);
    td_request_init(&call->request, call->op);
    call->method = "POST";
    call->path = "/v1/op";
    strcpy(call->request_id, "test");
    call->socket = -1; /* no client that could disconnect */
    call->finished = call_finished;
    call->times.begun = call->times.arrived = call->times.stage_end = td_now_ns();
    call->schedule.deadline_ns = TD_NEVER;
    char *copy = td_arena_alloc(&call->arena, bytes + TD_JSON_PADDING, 1, &call->error);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, body, bytes);
    memset(copy + bytes, 0, TD_JSON_PADDING);
    call->body = copy;
    call->body_bytes = call->body_capacity = bytes;
    return call;
}

struct td_call *call_of(const char *body)
{
    return call_of_bytes("gather", body, strlen(body));
}

struct td_call *call_from(const char *address, const char *body)
{
    struct sockaddr_in ipv4 = { .sin_family = AF_INET };
    struct td_call *call = call_of(body);
    ck_assert_int_eq(inet_aton(address, &ipv4.sin_addr), 1);
    const struct td_address mapped = td_address_map_ipv4(&ipv4.sin_addr);
    const struct td_client_key key = td_client_key_of_address(&mapped);
    call->client = td_clients_find(services.clients, &key);
    ck_assert_ptr_nonnull(call->client);
    return call;
}

char *wide_gather(int n)
{
    struct td_error err;
    char *body = td_arena_alloc(&test_arena, 1000 + 2 * (size_t)n, 1, &err), *at = body;
    ck_assert_ptr_nonnull(body);
    at += sprintf(at, "{\"params\":[[0");
    for (int i = 1; i < 100; i++)
        at += sprintf(at, ",0");
    at += sprintf(at, "]],\"indices\":[0");
    for (int i = 1; i < n; i++)
        at += sprintf(at, ",0");
    sprintf(at, "]}");
    return body;
}

void run_queued(struct td_call *call)
{
    td_schedule_submit(call);
    await_calls(1);
    ck_assert(call->http.answered);
}

void run_call(struct td_call *call)
{
    if (td_schedule(call) == TD_QUEUE)
        run_queued(call);
}

char *reply_text(const struct td_call *call)
{
    char *text = malloc(td_reply_bytes(&call->reply) + 1), *at = text;
    for (int i = 0; i < call->reply.n_chunks; i++) {
        memcpy(at, call->reply.chunks[i].data, call->reply.chunks[i].size);
        at += call->reply.chunks[i].size;
    }
    *at = '\0';
    return text;
}

void expect_reply(const struct td_call *call, int http_status, const char *part)
{
    char *text = reply_text(call);
    ck_assert_msg(call->reply.http_status == http_status, "%d: %s", call->reply.http_status, text);
    ck_assert_msg(strstr(text, part) != NULL, "no '%s' in %s", part, text);
    free(text);
}
