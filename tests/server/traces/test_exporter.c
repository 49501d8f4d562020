#include "server/observe/clock.h"
#include "server/traces/exporter.h"
#include "tests/gates/clock.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

/* ---- the collector: the test's --------------------------------------------------------------- */

struct td_collector *__wrap_td_collector_new(const struct td_config *config);
void __wrap_td_collector_free(struct td_collector *collector);
void __wrap_td_collector_post(struct td_collector *collector, const char *body, size_t bytes,
                              const atomic_int_fast64_t *stop_by_ns,
                              struct td_collector_reply *reply);

static struct {
    atomic_int posts;
    sem_t posted;       /* a request has begun */
    atomic_bool closed; /* requests wait until it is open, or until the end, when time passes */
    td_collector_outcome outcomes[8];
    int64_t retry_after_ns, rejected;
    size_t bytes[8]; /* of the first bodies */
} fake;

struct td_collector *__wrap_td_collector_new(const struct td_config *config)
{
    (void)config;
    return (struct td_collector *)(void *)&fake;
}

void __wrap_td_collector_free(struct td_collector *collector)
{
    (void)collector;
}

void __wrap_td_collector_post(struct td_collector *collector, const char *body, size_t bytes,
                              const atomic_int_fast64_t *stop_by_ns,
                              struct td_collector_reply *reply)
{
    const int n = atomic_load(&fake.posts);
    (void)collector;
    (void)body;
    *reply = (struct td_collector_reply){ .outcome = fake.outcomes[n < 8 ? n : 7],
                                          .rejected = fake.rejected,
                                          .retry_after_ns = fake.retry_after_ns,
                                          .reason = "as the test says" };
    if (n < 8)
        fake.bytes[n] = bytes;
    atomic_fetch_add(&fake.posts, 1);
    sem_post(&fake.posted);
    for (; atomic_load(&fake.closed); moment()) {
        const int64_t stop_by = atomic_load(stop_by_ns);
        if (stop_by != TD_NEVER) {
            const int64_t left = stop_by - td_now_ns();
            test_clock_advance(left > 0 ? left : 0);
            reply->outcome = TD_COLLECTOR_BUSY;
            return;
        }
    }
}

/* ---- the tests ------------------------------------------------------------------------------- */

static struct td_log log_to_nothing;
static struct td_config config;

#define SECOND INT64_C(1000000000)

static struct td_exporter *start(void)
{
    test_clock_stop();
    atomic_store(&fake.posts, 0);
    sem_init(&fake.posted, 0, 0);
    atomic_store(&fake.closed, false);
    memset(fake.outcomes, 0, sizeof fake.outcomes); /* accepted */
    fake.retry_after_ns = fake.rejected = 0;
    log_to_nothing.fd = -1;
    config.trace_sample = 1;
    struct td_exporter *exporter = td_exporter_start(&config, &log_to_nothing);
    ck_assert_ptr_nonnull(exporter);
    return exporter;
}

/* A span with one stage, which counts as two. */
static void give(struct td_exporter *exporter, int n)
{
    static const struct td_span_ids ids = { .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                                            .span_id = "00f067aa0ba902b7" };
    for (int i = 0; i < n; i++) {
        struct td_span *span = td_span_new(&ids);
        ck_assert_ptr_nonnull(span);
        td_span_stage(span, "compute", 1, 2);
        td_exporter_give(exporter, span);
    }
}

static bool is_sum(struct td_exporter *exporter, uint64_t sum, struct td_exporter_counts *counts)
{
    *counts = td_exporter_counts(exporter);
    return counts->exported + counts->failed + counts->dropped >= sum;
}

/* Lets time pass until so many spans are counted. */
static void wait_sum(struct td_exporter *exporter, uint64_t sum, struct td_exporter_counts *counts)
{
    for (int moments = 0; !is_sum(exporter, sum, counts); moments++, moment()) {
        ck_assert_int_lt(moments, MOMENTS);
        test_clock_advance(SECOND);
    }
}

static void check_counts(struct td_exporter_counts counts, uint64_t exported, uint64_t dropped,
                         uint64_t failed)
{
    ck_assert_uint_eq(counts.exported, exported);
    ck_assert_uint_eq(counts.dropped, dropped);
    ck_assert_uint_eq(counts.failed, failed);
}

TD_TEST(a_batch_is_sent_once_and_counted)
{
    struct td_exporter_counts counts;
    struct td_exporter *exporter = start();
    give(exporter, TD_EXPORTER_BATCH);
    wait_sum(exporter, 2 * TD_EXPORTER_BATCH, &counts);
    check_counts(counts, 2 * TD_EXPORTER_BATCH, 0, 0);
    td_exporter_stop(exporter, SECOND);
}

TD_TEST(what_the_collector_rejects_has_failed)
{
    struct td_exporter_counts counts;
    struct td_exporter *exporter = start();
    fake.rejected = 3;
    give(exporter, 5);
    wait_sum(exporter, 10, &counts);
    ck_assert_uint_ge(counts.failed, 3);
    ck_assert_uint_eq(counts.failed + counts.exported, 10);
    td_exporter_stop(exporter, SECOND);
}

