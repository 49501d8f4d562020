#include "server/observe/metrics.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const struct td_times some_times = {
    .begun = 1000, .stage_end = 61000, .decode = 1, .queue = 2, .compute = 3, .encode = 4
};

static struct td_request_record record_of(int operation, int code, td_status error)
{
    return (struct td_request_record){ .operation = operation,
                                       .transport = TD_TRANSPORT_JSON,
                                       .code = code,
                                       .error = error,
                                       .times = &some_times,
                                       .bytes_in = 10,
                                       .bytes_out = 100 };
}

static struct td_metrics *metrics_of(int shards)
{
    struct td_metrics *metrics = td_metrics_new(shards);
    ck_assert_ptr_nonnull(metrics);
    return metrics;
}

static uint64_t requests_of(const struct td_operation_totals *totals, int code)
{
    for (int i = 0; i < TD_CODE_COUNT; i++)
        if (td_counted_codes[i] == code)
            return totals->requests[i][TD_TRANSPORT_JSON];
    ck_abort_msg("%d is not counted", code);
}

TD_TEST(a_request_changes_the_totals_of_its_operation_only)
{
    struct td_metrics *metrics = metrics_of(3);
    struct td_operation_totals totals;
    const struct td_request_record good = record_of(2, 200, TD_OK);
    const struct td_request_record bad = record_of(2, 422, TD_INDEX_OUT_OF_BOUNDS);
    const struct td_request_record gone = record_of(2, TD_CODE_GONE, TD_OK);
    td_metrics_count(metrics, 0, &good);
    td_metrics_count(metrics, 2, &good);
    td_metrics_count(metrics, 1, &bad);
    td_metrics_count(metrics, 1, &gone);
    td_metrics_read(metrics, 2, &totals);
    ck_assert_uint_eq(requests_of(&totals, 200), 2);
    ck_assert_uint_eq(requests_of(&totals, 422), 1);
    ck_assert_uint_eq(requests_of(&totals, TD_CODE_GONE), 1);
    ck_assert_uint_eq(totals.errors[TD_INDEX_OUT_OF_BOUNDS], 1);
    ck_assert_uint_eq(totals.inferences.succeeded, 2);
    ck_assert_uint_eq(totals.inferences.failed, 2);
    ck_assert_uint_eq(totals.duration_ns, 4 * 60000);
    ck_assert_uint_eq(totals.bytes_in, 40);
    ck_assert_uint_eq(totals.bytes_out, 400);
    ck_assert_uint_gt(totals.inferences.last_ms, 0);
    for (int stage = 0; stage < TD_STAGE_COUNT; stage++) {
        ck_assert_uint_eq(totals.inferences.stage_ns[stage], 2 * ((uint64_t)stage + 1));
        ck_assert_uint_eq(totals.inferences.failed_stage_ns[stage], 2 * ((uint64_t)stage + 1));
    }
    static const struct td_operation_totals none;
    td_metrics_read(metrics, 3, &totals);
    ck_assert_mem_eq(&totals, &none, sizeof none);
    td_metrics_free(metrics);
}

TD_TEST(a_duration_is_in_the_bucket_whose_bound_it_does_not_exceed)
{
    struct td_metrics *metrics = metrics_of(1);
    struct td_operation_totals totals;
    for (int i = 0; i < TD_DURATION_BUCKETS; i++) {
        for (int64_t beyond = 0; beyond <= 1; beyond++) {
            const struct td_times times = { .begun = 5,
                                            .stage_end = 5 + td_duration_bounds[i] + beyond };
            struct td_request_record record = record_of(0, 200, TD_OK);
            record.times = &times;
            td_metrics_count(metrics, 0, &record);
        }
        if (i > 0)
            ck_assert_int_gt(td_duration_bounds[i], td_duration_bounds[i - 1]);
    }
    td_metrics_read(metrics, 0, &totals);
    ck_assert_uint_eq(totals.buckets[0], 1);
    for (int i = 1; i < TD_DURATION_BUCKETS; i++)
        ck_assert_uint_eq(totals.buckets[i], 2);
    ck_assert_uint_eq(totals.buckets[TD_DURATION_BUCKETS], 1);
    td_metrics_free(metrics);
}

/* Counts a request with these durations of its stages. */
static void count_stages(struct td_metrics *metrics, td_status error,
                         const int64_t ns[TD_STAGE_COUNT])
{
    struct td_times times = { .decode = ns[TD_STAGE_DECODE],
                              .queue = ns[TD_STAGE_QUEUE],
                              .compute = ns[TD_STAGE_COMPUTE],
                              .encode = ns[TD_STAGE_ENCODE],
                              .n_intervals = 1 };
    struct td_request_record record = record_of(0, error == TD_OK ? 200 : 422, error);
    record.times = &times;
    td_metrics_count(metrics, 0, &record);
}

