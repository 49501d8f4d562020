#include "api/codec.h"
#include "api/json/decode.h"
#include "api/message/attrs.h"
#include "kernels/gather/gather.h"
#include "server/calls/client_limits.h"
#include "server/calls/op_task.h"
#include "server/calls/scheduler.h"
#include "server/calls/services_open.h"
#include "server/calls/tensor_list.h"
#include "server/calls/tensor_tasks.h"
#include "server/config/load.h"
#include "server/memory/fault_guard.h"
#include "server/observe/clock.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

/* ---- a server without HTTP, and calls without a connection ----------------------------------- */

static struct td_services services;
static sem_t finished_calls;

#define MAX_ARGUMENTS 4

/* Opens the server with one worker and these options; NULL ends them. */
static void server_open(const char *const *options)
{
    static char *nothing[] = { NULL };
    char *arguments[MAX_ARGUMENTS + 3] = { (char *)(uintptr_t) "tensord",
                                           (char *)(uintptr_t) "--workers=1" };
    char message[TD_CONFIG_MESSAGE];
    int n = 2;
    for (; options && *options; options++)
        arguments[n++] = (char *)(uintptr_t)*options;
    memset(&services, 0, sizeof services);
    services.log.fd = -1;
    ck_assert_msg(td_config_load(&services.config, n, arguments, nothing, message) == TD_CONFIG_RUN,
                  "%s", message);
    ck_assert(td_services_open(&services));
    sem_init(&finished_calls, 0, 0);
}

#define OPTIONS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void server_close(void)
{
    td_services_stop_workers(&services);
    ck_assert_int_eq(atomic_load(&services.suspended), 0); /* every call was resumed */
    ck_assert_uint_eq(td_buffer_pool_stats(services.buffers).in_use, 0); /* every call was freed */
    td_services_close(&services);
    td_config_free(&services.config);
}

static void finished(struct td_call *call)
{
    call->answered = true;
    sem_post(&finished_calls);
}

/* A call whose body has arrived. */
static struct td_call *call_of_bytes(const char *op, const void *body, size_t bytes)
{
    struct td_call *call = td_call_new(&services);
    ck_assert_ptr_nonnull(call);
    call->tables.access = (struct td_access){ .role = TD_ACCESS_ADMIN };
    call->op = td_op_named(op, strlen(op));
    call->task = &td_op_task;
    ck_assert_ptr_nonnull(call->op);
    td_request_init(&call->request, call->op);
    call->method = "POST";
    call->path = "/v1/op";
    strcpy(call->request_id, "test");
    call->socket = -1; /* no client that could disconnect */
    call->finished = finished;
    call->times.begun = call->times.arrived = call->times.stage_end = td_now_ns();
    call->deadline_ns = TD_NEVER;
    char *copy = td_arena_alloc(&call->arena, bytes + TD_JSON_PADDING, 1, &call->error);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, body, bytes);
    memset(copy + bytes, 0, TD_JSON_PADDING);
    call->body = copy;
    call->body_bytes = call->body_capacity = bytes;
    return call;
}

static struct td_call *call_of(const char *body)
{
    return call_of_bytes("gather", body, strlen(body));
}

/* The body of the reply; the caller frees it. */
static char *reply_text(const struct td_call *call)
{
    char *text = malloc(td_reply_bytes(&call->reply) + 1), *at = text;
    for (int i = 0; i < call->reply.n_chunks; i++) {
        memcpy(at, call->reply.chunks[i].data, call->reply.chunks[i].size);
        at += call->reply.chunks[i].size;
    }
    *at = '\0';
    return text;
}

static void expect_reply(const struct td_call *call, int http_status, const char *part)
{
    char *text = reply_text(call);
    ck_assert_msg(call->reply.http_status == http_status, "%d: %s", call->reply.http_status, text);
    ck_assert_msg(strstr(text, part) != NULL, "no '%s' in %s", part, text);
    free(text);
}

/* Submits a call that td_schedule has queued, and waits until a worker has finished it. */
static void run_queued(struct td_call *call)
{
    td_schedule_submit(call);
    sem_wait(&finished_calls);
    ck_assert(call->answered);
}

static void run_call(struct td_call *call)
{
    if (td_schedule(call) == TD_QUEUE)
        run_queued(call);
}

/* A job that blocks the only worker until `open` is posted. */
static struct gate {
    struct td_job job;
    sem_t entered, open;
} gate;

static void wait_at_gate(struct td_job *job, struct td_worker *worker)
{
    (void)job;
    (void)worker;
    sem_post(&gate.entered);
    sem_wait(&gate.open);
}

static void gate_close(void)
{
    gate.job = (struct td_job){ .deadline_ns = TD_NEVER, .run = wait_at_gate };
    sem_init(&gate.entered, 0, 0);
    sem_init(&gate.open, 0, 0);
    ck_assert(td_worker_pool_reserve(services.workers, NULL));
    td_worker_pool_submit(services.workers, &gate.job);
    sem_wait(&gate.entered);
}

#define GATHER        "{\"params\":[10,20,30],\"indices\":[2,0]}"
#define GATHER_RESULT "[30,10]"

/* params float32[1,100] of zeros, n indices of 0: an output of 400 n bytes from a small body. */
static char *wide_gather(int n)
{
    char *body = malloc(1000 + 2 * (size_t)n), *at = body;
    at += sprintf(at, "{\"params\":[[0");
    for (int i = 1; i < 100; i++)
        at += sprintf(at, ",0");
    at += sprintf(at, "]],\"indices\":[0");
    for (int i = 1; i < n; i++)
        at += sprintf(at, ",0");
    sprintf(at, "]}");
    return body;
}

/* ---- jobs that no client waits for ----------------------------------------------------------- */

static void must_not_run(struct td_job *job, struct td_worker *worker)
{
    (void)job;
    (void)worker;
    ck_abort_msg("a job ran that was to be dropped");
}

static int drops;

static void count_drop(struct td_job *job, td_status why)
{
    (void)job;
    (void)why;
    drops++;
}

TD_TEST(a_scan_waits_for_a_free_place_in_the_queue)
{
    struct td_job_source source = { 0 };
    struct td_job jobs[3];
    server_open(OPTIONS("--queue-limit=3"));
    gate_close();
    drops = 0;
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct td_job){
            .source = &source, .deadline_ns = TD_NEVER, .run = must_not_run, .drop = count_drop
        };
        ck_assert(td_worker_pool_reserve(services.workers, &source));
        td_worker_pool_submit(services.workers, &jobs[i]);
    }
    td_services_rescan(&services, true);
    ck_assert_int_eq(drops, 0); /* as a job of another client would: it has none */
    ck_assert(td_services_is_rescanning(&services));
    td_worker_pool_expire(services.workers, td_now_ns(), true);
    td_services_rescan(&services, false); /* the next tick */
    sem_post(&gate.open);
    while (td_services_is_rescanning(&services))
        usleep(1000);
    server_close();
}

