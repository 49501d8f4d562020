#include "server/observe/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A counter that one thread writes with plain loads and stores. Adding to it costs no more than
 * adding to a variable that is not atomic. */
typedef atomic_uint_fast64_t counter;

struct inferences {
    counter stage_ns[2][TD_STAGE_COUNT]; /* index 0: failed; index 1: succeeded */
    counter last_ms;
};

struct operation {
    counter requests[TD_CODE_COUNT][TD_TRANSPORT_COUNT];
    counter errors[TD_STATUS_COUNT];
    counter buckets[TD_DURATION_BUCKETS + 1];
    counter duration_ns;
    counter stage_buckets[TD_STAGE_COUNT][TD_STAGE_BUCKETS + 1];
    struct inferences inferences; /* each request counts as an inference */
    counter bytes_in, bytes_out;
};

struct table {
    counter rows, bytes;
    counter lookups[2]; /* index 0: failed; index 1: succeeded */
    struct inferences inferences;
};

struct shard {
    _Alignas(64) struct operation operations[TD_OPERATION_COUNT];
    struct table tables[TD_METRICS_TABLES + 1];
};

struct td_metrics {
    int n_shards;
    struct shard *shards;

    pthread_mutex_t mutex; /* guards the following members */
    int n_tables;
    char tables[TD_METRICS_TABLES][TD_METRICS_TABLE_NAME];
};

#define MS INT64_C(1000000)
#define DURATION_BOUNDS                                                                            \
    MS / 100, MS / 40, MS / 20, MS / 10, MS / 4, MS / 2, MS, 5 * MS / 2, 5 * MS, 10 * MS, 25 * MS, \
        50 * MS, 100 * MS, 250 * MS, 500 * MS, 1000 * MS, 2500 * MS, 5000 * MS, 10000 * MS
const int64_t td_duration_bounds[TD_DURATION_BUCKETS] = { DURATION_BOUNDS };
const int64_t td_stage_bounds[TD_STAGE_BUCKETS] = { MS / 1000, MS / 400, MS / 200,
                                                    DURATION_BOUNDS };

const int td_counted_codes[TD_CODE_COUNT] = {
#define COUNTED_CODE(code) code,
    TD_COUNTED_CODES(COUNTED_CODE)
#undef COUNTED_CODE
};

/* ---- names ----------------------------------------------------------------------------------- */

const char *td_operation_name(int operation)
{
    static const char *const names[TD_OPERATION_COUNT] = {
#define TD_OP(folder, name) [TD_OP_NUMBER_##name] = #name,
#include "kernels/ops.def"
#undef TD_OP
#define TD_OP(folder, name) [TD_OPERATION_##name] = #name,
#include "kernels/changes.def"
#undef TD_OP
#define OPERATION_NAME(name, text) [TD_OPERATION_##name] = (text),
        TD_OPERATIONS(OPERATION_NAME)
#undef OPERATION_NAME
    };
    return names[operation];
}

int td_operation_of(const struct td_op *op)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++)
        if (ops[i] == op)
            return i;
    return TD_OPERATION_NONE;
}

const char *td_transport_name(td_transport transport)
{
    static const char *const names[] = {
#define TRANSPORT_NAME(name, text) text,
        TD_TRANSPORTS(TRANSPORT_NAME)
#undef TRANSPORT_NAME
    };
    return names[transport];
}

const char *td_stage_name(int stage)
{
    static const char *const names[] = { "decode", "queue", "compute", "encode" };
    return names[stage];
}

/* ---- counting -------------------------------------------------------------------------------- */

struct td_metrics *td_metrics_new(int n_shards)
{
    struct td_metrics *metrics = malloc(sizeof *metrics);
    const size_t bytes = (size_t)n_shards * sizeof(struct shard);
    struct shard *shards = aligned_alloc(_Alignof(struct shard), bytes);
    if (!metrics || !shards) {
        free(metrics);
        free(shards);
        return NULL;
    }
    memset(shards, 0, bytes);
    *metrics = (struct td_metrics){ .n_shards = n_shards, .shards = shards };
    pthread_mutex_init(&metrics->mutex, NULL);
    return metrics;
}