/* It cannot have rejected more than it got. */
TD_TEST(a_wrong_number_of_rejected_spans_is_bounded)
{
    struct td_exporter_counts counts;
    struct td_exporter *exporter = start();
    fake.rejected = INT64_MAX;
    give(exporter, 5);
    wait_sum(exporter, 10, &counts);
    check_counts(counts, 0, 0, 10);
    td_exporter_stop(exporter, SECOND);
}

TD_TEST(a_refused_batch_has_failed_and_is_not_sent_again)
{
    struct td_exporter_counts counts;
    struct td_exporter *exporter = start();
    for (int i = 0; i < 8; i++)
        fake.outcomes[i] = TD_COLLECTOR_REFUSED;
    give(exporter, 1);
    wait_sum(exporter, 2, &counts);
    check_counts(counts, 0, 0, 2);
    ck_assert_int_eq(atomic_load(&fake.posts), 1);
    td_exporter_stop(exporter, SECOND);
}

TD_TEST(a_busy_collector_gets_the_same_body_again)
{
    struct td_exporter_counts counts;
    struct td_exporter *exporter = start();
    fake.outcomes[0] = TD_COLLECTOR_BUSY;
    give(exporter, TD_EXPORTER_BATCH);
    await(&fake.posted);
    give(exporter, 1); /* of the next body */
    wait_sum(exporter, 2 * TD_EXPORTER_BATCH + 2, &counts);
    check_counts(counts, 2 * TD_EXPORTER_BATCH + 2, 0, 0);
    ck_assert_uint_eq(fake.bytes[0], fake.bytes[1]);
    td_exporter_stop(exporter, SECOND);
}

TD_TEST(a_full_queue_drops_spans_without_waiting)
{
    struct td_exporter_counts counts;
    struct td_exporter *exporter = start();
    atomic_store(&fake.closed, true);
    give(exporter, TD_EXPORTER_QUEUE + 7);
    check_counts(td_exporter_counts(exporter), 0, 14, 0);
    td_exporter_give(exporter, NULL); /* no memory for a span */
    check_counts(td_exporter_counts(exporter), 0, 15, 0);
    atomic_store(&fake.closed, false);
    wait_sum(exporter, 2 * TD_EXPORTER_QUEUE + 15, &counts);
    check_counts(counts, 2 * TD_EXPORTER_QUEUE, 15, 0);
    give(exporter, 1); /* there is room again */
    wait_sum(exporter, 2 * TD_EXPORTER_QUEUE + 17, &counts);
    check_counts(counts, 2 * TD_EXPORTER_QUEUE + 2, 15, 0);
    td_exporter_stop(exporter, SECOND);
}

TD_TEST(the_end_sends_what_is_queued)
{
    struct td_exporter *exporter = start();
    give(exporter, 3);
    td_exporter_stop(exporter, SECOND);
    ck_assert_int_eq(atomic_load(&fake.posts), 1);
}

TD_TEST(the_end_without_time_sends_nothing)
{
    struct td_exporter *exporter = start();
    give(exporter, 3);
    td_exporter_stop(exporter, 0);
    ck_assert_int_eq(atomic_load(&fake.posts), 0);
}

/* A request in progress ends, and the wait for another attempt. */
TD_TEST(the_end_does_not_wait_for_a_collector_that_hangs)
{
    struct td_exporter *exporter = start();
    atomic_store(&fake.closed, true);
    give(exporter, TD_EXPORTER_BATCH);
    await(&fake.posted);
    td_exporter_stop(exporter, SECOND);
    ck_assert_int_eq(atomic_load(&fake.posts), 2);
}

TD_TEST(the_end_does_not_wait_as_long_as_the_collector_asks)
{
    struct td_exporter *exporter = start();
    for (int i = 0; i < 8; i++)
        fake.outcomes[i] = TD_COLLECTOR_BUSY;
    fake.retry_after_ns = 1000 * SECOND;
    give(exporter, TD_EXPORTER_BATCH);
    await(&fake.posted);
    td_exporter_stop(exporter, 100 * SECOND);
    ck_assert_int_eq(atomic_load(&fake.posts), 2); /* the last attempt */
}

enum { THREADS = 4, EACH = 5000 };

static void *give_many(void *exporter)
{
    for (int i = 0; i < EACH; i++)
        give(exporter, 1);
    return NULL;
}

TD_TEST(spans_of_several_threads_are_all_counted)
{
    struct td_exporter_counts counts;
    struct td_exporter *exporter = start();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, give_many, exporter), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    wait_sum(exporter, 2 * THREADS * EACH, &counts);
    ck_assert_uint_eq(counts.exported + counts.dropped, 2 * THREADS * EACH);
    ck_assert_uint_gt(counts.exported, 0);
    td_exporter_stop(exporter, SECOND);
}

TD_TEST(none_is_fine)
{
    td_exporter_stop(NULL, SECOND);
}
