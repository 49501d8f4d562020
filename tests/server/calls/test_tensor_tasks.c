#include "kernels/scatter/scatter.h"
#include "server/calls/scheduler.h"
#include "server/calls/tensor_list.h"
#include "server/calls/tensor_tasks.h"
#include "server/calls/update_tasks.h"
#include "tests/server/calls/setup.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

/* A GET of the tensor as text. */
static struct td_call *get_text(const char *name)
{
    struct td_call *call = call_of("");
    call->op = NULL;
    call->task = &td_tensor_get_task;
    call->method = "GET";
    call->arguments[0] = name;
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
    struct td_call *call = get_text("words");
    ck_assert_int_eq(td_schedule(call), TD_QUEUE);
    ck_assert(call->schedule.next < TD_NEXT_COMPUTE);
    run_queued(call);
    expect_reply(call, 200, "\"xxxx");
    td_call_free(call);
    ck_assert_int_eq(td_store_delete(services.store, &write, &(bool){ false }, &err), TD_OK);
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
    ck_assert_uint_lt(td_buffer_pool_usage(services.buffers).in_use,
                      call->arena.taken + NUMBERS * sizeof(float));
    td_call_free(call);
    ck_assert_uint_ge(td_buffer_pool_usage(services.buffers).in_use, NUMBERS * sizeof(float));
    ck_assert_int_eq(td_store_delete(services.store, &(struct td_store_write){ .name = "ones" },
                                     &(bool){ false }, &err),
                     TD_OK);
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
}

/* Fails after all rows have been written. */
static td_status scatter_too_late(struct td_op_args *args, struct td_exec *exec,
                                  struct td_error *err)
{
    const td_status status = td_op_scatter.run(args, exec, err);
    return status == TD_OK ? td_error_set(err, TD_DEADLINE_EXCEEDED, "too late") : status;
}

/* Fails after the op has succeeded. */
static td_status lose_slices(const struct td_op_args *args, struct td_arena *arena,
                             struct td_written_slices *out, struct td_error *err)
{
    (void)args;
    (void)arena;
    (void)out;
    return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the slices");
}

static void scatter_into(const char *name, const struct td_op *op, const char *body,
                         int http_status)
{
    struct td_call *call = call_of(body);
    call->op = op;
    call->task = &td_table_change_task;
    call->arguments[0] = name;
    ck_assert_int_eq(call->task->begin(call), TD_OK);
    call->body_format = TD_FORMAT_JSON;
    run_call(call);
    expect_reply(call, http_status, "");
    td_call_free(call);
}

TD_TEST(rows_of_a_failed_update_are_not_in_the_next_version)
{
    const struct td_tensor t = tensor("int32[3] 1 2 3");
    const struct td_store_write write = { .name = "t" };
    struct td_op_change change = *td_op_scatter.change;
    struct td_op too_late = td_op_scatter, without_slices = td_op_scatter;
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    too_late.run = scatter_too_late;
    change.slices = lose_slices;
    without_slices.change = &change;
    server_open(NULL);
    ck_assert_int_eq(
        td_store_put(services.store, &write, &t, &test_arena, &listing, &created, &err), TD_OK);
    scatter_into("t", &td_op_scatter, "{\"indices\":[[0]],\"updates\":[8]}", 200);
    scatter_into("t", &too_late, "{\"indices\":[[1]],\"updates\":[9]}", 504);
    scatter_into("t", &td_op_scatter, "{\"indices\":[[2]],\"updates\":[7]}", 200);
    scatter_into("t", &without_slices, "{\"indices\":[[1]],\"updates\":[9]}", 503);
    scatter_into("t", &td_op_scatter, "{\"indices\":[[2]],\"updates\":[6]}", 200);
    struct td_call *call = get_text("t");
    run_call(call);
    expect_reply(call, 200, "[8,2,6]");
    td_call_free(call);
    ck_assert_int_eq(td_store_delete(services.store, &write, &(bool){ false }, &err), TD_OK);
}

TD_FIXTURE(NULL, server_end);