void td_metrics_free(struct td_metrics *metrics)
{
    if (!metrics)
        return;
    pthread_mutex_destroy(&metrics->mutex);
    free(metrics->shards);
    free(metrics);
}

static uint64_t get(const counter *of)
{
    return atomic_load_explicit(of, memory_order_relaxed);
}

static void add(counter *to, int64_t amount)
{
    if (amount > 0)
        atomic_store_explicit(to, get(to) + (uint64_t)amount, memory_order_relaxed);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now); /* resolution of 4 ms at a quarter of the cost */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int code_index(int code)
{
    int i = 0;
    while (i < TD_CODE_COUNT - 1 && td_counted_codes[i] != code)
        i++;
    return i;
}

static int bucket_of(int64_t ns, const int64_t *bounds, int n_bounds)
{
    int bucket = 0;
    while (bucket < n_bounds && ns > bounds[bucket])
        bucket++;
    return bucket;
}

static int64_t stage_ns(const struct td_times *times, int stage)
{
    switch (stage) {
    case TD_STAGE_DECODE:
        return times->decode;
    case TD_STAGE_QUEUE:
        return times->queue;
    case TD_STAGE_COMPUTE:
        return times->compute;
    default:
        return times->encode;
    }
}

static void add_stages(struct operation *to, const struct td_times *times)
{
    for (int i = 0; i < TD_STAGE_COUNT; i++)
        add(&to->stage_buckets[i][bucket_of(stage_ns(times, i), td_stage_bounds, TD_STAGE_BUCKETS)],
            1);
}

static void add_inference(struct inferences *to, bool succeeded, const struct td_times *times)
{
    for (int i = 0; i < TD_STAGE_COUNT; i++)
        add(&to->stage_ns[succeeded][i], stage_ns(times, i));
    if (succeeded)
        atomic_store_explicit(&to->last_ms, now_ms(), memory_order_relaxed);
}

void td_metrics_count(struct td_metrics *metrics, int shard, const struct td_request_record *record)
{
    struct operation *operation = &metrics->shards[shard].operations[record->operation];
    const struct td_times *times = record->times;
    const int64_t took = times->stage_end > times->begun ? times->stage_end - times->begun : 0;
    const bool succeeded = record->error == TD_OK && record->code != TD_CODE_GONE;
    add(&operation->requests[code_index(record->code)][record->transport], 1);
    add(&operation->errors[record->error], 1);
    add(&operation->buckets[bucket_of(took, td_duration_bounds, TD_DURATION_BUCKETS)], 1);
    add(&operation->duration_ns, took);
    if (succeeded && times->n_intervals > 0)
        add_stages(operation, times);
    add_inference(&operation->inferences, succeeded, times);
    add(&operation->bytes_in, (int64_t)record->bytes_in);
    add(&operation->bytes_out, (int64_t)record->bytes_out);
}

/* Returns the place of a table, or n_tables if the table has no place. The caller holds the
 * mutex. */
static int find_table(const struct td_metrics *metrics, const char *name)
{
    int place = 0;
    while (place < metrics->n_tables && strcmp(metrics->tables[place], name) != 0)
        place++;
    return place;
}

int td_metrics_table(struct td_metrics *metrics, const char *name)
{
    pthread_mutex_lock(&metrics->mutex);
    const int place = find_table(metrics, name);
    if (place == metrics->n_tables && place < TD_METRICS_TABLES)
        snprintf(metrics->tables[metrics->n_tables++], TD_METRICS_TABLE_NAME, "%s", name);
    pthread_mutex_unlock(&metrics->mutex);
    return place;
}

void td_metrics_count_rows(struct td_metrics *metrics, int shard, int table, uint64_t rows,
                           uint64_t bytes)
{
    struct table *counts = &metrics->shards[shard].tables[table];
    add(&counts->rows, (int64_t)rows);
    add(&counts->bytes, (int64_t)bytes);
}

