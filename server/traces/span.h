/* span.h - the record of a traced request: a span, its attributes, and a child for each stage.
 *
 * Bounds     Strings are copied, and truncated to the length that the caller specifies. An
 *            attribute for which there is no room is omitted. A span has a fixed size, less than 4
 *            KiB.
 * Ownership  The caller of td_span_new owns the span until it frees the span with td_span_free or
 *            gives it to the exporter.
 * Threads    One owner at a time. */
#ifndef TD_SERVER_TRACES_SPAN_H
#define TD_SERVER_TRACES_SPAN_H

#include "server/traces/sampler.h"

#include <stddef.h>
#include <stdint.h>

enum { TD_SPAN_ATTRIBUTES = 28, TD_SPAN_STAGES = 8, TD_SPAN_TEXTS = 2560 };

struct td_span_attribute {
    const char *name; /* static string */
    const char *text; /* NULL for a number */
    int64_t number;
};

/* A stage of the request. Times are in nanoseconds since the epoch. */
struct td_span_stage {
    const char *name; /* static string */
    int64_t begun_ns, ended_ns;
};

struct td_span {
    struct td_span *next; /* next span in the exporter's queue */
    struct td_span_ids ids;
    int64_t begun_ns, ended_ns; /* nanoseconds since the epoch */
    const char *name;
    const char *state;  /* tracestate, or NULL */
    bool failed;        /* the failure is the server's fault */
    const char *reason; /* reason of the failure, or NULL */
    struct td_span_attribute attributes[TD_SPAN_ATTRIBUTES];
    int n_attributes;
    struct td_span_stage stages[TD_SPAN_STAGES];
    int n_stages;
    size_t text_bytes;
    char texts[TD_SPAN_TEXTS];
};

/* Returns NULL if allocation fails. */
struct td_span *td_span_new(const struct td_span_ids *ids);
void td_span_free(struct td_span *span); /* NULL is allowed */

/* Copies at most `most` bytes of a text into the span. Returns NULL if the span has no room. */
const char *td_span_copy(struct td_span *span, const char *text, size_t most);

/* Add an attribute, unless the text is NULL or "". */
void td_span_text(struct td_span *span, const char *name, const char *text, size_t most);
void td_span_number(struct td_span *span, const char *name, int64_t number);

/* Adds a stage, unless it took no time. */
void td_span_stage(struct td_span *span, const char *name, int64_t begun_ns, int64_t ended_ns);

/* Returns the number of spans: one for the request and one for each stage. */
static inline int td_span_count(const struct td_span *span)
{
    return 1 + span->n_stages;
}

#endif
