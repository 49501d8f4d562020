#include "server/observe/log_limit.h"
#include "tests/support/suite.h"

#include <pthread.h>

#define S INT64_C(1000000000)

TD_TEST(the_first_events_of_a_second_are_logged)
{
    struct td_log_limit limit = { 0 };
    for (int second = 5; second < 8; second++)
        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(td_log_limit_take(&limit, second * S + i * S / 10, 3), i < 3);
    ck_assert_uint_eq(atomic_load(&limit.events), 30);
}

TD_TEST(what_is_suppressed_is_reported_once)
{
    struct td_log_limit limit = { 0 };
    for (int i = 0; i < 10; i++)
        (void)td_log_limit_take(&limit, S, 3);
    ck_assert_uint_eq(td_log_limit_suppressed_before(&limit, S + S / 2), 0);
    ck_assert_uint_eq(td_log_limit_suppressed_before(&limit, 2 * S), 7);
    ck_assert_uint_eq(td_log_limit_suppressed(&limit), 0);
    ck_assert_uint_eq(atomic_load(&limit.events), 10);
}

TD_TEST(an_event_of_the_second_before_counts_in_this_one)
{
    struct td_log_limit limit = { 0 };
    ck_assert(td_log_limit_take(&limit, 2 * S, 2));
    ck_assert(td_log_limit_take(&limit, 2 * S - 1, 2));
    ck_assert(!td_log_limit_take(&limit, 2 * S - 1, 2));
    ck_assert(!td_log_limit_take(&limit, 2 * S, 2));
}

enum { THREADS = 4, EVENTS = 20000, PER_SECOND = 10 };

struct taker {
    struct td_log_limit *limit;
    int logged;
};

static void *take_many(void *argument)
{
    struct taker *taker = argument;
    for (int i = 0; i < EVENTS; i++)
        taker->logged += td_log_limit_take(taker->limit, S, PER_SECOND);
    return NULL;
}

TD_TEST(threads_share_the_limit_and_lose_no_event)
{
    struct td_log_limit limit = { 0 };
    struct taker takers[THREADS];
    pthread_t threads[THREADS];
    int logged = 0;
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){ .limit = &limit };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_many, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        logged += takers[i].logged;
    }
    ck_assert_int_eq(logged, PER_SECOND);
    ck_assert_uint_eq(atomic_load(&limit.events), THREADS * EVENTS);
    ck_assert_uint_eq(td_log_limit_suppressed(&limit), THREADS * EVENTS - PER_SECOND);
}
