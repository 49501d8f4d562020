#include "api/codec.h"
#include "api/message/message.h"
#include "api/message/problem.h"
#include "server/calls/op_task.h"
#include "server/calls/scheduler.h"
#include "server/memory/fault_guard.h"
#include "server/observe/clock.h"
#include "tests/gates/clock.h"
#include "tests/server/calls/setup.h"
#include "tests/server/folder.h"
#include "tests/server/shared_object.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the size of outputs --------------------------------------------------------------------- */

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
    ck_assert_uint_eq(td_buffer_pool_usage(services.buffers).in_use, 0);
    expect_reply(call, 422, "RESOURCE_LIMIT");
    td_call_free(call);
    body = wide_gather(102); /* 40800 bytes */
    call = call_of(body);
    ck_assert_int_eq(td_schedule(call), TD_ANSWERED);
    ck_assert_int_eq(call->reply.http_status, 200);
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
    }
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
    }
}

/* ---- outputs in another dtype ---------------------------------------------------------------- */

/* An einsum that copies n float32 zeros, rounded to float16 in a binary reply. */
static struct td_call *rounding_call(int n)
{
    char body[256];
    const int header = snprintf(
        body + 8, sizeof body - 8,
        "{\"__metadata__\":{\"equation\":\"i->i\",\"output_dtype\":\"float16\"},\"inputs.0\":"
        "{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
        n, 4 * n);
    const uint64_t length = (uint64_t)header;
    memcpy(body, &length, sizeof length);
    const size_t bytes = 8 + (size_t)header + 4 * (size_t)n;
    char *whole = td_arena_alloc(&test_arena, bytes, 1, TD_IGNORED);
    memset(whole, 0, bytes);
    memcpy(whole, body, 8 + (size_t)header);
    struct td_call *call = call_of_bytes("einsum", whole, bytes);
    call->headers.content_type = "application/vnd.safetensors";
    call->body_format = call->reply_format = TD_FORMAT_SAFETENSORS;
    return call;
}

