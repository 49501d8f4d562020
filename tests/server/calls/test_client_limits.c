#include "server/calls/client_limits.h"
#include "server/calls/services.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { LIMIT = 100, TOO_MUCH = 1000, ROUNDS = 200000 };

static struct td_services services;
static struct td_client client;

static void limits_init(void)
{
    memset(&services, 0, sizeof services);
    memset(&client, 0, sizeof client);
    services.config.client_memory = LIMIT;
    services.config.client_requests = LIMIT;
}

static struct td_call call_of_client(void)
{
    return (struct td_call){ .services = &services, .client = &client };
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
    ck_assert_uint_eq(second.error.retry_after_s, 1);
    ck_assert(charge(&second, 40));
    td_client_limits_discharge(&first);
    ck_assert(charge(&second, TOO_MUCH)); /* the only one may exceed the limit */
    ck_assert(!charge(&first, 1));
    td_client_limits_discharge(&second);
    ck_assert_uint_eq(atomic_load(&client.memory_bytes), 0);
}

TD_TEST(bytes_given_back_are_free_again)
{
    limits_init();
    struct td_call first = call_of_client(), second = call_of_client();
    ck_assert(charge(&first, 100));
    td_client_limits_give_back(&first, 30);
    ck_assert(charge(&second, 30));
    td_client_limits_give_back(&first, 71); /* more than it has */
    ck_assert_uint_eq(atomic_load(&client.memory_bytes), 30);
    td_client_limits_discharge(&second);
    ck_assert_uint_eq(atomic_load(&client.memory_bytes), 0);
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
    ck_assert_int_eq(atomic_load(&client.requests), 0);
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
    ck_assert_uint_eq(atomic_load(&client.memory_bytes), 0);
}