/* A folder in which an earlier server has persisted `t`. */
static void open_folder_with_tensor(char folder[64], char option[128])
{
    static const float value = 1;
    const struct td_tensor t = { .dtype = TD_DTYPE_FLOAT32,
                                 .shape = { 0 },
                                 .numel = 1,
                                 .data = (void *)(uintptr_t)&value,
                                 .bytes = sizeof value };
    const struct td_store_write write = { .name = "t", .persist = true };
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    snprintf(folder, 64, "/tmp/tensord-scheduler-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(option, 128, "--data-dir=%s", folder);
    server_open(OPTIONS(option));
    ck_assert_int_eq(
        td_store_put(services.store, &write, &t, &test_arena, &listing, &created, &err), TD_OK);
    td_arena_reset(&test_arena); /* it holds the version */
    server_close();
    server_open(OPTIONS(option));
    ck_assert(td_store_has_unverified(services.store));
}

static void remove_folder(const char *folder)
{
    static const char *const files[] = { "t.tensord", ".tensord.lock" };
    char path[128];
    for (int i = 0; i < COUNT_OF(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        ck_assert_int_eq(unlink(path), 0);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

TD_TEST(files_are_verified_by_idle_workers)
{
    char folder[64], option[128];
    open_folder_with_tensor(folder, option);
    gate_close();
    td_services_verify(&services);
    ck_assert_int_gt(td_worker_pool_room(services.workers), 0); /* it takes no place */
    sem_post(&gate.open);
    for (; td_store_has_unverified(services.store); usleep(1000))
        td_services_verify(&services);
    server_close();
    remove_folder(folder);
}

/* ---- inline or on a worker ------------------------------------------------------------------- */

TD_TEST(a_tiny_call_runs_on_the_io_thread)
{
    server_open(NULL);
    gate_close(); /* the worker is blocked */
    struct td_call *call = call_of(GATHER);
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    expect_reply(call, 200, GATHER_RESULT);
    ck_assert(!call->answered); /* finished is for workers */
    ck_assert_int_eq(call->times.queue, 0);
    td_call_free(call);
    sem_post(&gate.open);
    server_close();
}

TD_TEST(with_an_inline_limit_of_zero_every_call_is_queued)
{
    server_open(OPTIONS("--inline-limit-us=0"));
    struct td_call *call = call_of(GATHER);
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(!call->decoded);
    run_queued(call);
    expect_reply(call, 200, GATHER_RESULT);
    ck_assert_int_gt(call->times.queue, 0);
    td_call_free(call);
    server_close();
}

TD_TEST(a_large_body_is_decoded_by_a_worker)
{
    server_open(NULL);
    char *body = wide_gather(20000);
    struct td_call *call = call_of(body);
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(!call->decoded && !call->admitted);
    run_queued(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    ck_assert_int_eq(call->request.args.outputs[0].numel, 2000000);
    td_call_free(call);
    free(body);
    server_close();
}

TD_TEST(an_expensive_call_with_a_small_body_is_decoded_inline_and_computed_by_a_worker)
{
    server_open(OPTIONS("--inline-limit-us=100"));
    char *body = wide_gather(2000); /* 4 KB in, 800 KB out */
    struct td_call *call = call_of(body);
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(call->decoded && call->admitted);
    run_queued(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    td_call_free(call);
    free(body);
    server_close();
}

/* The op gather with a cost function that counts its calls. */
static int cost_calls;

static struct td_cost count_cost(const struct td_op_args *args)
{
    cost_calls++;
    return td_op_gather.cost(args);
}

TD_TEST_LOOP(the_cost_of_a_call_is_computed_once, 0, 3)
{
    static const char *const options[] = { "--inline-limit-us=1000000", "--inline-limit-us=100",
                                           "--inline-limit-us=0" };
    struct td_op counted = td_op_gather;
    char *body = wide_gather(2000);
    counted.cost = count_cost;
    cost_calls = 0;
    server_open(OPTIONS(options[_i]));
    struct td_call *call = call_of(body);
    call->op = &counted;
    td_request_init(&call->request, call->op);
    run_call(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    ck_assert_int_eq(cost_calls, 1);
    ck_assert_uint_gt(call->admission.compute_ns, 0);
    ck_assert_uint_gt(call->admission.encode_ns, 0);
    td_call_free(call);
    free(body);
    server_close();
}

/* A .npy file, version 1.0, of n int32, all 0. */
static void put_zeros(const char *path, int n)
{
    char header[128];
    const int length =
        snprintf(header + 10, 118, "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }", n);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10); /* 118 bytes of header */
    memset(header + 10 + length, ' ', (size_t)(118 - length));
    header[127] = '\n';
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(header, 1, sizeof header, file), sizeof header);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(truncate(path, 128 + 4L * n), 0);
}

/* Removes a data folder that holds nothing else any more, and the file that locks it. */
static void remove_data_folder(const char *folder)
{
    char lock[64];
    snprintf(lock, sizeof lock, "%s/.tensord.lock", folder);
    ck_assert_int_eq(unlink(lock), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

TD_TEST(a_table_that_determines_a_shape_is_read_by_a_worker)
{
    char folder[] = "/tmp/test_scheduler.XXXXXX", path[64], option[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/zeros.npy", folder);
    snprintf(option, sizeof option, "--data-dir=%s", folder);
    put_zeros(path, 1000000);
    server_open(OPTIONS(option));
    static const char body[] =
        "{\"data\":{\"ref\":\"zeros\"},\"partitions\":{\"ref\":\"zeros\"},\"num_partitions\":1}";
    struct td_call *call = call_of_bytes("dynamic_partition", body, strlen(body));
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(call->decoded && !call->admitted);
    run_queued(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    ck_assert_int_eq(call->request.args.outputs[0].numel, 1000000);
    td_call_free(call);
    server_close();
    ck_assert_int_eq(unlink(path), 0);
    remove_data_folder(folder);
}

TD_TEST(inline_and_queued_calls_have_the_same_reply)
{
    static const char *const bodies[] = {
        GATHER,
        "{\"params\":[[1.5,2],[3,4]],\"indices\":[1,-1],\"bounds\":\"zero\"}",
        "{\"params\":[1,2],\"indices\":[5]}", /* INDEX_OUT_OF_BOUNDS */
        "{\"params\":[1,2],\"indices\":[0",   /* MALFORMED_REQUEST */
        "{\"params\":{\"ref\":\"missing\"},\"indices\":[0]}",
    };
    char *texts[COUNT_OF(bodies)];
    int statuses[COUNT_OF(bodies)];
    server_open(OPTIONS("--inline-limit-us=1000000"));
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct td_call *call = call_of(bodies[i]);
        ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
        texts[i] = reply_text(call);
        statuses[i] = call->reply.http_status;
        td_call_free(call);
    }
    server_close();
    server_open(OPTIONS("--inline-limit-us=0"));
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct td_call *call = call_of(bodies[i]);
        ck_assert_int_eq(td_schedule(call), TD_QUEUE);
        run_queued(call);
        expect_reply(call, statuses[i], texts[i]);
        td_call_free(call);
        free(texts[i]);
    }
    server_close();
}

static struct td_call *finished_first;

static void finished_in_order(struct td_call *call)
{
    if (!finished_first)
        finished_first = call;
    finished(call);
}

TD_TEST(small_calls_overtake_one_that_turns_out_to_be_large)
{
    server_open(OPTIONS("--inline-limit-us=0"));
    gate_close();
    char *body = wide_gather(20000); /* 40 KB in, 8 MB out: known only after decoding */
    struct td_call *large = call_of(body), *small = call_of(GATHER);
    finished_first = NULL;
    large->finished = small->finished = finished_in_order;
    ck_assert_int_eq(td_schedule(large), TD_QUEUE);
    td_schedule_submit(large);
    ck_assert_int_eq(td_schedule(small), TD_QUEUE);
    td_schedule_submit(small);
    sem_post(&gate.open);
    sem_wait(&finished_calls);
    sem_wait(&finished_calls);
    ck_assert_ptr_eq(finished_first, small);
    expect_reply(small, 200, GATHER_RESULT);
    ck_assert_int_eq(large->reply.http_status, 200);
    td_call_free(large);
    td_call_free(small);
    free(body);
    server_close();
}

TD_TEST(any_compressed_body_is_decoded_by_a_worker)
{
    static const char body[] = GATHER;
    unsigned char packed[200];
    uLongf size = sizeof packed;
    ck_assert_int_eq(compress(packed, &size, (const Bytef *)body, sizeof body - 1), Z_OK);
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *call = call_of_bytes("gather", packed, size);
    call->headers.content_encoding = "deflate";
    call->encoded = true;
    struct td_memory *memory = td_buffer_pool_memory(services.buffers);
    call->body_buffer = memory->take(memory, size, &call->error); /* as when it has arrived */
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    run_queued(call);
    expect_reply(call, 200, GATHER_RESULT);
    td_call_free(call);
    call = call_of(GATHER); /* not compressed, unlike its header */
    call->headers.content_encoding = "gzip";
    call->encoded = true;
    run_call(call);
    expect_reply(call, 400, "MALFORMED_REQUEST");
    td_call_free(call);
    server_close();
}

TD_TEST(a_call_reuses_the_memory_of_a_freed_call)
{
    server_open(NULL);
    struct td_call *first = call_of("{\"params\":[1],\"indices\":[9]}");
    ck_assert_int_eq(td_schedule(first), TD_ANSWERED);
    ck_assert_int_eq(first->error.status, TD_INDEX_OUT_OF_BOUNDS);
    first->gone = first->close_connection = true;
    td_call_free(first);
    struct td_call *second = call_of(GATHER);
    ck_assert_ptr_eq(second, first);
    ck_assert_int_eq(second->error.status, TD_OK);
    ck_assert(!second->gone && !second->close_connection && !second->decoded && !second->admitted);
    ck_assert_int_eq(td_schedule(second), TD_ANSWERED);
    expect_reply(second, 200, GATHER_RESULT);
    td_call_free(second);
    server_close();
}

TD_TEST(the_memory_of_at_most_256_freed_calls_is_kept)
{
    enum { KEPT = 256, N = KEPT + 10 };
    static struct td_call *calls[N];
    server_open(NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            ck_assert_ptr_nonnull(calls[i] = td_call_new(&services));
        ck_assert_int_eq(services.n_free_calls, 0);
        ck_assert_int_eq(services.n_calls, N);
        for (int i = 0; i < N; i++)
            td_call_free(calls[i]);
        ck_assert_int_eq(services.n_free_calls, KEPT);
        ck_assert_int_eq(services.n_calls, KEPT);
    }
    server_close();
}

static const char *header_of(const struct td_call *call, const char *name)
{
    for (int i = 0; i < call->reply.n_headers; i++)
        if (strcmp(call->reply.headers[i].name, name) == 0)
            return call->reply.headers[i].value;
    return NULL;
}

/* A lookup of a string of this many letters, whose client accepts gzip. */
static struct td_call *letters_for_gzip(int letters)
{
    char body[1024];
    snprintf(body, sizeof body, "{\"params\":[\"%0*d\"],\"indices\":[0]}", letters, 0);
    struct td_call *call = call_of(body);
    call->negotiated = true;
    call->encoding = TD_ENCODING_GZIP;
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    ck_assert_int_eq(call->reply.http_status, 200);
    return call;
}

TD_TEST(replies_of_512_bytes_and_more_are_compressed)
{
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *call = letters_for_gzip(100);
    const int letters = 512 - ((int)td_reply_bytes(&call->reply) - 100);
    td_call_free(call);
    call = letters_for_gzip(letters - 1);
    ck_assert_uint_eq(td_reply_bytes(&call->reply), 511);
    ck_assert_ptr_null(header_of(call, "Content-Encoding"));
    ck_assert_ptr_null(header_of(call, "Vary"));
    td_call_free(call);
    call = letters_for_gzip(letters);
    ck_assert_str_eq(header_of(call, "Content-Encoding"), "gzip");
    ck_assert_str_eq(header_of(call, "Vary"), "Accept-Encoding");
    td_call_free(call);
    server_close();
}

/* ---- refusals -------------------------------------------------------------------------------- */

TD_TEST(an_error_has_no_headers_of_the_reply_that_it_replaces)
{
    server_open(NULL);
    struct td_call *call = call_of(GATHER);
    td_reply_header(&call->reply, "ETag", "\"1\"");
    ck_assert_int_eq(td_error_set(&call->error, TD_DRAINING, "the server stops"), TD_DRAINING);
    td_call_refuse(call);
    expect_reply(call, 503, "DRAINING");
    ck_assert_ptr_null(header_of(call, "ETag"));
    td_call_free(call);
    server_close();
}

TD_TEST(a_full_queue_refuses_with_retry_after)
{
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=1"));
    gate_close();
    struct td_call *waits = call_of(GATHER), *refused = call_of(GATHER);
    ck_assert_int_eq(td_schedule(waits), TD_QUEUE);
    ck_assert_int_eq(td_schedule(refused), TD_ANSWERED);
    ck_assert_int_eq(refused->error.status, TD_QUEUE_FULL);
    ck_assert_uint_ge(refused->error.retry_after_s, 1);
    expect_reply(refused, 429, "QUEUE_FULL");
    td_call_free(refused);
    sem_post(&gate.open);
    run_queued(waits);
    expect_reply(waits, 200, GATHER_RESULT);
    td_call_free(waits);
    server_close();
}

/* A call of the client with this IPv4 address. */
static struct td_call *call_from(const char *address, const char *body)
{
    struct sockaddr_in ipv4 = { .sin_family = AF_INET };
    struct td_client_key key;
    struct td_call *call = call_of(body);
    ck_assert_int_eq(inet_aton(address, &ipv4.sin_addr), 1);
    ck_assert(td_client_key_of((const struct sockaddr *)(const void *)&ipv4, &key));
    call->client = td_clients_find(services.clients, &key);
    ck_assert_ptr_nonnull(call->client);
    return call;
}

TD_TEST(a_client_with_fewer_calls_gets_a_place_in_a_full_queue)
{
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=2"));
    gate_close();
    struct td_call *first = call_from("10.0.0.1", GATHER), *second = call_from("10.0.0.1", GATHER);
    struct td_call *other = call_from("10.0.0.2", GATHER), *late = call_from("10.0.0.2", GATHER);
    ck_assert_int_eq(td_schedule(first), TD_QUEUE);
    td_schedule_submit(first);
    ck_assert_int_eq(td_schedule(second), TD_QUEUE);
    td_schedule_submit(second);
    ck_assert_int_eq(td_schedule(other), TD_QUEUE);
    sem_wait(&finished_calls); /* the second one */
    ck_assert_int_eq(second->error.status, TD_QUEUE_FULL);
    ck_assert_uint_ge(second->error.retry_after_s, 1);
    expect_reply(second, 429, "QUEUE_FULL");
    td_schedule_submit(other);
    ck_assert_int_eq(td_schedule(late), TD_ANSWERED); /* each has one */
    expect_reply(late, 429, "QUEUE_FULL");
    sem_post(&gate.open);
    sem_wait(&finished_calls);
    sem_wait(&finished_calls);
    expect_reply(first, 200, GATHER_RESULT);
    expect_reply(other, 200, GATHER_RESULT);
    td_call_free(first);
    td_call_free(second);
    td_call_free(other);
    td_call_free(late);
    server_close();
}

TD_TEST(the_refusal_of_a_client_that_retries_at_once_waits_and_holds_nothing)
{
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=1"));
    gate_close();
    char *body = wide_gather(50000);
    struct td_call *waits = call_from("10.0.0.1", GATHER), *refused = call_from("10.0.0.2", body);
    struct td_call *hot = call_from("10.0.0.2", body), *other = call_from("10.0.0.3", GATHER);
    ck_assert_int_eq(td_schedule(waits), TD_QUEUE);
    ck_assert_int_eq(td_schedule(refused), TD_ANSWERED);
    ck_assert_uint_gt(hot->arena.taken, 0);
    ck_assert_int_eq(td_schedule(hot), TD_QUEUE);
    ck_assert_uint_eq(hot->arena.taken, 0);
    expect_reply(hot, 429, "QUEUE_FULL");
    ck_assert_int_eq(td_schedule(other), TD_ANSWERED); /* it was not refused before */
    ck_assert(!hot->answered);
    run_queued(hot);
    expect_reply(hot, 429, "QUEUE_FULL");
    sem_post(&gate.open);
    run_queued(waits);
    td_call_free(waits);
    td_call_free(refused);
    td_call_free(hot);
    td_call_free(other);
    free(body);
    server_close();
}

TD_TEST(a_displaced_call_does_not_count_while_its_refusal_waits)
{
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=2", "--client-requests=2"));
    gate_close();
    struct td_call *first = call_from("10.0.0.1", GATHER), *second = call_from("10.0.0.1", GATHER);
    struct td_call *other = call_from("10.0.0.2", GATHER);
    struct td_client *client = first->client;
    (void)td_refusals_record(&client->refused, td_now_ns(), 60); /* refused, and retries at once */
    ck_assert_int_eq(td_schedule(first), TD_QUEUE);
    td_schedule_submit(first);
    ck_assert_int_eq(td_schedule(second), TD_QUEUE);
    td_schedule_submit(second);
    ck_assert_int_eq(atomic_load(&client->requests), 2);
    ck_assert_int_eq(td_schedule(other), TD_QUEUE);
    ck_assert_int_gt(second->refusal_due_ns, 0);
    ck_assert_int_eq(atomic_load(&client->requests), 1);
    td_schedule_submit(other);
    sem_post(&gate.open);
    for (int i = 0; i < 3; i++)
        sem_wait(&finished_calls);
    expect_reply(second, 429, "QUEUE_FULL");
    ck_assert_int_eq(atomic_load(&client->requests), 0);
    td_call_free(first);
    td_call_free(second);
    td_call_free(other);
    server_close();
}

TD_TEST(the_queued_and_running_calls_of_a_client_have_a_limit)
{
    server_open(OPTIONS("--inline-limit-us=0", "--client-requests=2"));
    gate_close();
    struct td_call *calls[5];
    for (int i = 0; i < 5; i++)
        calls[i] = call_from(i == 3 ? "10.0.0.2" : "10.0.0.1", GATHER);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(td_schedule(calls[i]), i == 2 ? TD_ANSWERED : TD_QUEUE);
        if (i != 2)
            td_schedule_submit(calls[i]);
    }
    ck_assert_uint_ge(calls[2]->error.retry_after_s, 1);
    ck_assert_str_eq(calls[2]->error.resource, "requests");
    expect_reply(calls[2], 429, "the most that --client-requests allows");
    sem_post(&gate.open);
    for (int i = 0; i < 3; i++)
        sem_wait(&finished_calls);
    run_call(calls[4]);
    expect_reply(calls[4], 200, GATHER_RESULT);
    ck_assert_int_eq(atomic_load(&calls[4]->client->requests), 0);
    for (int i = 0; i < 5; i++)
        td_call_free(calls[i]);
    server_close();
}

TD_TEST(the_calls_of_a_client_have_a_limit_on_memory)
{
    server_open(OPTIONS("--inline-limit-us=1000000", "--client-memory=1M"));
    char *half = wide_gather(2000), *more = wide_gather(4000); /* outputs of 0.8 and 1.6 MB */
    struct td_call *only = call_from("10.0.0.1", more);
    run_call(only);
    ck_assert_int_eq(only->reply.http_status, 200); /* alone it may exceed the limit */
    td_call_free(only);
    struct td_call *first = call_from("10.0.0.1", half), *second = call_from("10.0.0.1", half);
    struct td_call *other = call_from("10.0.0.2", half), *third = call_from("10.0.0.1", half);
    run_call(first);
    ck_assert_int_eq(first->reply.http_status, 200);
    run_call(second);
    ck_assert_str_eq(second->error.resource, "memory_bytes");
    ck_assert_uint_eq(second->error.limit, 1 << 20);
    expect_reply(second, 429, "--client-memory allows 1048576");
    run_call(other);
    ck_assert_int_eq(other->reply.http_status, 200);
    td_call_free(first);
    run_call(third);
    ck_assert_int_eq(third->reply.http_status, 200);
    struct td_client *client = td_client_ref(third->client);
    td_call_free(second);
    td_call_free(third);
    td_call_free(other);
    ck_assert_uint_eq(atomic_load(&client->memory_bytes), 0);
    td_client_unref(client);
    free(half);
    free(more);
    server_close();
}

TD_TEST(a_client_may_use_exactly_its_memory)
{
    server_open(OPTIONS("--client-memory=1M"));
    struct td_call *calls[3];
    for (int i = 0; i < 3; i++)
        calls[i] = call_from("10.0.0.1", GATHER);
    ck_assert_int_eq(td_client_limits_charge(calls[0], 1000), TD_OK);
    ck_assert_int_eq(td_client_limits_charge(calls[1], (1 << 20) - 999), TD_CLIENT_LIMIT);
    ck_assert_int_eq(td_client_limits_charge(calls[1], (1 << 20) - 1000), TD_OK);
    ck_assert_int_eq(td_client_limits_charge(calls[2], 1), TD_CLIENT_LIMIT);
    for (int i = 0; i < 3; i++)
        td_call_free(calls[i]);
    server_close();
}

/* A compressed body that expands to `bytes` spaces. */
static struct td_call *call_with_spaces(size_t bytes)
{
    uLongf size = compressBound(bytes);
    char *spaces = malloc(bytes);
    unsigned char *packed = malloc(size);
    memset(spaces, ' ', bytes);
    ck_assert_int_eq(compress(packed, &size, (const Bytef *)spaces, bytes), Z_OK);
    struct td_call *other = call_from("10.0.0.1", GATHER);
    struct td_call *call = call_of_bytes("gather", packed, size);
    call->client = td_client_ref(other->client);
    call->encoded = true;
    td_call_free(other);
    free(spaces);
    free(packed);
    return call;
}

TD_TEST(a_client_is_charged_for_the_expanded_body_instead_of_the_compressed_one)
{
    server_open(OPTIONS("--max-expansion=0"));
    struct td_call *call = call_with_spaces(1 << 20);
    struct td_client *client = td_client_ref(call->client);
    ck_assert_int_eq(td_client_limits_charge(call, 50000), TD_OK); /* as when the body arrives */
    ck_assert_int_ne(td_call_decode(call), TD_OK);                 /* spaces are no request */
    ck_assert_ptr_nonnull(call->body_buffer);
    ck_assert_uint_ge(atomic_load(&client->memory_bytes), 1 << 20);
    ck_assert_uint_le(atomic_load(&client->memory_bytes), call->body_buffer->size);
    td_call_free(call);
    ck_assert_uint_eq(atomic_load(&client->memory_bytes), 0);
    td_client_unref(client);
    server_close();
}

TD_TEST(a_body_that_expands_beyond_the_memory_of_its_client_is_refused_before_memory_is_taken)
{
    server_open(OPTIONS("--max-expansion=0", "--client-memory=1M"));
    struct td_call *holds = call_from("10.0.0.1", GATHER), *call = call_with_spaces(8 << 20);
    struct td_client *client = td_client_ref(call->client);
    ck_assert_int_eq(td_client_limits_charge(holds, 1000), TD_OK);
    run_call(call);
    ck_assert_str_eq(call->error.resource, "memory_bytes");
    expect_reply(call, 429, "CLIENT_LIMIT");
    const struct td_buffer_pool_stats stats = td_buffer_pool_stats(services.buffers);
    ck_assert_uint_le(stats.in_use + stats.warm, 2 << 20);
    ck_assert_uint_eq(atomic_load(&client->memory_bytes), 1000);
    td_call_free(call);
    td_call_free(holds);
    td_client_unref(client);
    server_close();
}

TD_TEST(a_call_refused_by_a_full_queue_releases_its_memory)
{
    server_open(OPTIONS("--inline-limit-us=100", "--queue-limit=1"));
    gate_close();
    char *body = wide_gather(2000);
    struct td_call *waits = call_of(body), *refused = call_of(body);
    ck_assert_int_eq(td_schedule(waits), TD_QUEUE);
    const uint64_t in_use = td_buffer_pool_stats(services.buffers).in_use;
    ck_assert_uint_lt(in_use, 800000); /* an output is allocated when it is computed */
    ck_assert_int_eq(td_schedule(refused), TD_ANSWERED);
    ck_assert_int_eq(refused->error.status, TD_QUEUE_FULL);
    td_call_free(refused);
    ck_assert_uint_eq(td_buffer_pool_stats(services.buffers).in_use, in_use);
    sem_post(&gate.open);
    run_queued(waits);
    td_call_free(waits);
    free(body);
    server_close();
}

TD_TEST(a_deadline_that_cannot_be_met_is_refused_on_arrival)
{
    server_open(OPTIONS("--inline-limit-us=0"));
    gate_close();
    char *body = wide_gather(50000); /* estimated at 300 us */
    struct td_call *waits = call_from("10.0.0.1", body), *late = call_from("10.0.0.1", body);
    struct td_call *other = call_from("10.0.0.2", body), *patient = call_from("10.0.0.1", body);
    for (int i = 0; i < 10; i++)
        td_worker_pool_measure(services.workers, 100000, 5000000); /* it takes 15 ms */
    late->deadline_ns = late->times.stage_end + 5000000;
    other->deadline_ns = TD_NEVER - 1;
    patient->deadline_ns = patient->times.stage_end + 60000000000;
    ck_assert_int_eq(td_schedule(waits), TD_QUEUE);
    td_schedule_submit(waits);
    ck_assert_int_eq(td_schedule(late), TD_ANSWERED);
    ck_assert(!late->decoded);
    ck_assert_uint_ge(late->error.retry_after_s, 1);
    expect_reply(late, 504, "the request would wait for a worker");
    struct td_call *const accepted[] = { other, patient };
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        ck_assert_int_eq(td_schedule(accepted[i]), TD_QUEUE);
        td_schedule_submit(accepted[i]);
    }
    sem_post(&gate.open);
    for (int i = 0; i < 3; i++)
        sem_wait(&finished_calls);
    td_call_free(waits);
    td_call_free(late);
    td_call_free(other);
    td_call_free(patient);
    free(body);
    server_close();
}

TD_TEST_LOOP(a_call_past_its_deadline_is_refused_before_any_work, 0, 2)
{
    server_open(OPTIONS(_i ? "--inline-limit-us=0" : "--inline-limit-us=20"));
    struct td_call *call = call_of(GATHER);
    call->deadline_ns = call->times.stage_end - 1; /* the body arrived after it */
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    ck_assert(!call->decoded);
    expect_reply(call, 504, "DEADLINE_EXCEEDED");
    td_call_free(call);
    server_close();
}

/* Ways in which a queued call ends without being computed. */
static const struct {
    const char *description;
    bool deadline_passes, expire, everything;
    int http_status;
    const char *code;
} waits[] = {
    { "a worker takes it after its deadline", true, false, false, 504,
      "passed while the request waited" },
    { "it expires in the queue", true, true, false, 504, "passed while the request waited" },
    { "the server stops", false, true, true, 503, "DRAINING" },
    { "nothing", false, true, false, 200, GATHER_RESULT },
};

TD_TEST_EACH(a_queued_call_may_expire_or_be_dropped, waits)
{
    server_open(OPTIONS("--inline-limit-us=0"));
    gate_close();
    struct td_call *call = call_of(GATHER);
    call->deadline_ns = td_now_ns() + (waits[_i].deadline_passes ? 2000000 : 60000000000);
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    td_schedule_submit(call);
    while (waits[_i].deadline_passes && td_now_ns() <= call->deadline_ns)
        usleep(100);
    if (waits[_i].expire)
        td_worker_pool_expire(services.workers, td_now_ns(), waits[_i].everything);
    sem_post(&gate.open);
    sem_wait(&finished_calls);
    expect_reply(call, waits[_i].http_status, waits[_i].code);
    ck_assert_int_ge(call->times.queue, 0);
    td_call_free(call);
    server_close();
}

/* An inference request of the Open Inference Protocol with this `timeout`, in microseconds. */
static struct td_call *call_with_timeout(uint64_t timeout_us)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"parameters\":{\"timeout\":%llu},\"inputs\":["
             "{\"name\":\"params\",\"shape\":[2],\"datatype\":\"INT32\",\"data\":[7,8]},"
             "{\"name\":\"indices\",\"shape\":[1],\"datatype\":\"INT32\",\"data\":[1]}]}",
             (unsigned long long)timeout_us);
    struct td_call *call = call_of(body);
    call->style = TD_STYLE_OIP;
    ck_assert_int_eq(call->task->begin(call), TD_OK);
    return call;
}

static const struct {
    const char *description, *limit; /* whether the I/O thread decodes the body, or a worker */
    uint64_t timeout_us;
    int http_status;
    const char *part;
} timeouts[] = {
    { "beyond 64 bits of nanoseconds", "--inline-limit-us=0", INT64_MAX, 200, "[8]" },
    { "whose nanoseconds would wrap to few", "--inline-limit-us=0", UINT64_C(18446744073709552),
      200, "[8]" },
    { "decoded by the worker, too late", "--inline-limit-us=0", 1000, 504, "DEADLINE_EXCEEDED" },
    { "decoded by the worker, in time", "--inline-limit-us=0", 60000000, 200, "[8]" },
    { "none", "--inline-limit-us=0", 0, 200, "[8]" },
    { "a call that runs inline does not wait", "--inline-limit-us=1000000", 1, 200, "[8]" },
};

TD_TEST_EACH(a_request_may_limit_its_time_in_the_queue, timeouts)
{
    server_open(OPTIONS(timeouts[_i].limit));
    gate_close();
    struct td_call *call = call_with_timeout(timeouts[_i].timeout_us);
    const td_verdict verdict = td_schedule(call);
    if (verdict == TD_QUEUE)
        td_schedule_submit(call);
    usleep(5000);
    sem_post(&gate.open);
    if (verdict == TD_QUEUE)
        sem_wait(&finished_calls);
    expect_reply(call, timeouts[_i].http_status, timeouts[_i].part);
    td_call_free(call);
    server_close();
}

static struct gate second_gate;

static void wait_at_second_gate(struct td_job *job, struct td_worker *worker)
{
    (void)job;
    (void)worker;
    sem_post(&second_gate.entered);
    sem_wait(&second_gate.open);
}

/* The rest of a call that turns out to be large waits again. */
TD_TEST(a_limit_of_the_body_also_ends_the_second_wait_in_the_queue)
{
    enum { N = 20000 };
    char *body = malloc(1000 + 2 * N), *at = body;
    at += sprintf(at, "{\"parameters\":{\"timeout\":30000000},\"inputs\":["
                      "{\"name\":\"params\",\"shape\":[1,100],\"datatype\":\"FP32\",\"data\":[0");
    for (int i = 1; i < 100; i++)
        at += sprintf(at, ",0");
    at += sprintf(at, "]},{\"name\":\"indices\",\"shape\":[%d],\"datatype\":\"INT32\",\"data\":[0",
                  N);
    for (int i = 1; i < N; i++)
        at += sprintf(at, ",0");
    sprintf(at, "]}]}");
    server_open(OPTIONS("--inline-limit-us=0"));
    gate_close();
    struct td_call *large = call_of(body);
    large->style = TD_STYLE_OIP;
    ck_assert_int_eq(large->task->begin(large), TD_OK);
    ck_assert_int_eq(td_schedule(large), TD_QUEUE);
    td_schedule_submit(large);
    second_gate.job = (struct td_job){ .deadline_ns = TD_NEVER, .run = wait_at_second_gate };
    sem_init(&second_gate.entered, 0, 0);
    sem_init(&second_gate.open, 0, 0);
    ck_assert(td_worker_pool_reserve(services.workers, NULL));
    td_worker_pool_submit(services.workers, &second_gate.job);
    sem_post(&gate.open);
    sem_wait(&second_gate.entered); /* after the large call was decoded and put back */
    ck_assert(large->decoded && !large->answered);
    td_worker_pool_expire(services.workers, td_now_ns() + 60000000000, false);
    sem_wait(&finished_calls);
    expect_reply(large, 504, "DEADLINE_EXCEEDED");
    ck_assert(!large->computed);
    sem_post(&second_gate.open);
    td_call_free(large);
    free(body);
    server_close();
}

static td_status compute_blocking(struct td_call *call, struct td_worker *worker)
{
    ck_assert_ptr_nonnull(worker);
    td_reply_set(&call->reply, 200, "text/plain", "done", 4);
    return TD_OK;
}

TD_TEST(a_call_that_may_block_is_queued_as_a_large_job)
{
    static const struct td_task blocking = { .compute = compute_blocking };
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *call = call_of("");
    call->task = &blocking;
    call->must_queue = true;
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(!call->decoded);
    /* A small job could run between two chunks of another job's loop and block it. */
    ck_assert_uint_ge(call->job.cost_ns, TD_JOB_SMALL_NS);
    run_queued(call);
    expect_reply(call, 200, "done");
    td_call_free(call);
    server_close();
}

TD_TEST(a_call_that_stores_its_result_is_queued)
{
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *call = call_of("{\"params\":[1],\"indices\":[0],\"store\":\"kept\"}");
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    run_queued(call);
    expect_reply(call, 200, "\"name\":\"kept\"");
    td_call_free(call);
    ck_assert_int_eq(td_store_stats(services.store).tensors, 1);
    struct td_error err;
    ck_assert_int_eq(
        td_store_delete(services.store, &(struct td_store_write){ .name = "kept" }, &err), TD_OK);
    server_close();
}

TD_TEST(a_call_found_to_store_its_result_becomes_a_large_job)
{
    server_open(OPTIONS("--inline-limit-us=0")); /* queued before it is decoded, as a small job */
    struct td_call *call = call_of("{\"params\":[1],\"indices\":[0],\"store\":\"kept\"}");
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert_uint_lt(call->job.cost_ns, TD_JOB_SMALL_NS);
    run_queued(call);
    ck_assert_uint_ge(call->job.cost_ns, TD_JOB_SMALL_NS);
    expect_reply(call, 200, "\"name\":\"kept\"");
    td_call_free(call);
    struct td_error err;
    ck_assert_int_eq(
        td_store_delete(services.store, &(struct td_store_write){ .name = "kept" }, &err), TD_OK);
    server_close();
}

/* A GET of the tensor "words" as text. */
static struct td_call *get_words(void)
{
    struct td_call *call = call_of("");
    call->op = NULL;
    call->task = &td_tensor_get_task;
    call->method = "GET";
    call->arguments[0] = "words";
    ck_assert_int_eq(call->task->begin(call), TD_OK);
    ck_assert_int_eq(call->task->argument(call, "response", 8, "flat", 4), TD_OK);
    return call;
}

TD_TEST(strings_are_measured_by_a_worker)
{
    enum { LENGTH = 100000 };
    static char letters[LENGTH];
    uint64_t offsets[] = { 0, LENGTH };
    struct td_tensor t = { .dtype = TD_DTYPE_STRING,
                           .shape = { 1, { 1 } },
                           .numel = 1,
                           .bytes = LENGTH,
                           .data = letters,
                           .offsets = offsets };
    const struct td_store_write write = { .name = "words" };
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    memset(letters, 'x', LENGTH);
    server_open(OPTIONS("--inline-limit-us=10"));
    ck_assert_int_eq(
        td_store_put(services.store, &write, &t, &test_arena, &listing, &created, &err), TD_OK);
    struct td_call *call = get_words();
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(!call->admitted);
    run_queued(call);
    expect_reply(call, 200, "\"xxxx");
    td_call_free(call);
    ck_assert_int_eq(td_store_delete(services.store, &write, &err), TD_OK);
    td_arena_reset(&test_arena);
    server_close();
}

TD_TEST(a_tensor_decoded_from_json_is_stored_without_a_copy)
{
    enum { NUMBERS = 100000 };
    static char body[2 * NUMBERS + 2];
    struct td_error err;
    for (int i = 0; i < NUMBERS; i++)
        memcpy(body + 2 * i, i == 0 ? "[1" : ",1", 2);
    body[2 * NUMBERS] = ']';
    server_open(NULL);
    struct td_call *call = call_of(body);
    call->op = NULL;
    call->task = &td_tensor_put_task;
    call->arguments[0] = "ones";
    ck_assert_int_eq(call->task->begin(call), TD_OK);
    call->body_format = TD_FORMAT_JSON;
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    run_queued(call);
    expect_reply(call, 201, "\"shape\":[100000]");
    ck_assert_uint_lt(td_buffer_pool_stats(services.buffers).in_use,
                      call->arena.taken + NUMBERS * sizeof(float));
    td_call_free(call);
    ck_assert_uint_ge(td_buffer_pool_stats(services.buffers).in_use, NUMBERS * sizeof(float));
    ck_assert_int_eq(
        td_store_delete(services.store, &(struct td_store_write){ .name = "ones" }, &err), TD_OK);
    server_close();
}

TD_TEST(a_long_list_of_tensors_is_encoded_by_a_worker)
{
    const struct td_tensor t = tensor("int8[1] 1");
    struct td_tensor_listing listing;
    struct td_error err;
    char name[16];
    bool created;
    server_open(OPTIONS("--inline-limit-us=100"));
    for (int i = 0; i < 1000; i++) {
        const struct td_store_write write = { .name = name };
        snprintf(name, sizeof name, "t%d", i);
        struct td_call *call = call_of("");
        call->task = &td_tensor_list_task;
        ck_assert_int_eq(call->task->begin(call), TD_OK);
        if (i == 5) {
            ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
            expect_reply(call, 200, "\"t4\"");
        } else if (i == 999) {
            ck_assert_int_eq(td_schedule(call), TD_QUEUE);
            run_queued(call);
            expect_reply(call, 200, "\"t998\"");
        }
        td_call_free(call);
        ck_assert_int_eq(
            td_store_put(services.store, &write, &t, &test_arena, &listing, &created, &err), TD_OK);
    }
    td_arena_reset(&test_arena);
    server_close();
}

TD_TEST_LOOP(without_a_gpu_device_gpu_is_unavailable, 0, 2)
{
    server_open(OPTIONS(_i ? "--inline-limit-us=0" : "--inline-limit-us=20"));
    struct td_call *call = call_of("{\"params\":[1],\"indices\":[0],\"device\":\"gpu\"}");
    run_call(call);
    ck_assert_int_eq(call->error.status, TD_DEVICE_UNAVAILABLE);
    expect_reply(call, 503, "DEVICE_UNAVAILABLE");
    td_call_free(call);
    call = call_of("{\"params\":[1],\"indices\":[0],\"device\":\"auto\"}");
    run_call(call);
    expect_reply(call, 200, "[1]");
    td_call_free(call);
    server_close();
}

/* Takes the place in the queue that the call has left. */
static struct td_call *filling;

static td_status decode_and_fill_the_queue(struct td_call *call)
{
    const td_status status = td_op_task.decode(call);
    ck_assert_int_eq(td_schedule(filling), TD_QUEUE);
    return status;
}

TD_TEST_LOOP(a_call_that_finds_no_place_to_wait_for_the_device_is_refused_or_runs_on_the_cpu, 0, 2)
{
    const bool gpu_only = _i == 1;
    struct td_task task = td_op_task;
    task.decode = decode_and_fill_the_queue;
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=1", "--gpu=reference"));
    struct td_call *call =
        call_of(gpu_only ? "{\"params\":[1],\"indices\":[0],\"device\":\"gpu\"}"
                         : "{\"params\":[1],\"indices\":[0],\"device\":\"auto\"}");
    call->task = &task;
    filling = call_of(GATHER);
    run_call(call);
    ck_assert_int_eq(call->error.status, gpu_only ? TD_QUEUE_FULL : TD_OK);
    expect_reply(call, gpu_only ? 429 : 200, gpu_only ? "QUEUE_FULL" : "[1]");
    ck_assert_int_eq(call->error.retry_after_s >= 1, gpu_only);
    run_queued(filling);
    expect_reply(filling, 200, GATHER_RESULT);
    td_call_free(filling);
    td_call_free(call);
    server_close();
}

TD_TEST(an_output_above_the_limit_is_refused_before_it_is_allocated)
{
    server_open(OPTIONS("--inline-limit-us=1000000", "--max-output=40K"));
    char *body = wide_gather(103); /* 41200 bytes; the limit is 40960 */
    struct td_call *call = call_of(body);
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    ck_assert_int_eq(call->error.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call->error.resource, "output_bytes");
    ck_assert_uint_eq(call->error.needed, 41200);
    ck_assert_uint_eq(call->error.limit, 40960);
    ck_assert_int_eq(call->times.compute, 0); /* nothing was computed */
    ck_assert_uint_eq(td_buffer_pool_stats(services.buffers).in_use, 0);
    expect_reply(call, 422, "RESOURCE_LIMIT");
    td_call_free(call);
    free(body);
    body = wide_gather(102); /* 40800 bytes */
    call = call_of(body);
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    ck_assert_int_eq(call->reply.http_status, 200);
    td_call_free(call);
    free(body);
    server_close();
}

TD_TEST(an_output_of_exactly_the_limit_is_computed)
{
    static const char *const limits[] = { "--max-output=40800", "--max-output=40799" };
    char *body = wide_gather(102); /* 40800 bytes */
    for (int i = 0; i < 2; i++) {
        server_open(OPTIONS("--inline-limit-us=1000000", limits[i]));
        struct td_call *call = call_of(body);
        ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
        ck_assert_int_eq(call->reply.http_status, i == 0 ? 200 : 422);
        td_call_free(call);
        server_close();
    }
    free(body);
}

/* Lists of no elements: only text. */
TD_TEST(the_text_of_a_reply_may_have_exactly_the_limit)
{
    static const char body[] =
        "{\"params\":{\"dtype\":\"int8\",\"shape\":[1,0],\"data\":[]},\"indices\":["
        "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"
        "\"response\":\"nested\"}";
    size_t bound = 0;
    for (int i = 0; i < 3; i++) {
        char limit[64] = "--max-output=1M";
        if (i > 0)
            snprintf(limit, sizeof limit, "--max-output=%zu", i == 1 ? bound : bound - 1);
        server_open(OPTIONS("--inline-limit-us=1000000", limit));
        struct td_call *call = call_of(body);
        ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
        EXPECT(call->reply.http_status == (i < 2 ? 200 : 422), "%s: %d, %s", limit,
               call->reply.http_status, call->error.message);
        if (i == 0)
            ck_assert(td_codec_encoded_bound(call->reply_format, &call->request, &bound));
        td_call_free(call);
        server_close();
    }
}

TD_TEST(the_limit_on_outputs_applies_to_strings)
{
    server_open(OPTIONS("--inline-limit-us=1000000", "--max-output=1K"));
    char body[2048], *at = body;
    at += sprintf(at, "{\"params\":[\"");
    memset(at, 'x', 400);
    sprintf(at + 400, "\"],\"indices\":[0,0,0]}"); /* 1200 bytes, and their offsets */
    struct td_call *call = call_of(body);
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    expect_reply(call, 422, "RESOURCE_LIMIT");
    ck_assert_str_eq(call->error.resource, "output_bytes");
    td_call_free(call);
    server_close();
}

TD_TEST(an_output_above_the_memory_limit_is_a_resource_limit)
{
    server_open(OPTIONS("--inline-limit-us=1000000", "--memory-limit=1M"));
    char *body = wide_gather(5000); /* 2 MB */
    struct td_call *call = call_of(body);
    run_call(call);
    ck_assert_int_eq(call->error.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call->error.resource, "workspace_bytes");
    ck_assert_int_eq(call->times.compute, 0); /* nothing was computed */
    td_call_free(call);
    free(body);
    server_close();
}

TD_TEST(an_output_without_free_memory_can_be_retried)
{
    server_open(OPTIONS("--inline-limit-us=1000000", "--memory-limit=32M"));
    struct td_error err;
    char *body = wide_gather(2000);
    /* Leaves 2 MB: the output of 0.8 MB would fit, but not the reply with it. */
    ck_assert_int_eq(td_buffer_pool_charge(services.buffers, 30 << 20, &err), TD_OK);
    struct td_call *call = call_of(body);
    run_call(call);
    ck_assert_int_eq(call->error.status, TD_MEMORY_EXHAUSTED);
    ck_assert_uint_ge(call->error.retry_after_s, 1);
    ck_assert_int_eq(call->times.compute, 0); /* nothing was computed */
    expect_reply(call, 503, "MEMORY_EXHAUSTED");
    td_call_free(call);
    td_buffer_pool_discharge(services.buffers, 30 << 20);
    call = call_of(body);
    run_call(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    td_call_free(call);
    free(body);
    server_close();
}

TD_TEST(a_body_that_expands_beyond_the_limit_is_too_large)
{
    char *body = calloc(1, 1 << 20);
    unsigned char packed[4096];
    uLongf size = sizeof packed;
    memset(body, ' ', 1 << 20);
    ck_assert_int_eq(compress2(packed, &size, (const Bytef *)body, 1 << 20, 9), Z_OK);
    server_open(OPTIONS("--max-body=64K"));
    struct td_call *call = call_of_bytes("gather", packed, size);
    call->headers.content_encoding = "deflate";
    call->encoded = true;
    run_call(call);
    ck_assert_uint_eq(call->error.limit, 65536);
    expect_reply(call, 413, "PAYLOAD_TOO_LARGE");
    td_call_free(call);
    free(body);
    server_close();
}

TD_TEST(a_stopping_server_queues_no_call)
{
    server_open(OPTIONS("--inline-limit-us=0"));
    atomic_store(&services.refusing, true);
    struct td_call *call = call_of(GATHER);
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    expect_reply(call, 503, "DRAINING");
    ck_assert_int_eq(atomic_load(&services.suspended), 0);
    td_call_free(call);
    server_close();
}

/* ---- costs that an op reports ---------------------------------------------------------------- */

/* An op whose cost the test sets. Its output is a scalar. Its input `values` is declared to
 * determine the shape, but does not. */
static struct {
    struct td_cost cost;
    pthread_t inferred_on;
    int inferred, ran;
    int64_t inference_ns;
    td_isa isa;
    int width;
} costly;

static td_status costly_infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    const struct td_shape scalar = { 0 };
    costly.inferred_on = pthread_self();
    costly.inferred++;
    for (const int64_t end = td_now_ns() + costly.inference_ns; td_now_ns() < end;)
        ;
    args->outputs = td_arena_alloc(arena, 1, sizeof *args->outputs, err);
    ck_assert_ptr_nonnull(args->outputs);
    args->n_outputs = 1;
    return td_tensor_describe(&args->outputs[0], "output", TD_DTYPE_INT32, &scalar, err);
}

static struct td_cost costly_cost(const struct td_op_args *args)
{
    (void)args;
    return costly.cost;
}

static td_status costly_run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    (void)err;
    costly.ran++;
    costly.isa = exec->isa;
    costly.width = exec->width;
    *(int32_t *)args->outputs[0].data = 42;
    return TD_OK;
}

static const struct td_input_spec costly_inputs[] = {
    { .name = "values", .dtypes = TD_DTYPES_ALL, .list = true, .sets_shape = true },
    { .name = "table", .dtypes = TD_DTYPES_ALL, .reads_values = true },
};
static const struct td_output_spec costly_outputs[] = {
    { .name = "output", .dtypes = TD_DTYPE_BIT(INT32) },
};
static const struct td_op costly_op = { .name = "costly",
                                        .inputs = costly_inputs,
                                        .n_inputs = 2,
                                        .outputs = costly_outputs,
                                        .n_outputs = 1,
                                        .infer = costly_infer,
                                        .cost = costly_cost,
                                        .run = costly_run };

static struct td_call *costly_call(const char *body, struct td_cost cost)
{
    struct td_call *call = call_of(body);
    memset(&costly, 0, sizeof costly);
    costly.cost = cost;
    call->op = &costly_op;
    td_request_init(&call->request, call->op);
    return call;
}

#define COSTLY "{\"values\":[1,2],\"table\":3}"

static const struct {
    const char *description, *limit;
    uint64_t flops;
    bool refused;
} flops_cases[] = {
    { "as many as allowed", "--max-flops=1000", 1000, false },
    { "one more", "--max-flops=1000", 1001, true },
    { "more than 64 bits can count", "--max-flops=9223372036854775807", UINT64_MAX, true },
    { "below the default", "--workers=1", 10000000000000, false },
    { "above the default", "--workers=1", 10000000000001, true },
    { "no limit", "--max-flops=0", UINT64_MAX, false },
};

TD_TEST_EACH(flops_are_limited_at_admission, flops_cases)
{
    server_open(OPTIONS(flops_cases[_i].limit));
    struct td_call *call = costly_call(COSTLY, (struct td_cost){ .flops = flops_cases[_i].flops });
    const bool tiny = flops_cases[_i].flops <= 1001;
    if (flops_cases[_i].refused) {
        ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
        expect_reply(call, 422, "\"resource\":\"flops\"");
        ck_assert_uint_eq(call->error.needed, flops_cases[_i].flops);
        ck_assert_uint_eq(call->error.limit, (uint64_t)services.config.max_flops);
        ck_assert_int_eq(call->times.compute, 0); /* nothing was computed */
    } else {
        ck_assert_msg(td_schedule(call) == (tiny ? TD_ANSWERED : TD_QUEUE), "%s",
                      flops_cases[_i].description);
        if (!tiny)
            run_queued(call);
        expect_reply(call, 200, "42");
    }
    td_call_free(call);
    server_close();
}

static const struct {
    uint64_t flops;
    bool here;
    uint64_t least_ns, most_ns; /* cost of the job in the queue */
} estimates[] = {
    { 0, true, 0, 0 },
    { 10000, true, 0, 0 },
    { 200000, false, 20000, 100000 },
    { 1000000000000, false, 10000000000, 300000000000 },
    { UINT64_MAX, false, UINT64_MAX / 100, UINT64_MAX / 2 },
};

TD_TEST_EACH(a_call_with_many_flops_is_queued, estimates)
{
    server_open(OPTIONS("--max-flops=0"));
    struct td_call *call = costly_call(COSTLY, (struct td_cost){ .flops = estimates[_i].flops });
    const td_verdict verdict = td_schedule(call);
    ck_assert_int_eq(verdict == TD_ANSWERED, estimates[_i].here);
    if (verdict == TD_QUEUE) {
        ck_assert_uint_ge(call->job.cost_ns, estimates[_i].least_ns);
        ck_assert_uint_le(call->job.cost_ns, estimates[_i].most_ns);
        run_queued(call);
    }
    expect_reply(call, 200, "42");
    td_call_free(call);
    server_close();
}

/* Where a call is inferred. */
static const struct {
    const char *description, *limit;
    uint64_t flops;
} admissions[] = {
    { "on an I/O thread, and would be queued", "--inline-limit-us=1000", UINT64_MAX },
    { "on a worker, and would go back into the queue", "--inline-limit-us=0", UINT64_MAX },
    { "on a worker, and would be computed at once", "--inline-limit-us=0", 0 },
};

TD_TEST_EACH(a_deadline_passed_during_inference_is_not_reported_as_queueing, admissions)
{
    server_open(OPTIONS("--max-flops=0", admissions[_i].limit));
    struct td_call *call = costly_call(COSTLY, (struct td_cost){ .flops = admissions[_i].flops });
    call->deadline_ns = td_now_ns() + 100000000; /* passes during inference */
    costly.inference_ns = 110000000;
    run_call(call);
    expect_reply(call, 504, "the deadline passed while the request was being read and checked");
    ck_assert_int_eq(costly.inferred, 1);
    ck_assert_int_eq(costly.ran, 0);
    td_call_free(call);
    server_close();
}

TD_TEST_EACH(inference_is_timed_as_compute_not_as_queue, admissions)
{
    server_open(OPTIONS("--max-flops=0", admissions[_i].limit));
    struct td_call *call = costly_call(COSTLY, (struct td_cost){ .flops = admissions[_i].flops });
    costly.inference_ns = 20000000;
    run_call(call);
    expect_reply(call, 200, "42");
    const struct td_times *times = &call->times;
    ck_assert_int_ge(times->compute, costly.inference_ns);
    ck_assert_int_le(times->decode + times->queue + times->compute + times->encode,
                     td_now_ns() - times->begun);
    td_call_free(call);
    server_close();
}

#define MIB ((uint64_t)1 << 20)

static const struct {
    const char *description, *workers;
    struct td_cost cost;
    uint64_t taken; /* of the limit of 16 MiB, by other calls */
    td_status status;
} workspaces[] = {
    { "none", "--workers=2", { 0 }, 0, TD_OK },
    { "what fits", "--workers=1", { .workspace = 15 * MIB }, 0, TD_OK },
    { "what never fits", "--workers=1", { .workspace = 17 * MIB }, 0, TD_RESOURCE_LIMIT },
    { "what does not fit now",
      "--workers=1",
      { .workspace = 8 * MIB },
      10 * MIB,
      TD_MEMORY_EXHAUSTED },
    { "one thread's", "--workers=1", { .workspace_per_thread = 9 * MIB }, 0, TD_OK },
    { "two threads'", "--workers=2", { .workspace_per_thread = 9 * MIB }, 0, TD_RESOURCE_LIMIT },
    { "one's, of two",
      "--workers=2",
      { .workspace_per_thread = 9 * MIB, .single_threaded = true },
      0,
      TD_OK },
    { "both kinds together",
      "--workers=2",
      { .workspace = 5 * MIB, .workspace_per_thread = 6 * MIB },
      0,
      TD_RESOURCE_LIMIT },
    { "both kinds, now",
      "--workers=2",
      { .workspace = 2 * MIB, .workspace_per_thread = 3 * MIB },
      9 * MIB,
      TD_MEMORY_EXHAUSTED },
    { "all there could be", "--workers=1", { .workspace = UINT64_MAX }, 0, TD_RESOURCE_LIMIT },
    { "a product of more than 64 bits",
      "--workers=4",
      { .workspace_per_thread = UINT64_MAX / 4 + 2 },
      0,
      TD_RESOURCE_LIMIT },
    { "a sum of more than 64 bits",
      "--workers=2",
      { .workspace = UINT64_MAX - 10, .workspace_per_thread = 10 },
      0,
      TD_RESOURCE_LIMIT },
};

TD_TEST_EACH(workspace_counts_against_the_memory_budget, workspaces)
{
    const char *description = workspaces[_i].description;
    struct td_error err;
    server_open(OPTIONS(workspaces[_i].workers, "--memory-limit=16M", "--inline-limit-us=1000"));
    ck_assert_int_eq(td_buffer_pool_charge(services.buffers, workspaces[_i].taken, &err), TD_OK);
    struct td_call *call = costly_call(COSTLY, workspaces[_i].cost);
    ck_assert_msg(td_schedule(call) == TD_ANSWERED, "%s", description);
    ck_assert_msg(call->error.status == workspaces[_i].status, "%s: %s", description,
                  td_status_name(call->error.status));
    if (call->error.status != TD_OK)
        ck_assert_int_eq(costly.width, 0); /* it was not run */
    if (call->error.status == TD_RESOURCE_LIMIT)
        ck_assert_str_eq(call->error.resource, "workspace_bytes");
    td_call_free(call);
    td_buffer_pool_discharge(services.buffers, workspaces[_i].taken);
    server_close();
}

TD_TEST(kernels_get_the_instruction_set_and_the_number_of_threads)
{
    server_open(OPTIONS("--isa=generic", "--workers=3"));
    struct td_call *call = costly_call(COSTLY, (struct td_cost){ 0 });
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    ck_assert_int_eq(costly.isa, TD_ISA_GENERIC);
    ck_assert_int_eq(costly.width, 1); /* single-threaded on the I/O thread */
    td_call_free(call);
    call = costly_call(COSTLY, (struct td_cost){ .flops = 100000000 });
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    run_queued(call);
    ck_assert_int_eq(costly.isa, TD_ISA_GENERIC);
    ck_assert_int_eq(costly.width, 3);
    td_call_free(call);
    server_close();
}

/* A folder with one table, int32[n] of zeros, as table "t"; its data begins `shift` bytes after
 * an aligned address. */
static void folder_with_table(char *folder, int n, int shift)
{
    char path[200], text[132] = "\x93NUMPY\x01";
    const size_t size = 128 + (size_t)shift;
    static const char zeros[4096];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.npy", folder);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    memset(text + 10, ' ', size - 10);
    text[7] = 0;
    text[8] = (char)(size - 10);
    text[9] = 0;
    const int length = snprintf(path, sizeof path,
                                "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }", n);
    memcpy(text + 10, path, (size_t)length);
    text[size - 1] = '\n';
    ck_assert_uint_eq(fwrite(text, 1, size, file), size);
    for (size_t left = 4 * (size_t)n; left > 0;) {
        const size_t part = left < sizeof zeros ? left : sizeof zeros;
        ck_assert_uint_eq(fwrite(zeros, 1, part, file), part);
        left -= part;
    }
    ck_assert_int_eq(fclose(file), 0);
}

static const struct {
    const char *description, *body;
    int n, shift;
    bool here;
} readings[] = {
    { "a small table of values", "{\"values\":[{\"ref\":\"t\"}],\"table\":0}", 1000, 0, true },
    { "a large one", "{\"values\":[{\"ref\":\"t\"}],\"table\":0}", 1000000, 0, false },
    { "two tables that are large together",
      "{\"values\":[{\"ref\":\"t\"},{\"ref\":\"t\"},{\"ref\":\"t\"}],\"table\":0}", 20000, 0,
      false },
    { "a large table whose values do not determine the shape",
      "{\"values\":[1],\"table\":{\"ref\":\"t\"}}", 1000000, 0, true },
    { "one that has to be copied to be read", "{\"values\":[1],\"table\":{\"ref\":\"t\"}}", 1000000,
      1, false },
    { "a small one that has to be", "{\"values\":[1],\"table\":{\"ref\":\"t\"}}", 1000, 1, true },
};

TD_TEST_EACH(many_values_that_determine_a_shape_are_read_by_a_worker, readings)
{
    char folder[] = "/tmp/tensord-test-scheduler-XXXXXX", option[100], path[100];
    folder_with_table(folder, readings[_i].n, readings[_i].shift);
    snprintf(option, sizeof option, "--data-dir=%s", folder);
    server_open(OPTIONS(option));
    struct td_call *call = costly_call(readings[_i].body, (struct td_cost){ 0 });
    const td_verdict verdict = td_schedule(call);
    ck_assert_msg((verdict == TD_ANSWERED) == readings[_i].here, "%s", readings[_i].description);
    if (verdict == TD_QUEUE) {
        ck_assert(call->decoded && !call->admitted);
        ck_assert_int_eq(costly.inferred, 0);
        run_queued(call);
    }
    expect_reply(call, 200, "42");
    ck_assert_int_eq(costly.inferred, 1);
    ck_assert_int_eq(pthread_equal(costly.inferred_on, pthread_self()) != 0, readings[_i].here);
    td_call_free(call);
    server_close();
    snprintf(path, sizeof path, "%s/t.npy", folder);
    unlink(path);
    remove_data_folder(folder);
}

/* ---- clients --------------------------------------------------------------------------------- */

TD_TEST(rows_of_a_truncated_file_are_not_stored)
{
    enum { N = 100000 };
    char folder[] = "/tmp/tensord-test-scheduler-XXXXXX", option[100], path[100];
    struct td_error err;
    struct td_tensor_listing listing;
    td_guard_install();
    test_arena_open();
    folder_with_table(folder, N, 0);
    snprintf(option, sizeof option, "--data-dir=%s", folder);
    snprintf(path, sizeof path, "%s/t.npy", folder);
    server_open(OPTIONS(option));
    ck_assert_int_eq(truncate(path, 4096), 0);
    struct td_call *call =
        call_of("{\"params\":{\"ref\":\"t\"},\"indices\":[99999],\"store\":\"rows\"}");
    run_call(call);
    expect_reply(call, 503, "truncated");
    ck_assert_int_eq(td_store_get(services.store, "rows", 4, &test_arena, &listing, &err),
                     TD_TENSOR_NOT_FOUND);
    td_call_free(call);
    test_arena_close();
    server_close();
    unlink(path);
    remove_data_folder(folder);
}

TD_TEST_LOOP(a_call_of_a_disconnected_client_is_not_computed, 0, 2)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    server_open(OPTIONS("--inline-limit-us=0"));
    gate_close();
    struct td_call *call = call_of(GATHER);
    call->socket = ends[0];
    ck_assert(!td_call_client_left(call));
    ck_assert_int_eq(write(ends[1], "pipelined", 9), 9); /* unread bytes do not hide the end */
    ck_assert(!td_call_client_left(call));
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    td_schedule_submit(call);
    if (_i) /* half-closed: counts as disconnected (call.h) */
        shutdown(ends[1], SHUT_WR);
    else
        close(ends[1]);
    nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL); /* shorter waits are not checked */
    sem_post(&gate.open);
    sem_wait(&finished_calls);
    ck_assert(call->gone);
    ck_assert(!call->decoded);
    ck_assert_int_eq(call->reply.http_status, 0);
    td_call_free(call);
    close(ends[0]);
    if (_i)
        close(ends[1]);
    server_close();
}

