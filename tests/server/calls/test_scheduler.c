#include "api/message/message.h"
#include "kernels/gather/gather.h"
#include "server/calls/op_task.h"
#include "server/calls/scheduler.h"
#include "server/observe/clock.h"
#include "tests/gates/clock.h"
#include "tests/server/calls/setup.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MINUTE_NS INT64_C(60000000000)

/* ---- inline or on a worker ------------------------------------------------------------------- */

TD_TEST(a_tiny_call_runs_on_the_io_thread)
{
    server_open(NULL);
    hold_worker(); /* the worker is blocked */
    struct td_call *call = call_of(GATHER);
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    expect_reply(call, 200, GATHER_RESULT);
    ck_assert(!call->http.answered); /* finished is for workers */
    ck_assert_int_eq(call->times.queue, 0);
    td_call_free(call);
    release_worker();
}

TD_TEST(with_an_inline_limit_of_zero_every_call_is_queued)
{
    enum { WAITED_NS = 7 };
    test_clock_stop();
    server_open(OPTIONS("--inline-limit-us=0"));
    hold_worker();
    struct td_call *call = call_of(GATHER);
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(call->schedule.next == TD_NEXT_DECODE);
    td_schedule_submit(call);
    test_clock_advance(WAITED_NS);
    release_worker();
    await_calls(1);
    expect_reply(call, 200, GATHER_RESULT);
    ck_assert_int_eq(call->times.queue, WAITED_NS);
}

TD_TEST(a_large_body_is_decoded_by_a_worker)
{
    server_open(NULL);
    char *body = wide_gather(20000);
    struct td_call *call = call_of(body);
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(call->schedule.next == TD_NEXT_DECODE);
    run_queued(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    ck_assert_int_eq(call->request.args.outputs[0].numel, 2000000);
}

TD_TEST(an_expensive_call_with_a_small_body_is_decoded_inline_and_computed_by_a_worker)
{
    server_open(OPTIONS("--inline-limit-us=100"));
    char *body = wide_gather(2000); /* 4 KB in, 800 KB out */
    struct td_call *call = call_of(body);
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(call->schedule.next >= TD_NEXT_COMPUTE);
    run_queued(call);
    ck_assert_int_eq(call->reply.http_status, 200);
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
    ck_assert_uint_gt(call->schedule.admission.compute_ns, 0);
    ck_assert_uint_gt(call->schedule.admission.encode_ns, 0);
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
    server_open(OPTIONS("--inline-limit-us=0"));
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct td_call *call = call_of(bodies[i]);
        ck_assert_int_eq(td_schedule(call), TD_QUEUE);
        run_queued(call);
        expect_reply(call, statuses[i], texts[i]);
        td_call_free(call);
        free(texts[i]);
    }
}

static struct td_call *finished_first;

static void finished_in_order(struct td_call *call)
{
    if (!finished_first)
        finished_first = call;
    call_finished(call);
}

TD_TEST(small_calls_overtake_one_that_turns_out_to_be_large)
{
    server_open(OPTIONS("--inline-limit-us=0"));
    hold_worker();
    char *body = wide_gather(20000); /* 40 KB in, 8 MB out: known only after decoding */
    struct td_call *large = call_of(body), *small = call_of(GATHER);
    finished_first = NULL;
    large->finished = small->finished = finished_in_order;
    ck_assert_int_eq(td_schedule(large), TD_QUEUE);
    td_schedule_submit(large);
    ck_assert_int_eq(td_schedule(small), TD_QUEUE);
    td_schedule_submit(small);
    release_worker();
    await_calls(2);
    ck_assert_ptr_eq(finished_first, small);
    expect_reply(small, 200, GATHER_RESULT);
    ck_assert_int_eq(large->reply.http_status, 200);
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
}

/* ---- refusals -------------------------------------------------------------------------------- */

#define MOST_DELAY_NS INT64_C(1000000000) /* of a refusal */

TD_TEST(a_full_queue_refuses_with_retry_after)
{
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=1"));
    hold_worker();
    struct td_call *waits = call_of(GATHER), *refused = call_of(GATHER);
    ck_assert_int_eq(td_schedule(waits), TD_QUEUE);
    ck_assert_int_eq(td_schedule(refused), TD_ANSWERED);
    ck_assert_int_eq(refused->error.status, TD_QUEUE_FULL);
    ck_assert_uint_ge(refused->error.retry_after_s, 1);
    expect_reply(refused, 429, "QUEUE_FULL");
    td_call_free(refused);
    release_worker();
    run_queued(waits);
    expect_reply(waits, 200, GATHER_RESULT);
}

