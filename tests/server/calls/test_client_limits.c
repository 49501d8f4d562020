#include "api/message/problem.h"
#include "server/calls/client_limits.h"
#include "server/calls/scheduler.h"
#include "tests/server/calls/setup.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LIMIT = 100, TOO_MUCH = 1000, ROUNDS = 50000 };

static struct td_client caller;

static void limits_init(void)
{
    memset(&services, 0, sizeof services);
    memset(&caller, 0, sizeof caller);
    services.config.client_memory = LIMIT;
    services.config.client_requests = LIMIT;
}

static struct td_call call_of_client(void)
{
    return (struct td_call){ .services = &services, .client = &caller };
}

static bool charge(struct td_call *call, size_t bytes)
{
    return td_client_limits_charge(call, bytes) == TD_OK;
}

TD_TEST(the_memory_of_a_clients_calls_has_a_limit)
{
    limits_init();
    struct td_call first = call_of_client(), second = call_of_client();
    ck_assert(charge(&first, 60));
    ck_assert(!charge(&second, 41));
    ck_assert_int_eq(second.error.status, TD_CLIENT_LIMIT);
    ck_assert_str_eq(second.error.resource, "memory_bytes");
    ck_assert_uint_eq(second.error.needed, 101);
    ck_assert_uint_eq(second.error.limit, LIMIT);
    ck_assert_uint_eq(td_problem_retry_after_s(&second.error), 1);
    ck_assert(charge(&second, 40));
    td_client_limits_discharge(&first);
    ck_assert(charge(&second, TOO_MUCH)); /* the only one may exceed the limit */
    ck_assert(!charge(&first, 1));
    td_client_limits_discharge(&second);
    ck_assert_uint_eq(atomic_load(&caller.memory_bytes), 0);
}

TD_TEST(bytes_given_back_are_free_again)
{
    limits_init();
    struct td_call first = call_of_client(), second = call_of_client();
    ck_assert(charge(&first, 100));
    td_client_limits_give_back(&first, 30);
    ck_assert(charge(&second, 30));
    td_client_limits_give_back(&first, 71); /* more than it has */
    ck_assert_uint_eq(atomic_load(&caller.memory_bytes), 30);
    td_client_limits_discharge(&second);
    ck_assert_uint_eq(atomic_load(&caller.memory_bytes), 0);
}

TD_TEST(the_calls_of_a_client_have_a_limit)
{
    limits_init();
    struct td_call calls[LIMIT + 1];
    for (int i = 0; i <= LIMIT; i++) {
        calls[i] = call_of_client();
        ck_assert_int_eq(td_client_limits_take_request(&calls[i]),
                         i < LIMIT ? TD_OK : TD_CLIENT_LIMIT);
    }
    ck_assert_str_eq(calls[LIMIT].error.resource, "requests");
    ck_assert_uint_eq(calls[LIMIT].error.needed, LIMIT + 1);
    ck_assert_uint_eq(calls[LIMIT].error.limit, LIMIT);
    for (int i = 0; i <= LIMIT; i++)
        td_client_limits_give_request(&calls[i]);
    ck_assert_int_eq(atomic_load(&caller.requests), 0);
}

static atomic_bool over;

static void *charge_too_much(void *argument)
{
    struct td_call call = call_of_client();
    (void)argument;
    for (int i = 0; i < ROUNDS; i++)
        ck_assert(!charge(&call, TOO_MUCH));
    atomic_store(&over, true);
    return NULL;
}

TD_TEST(a_refused_call_does_not_refuse_one_that_fits)
{
    limits_init();
    struct td_call holds = call_of_client(), fits = call_of_client();
    pthread_t thread;
    ck_assert(charge(&holds, LIMIT / 2));
    ck_assert_int_eq(pthread_create(&thread, NULL, charge_too_much, NULL), 0);
    while (!atomic_load(&over)) {
        ck_assert_msg(charge(&fits, LIMIT / 2), "%s", fits.error.message);
        td_client_limits_discharge(&fits);
    }
    pthread_join(thread, NULL);
    td_client_limits_discharge(&holds);
    ck_assert_uint_eq(atomic_load(&caller.memory_bytes), 0);
}

/* ---- the limits of a running server ---------------------------------------------------------- */

TD_TEST(the_queued_and_running_calls_of_a_client_have_a_limit)
{
    server_open(OPTIONS("--inline-limit-us=0", "--client-requests=2"));
    hold_worker();
    struct td_call *calls[5];
    for (int i = 0; i < 5; i++)
        calls[i] = call_from(i == 3 ? "10.0.0.2" : "10.0.0.1", GATHER);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(td_schedule(calls[i]), i == 2 ? TD_ANSWERED : TD_QUEUE);
        if (i != 2)
            td_schedule_submit(calls[i]);
    }
    ck_assert_uint_ge(td_problem_retry_after_s(&calls[2]->error), 1);
    ck_assert_str_eq(calls[2]->error.resource, "requests");
    expect_reply(calls[2], 429, "--client-requests allows no more");
    release_worker();
    await_calls(3);
    run_call(calls[4]);
    expect_reply(calls[4], 200, GATHER_RESULT);
    ck_assert_int_eq(atomic_load(&calls[4]->client->requests), 0);
    for (int i = 0; i < 5; i++)
        td_call_free(calls[i]);
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
}

TD_TEST(a_client_is_not_charged_for_an_expanded_body_that_its_call_has_discarded)
{
    server_open(OPTIONS("--max-expansion=0"));
    struct td_call *call = call_with_spaces(1 << 20);
    call->body_bytes--; /* the end of the stream is missing */
    ck_assert_int_eq(td_client_limits_charge(call, 50000), TD_OK); /* as when the body arrives */
    ck_assert_int_eq(td_call_decode(call), TD_MALFORMED_REQUEST);
    ck_assert_uint_eq(atomic_load(&call->client->memory_bytes), 50000);
    td_call_free(call);
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
    const struct td_buffer_pool_usage usage = td_buffer_pool_usage(services.buffers);
    ck_assert_uint_le(usage.in_use + usage.warm, 2 << 20);
    ck_assert_uint_eq(atomic_load(&client->memory_bytes), 1000);
    td_call_free(call);
    td_call_free(holds);
    td_client_unref(client);
}

TD_FIXTURE(NULL, server_end);
