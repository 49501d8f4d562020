/* metrics.h - counters and durations of requests since the server started, for all APIs.
 *
 * A request is counted once, when its reply is made and before the reply is sent. When a client has
 * its reply, the metrics therefore already include the request.
 *
 * Cost       Each I/O thread has a separate shard, so threads share no cache lines and additions
 *            need no locks. A reader sums the shards.
 * Threads    One thread writes a shard. Any thread can read it, and might see some counters of a
 *            request before others. */
#ifndef TD_SERVER_OBSERVE_METRICS_H
#define TD_SERVER_OBSERVE_METRICS_H

#include "kernels/op.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Operations of requests other than ops. Operations 0 to TD_OP_COUNT - 1 are the ops of td_ops(),
 * followed by the ops that change tables and then by the operations below. */
#define TD_OPERATIONS(X)                                                                           \
    X(PLAN, "plan")                                                                                \
    X(RUN_PROGRAM, "run_program")                                                                  \
    X(LIST_PROGRAMS, "list_programs")                                                              \
    X(GET_PROGRAM, "get_program")                                                                  \
    X(PUT_PROGRAM, "put_program")                                                                  \
    X(DELETE_PROGRAM, "delete_program")                                                            \
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
    X(NONE, "none") /* unknown paths, early refusals, and preflights */

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

/* Returns the name of an operation, such as "gather" or "plan". */
const char *td_operation_name(int operation);
int td_operation_of(const struct td_op *op);

/* Formats in which the tensors of a request are sent. */
#define TD_TRANSPORTS(X)                                                                           \
    X(JSON, "json")                                                                                \
    X(NPY, "npy")                                                                                  \
    X(SAFETENSORS, "safetensors")                                                                  \
    X(OIP, "oip") /* /v2, in both forms */                                                         \
    X(NONE, "none")

typedef enum td_transport {
#define TD_TRANSPORT_ENUM(name, text) TD_TRANSPORT_##name,
    TD_TRANSPORTS(TD_TRANSPORT_ENUM)
#undef TD_TRANSPORT_ENUM
        TD_TRANSPORT_COUNT
} td_transport;

const char *td_transport_name(td_transport transport);

/* Times and durations of a call, in nanoseconds. */
enum { TD_INTERVALS = 8 };

struct td_times {
    /* Time at which the headers were received. */
    int64_t begun;
    /* Time at which the body was complete. */
    int64_t arrived;
    /* Time at which the last stage ended. */
    int64_t stage_end;
    /* Durations. Admission counts as compute. */
    int64_t decode, queue, compute, encode;
    /* The intervals whose lengths add up to the durations. Only the first TD_INTERVALS intervals
     * are kept. */
    struct td_interval {
        /* Name of the stage, or "admit". */
        const char *name;
        int64_t begun, ended;
    } intervals[TD_INTERVALS];
    int n_intervals;
};

/* Ends an interval that started at the end of the previous interval, and adds it to the duration of
 * its stage. */
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

/* Reply statuses that have separate counters, the most frequent first. All other statuses are
 * counted as the last status. 499 counts clients that disconnected before their reply was made. */
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

/* Upper bounds of the histogram buckets, in nanoseconds, for the durations of requests and of
 * stages. A stage can be shorter than the shortest request. */
enum { TD_DURATION_BUCKETS = 19, TD_STAGE_BUCKETS = TD_DURATION_BUCKETS + 3 };
extern const int64_t td_duration_bounds[TD_DURATION_BUCKETS];
extern const int64_t td_stage_bounds[TD_STAGE_BUCKETS];

/* A request whose reply has been made. */
struct td_request_record {
    int operation;
    td_transport transport;
    int code;        /* HTTP status, or TD_CODE_GONE */
    td_status error; /* TD_OK if there is no error */
    const struct td_times *times;
    /* Size of the request body after decompression, and size of the reply body as it was made. */
    size_t bytes_in, bytes_out;
};

/* Limits of the per-table counters. Only the first TD_METRICS_TABLES tables that are requested have
 * separate counters. A name is kept after its table is deleted, so counters never decrease. */
enum { TD_METRICS_TABLES = 100, TD_METRICS_TABLE_NAME = 129 };

struct td_metrics;

/* Returns NULL if allocation fails. */
struct td_metrics *td_metrics_new(int n_shards);
void td_metrics_free(struct td_metrics *metrics); /* NULL is allowed */

/* Counts a request. Call on the thread of the shard. */
void td_metrics_count(struct td_metrics *metrics, int shard,
                      const struct td_request_record *record);

/* Returns the place of a table, or TD_METRICS_TABLES for all tables without a place. Any thread can
 * call this function. */
int td_metrics_table(struct td_metrics *metrics, const char *name);

/* Counts the rows that a lookup has read. Call on the shard's thread. */
void td_metrics_count_rows(struct td_metrics *metrics, int shard, int table, uint64_t rows,
                           uint64_t bytes);

/* Counts a completed lookup. Call on the shard's thread. */
void td_metrics_count_lookup(struct td_metrics *metrics, int shard, int table, bool succeeded,
                             const struct td_times *times);

struct td_table_totals {
    /* Name of the table, or TD_METRICS_OTHERS for the last entry, which counts all tables without a
     * place. */
    char name[TD_METRICS_TABLE_NAME];
    uint64_t rows, bytes;
    uint64_t succeeded, failed; /* numbers of lookups */
};
#define TD_METRICS_OTHERS "(other)" /* a name that no table can have */

/* Stores the totals, in the order in which tables were first looked up. Returns their number. */
int td_metrics_read_tables(struct td_metrics *metrics,
                           struct td_table_totals out[TD_METRICS_TABLES + 1]);

/* Numbers of successful and failed requests. Durations are in nanoseconds. */
struct td_inference_totals {
    uint64_t succeeded, failed;
    uint64_t stage_ns[TD_STAGE_COUNT];        /* requests that succeeded */
    uint64_t failed_stage_ns[TD_STAGE_COUNT]; /* requests that failed */
    /* Time of the last success in milliseconds since the epoch, or 0 if no request has
     * succeeded. */
    uint64_t last_ms;
};

/* Returns the lookups of a table, or zeros if the table has no place. */
void td_metrics_read_table(struct td_metrics *metrics, const char *name,
                           struct td_inference_totals *out);

/* Sums over all shards for one operation. Durations are in nanoseconds. */
struct td_operation_totals {
    struct td_inference_totals inferences;
    uint64_t requests[TD_CODE_COUNT][TD_TRANSPORT_COUNT];
    /* errors[TD_OK] counts requests that succeeded or whose client had disconnected. */
    uint64_t errors[TD_STATUS_COUNT];
    /* Counts that are not cumulative. The last bucket is for longer durations. */
    uint64_t buckets[TD_DURATION_BUCKETS + 1];
    /* Durations of the stages of successful requests, in buckets that are not cumulative. Handlers
     * have no stages. */
    uint64_t stage_buckets[TD_STAGE_COUNT][TD_STAGE_BUCKETS + 1];
    uint64_t duration_ns;
    uint64_t bytes_in, bytes_out;
};
void td_metrics_read(const struct td_metrics *metrics, int operation,
                     struct td_operation_totals *out);

#endif
