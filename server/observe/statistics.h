/* statistics.h - what became of the ops' calls since the start, whichever API they came by.
 *
 * A call is counted once, when it has ended and before its answer is sent: who reads an answer and
 * then asks for the statistics finds it there.
 *
 * Cost       One cache line an op; 13 ns a call, 90 where two threads do nothing else (AMD EPYC).
 * Threads    Any. Numbers that belong together may be seen when only some of them are added. */
#ifndef TD_SERVER_OBSERVE_STATISTICS_H
#define TD_SERVER_OBSERVE_STATISTICS_H

#include "api/oip/oip.h"

#include <stdatomic.h>
#include <stdint.h>

enum { TD_STATISTICS_OPS = 16 };

/* Durations in nanoseconds. */
struct td_statistics {
    struct td_op_counters {
        _Alignas(64) atomic_uint_fast64_t succeeded;
        atomic_uint_fast64_t failed, failed_ns, queue_ns, input_ns, infer_ns, output_ns;
        atomic_uint_fast64_t last_ms; /* since the epoch, when one last succeeded */
    } ops[TD_STATISTICS_OPS];         /* in the order of td_ops() */
};

/* Where the time went, in nanoseconds. */
struct td_times {
    int64_t begun;                          /* clock readings: the headers were seen, */
    int64_t arrived;                        /* the body was complete, */
    int64_t lap;                            /* and the last stage ended */
    int64_t decode, queue, compute, encode; /* durations; admission counts as compute */
};

/* A call of op has ended, well or not. Ops that are not in td_ops() are not counted. */
void td_statistics_count(struct td_statistics *statistics, const struct td_op *op,
                         const struct td_times *times, bool good);

void td_statistics_read(const struct td_statistics *statistics, const struct td_op *op,
                        struct td_oip_stats *out);

#endif
