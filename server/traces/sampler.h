/* sampler.h - which requests are traced, and the ids of their spans.
 *
 * A request that belongs to a trace is recorded if its caller records it: the flag `sampled` of
 * traceparent decides. Of the others a fraction is chosen by the id of the trace that it begins.
 *
 * Threads  Reentrant, and nothing is shared: ids are hashes of what tells requests apart.
 * Source   W3C Trace Context, level 2: the last 56 bits of a trace id are random. */
#ifndef TD_SERVER_TRACES_SAMPLER_H
#define TD_SERVER_TRACES_SAMPLER_H

#include "server/observe/trace_context.h"

#include <stdbool.h>
#include <stdint.h>

struct td_sampler {
    double fraction;  /* of requests without a parent */
    uint64_t seed[2]; /* random, so that processes make different ids */
};

struct td_span_ids {
    char trace_id[TD_TRACE_ID_DIGITS + 1];
    char span_id[TD_SPAN_ID_DIGITS + 1];
    char parent_id[TD_SPAN_ID_DIGITS + 1]; /* "": none */
    bool remote;                           /* the parent is the caller's span */
};

/* Decides about a request that began at begun_ns and is at an address: no other request has both.
 * parent: the caller's context, with empty ids if there is none. Fills in the ids if it is true. */
bool td_sampler_choose(const struct td_sampler *sampler, const struct td_trace_context *parent,
                       int64_t begun_ns, const void *address, struct td_span_ids *ids);

/* The ids of the n-th child of a span, n from 1. */
void td_span_child_ids(const struct td_span_ids *span, int n, struct td_span_ids *child);

#endif
