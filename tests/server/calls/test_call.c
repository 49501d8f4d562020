#include "api/oip/oip.h"
#include "server/calls/call.h"
#include "server/calls/op_task.h"
#include "server/calls/scheduler.h"
#include "server/observe/clock.h"
#include "tests/gates/clock.h"
#include "tests/server/calls/setup.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/socket.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

TD_TEST(a_call_reuses_the_memory_of_a_freed_call)
{
    server_open(NULL);
    struct td_call *first = call_of("{\"params\":[1],\"indices\":[9]}");
    ck_assert_int_eq(td_schedule(first), TD_ANSWERED);
    ck_assert_int_eq(first->error.status, TD_INDEX_OUT_OF_BOUNDS);
    first->gone = first->http.close_connection = true;
    td_call_free(first);
    struct td_call *second = call_of(GATHER);
    ck_assert_ptr_eq(second, first);
    ck_assert_int_eq(second->error.status, TD_OK);
    ck_assert(!second->gone && !second->http.close_connection &&
              second->schedule.next == TD_NEXT_DECODE);
    ck_assert_int_eq(td_schedule(second), TD_ANSWERED);
    expect_reply(second, 200, GATHER_RESULT);
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
}

TD_TEST(an_error_has_no_headers_of_the_reply_that_it_replaces)
{
    server_open(NULL);
    struct td_call *call = call_of(GATHER);
    td_reply_header(&call->reply, "ETag", "\"1\"");
    ck_assert_int_eq(td_error_set(&call->error, TD_DRAINING, "the server stops"), TD_DRAINING);
    td_call_refuse(call);
    expect_reply(call, 503, "DRAINING");
    ck_assert_ptr_null(header_of(call, "ETag"));
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
}

/* A call that needs more than the limit together with what it holds would never succeed. */
TD_TEST_LOOP(what_a_call_holds_counts_against_the_memory_limit, 0, 2)
{
    enum { MIB = 1 << 20 };
    server_open(OPTIONS("--memory-limit=16M"));
    struct td_memory *memory = td_buffer_pool_memory(services.buffers);
    struct td_call *call = call_of(GATHER);
    if (_i)
        ck_assert_ptr_nonnull(td_arena_alloc(&call->arena, 10 * MIB, 1, &call->error));
    else
        call->body_buffer = memory->take(memory, 10 * MIB, &call->error);
    ck_assert_int_eq(td_call_admit_memory(call, 3 * MIB), TD_OK);
    ck_assert_int_eq(td_call_admit_memory(call, 8 * MIB), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(call->error.resource, "workspace_bytes");
    ck_assert_uint_ge(call->error.needed, 18 * MIB);
    td_call_free(call);
}

TD_TEST_LOOP(a_call_of_a_disconnected_client_is_not_computed, 0, 2)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    test_clock_stop();
    server_open(OPTIONS("--inline-limit-us=0"));
    hold_worker();
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
    test_clock_advance(3000000); /* shorter waits are not checked */
    release_worker();
    await_calls(1);
    ck_assert(call->gone);
    ck_assert(call->schedule.next == TD_NEXT_DECODE);
    ck_assert_int_eq(call->reply.http_status, 0);
    td_call_free(call);
    close(ends[0]);
    if (_i)
        close(ends[1]);
}

TD_TEST(a_new_call_has_no_state_of_the_previous_one)
{
    server_open(OPTIONS("--inline-limit-us=1000000"));
    struct td_call *before = call_of("{\"params\":[1,2],\"indices\":[0],\"timing\":true}");
    ck_assert_int_eq(td_schedule(before), TD_ANSWERED);
    ck_assert(before->request.decoded);
    (void)td_error_set(&before->error, TD_INTERNAL, "an error");
    before->schedule.must_queue = before->gone = before->http.close_connection = true;
    before->headers.range = "bytes=0-1";
    before->schedule.deadline_ns = before->schedule.start_by_ns = 1;
    td_call_free(before);

    struct td_call *call = td_call_new(&services);
    ck_assert_ptr_eq(call, before);
    ck_assert(!call->request.decoded && call->schedule.next == TD_NEXT_DECODE);
    ck_assert(!call->schedule.must_queue && !call->gone && !call->http.close_connection);
    ck_assert(!call->request.common.timing && call->request.common.set == 0);
    ck_assert_ptr_null(call->request.op);
    ck_assert_ptr_null(call->request.oip);
    ck_assert_ptr_null(call->request.args.outputs);
    for (int i = 0; i < TD_MAX_INPUTS; i++) {
        ck_assert_int_eq(call->request.args.inputs[i].count, 0);
        ck_assert_ptr_null(call->request.args.inputs[i].tensors);
    }
    ck_assert_int_eq(call->error.status, TD_OK); /* the other members are set with an error */
    ck_assert_int_eq(call->reply.http_status, 0);
    ck_assert_int_eq(call->reply.n_chunks, 0);
    ck_assert_int_eq(call->times.arrived, 0);
    ck_assert_ptr_null(call->op);
    ck_assert_ptr_null(call->headers.range);
    ck_assert_int_eq(call->schedule.start_by_ns, TD_NEVER);
    ck_assert_int_eq(call->socket, -1);
    ck_assert_uint_eq(call->headers.inference_header, TD_OIP_NO_HEADER);
    ck_assert_ptr_eq(call->services, &services);
    td_call_free(call);
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
}

TD_FIXTURE(NULL, server_end);
