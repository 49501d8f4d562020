#include "server/clients/refusals.h"
#include "server/observe/clock.h"
#include "tests/gates/clock.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <semaphore.h>
#include <stdlib.h>

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

/* ---- how long a refusal waits ---------------------------------------------------------------- */

/* Refusals of one client, at these times in ms, each with Retry-After: 1. */
static const struct {
    const char *description;
    int at_ms[4], delays_ms[4];
} histories[] = {
    { "the first refusal is sent at once", { 0 }, { 0 } },
    { "a client that waits is never delayed", { 0, 1000, 2500, 4000 }, { 0, 0, 0, 0 } },
    { "a retry at once waits for 5 ms", { 0, 0, 1, 4 }, { 0, 5, 5, 5 } },
    { "then as long as the client has retried", { 0, 5, 10, 20 }, { 0, 5, 10, 20 } },
    { "at most a second", { 0, 900, 1800, 2700 }, { 0, 900, 1000, 1000 } },
    { "a client that waits at last is like a new one", { 0, 900, 1900, 1901 }, { 0, 900, 0, 5 } },
};

TD_TEST_EACH(a_refusal_waits_so_long, histories)
{
    struct td_refused client = { 0 };
    const int64_t start = 5 * SECOND;
    for (int i = 0; i < 4 && (i == 0 || histories[_i].at_ms[i] || histories[_i].delays_ms[i]);
         i++) {
        const int64_t delay = td_refusals_record(&client, start + histories[_i].at_ms[i] * MS, 1);
        ck_assert_msg(delay == histories[_i].delays_ms[i] * MS, "%s: refusal %d waits %lld ns",
                      histories[_i].description, i, (long long)delay);
    }
}

TD_TEST(retry_after_decides_who_is_early)
{
    struct td_refused client = { 0 };
    ck_assert_int_eq(td_refusals_record(&client, 1 * SECOND, 3), 0);
    ck_assert_int_eq(td_refusals_record(&client, 3 * SECOND, 1), SECOND);
    ck_assert_int_eq(td_refusals_record(&client, 4 * SECOND, 1), 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* A refusal that records in which order it was ended. */
struct recorded {
    struct td_refusal refusal; /* first: end casts back */
    int64_t ended_ns;
    int place;
};

static sem_t ended;
static atomic_int n_ended;

static void end(struct td_refusal *refusal)
{
    struct recorded *recorded = (struct recorded *)(void *)refusal;
    recorded->ended_ns = td_now_ns();
    recorded->place = atomic_fetch_add(&n_ended, 1);
    sem_post(&ended);
}

/* A pool with a place that is taken: no refusal is sent early. */
static struct td_worker_pool *full_pool(void)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 1);
    ck_assert_ptr_nonnull(pool);
    ck_assert(td_worker_pool_reserve(pool, NULL));
    sem_init(&ended, 0, 0);
    atomic_store(&n_ended, 0);
    return pool;
}

static bool delay(struct td_refusals *refusals, struct recorded *recorded, int64_t due_ns)
{
    *recorded = (struct recorded){ .refusal.end = end };
    return td_refusals_delay(refusals, &recorded->refusal, due_ns);
}

/* Returns when the thread has looked at the clock. Two refusals that are due: the second one ends
 * in a later look than the first. */
static void wait_for_a_look(struct td_refusals *refusals)
{
    static struct recorded due[2];
    for (int i = 0; i < 2; i++) {
        ck_assert(delay(refusals, &due[i], 0));
        sem_wait(&ended);
    }
}