/* Independent of the inline limit, since a region may be of any size. */
TD_TEST(a_request_with_shared_memory_is_queued_even_if_the_member_is_escaped)
{
#define REGION(name)                                                                               \
    "{\"inputs\":[{\"name\":\"params\",\"shape\":[2],\"datatype\":\"BOOL\",\"parameters\":{"       \
    "\"" name "\":\"none\",\"shared_memory_byte_size\":2}}]}"
    static const char *const bodies[] = { REGION("shared_memory_region"),
                                          REGION("shared_memory_re\\u0067ion"),
                                          REGION("\\u0073hared_memory_region") };
#undef REGION
    server_open(OPTIONS("--inline-limit-us=1000000", "--system-shared-memory"));
    for (int i = 0; i < COUNT_OF(bodies); i++) {
        struct td_call *call = call_of(bodies[i]);
        call->style = TD_STYLE_OIP;
        call->body_format = call->reply_format = TD_FORMAT_OIP;
        ck_assert_msg(td_schedule(call) == TD_QUEUE, "%s", bodies[i]);
        ck_assert_uint_ge(call->job.cost_ns, TD_JOB_SMALL_NS);
        run_queued(call);
        expect_reply(call, 404, "there is no shared memory region 'none'");
        td_call_free(call);
    }
    struct td_call *call = call_of("{\"id\":\"\\u0067\",\"inputs\":[]}");
    call->style = TD_STYLE_OIP;
    call->body_format = call->reply_format = TD_FORMAT_OIP;
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    expect_reply(call, 400, "params is missing");
    td_call_free(call);
    server_close();
}

