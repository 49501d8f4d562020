#include "api/message/problem.h"
#include "server/calls/device_call.h"
#include "server/calls/op_task.h"
#include "server/calls/scheduler.h"
#include "tests/server/calls/setup.h"
#include "tests/support/suite.h"

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
    ck_assert_int_eq(gpu_only && td_problem_retry_after_s(&call->error) >= 1, gpu_only);
    run_queued(filling);
    expect_reply(filling, 200, GATHER_RESULT);
}

TD_FIXTURE(NULL, server_end);