TD_TEST(a_client_with_fewer_calls_gets_a_place_in_a_full_queue)
{
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=2"));
    hold_worker();
    struct td_call *first = call_from("10.0.0.1", GATHER), *second = call_from("10.0.0.1", GATHER);
    struct td_call *other = call_from("10.0.0.2", GATHER), *late = call_from("10.0.0.2", GATHER);
    ck_assert_int_eq(td_schedule(first), TD_QUEUE);
    td_schedule_submit(first);
    ck_assert_int_eq(td_schedule(second), TD_QUEUE);
    td_schedule_submit(second);
    ck_assert_int_eq(td_schedule(other), TD_QUEUE);
    await_calls(1); /* the second one */
    ck_assert_int_eq(second->error.status, TD_QUEUE_FULL);
    ck_assert_uint_ge(second->error.retry_after_s, 1);
    expect_reply(second, 429, "QUEUE_FULL");
    td_schedule_submit(other);
    ck_assert_int_eq(td_schedule(late), TD_ANSWERED); /* each has one */
    expect_reply(late, 429, "QUEUE_FULL");
    release_worker();
    await_calls(2);
    expect_reply(first, 200, GATHER_RESULT);
    expect_reply(other, 200, GATHER_RESULT);
}

TD_TEST(the_refusal_of_a_client_that_retries_at_once_waits_and_holds_nothing)
{
    test_clock_stop();
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=1"));
    hold_worker();
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
    td_schedule_submit(hot);
    ck_assert(!hot->http.answered);
    test_clock_advance(MOST_DELAY_NS);
    await_calls(1);
    expect_reply(hot, 429, "QUEUE_FULL");
    release_worker();
    run_queued(waits);
}

TD_TEST(a_displaced_call_does_not_count_while_its_refusal_waits)
{
    test_clock_stop();
    server_open(OPTIONS("--inline-limit-us=0", "--queue-limit=2", "--client-requests=2"));
    hold_worker();
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
    ck_assert_int_gt(second->schedule.refusal_due_ns, 0);
    ck_assert_int_eq(atomic_load(&client->requests), 1);
    td_schedule_submit(other);
    test_clock_advance(MOST_DELAY_NS);
    await_calls(1);
    expect_reply(second, 429, "QUEUE_FULL");
    release_worker();
    await_calls(2);
    ck_assert_int_eq(atomic_load(&client->requests), 0);
}

TD_TEST(a_call_refused_by_a_full_queue_releases_its_memory)
{
    server_open(OPTIONS("--inline-limit-us=100", "--queue-limit=1"));
    hold_worker();
    char *body = wide_gather(2000);
    struct td_call *waits = call_of(body), *refused = call_of(body);
    ck_assert_int_eq(td_schedule(waits), TD_QUEUE);
    const uint64_t in_use = td_buffer_pool_usage(services.buffers).in_use;
    ck_assert_uint_lt(in_use, 800000); /* an output is allocated when it is computed */
    ck_assert_int_eq(td_schedule(refused), TD_ANSWERED);
    ck_assert_int_eq(refused->error.status, TD_QUEUE_FULL);
    td_call_free(refused);
    ck_assert_uint_eq(td_buffer_pool_usage(services.buffers).in_use, in_use);
    release_worker();
    run_queued(waits);
}

TD_TEST(a_deadline_that_cannot_be_met_is_refused_on_arrival)
{
    test_clock_stop();
    server_open(OPTIONS("--inline-limit-us=0"));
    hold_worker();
    char *body = wide_gather(50000); /* estimated at 300 us */
    struct td_call *waits = call_from("10.0.0.1", body), *late = call_from("10.0.0.1", body);
    struct td_call *other = call_from("10.0.0.2", body), *patient = call_from("10.0.0.1", body);
    for (int i = 0; i < 10; i++)
        td_worker_pool_measure(services.workers, 100000, 5000000); /* it takes 15 ms */
    late->schedule.deadline_ns = late->times.stage_end + 5000000;
    other->schedule.deadline_ns = TD_NEVER - 1;
    patient->schedule.deadline_ns = patient->times.stage_end + MINUTE_NS;
    ck_assert_int_eq(td_schedule(waits), TD_QUEUE);
    td_schedule_submit(waits);
    ck_assert_int_eq(td_schedule(late), TD_ANSWERED);
    ck_assert(late->schedule.next == TD_NEXT_DECODE);
    ck_assert_uint_ge(late->error.retry_after_s, 1);
    expect_reply(late, 504, "the request would wait for a worker");
    struct td_call *const accepted[] = { other, patient };
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        ck_assert_int_eq(td_schedule(accepted[i]), TD_QUEUE);
        td_schedule_submit(accepted[i]);
    }
    release_worker();
    await_calls(3);
}