static int shared_object; /* of the region "out" */

static td_status compute_and_truncate(struct td_call *call, struct td_worker *worker)
{
    const td_status status = td_op_task.compute(call, worker);
    ck_assert_int_eq(ftruncate(shared_object, 0), 0);
    return status;
}

TD_TEST_LOOP(an_output_that_a_truncated_region_has_lost_fails_the_call, 0, 2)
{
    const bool truncates = _i == 1;
    struct td_task task = td_op_task;
    struct td_error err;
    char key[64];
    if (truncates)
        task.compute = compute_and_truncate;
    snprintf(key, sizeof key, "/tensord-test-scheduler-%d", (int)getpid());
    shared_object = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(shared_object, 0);
    ck_assert_int_eq(ftruncate(shared_object, 4096), 0);
    server_open(OPTIONS("--system-shared-memory"));
    td_guard_install();
    ck_assert_int_eq(td_shm_register(services.shm, "out", key, 0, 4096, &err), TD_OK);
    shm_unlink(key);
    struct td_call *call =
        call_of("{\"inputs\":["
                "{\"name\":\"params\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]},"
                "{\"name\":\"indices\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[0]}],"
                "\"outputs\":[{\"name\":\"output\",\"parameters\":{"
                "\"shared_memory_region\":\"out\",\"shared_memory_byte_size\":4}}]}");
    call->style = TD_STYLE_OIP;
    call->body_format = call->reply_format = TD_FORMAT_OIP;
    call->task = &task;
    run_call(call);
    expect_reply(call, truncates ? 400 : 200,
                 truncates ? "'out' was truncated while it was in use" : "\"output\"");
    td_call_free(call);
    close(shared_object);
    server_close();
}

