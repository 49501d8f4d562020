/* otlp.h - writes spans as an ExportTraceServiceRequest in JSON.
 *
 * Source  The OpenTelemetry protocol, "JSON Protobuf encoding", and opentelemetry/proto/trace/v1:
 *         ids are hexadecimal, 64-bit integers are strings, enums are numbers. */
#ifndef TD_SERVER_TRACES_OTLP_H
#define TD_SERVER_TRACES_OTLP_H

#include "api/text/text.h"
#include "server/traces/span.h"

/* What the spans come from. */
struct td_otlp_resource {
    const char *version;
    char instance_id[37]; /* a UUID */
};

/* Room that the longest span needs, with all that is around it. */
enum { TD_OTLP_LEAST = 32 << 10 };

/* Writes spans from a list until it ends, or the next one might not fit. Returns how many of the
 * list were written: at least one, into TD_OTLP_LEAST bytes. */
int td_otlp_write(const struct td_otlp_resource *resource, const struct td_span *spans,
                  struct td_text *text);

/* How many spans a collector says that it has rejected, in its reply to a request that it has
 * accepted. 0 for a reply that is empty or no JSON. */
int64_t td_otlp_rejected(const char *reply, size_t length);

#endif