TD_TEST_LOOP(a_call_past_its_deadline_is_refused_before_any_work, 0, 2)
{
    server_open(OPTIONS(_i ? "--inline-limit-us=0" : "--inline-limit-us=20"));
    struct td_call *call = call_of(GATHER);
    call->schedule.deadline_ns = call->times.stage_end - 1; /* the body arrived after it */
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    ck_assert(call->schedule.next == TD_NEXT_DECODE);
    expect_reply(call, 504, "DEADLINE_EXCEEDED");
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
    test_clock_stop();
    server_open(OPTIONS("--inline-limit-us=0"));
    hold_worker();
    struct td_call *call = call_of(GATHER);
    call->schedule.deadline_ns = td_now_ns() + MINUTE_NS;
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    td_schedule_submit(call);
    const int64_t waited_ns = MINUTE_NS + (waits[_i].deadline_passes ? 1 : -1);
    test_clock_advance(waited_ns);
    if (waits[_i].expire)
        td_worker_pool_expire(services.workers, td_now_ns(), waits[_i].everything);
    release_worker();
    await_calls(1);
    expect_reply(call, waits[_i].http_status, waits[_i].code);
    ck_assert_int_eq(call->times.queue, waited_ns);
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
    { "decoded by the worker, too late", "--inline-limit-us=0", 59999999, 504,
      "DEADLINE_EXCEEDED" },
    { "decoded by the worker, in time", "--inline-limit-us=0", 60000000, 200, "[8]" },
    { "none", "--inline-limit-us=0", 0, 200, "[8]" },
    { "a call that runs inline does not wait", "--inline-limit-us=1000000", 1, 200, "[8]" },
};

TD_TEST_EACH(a_request_may_limit_its_time_in_the_queue, timeouts)
{
    test_clock_stop();
    server_open(OPTIONS(timeouts[_i].limit));
    hold_worker();
    struct td_call *call = call_with_timeout(timeouts[_i].timeout_us);
    const td_verdict verdict = td_schedule(call);
    if (verdict == TD_QUEUE)
        td_schedule_submit(call);
    test_clock_advance(MINUTE_NS);
    release_worker();
    if (verdict == TD_QUEUE)
        await_calls(1);
    expect_reply(call, timeouts[_i].http_status, timeouts[_i].part);
}

/* The rest of a call that turns out to be large waits again. */
TD_TEST(a_limit_of_the_body_also_ends_the_second_wait_in_the_queue)
{
    enum { N = 20000 };
    static struct stopping_job second; /* the worker may leave its gate after the test */
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
    hold_worker();
    struct td_call *large = call_of(body);
    large->style = TD_STYLE_OIP;
    ck_assert_int_eq(large->task->begin(large), TD_OK);
    ck_assert_int_eq(td_schedule(large), TD_QUEUE);
    td_schedule_submit(large);
    stopping_job_submit(&second);
    release_worker();
    gate_await(&second.gate); /* after the large call was decoded and put back */
    ck_assert(large->schedule.next >= TD_NEXT_ADMIT && !large->http.answered);
    td_worker_pool_expire(services.workers, td_now_ns() + MINUTE_NS, false);
    await_calls(1);
    expect_reply(large, 504, "DEADLINE_EXCEEDED");
    ck_assert(large->schedule.next < TD_NEXT_CHANGE);
    gate_open(&second.gate);
    td_call_free(large);
    free(body);
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
    call->schedule.must_queue = true;
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(call->schedule.next == TD_NEXT_DECODE);
    /* A small job could run between two chunks of another job's loop and block it. */
    ck_assert_uint_ge(call->job.cost_ns, TD_JOB_SMALL_NS);
    run_queued(call);
    expect_reply(call, 200, "done");
}

TD_TEST(a_call_that_stores_its_result_is_queued)
{
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *call = call_of("{\"params\":[1],\"indices\":[0],\"store\":\"kept\"}");
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    run_queued(call);
    expect_reply(call, 200, "\"name\":\"kept\"");
    td_call_free(call);
    ck_assert_int_eq(td_store_usage(services.store).tensors, 1);
    struct td_error err;
    ck_assert_int_eq(td_store_delete(services.store, &(struct td_store_write){ .name = "kept" },
                                     &(bool){ false }, &err),
                     TD_OK);
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
    ck_assert_int_eq(td_store_delete(services.store, &(struct td_store_write){ .name = "kept" },
                                     &(bool){ false }, &err),
                     TD_OK);
}

TD_TEST(a_stopping_server_queues_no_call)
{
    server_open(OPTIONS("--inline-limit-us=0"));
    atomic_store(&services.refusing, true);
    struct td_call *call = call_of(GATHER);
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    expect_reply(call, 503, "DRAINING");
    ck_assert_int_eq(atomic_load(&services.suspended), 0);
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
}

/* ---- many calls ------------------------------------------------------------------------------ */

enum { THREADS = 4, ROUNDS = 300 };

static void finished_for_client(struct td_call *call)
{
    call->http.answered = true;
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
}

TD_FIXTURE(NULL, server_end);
