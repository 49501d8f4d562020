/* sampler.h - selects the requests to trace, and makes the IDs of their spans.
 *
 * A request that belongs to a trace is recorded if the flag `sampled` of traceparent shows that its
 * caller records the trace. Among other requests, a fraction is chosen by the ID of the trace that
 * each request would start.
 *
 * Threads  Reentrant, without shared state, because IDs are hashes of data that distinguishes
 *          requests.
 * Source   W3C Trace Context, level 2: the last 56 bits of a trace ID are random. */
#ifndef TD_SERVER_TRACES_SAMPLER_H
#define TD_SERVER_TRACES_SAMPLER_H

#include "server/observe/trace_context.h"

#include <stdbool.h>
#include <stdint.h>

struct td_sampler {
    double fraction;  /* fraction of requests without a parent to record */
    uint64_t seed[2]; /* random, so processes generate different IDs */
};

struct td_span_ids {
    char trace_id[TD_TRACE_ID_DIGITS + 1];
    char span_id[TD_SPAN_ID_DIGITS + 1];
    char parent_id[TD_SPAN_ID_DIGITS + 1]; /* "" without a parent */
    bool remote;                           /* the parent is the caller's span */
};

/* Decides whether to trace a request. `begun_ns` is its start and `address` the address of its
 * call. No two requests have both in common. `parent` is the caller's context, with empty IDs if
 * there is none. Stores the IDs if the result is true. */
bool td_sampler_choose(const struct td_sampler *sampler, const struct td_trace_context *parent,
                       int64_t begun_ns, const void *address, struct td_span_ids *ids);

/* Makes the IDs of the n-th child of a span, counting from 1. */
void td_span_child_ids(const struct td_span_ids *span, int n, struct td_span_ids *child);

#endif