TD_TEST(memory_and_time_are_admitted_for_the_output_in_both_dtypes)
{
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *call = rounding_call(100000);
    run_call(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    ck_assert_uint_eq(call->schedule.admission.output_bytes, 400000 + 200000);
    ck_assert_uint_ge(call->schedule.admission.encode_ns, 600000 / 8); /* reads and writes them */
}

TD_TEST(the_output_in_its_own_dtype_is_freed_before_the_reply_is_sent)
{
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *call = rounding_call(100000);
    run_call(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    const struct td_request *request = &call->request;
    ck_assert_ptr_null(td_arena_owner(&call->arena, request->args.outputs[0].data));
    ck_assert_ptr_nonnull(td_arena_owner(&call->arena, td_request_output(request, 0)->data));
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
    ck_assert_uint_ge(td_problem_retry_after_s(&call->error), 1);
    ck_assert_int_eq(call->times.compute, 0); /* nothing was computed */
    expect_reply(call, 503, "MEMORY_EXHAUSTED");
    td_call_free(call);
    td_buffer_pool_discharge(services.buffers, 30 << 20);
    call = call_of(body);
    run_call(call);
    ck_assert_int_eq(call->reply.http_status, 200);
}

/* The sum of one bag of all indices is a single number. */
TD_TEST(mapped_indices_of_which_no_copy_fits_in_memory_are_refused)
{
    static const char body[] = "{\"params\":[[1.5]],\"indices\":{\"ref\":\"at\"},\"offsets\":[0]}";
    static const struct {
        int n;
        int http_status;
        const char *reply;
    } sizes[] = { { 100000, 200, "[[150000.0]]" }, { 500000, 422, "RESOURCE_LIMIT" } };
    folder_open();
    for (int i = 0; i < COUNT_OF(sizes); i++) {
        put_zeros("at.npy", sizes[i].n, 0);
        server_open(OPTIONS(data_dir_option(), "--memory-limit=1M"));
        struct td_call *call = call_of_bytes("embedding_bag", body, sizeof body - 1);
        run_call(call);
        expect_reply(call, sizes[i].http_status, sizes[i].reply);
        td_call_free(call);
        server_close();
    }
    folder_close();
}

/* The names of the outputs take several blocks of an arena. */
TD_TEST(many_outputs_are_stored_or_refused_however_much_memory_is_free)
{
    enum { LIMIT = 16 << 20, STEP = 64 << 10, N = 1000 };
    struct td_error err;
    char body[256], name[TD_TENSOR_NAME];
    const int length = snprintf(body, sizeof body,
                                "{\"data\":[1],\"partitions\":[0],\"num_partitions\":%d,"
                                "\"store\":\"%0100d\"}",
                                N, 0);
    int http_status = 0, refused = 0;
    server_open(OPTIONS("--memory-limit=16M"));
    for (uint64_t available = STEP; http_status != 200 && available < LIMIT; available += STEP) {
        ck_assert_int_eq(td_buffer_pool_charge(services.buffers, LIMIT - available, &err), TD_OK);
        struct td_call *call = call_of_bytes("dynamic_partition", body, (size_t)length);
        run_call(call);
        http_status = call->reply.http_status;
        ck_assert_msg(http_status == 200 || call->error.status == TD_MEMORY_EXHAUSTED, "%s",
                      call->error.message);
        refused += http_status != 200;
        td_call_free(call);
        td_buffer_pool_discharge(services.buffers, LIMIT - available);
    }
    ck_assert_int_eq(http_status, 200);
    ck_assert_int_ge(refused, 3);
    for (int i = 0; i < N; i++) {
        const struct td_store_write write = { .name = name };
        snprintf(name, sizeof name, "%0100d.%d", 0, i);
        ck_assert_int_eq(td_store_delete(services.store, &write, &(bool){ false }, &err), TD_OK);
    }
    ck_assert_int_eq(td_store_usage(services.store).tensors, 0);
}

TD_TEST(a_table_that_determines_a_shape_is_read_by_a_worker)
{
    folder_open();
    put_zeros("zeros.npy", 1000000, 0);
    server_open(OPTIONS(data_dir_option()));
    static const char body[] =
        "{\"data\":{\"ref\":\"zeros\"},\"partitions\":{\"ref\":\"zeros\"},\"num_partitions\":1}";
    struct td_call *call = call_of_bytes("dynamic_partition", body, strlen(body));
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(call->schedule.next == TD_NEXT_ADMIT);
    run_queued(call);
    ck_assert_int_eq(call->reply.http_status, 200);
    ck_assert_int_eq(call->request.args.outputs[0].numel, 1000000);
    td_call_free(call);
    server_close();
    folder_close();
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
    test_clock_advance(costly.inference_ns);
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
    test_clock_stop();
    server_open(OPTIONS("--max-flops=0", admissions[_i].limit));
    struct td_call *call = costly_call(COSTLY, (struct td_cost){ .flops = admissions[_i].flops });
    call->schedule.deadline_ns = td_now_ns() + 60000000000; /* passes during inference */
    costly.inference_ns = 60000000001;
    run_call(call);
    expect_reply(call, 504, "the deadline passed while the request was being read and checked");
    ck_assert_int_eq(costly.inferred, 1);
    ck_assert_int_eq(costly.ran, 0);
}

TD_TEST_EACH(inference_is_timed_as_compute_not_as_queue, admissions)
{
    test_clock_stop();
    server_open(OPTIONS("--max-flops=0", admissions[_i].limit));
    struct td_call *call = costly_call(COSTLY, (struct td_cost){ .flops = admissions[_i].flops });
    costly.inference_ns = 20000000;
    run_call(call);
    expect_reply(call, 200, "42");
    const struct td_times *times = &call->times;
    ck_assert_int_eq(times->compute, costly.inference_ns);
    ck_assert_int_eq(times->decode + times->queue + times->encode, 0);
}

#define MIB ((uint64_t)1 << 20)

static const struct {
    const char *description, *workers;
    struct td_cost cost;
    uint64_t taken; /* of the limit of 16 MiB, by other calls */
    td_status status;
} workspaces[] = {
    { "none", "--workers=2", LIST(0), 0, TD_OK },
    { "what fits", "--workers=1", LIST(.workspace = 15 * MIB), 0, TD_OK },
    { "what never fits", "--workers=1", LIST(.workspace = 17 * MIB), 0, TD_RESOURCE_LIMIT },
    { "what does not fit now", "--workers=1", LIST(.workspace = 8 * MIB), 10 * MIB,
      TD_MEMORY_EXHAUSTED },
    { "one thread's", "--workers=1", LIST(.workspace_per_thread = 9 * MIB), 0, TD_OK },
    { "two threads'", "--workers=2", LIST(.workspace_per_thread = 9 * MIB), 0, TD_RESOURCE_LIMIT },
    { "one's, of two", "--workers=2",
      LIST(.workspace_per_thread = 9 * MIB, .single_threaded = true), 0, TD_OK },
    { "both kinds together", "--workers=2",
      LIST(.workspace = 5 * MIB, .workspace_per_thread = 6 * MIB), 0, TD_RESOURCE_LIMIT },
    { "both kinds, now", "--workers=2", LIST(.workspace = 2 * MIB, .workspace_per_thread = 3 * MIB),
      9 * MIB, TD_MEMORY_EXHAUSTED },
    { "all there could be", "--workers=1", LIST(.workspace = UINT64_MAX), 0, TD_RESOURCE_LIMIT },
    { "a product of more than 64 bits", "--workers=4",
      LIST(.workspace_per_thread = UINT64_MAX / 4 + 2), 0, TD_RESOURCE_LIMIT },
    { "a sum of more than 64 bits", "--workers=2",
      LIST(.workspace = UINT64_MAX - 10, .workspace_per_thread = 10), 0, TD_RESOURCE_LIMIT },
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
    folder_open();
    put_zeros("t.npy", readings[_i].n, readings[_i].shift);
    server_open(OPTIONS(data_dir_option()));
    struct td_call *call = costly_call(readings[_i].body, (struct td_cost){ 0 });
    const td_verdict verdict = td_schedule(call);
    ck_assert_msg((verdict == TD_ANSWERED) == readings[_i].here, "%s", readings[_i].description);
    if (verdict == TD_QUEUE) {
        ck_assert(call->schedule.next == TD_NEXT_ADMIT);
        ck_assert_int_eq(costly.inferred, 0);
        run_queued(call);
    }
    expect_reply(call, 200, "42");
    ck_assert_int_eq(costly.inferred, 1);
    ck_assert_int_eq(pthread_equal(costly.inferred_on, pthread_self()) != 0, readings[_i].here);
    td_call_free(call);
    server_close();
    folder_close();
}

TD_TEST(rows_of_a_truncated_file_are_not_stored)
{
    enum { N = 100000 };
    struct td_error err;
    struct td_tensor_listing listing;
    td_guard_install();
    folder_open();
    put_zeros("t.npy", N, 0);
    server_open(OPTIONS(data_dir_option()));
    ck_assert_int_eq(truncate(path_of("t.npy"), 4096), 0);
    struct td_call *call =
        call_of("{\"params\":{\"ref\":\"t\"},\"indices\":[99999],\"store\":\"rows\"}");
    run_call(call);
    expect_reply(call, 503, "truncated");
    ck_assert_int_eq(td_store_get(services.store, "rows", 4, &test_arena, &listing, &err),
                     TD_TENSOR_NOT_FOUND);
    td_call_free(call);
    server_close();
    folder_close();
}

/* ---- files and shared memory that are truncated
 * ------------------------------------------------ */

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
    char key[SHARED_OBJECT_KEY];
    if (truncates)
        task.compute = compute_and_truncate;
    shared_object = shared_object_open(key, 4096);
    server_open(OPTIONS("--system-shared-memory"));
    td_guard_install();
    ck_assert_int_eq(td_shm_register(services.shm, "out", key, 0, 4096, &err), TD_OK);
    shared_object_remove(key);
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
}

TD_FIXTURE(NULL, server_end);