TD_TEST(a_new_call_has_no_state_of_the_previous_one)
{
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *before = call_of("{\"params\":[1,2],\"indices\":[0],\"timing\":true}");
    ck_assert_int_eq(td_schedule(before), TD_ANSWERED);
    ck_assert(before->request.decoded);
    (void)td_error_set(&before->error, TD_INTERNAL, "an error");
    before->error.allow[0] = before->error.etag[0] = 'x';
    before->must_queue = before->gone = before->close_connection = true;
    before->headers.range = "bytes=0-1";
    before->deadline_ns = before->start_by_ns = 1;
    td_call_free(before);

    struct td_call *call = td_call_new(&services);
    ck_assert_ptr_eq(call, before);
    ck_assert(!call->request.decoded && !call->decoded && !call->admitted && !call->computed);
    ck_assert(!call->must_queue && !call->gone && !call->close_connection);
    ck_assert(!call->request.options.timing && call->request.options.set == 0);
    ck_assert_ptr_null(call->request.op);
    ck_assert_ptr_null(call->request.oip);
    ck_assert_ptr_null(call->request.args.outputs);
    for (int i = 0; i < TD_MAX_INPUTS; i++) {
        ck_assert_int_eq(call->request.args.inputs[i].count, 0);
        ck_assert_ptr_null(call->request.args.inputs[i].tensors);
    }
    ck_assert_int_eq(call->error.status, TD_OK);
    ck_assert_str_eq(call->error.message, "");
    ck_assert_str_eq(call->error.allow, "");
    ck_assert_str_eq(call->error.etag, "");
    ck_assert_int_eq(call->reply.http_status, 0);
    ck_assert_int_eq(call->reply.n_chunks, 0);
    ck_assert_int_eq(call->times.arrived, 0);
    ck_assert_ptr_null(call->op);
    ck_assert_ptr_null(call->headers.range);
    ck_assert_int_eq(call->start_by_ns, TD_NEVER);
    ck_assert_int_eq(call->socket, -1);
    ck_assert_uint_eq(call->headers.inference_header, TD_OIP_NO_HEADER);
    ck_assert_ptr_eq(call->services, &services);
    td_call_free(call);
    server_close();
}

