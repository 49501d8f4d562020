/* statistics.h - counts and durations of the ops' calls since the start, over all APIs.
 *
 * A call is counted once, when it has ended and before its reply is sent: a client that has its
 * reply finds it in the statistics.
 *
 * Cost       One cache line per op; 13 ns per call, 90 if two threads do nothing else (AMD EPYC).
 * Threads    Any. A reader may see some counters of a call before others. */
#ifndef TD_SERVER_OBSERVE_STATISTICS_H
#define TD_SERVER_OBSERVE_STATISTICS_H

#include "api/oip/oip.h"

#include <stdatomic.h>
#include <stdint.h>

/* Durations in nanoseconds. */
struct td_statistics {
    struct td_op_counters {
        _Alignas(64) atomic_uint_fast64_t succeeded;
        atomic_uint_fast64_t failed, failed_ns, queue_ns, input_ns, infer_ns, output_ns;
        atomic_uint_fast64_t last_ms; /* time of the last success, since the epoch */
    } ops[TD_OP_COUNT];               /* in the order of td_ops() */
};

/* Clock readings and durations of a call, in nanoseconds. */
struct td_times {
    int64_t begun;                          /* clock readings: the headers were received, */
    int64_t arrived;                        /* the body was complete, */
    int64_t stage_end;                      /* the last stage ended */
    int64_t decode, queue, compute, encode; /* durations; admission counts as compute */
};

/* Counts a finished call of op. Ops that are not in td_ops() are not counted. */
void td_statistics_count(struct td_statistics *statistics, const struct td_op *op,
                         const struct td_times *times, bool succeeded);

void td_statistics_read(const struct td_statistics *statistics, const struct td_op *op,
                        struct td_oip_stats *out);

#endif
