/* otlp.h - writes spans as an ExportTraceServiceRequest in JSON.
 *
 * Source  The OpenTelemetry protocol, "JSON Protobuf encoding", and opentelemetry/proto/trace/v1:
 *         IDs are hexadecimal, 64-bit integers are strings, enums are numbers. */
#ifndef TD_SERVER_TRACES_OTLP_H
#define TD_SERVER_TRACES_OTLP_H

#include "api/text/text.h"
#include "server/traces/span.h"

/* Describes the daemon as the source of the spans. */
struct td_otlp_resource {
    const char *version;
    char instance_id[37]; /* a UUID */
};

/* Number of bytes sufficient for the longest span and the surrounding JSON. */
enum { TD_OTLP_LEAST = 32 << 10 };

/* Writes spans from a list until the list ends or the next span might not fit. Returns the number
 * of spans written, which is at least 1 if there is room for TD_OTLP_LEAST bytes. */
int td_otlp_write(const struct td_otlp_resource *resource, const struct td_span *spans,
                  struct td_text *text);

/* Returns the number of spans that a collector rejected, according to its reply to an accepted
 * request. Returns 0 if the reply is empty or not JSON. */
int64_t td_otlp_rejected(const char *reply, size_t length);

#endif