TD_TEST(a_stage_is_in_the_bucket_whose_bound_it_does_not_exceed)
{
    struct td_metrics *metrics = metrics_of(1);
    struct td_operation_totals totals;
    for (int i = 0; i < TD_STAGE_BUCKETS; i++) {
        const int64_t bound = td_stage_bounds[i];
        count_stages(metrics, TD_OK, (const int64_t[]){ bound, bound + 1, 0, INT64_MAX });
        if (i > 0)
            ck_assert_int_gt(bound, td_stage_bounds[i - 1]);
    }
    td_metrics_read(metrics, 0, &totals);
    for (int i = 0; i <= TD_STAGE_BUCKETS; i++) {
        const bool first = i == 0, last = i == TD_STAGE_BUCKETS;
        ck_assert_uint_eq(totals.stage_buckets[TD_STAGE_DECODE][i], last ? 0 : 1);
        ck_assert_uint_eq(totals.stage_buckets[TD_STAGE_QUEUE][i], first ? 0 : 1);
        ck_assert_uint_eq(totals.stage_buckets[TD_STAGE_COMPUTE][i], first ? TD_STAGE_BUCKETS : 0);
        ck_assert_uint_eq(totals.stage_buckets[TD_STAGE_ENCODE][i], last ? TD_STAGE_BUCKETS : 0);
    }
    td_metrics_free(metrics);
}

TD_TEST(stages_are_counted_of_requests_that_had_some_and_succeeded)
{
    static const struct td_operation_totals none;
    struct td_metrics *metrics = metrics_of(1);
    struct td_operation_totals totals;
    struct td_request_record handled = record_of(0, 200, TD_OK);
    td_metrics_count(metrics, 0, &handled); /* it has no intervals */
    count_stages(metrics, TD_INDEX_OUT_OF_BOUNDS, (const int64_t[]){ 1, 2, 3, 4 });
    td_metrics_read(metrics, 0, &totals);
    ck_assert_mem_eq(totals.stage_buckets, none.stage_buckets, sizeof none.stage_buckets);
    count_stages(metrics, TD_OK, (const int64_t[]){ 1, 2, 3, 4 });
    td_metrics_read(metrics, 0, &totals);
    for (int stage = 0; stage < TD_STAGE_COUNT; stage++)
        ck_assert_uint_eq(totals.stage_buckets[stage][0], 1);
    td_metrics_free(metrics);
}

TD_TEST(a_status_that_has_no_count_of_its_own_is_an_error_of_the_server)
{
    struct td_metrics *metrics = metrics_of(1);
    struct td_operation_totals totals;
    const struct td_request_record record = record_of(TD_OPERATION_NONE, 418, TD_INTERNAL);
    td_metrics_count(metrics, 0, &record);
    td_metrics_read(metrics, TD_OPERATION_NONE, &totals);
    ck_assert_uint_eq(requests_of(&totals, 500), 1);
    td_metrics_free(metrics);
}

TD_TEST(times_that_were_not_taken_count_as_zero)
{
    static const struct td_times refused_at_once = { .begun = 7 };
    struct td_metrics *metrics = metrics_of(1);
    struct td_operation_totals totals;
    struct td_request_record record = record_of(0, 429, TD_QUEUE_FULL);
    record.times = &refused_at_once;
    td_metrics_count(metrics, 0, &record);
    td_metrics_read(metrics, 0, &totals);
    ck_assert_uint_eq(totals.duration_ns, 0);
    ck_assert_uint_eq(totals.buckets[0], 1);
    td_metrics_free(metrics);
}

TD_TEST(operations_have_different_names)
{
    for (int i = 0; i < TD_OPERATION_COUNT; i++)
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(td_operation_name(i), td_operation_name(j));
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++)
        ck_assert_str_eq(td_operation_name(td_operation_of(ops[i])), ops[i]->name);
}

/* ---- tables ---------------------------------------------------------------------------------- */

TD_TEST(rows_are_counted_by_table_over_all_shards)
{
    struct td_metrics *metrics = metrics_of(2);
    struct td_table_totals totals[TD_METRICS_TABLES + 1];
    ck_assert_int_eq(td_metrics_read_tables(metrics, totals), 0);
    const int users = td_metrics_table(metrics, "users"),
              items = td_metrics_table(metrics, "items");
    ck_assert_int_eq(td_metrics_table(metrics, "users"), users);
    td_metrics_count_rows(metrics, 0, users, 3, 48);
    td_metrics_count_rows(metrics, 1, users, 4, 64);
    td_metrics_count_rows(metrics, 1, items, 1, 2);
    ck_assert_int_eq(td_metrics_read_tables(metrics, totals), 2);
    ck_assert_str_eq(totals[0].name, "users");
    ck_assert_uint_eq(totals[0].rows, 7);
    ck_assert_uint_eq(totals[0].bytes, 112);
    ck_assert_str_eq(totals[1].name, "items");
    ck_assert_uint_eq(totals[1].rows, 1);
    td_metrics_free(metrics);
}