TD_TEST(a_call_without_a_connection_polls_no_descriptor)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    ck_assert_int_eq(dup2(ends[0], STDIN_FILENO),
                     STDIN_FILENO); /* descriptor 0 is a closed connection */
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *call = td_call_new(&services);
    ck_assert(!td_call_client_left(call));
    td_call_free(call);
    server_close();
}

/* ---- many calls ------------------------------------------------------------------------------ */

enum { THREADS = 4, ROUNDS = 300 };

static void finished_for_client(struct td_call *call)
{
    call->answered = true;
    sem_post(
        (sem_t *)(void *)(uintptr_t)call->headers.accept); /* the test stores its semaphore there */
}

static void *send_calls(void *argument)
{
    char *wide = argument;
    sem_t done;
    sem_init(&done, 0, 0);
    for (int i = 0; i < ROUNDS; i++) {
        const char *bodies[] = { GATHER, wide, "{\"params\":[1],\"indices\":[9]}" };
        struct td_call *call = call_of(bodies[i % 3]);
        call->headers.accept = (const char *)(void *)&done;
        call->finished = finished_for_client;
        if (td_schedule(call) == TD_QUEUE) {
            td_schedule_submit(call);
            sem_wait(&done);
        }
        if (call->error.status != TD_QUEUE_FULL && call->error.status != TD_MEMORY_EXHAUSTED)
            ck_assert_int_eq(call->reply.http_status, i % 3 == 2 ? 422 : 200);
        td_call_free(call);
    }
    sem_destroy(&done);
    return NULL;
}

TD_TEST_LOOP(under_load_each_call_gets_its_own_reply, 0, 3)
{
    static const char *const limits[] = { "--inline-limit-us=0", "--inline-limit-us=20",
                                          "--inline-limit-us=1000000" };
    pthread_t threads[THREADS];
    char *wide = wide_gather(1000);
    server_open(OPTIONS(limits[_i], "--workers=3", "--queue-limit=3", "--memory-limit=8M"));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, send_calls, wide), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    server_close();
    free(wide);
}