void td_metrics_count_lookup(struct td_metrics *metrics, int shard, int table, bool succeeded,
                             const struct td_times *times)
{
    struct table *counts = &metrics->shards[shard].tables[table];
    add(&counts->lookups[succeeded], 1);
    add_inference(&counts->inferences, succeeded, times);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void sum_inferences(const struct inferences *inferences, struct td_inference_totals *out)
{
    for (int i = 0; i < TD_STAGE_COUNT; i++) {
        out->failed_stage_ns[i] += get(&inferences->stage_ns[false][i]);
        out->stage_ns[i] += get(&inferences->stage_ns[true][i]);
    }
    const uint64_t last_ms = get(&inferences->last_ms);
    if (last_ms > out->last_ms)
        out->last_ms = last_ms;
}

static void add_operation(const struct operation *operation, struct td_operation_totals *out)
{
    struct td_inference_totals *inferences = &out->inferences;
    for (int i = 0; i < TD_CODE_COUNT; i++)
        for (int j = 0; j < TD_TRANSPORT_COUNT; j++) {
            const uint64_t n = get(&operation->requests[i][j]);
            out->requests[i][j] += n;
            *(td_counted_codes[i] < 400 ? &inferences->succeeded : &inferences->failed) += n;
        }
    for (int i = 0; i < TD_STATUS_COUNT; i++)
        out->errors[i] += get(&operation->errors[i]);
    for (int i = 0; i <= TD_DURATION_BUCKETS; i++)
        out->buckets[i] += get(&operation->buckets[i]);
    for (int i = 0; i < TD_STAGE_COUNT; i++)
        for (int j = 0; j <= TD_STAGE_BUCKETS; j++)
            out->stage_buckets[i][j] += get(&operation->stage_buckets[i][j]);
    sum_inferences(&operation->inferences, inferences);
    out->duration_ns += get(&operation->duration_ns);
    out->bytes_in += get(&operation->bytes_in);
    out->bytes_out += get(&operation->bytes_out);
}

void td_metrics_read(const struct td_metrics *metrics, int operation,
                     struct td_operation_totals *out)
{
    *out = (struct td_operation_totals){ .duration_ns = 0 };
    for (int i = 0; i < metrics->n_shards; i++)
        add_operation(&metrics->shards[i].operations[operation], out);
}

void td_metrics_read_table(struct td_metrics *metrics, const char *name,
                           struct td_inference_totals *out)
{
    pthread_mutex_lock(&metrics->mutex);
    const int place = find_table(metrics, name);
    const bool known = place < metrics->n_tables;
    pthread_mutex_unlock(&metrics->mutex);
    *out = (struct td_inference_totals){ .last_ms = 0 };
    for (int i = 0; known && i < metrics->n_shards; i++) {
        const struct table *table = &metrics->shards[i].tables[place];
        out->failed += get(&table->lookups[false]);
        out->succeeded += get(&table->lookups[true]);
        sum_inferences(&table->inferences, out);
    }
}

int td_metrics_read_tables(struct td_metrics *metrics,
                           struct td_table_totals out[TD_METRICS_TABLES + 1])
{
    pthread_mutex_lock(&metrics->mutex);
    const int count = metrics->n_tables;
    memset(out, 0, (TD_METRICS_TABLES + 1) * sizeof *out);
    for (int i = 0; i < count; i++)
        memcpy(out[i].name, metrics->tables[i], sizeof out[i].name);
    pthread_mutex_unlock(&metrics->mutex);
    snprintf(out[count].name, sizeof out[count].name, "%s", TD_METRICS_OTHERS);
    for (int i = 0; i < metrics->n_shards; i++)
        for (int j = 0; j <= count; j++) {
            const struct table *table =
                &metrics->shards[i].tables[j < count ? j : TD_METRICS_TABLES];
            out[j].rows += get(&table->rows);
            out[j].bytes += get(&table->bytes);
            out[j].succeeded += get(&table->lookups[true]);
            out[j].failed += get(&table->lookups[false]);
        }
    return count < TD_METRICS_TABLES ? count : count + 1;
}