TD_TEST(lookups_are_counted_by_table)
{
    static const struct td_times times = { .decode = 1, .queue = 2, .compute = 3, .encode = 4 };
    struct td_metrics *metrics = metrics_of(2);
    struct td_inference_totals totals;
    const int users = td_metrics_table(metrics, "users");
    td_metrics_table(metrics, "items");
    td_metrics_count_lookup(metrics, 0, users, true, &times);
    td_metrics_count_lookup(metrics, 1, users, true, &times);
    td_metrics_count_lookup(metrics, 1, users, false, &times);
    td_metrics_read_table(metrics, "users", &totals);
    ck_assert_uint_eq(totals.succeeded, 2);
    ck_assert_uint_eq(totals.failed, 1);
    ck_assert_uint_gt(totals.last_ms, 0);
    for (int stage = 0; stage < TD_STAGE_COUNT; stage++) {
        ck_assert_uint_eq(totals.stage_ns[stage], 2 * ((uint64_t)stage + 1));
        ck_assert_uint_eq(totals.failed_stage_ns[stage], (uint64_t)stage + 1);
    }
    struct td_table_totals tables[TD_METRICS_TABLES + 1];
    ck_assert_int_eq(td_metrics_read_tables(metrics, tables), 2);
    ck_assert_uint_eq(tables[users].succeeded, 2);
    ck_assert_uint_eq(tables[users].failed, 1);
    td_metrics_read_table(metrics, "items", &totals);
    ck_assert_uint_eq(totals.succeeded + totals.failed + totals.last_ms, 0);
    td_metrics_read_table(metrics, "others", &totals); /* takes no place */
    ck_assert_uint_eq(totals.succeeded + totals.failed + totals.last_ms, 0);
    ck_assert_int_eq(td_metrics_table(metrics, "next"), 2);
    td_metrics_free(metrics);
}

TD_TEST(tables_beyond_the_first_ones_are_counted_together)
{
    struct td_metrics *metrics = metrics_of(1);
    struct td_table_totals totals[TD_METRICS_TABLES + 1];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TD_METRICS_TABLES + 5; i++) {
            char name[16];
            snprintf(name, sizeof name, "t%d", i);
            const int place = td_metrics_table(metrics, name);
            ck_assert_int_eq(place, i < TD_METRICS_TABLES ? i : TD_METRICS_TABLES);
            td_metrics_count_rows(metrics, 0, place, 1, 10);
        }
    ck_assert_int_eq(td_metrics_read_tables(metrics, totals), TD_METRICS_TABLES + 1);
    ck_assert_str_eq(totals[TD_METRICS_TABLES - 1].name, "t99");
    ck_assert_uint_eq(totals[TD_METRICS_TABLES - 1].rows, 2);
    ck_assert_str_eq(totals[TD_METRICS_TABLES].name, TD_METRICS_OTHERS);
    ck_assert_uint_eq(totals[TD_METRICS_TABLES].rows, 10);
    ck_assert_uint_eq(totals[TD_METRICS_TABLES].bytes, 100);
    td_metrics_free(metrics);
}

enum { SHARDS = 4, EACH = 20000 };

struct counting {
    struct td_metrics *metrics;
    int shard;
};

static void *count_many(void *context)
{
    const struct counting *counting = context;
    const struct td_request_record record = record_of(0, 200, TD_OK);
    for (int i = 0; i < EACH; i++)
        td_metrics_count(counting->metrics, counting->shard, &record);
    return NULL;
}

TD_TEST(nothing_is_lost_when_all_shards_count_at_once_and_are_read)
{
    struct td_metrics *metrics = metrics_of(SHARDS);
    struct counting counting[SHARDS];
    pthread_t threads[SHARDS];
    struct td_operation_totals totals;
    for (int i = 0; i < SHARDS; i++) {
        counting[i] = (struct counting){ metrics, i };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_many, &counting[i]), 0);
    }
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        td_metrics_read(metrics, 0, &totals);
        ck_assert_uint_ge(requests_of(&totals, 200), last);
        last = requests_of(&totals, 200);
    }
    for (int i = 0; i < SHARDS; i++)
        pthread_join(threads[i], NULL);
    td_metrics_read(metrics, 0, &totals);
    ck_assert_uint_eq(requests_of(&totals, 200), SHARDS * EACH);
    td_metrics_free(metrics);
}
