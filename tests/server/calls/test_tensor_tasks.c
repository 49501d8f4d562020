#include "server/calls/scheduler.h"
#include "server/calls/tensor_list.h"
#include "server/calls/tensor_tasks.h"
#include "tests/server/calls/setup.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

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

TD_FIXTURE(NULL, server_end);
