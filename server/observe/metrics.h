/* metrics.h - counters and durations of requests since the start, over all APIs.
 *
 * A request is counted once, when its reply is made and before it is sent: a client that has its
 * reply finds it in the metrics.
 *
 * Cost       Each I/O thread counts in a shard of its own, so no cache line is shared and no
 *            addition is a locked one; a reader adds the shards up.
 * Threads    A shard is written by one thread; any thread may read, and may see some counters of a
 *            request before others. */
#ifndef TD_SERVER_OBSERVE_METRICS_H
#define TD_SERVER_OBSERVE_METRICS_H

#include "kernels/op.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What requests ask for beside the ops: the operations 0 to TD_OP_COUNT - 1 are those of td_ops(),
 * and next are those that change tables. */
#define TD_OPERATIONS(X)                                                                           \
    X(PLAN, "plan")                                                                                \
    X(LIST_TENSORS, "list_tensors")                                                                \
    X(GET_TENSOR, "get_tensor")                                                                    \
    X(TENSOR_STATISTICS, "tensor_statistics")                                                      \
    X(PUT_TENSOR, "put_tensor")                                                                    \
    X(DELETE_TENSOR, "delete_tensor")                                                              \
    X(LIST_ALIASES, "list_aliases")                                                                \
    X(FLIP_ALIASES, "flip_aliases")                                                                \
    X(HEALTH, "health")                                                                            \
    X(METRICS, "metrics")                                                                          \
    X(METADATA, "metadata")                                                                        \
    X(CONSOLE, "console")                                                                          \
    X(REPOSITORY, "repository")                                                                    \
    X(SHARED_MEMORY, "shared_memory")                                                              \
    X(NONE, "none") /* not found, refused before that, and preflights */

enum td_operation {
    TD_OPERATION_LAST_OP = TD_OP_COUNT - 1,
#define TD_OP(folder, name) TD_OPERATION_##name,
#include "kernels/changes.def"
#undef TD_OP
#define TD_OPERATION_ENUM(name, text) TD_OPERATION_##name,
    TD_OPERATIONS(TD_OPERATION_ENUM)
#undef TD_OPERATION_ENUM
        TD_OPERATION_COUNT
};

/* "gather", "plan" */
const char *td_operation_name(int operation);
int td_operation_of(const struct td_op *op);

/* How the tensors of a request are sent. */
#define TD_TRANSPORTS(X)                                                                           \
    X(JSON, "json")                                                                                \
    X(NPY, "npy")                                                                                  \
    X(SAFETENSORS, "safetensors")                                                                  \
    X(OIP, "oip") /* /v2, both its forms */                                                        \
    X(NONE, "none")

typedef enum td_transport {
#define TD_TRANSPORT_ENUM(name, text) TD_TRANSPORT_##name,
    TD_TRANSPORTS(TD_TRANSPORT_ENUM)
#undef TD_TRANSPORT_ENUM
        TD_TRANSPORT_COUNT
} td_transport;

const char *td_transport_name(td_transport transport);

/* Clock readings and durations of a call, in nanoseconds. */
enum { TD_INTERVALS = 8 };

struct td_times {
    int64_t begun;                          /* clock readings: the headers were received, */
    int64_t arrived;                        /* the body was complete, */
    int64_t stage_end;                      /* the last stage ended */
    int64_t decode, queue, compute, encode; /* durations; admission counts as compute */
    struct td_interval {
        const char *name; /* "admit" besides those of the stages */
        int64_t begun, ended;
    } intervals[TD_INTERVALS]; /* of which the durations are the sums; more are not kept */
    int n_intervals;
};

/* Ends an interval that began when the one before ended, and adds it to the duration of its
 * stage. */
static inline void td_times_end(struct td_times *times, const char *name, int64_t *duration,
                                int64_t now)
{
    if (times->n_intervals < TD_INTERVALS)
        times->intervals[times->n_intervals++] =
            (struct td_interval){ name, times->stage_end, now };
    *duration += now - times->stage_end;
    times->stage_end = now;
}

enum { TD_STAGE_DECODE, TD_STAGE_QUEUE, TD_STAGE_COMPUTE, TD_STAGE_ENCODE, TD_STAGE_COUNT };
const char *td_stage_name(int stage);

/* The statuses of replies that are counted, the most frequent first; others count as the last, and
 * 499 are clients that had disconnected before their reply was made. */