TD_TEST(refusals_end_when_they_are_due)
{
    test_clock_stop();
    struct td_worker_pool *pool = full_pool();
    struct td_refusals *refusals = td_refusals_new(pool);
    struct recorded recorded[3];
    static const int due_ms[] = { 60, 20, 40 };
    const int64_t now = td_now_ns();
    for (int i = 0; i < 3; i++)
        ck_assert(delay(refusals, &recorded[i], now + due_ms[i] * MS));
    for (int i = 0; i < 3; i++) {
        test_clock_advance(20 * MS - 1);
        wait_for_a_look(refusals);
        test_clock_advance(1);
        sem_wait(&ended);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(recorded[i].ended_ns, now + due_ms[i] * MS);
    td_refusals_free(refusals);
    td_worker_pool_free(pool);
}

TD_TEST(refusals_that_are_due_end_in_the_order_in_which_they_became_so)
{
    test_clock_stop();
    struct td_worker_pool *pool = full_pool();
    struct td_refusals *refusals = td_refusals_new(pool);
    struct recorded recorded[3];
    static const int due_ms[] = { 60, 20, 40 }, places[] = { 2, 0, 1 };
    for (int i = 0; i < 3; i++)
        ck_assert(delay(refusals, &recorded[i], td_now_ns() + due_ms[i] * MS));
    test_clock_advance(60 * MS);
    for (int i = 0; i < 3; i++)
        sem_wait(&ended);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(recorded[i].place, places[i]);
    td_refusals_free(refusals);
    td_worker_pool_free(pool);
}

TD_TEST(refusals_end_early_while_nothing_is_queued)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 8);
    struct td_refusals *refusals = td_refusals_new(pool);
    struct recorded recorded[6];
    sem_init(&ended, 0, 0);
    ck_assert_int_eq(td_worker_pool_room(pool), 4); /* for one worker */
    for (int i = 0; i < 6; i++)
        ck_assert(delay(refusals, &recorded[i], INT64_MAX));
    for (int i = 0; i < 6; i++) /* some at each tick */
        sem_wait(&ended);
    td_refusals_free(refusals);
    td_worker_pool_free(pool);
}

TD_TEST(closing_ends_all_and_delays_no_more)
{
    struct td_worker_pool *pool = full_pool();
    struct td_refusals *refusals = td_refusals_new(pool);
    struct recorded recorded[3];
    for (int i = 0; i < 2; i++)
        ck_assert(delay(refusals, &recorded[i], INT64_MAX));
    td_refusals_close(refusals);
    for (int i = 0; i < 2; i++)
        sem_wait(&ended);
    ck_assert(!delay(refusals, &recorded[2], 0));
    td_refusals_free(refusals);
    ck_assert_int_eq(atomic_load(&n_ended), 2);
    td_refusals_free(NULL);
    td_worker_pool_free(pool);
}

TD_TEST(their_number_is_bounded)
{
    struct td_worker_pool *pool = full_pool();
    struct td_refusals *refusals = td_refusals_new(pool);
    struct recorded *recorded = calloc(TD_REFUSALS_MOST + 1, sizeof *recorded);
    for (int i = 0; i < TD_REFUSALS_MOST; i++)
        ck_assert(delay(refusals, &recorded[i], INT64_MAX));
    ck_assert(!delay(refusals, &recorded[TD_REFUSALS_MOST], INT64_MAX));
    td_refusals_free(refusals); /* ends them */
    ck_assert_int_eq(atomic_load(&n_ended), TD_REFUSALS_MOST);
    td_worker_pool_free(pool);
    free(recorded);
}

TD_TEST(refusals_that_have_ended_make_room_for_others)
{
    struct td_worker_pool *pool = full_pool();
    struct td_refusals *refusals = td_refusals_new(pool);
    struct recorded *recorded = calloc(TD_REFUSALS_MOST + 1, sizeof *recorded);
    for (int i = 0; i <= TD_REFUSALS_MOST; i++) {
        if (i == TD_REFUSALS_MOST)
            for (int j = 0; j < i; j++)
                sem_wait(&ended);
        ck_assert(delay(refusals, &recorded[i], 0));
    }
    td_refusals_free(refusals);
    ck_assert_int_eq(atomic_load(&n_ended), TD_REFUSALS_MOST + 1);
    td_worker_pool_free(pool);
    free(recorded);
}