#define TD_COUNTED_CODES(X)                                                                        \
    X(200)                                                                                         \
    X(400)                                                                                         \
    X(404)                                                                                         \
    X(429)                                                                                         \
    X(503)                                                                                         \
    X(504)                                                                                         \
    X(201)                                                                                         \
    X(204)                                                                                         \
    X(206)                                                                                         \
    X(304)                                                                                         \
    X(401)                                                                                         \
    X(403)                                                                                         \
    X(405)                                                                                         \
    X(406)                                                                                         \
    X(408)                                                                                         \
    X(409)                                                                                         \
    X(412)                                                                                         \
    X(413)                                                                                         \
    X(415)                                                                                         \
    X(416)                                                                                         \
    X(422)                                                                                         \
    X(499)                                                                                         \
    X(501)                                                                                         \
    X(500)
enum {
#define TD_CODE_INDEX(code) TD_CODE_INDEX_##code,
    TD_COUNTED_CODES(TD_CODE_INDEX)
#undef TD_CODE_INDEX
        TD_CODE_COUNT,
    TD_CODE_GONE = 499
};
extern const int td_counted_codes[TD_CODE_COUNT];

/* Upper bounds of the durations in each bucket of the histograms, in nanoseconds: of requests, and
 * of their stages, which may take less than the shortest request. */
enum { TD_DURATION_BUCKETS = 19, TD_STAGE_BUCKETS = TD_DURATION_BUCKETS + 3 };
extern const int64_t td_duration_bounds[TD_DURATION_BUCKETS];
extern const int64_t td_stage_bounds[TD_STAGE_BUCKETS];

/* A request whose reply is made. */
struct td_request_record {
    int operation;
    td_transport transport;
    int code;        /* HTTP status, or TD_CODE_GONE */
    td_status error; /* TD_OK: none */
    const struct td_times *times;
    size_t bytes_in, bytes_out; /* of bodies: of the request expanded, of the reply as made */
};

/* Names of tables that have counts of their own: the first ones that are asked for. Names are kept
 * when their tables are deleted, so that counts never decrease. */
enum { TD_METRICS_TABLES = 100, TD_METRICS_TABLE_NAME = 129 };

struct td_metrics;

/* NULL without memory. */
struct td_metrics *td_metrics_new(int n_shards);
void td_metrics_free(struct td_metrics *metrics); /* NULL is fine */

/* On the thread of the shard. */
void td_metrics_count(struct td_metrics *metrics, int shard,
                      const struct td_request_record *record);

/* The place of a table; TD_METRICS_TABLES for all those without one. Any thread. */
int td_metrics_table(struct td_metrics *metrics, const char *name);

/* On the thread of the shard: what a lookup has read. */
void td_metrics_count_rows(struct td_metrics *metrics, int shard, int table, uint64_t rows,
                           uint64_t bytes);

/* On the thread of the shard: that a lookup has ended. */
void td_metrics_count_lookup(struct td_metrics *metrics, int shard, int table, bool succeeded,
                             const struct td_times *times);

struct td_table_totals {
    char name[TD_METRICS_TABLE_NAME]; /* TD_METRICS_OTHERS for those without a place, which come
                                         last */
    uint64_t rows, bytes;
    uint64_t succeeded, failed; /* lookups */
};
#define TD_METRICS_OTHERS "(other)" /* no table can have this name */

/* Returns how many there are, in the order of their first lookup. */
int td_metrics_read_tables(struct td_metrics *metrics,
                           struct td_table_totals out[TD_METRICS_TABLES + 1]);

/* Requests that succeeded or failed; durations in nanoseconds. */
struct td_inference_totals {
    uint64_t succeeded, failed;
    uint64_t stage_ns[TD_STAGE_COUNT];        /* of requests that succeeded */
    uint64_t failed_stage_ns[TD_STAGE_COUNT]; /* of those that failed */
    uint64_t last_ms; /* time of the last success, since the epoch; 0: none */
};

/* The lookups of a table; zeros if it has no place. */
void td_metrics_read_table(struct td_metrics *metrics, const char *name,
                           struct td_inference_totals *out);

/* The sums over all shards for an operation; durations in nanoseconds. */
struct td_operation_totals {
    struct td_inference_totals inferences;
    uint64_t requests[TD_CODE_COUNT][TD_TRANSPORT_COUNT];
    uint64_t
        errors[TD_STATUS_COUNT]; /* [TD_OK]: requests that succeeded, or whose client had gone */
    uint64_t buckets[TD_DURATION_BUCKETS + 1]; /* not cumulative; the last one: longer */
    /* Of requests that succeeded and had stages: handlers have none. Likewise. */
    uint64_t stage_buckets[TD_STAGE_COUNT][TD_STAGE_BUCKETS + 1];
    uint64_t duration_ns;
    uint64_t bytes_in, bytes_out;
};
void td_metrics_read(const struct td_metrics *metrics, int operation,
                     struct td_operation_totals *out);

#endif
