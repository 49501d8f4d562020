/* exposition.h - writes metrics as Prometheus text (0.0.4) or OpenMetrics text (1.0.0).
 *
 *     td_family(&e, "tensord_connections", TD_GAUGE, "connections that are open");
 *     td_label(&e, "phase", "waiting");
 *     td_sample_uint(&e, "", 3);
 *
 * The two formats name counters differently: "requests_total" is a family in Prometheus text, but a
 * sample of the family "requests" in OpenMetrics text. OpenMetrics text also ends with a special
 * line.
 *
 * Threads  One thread at a time. */
#ifndef TD_SERVER_OBSERVE_EXPOSITION_H
#define TD_SERVER_OBSERVE_EXPOSITION_H

#include "api/text/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum td_metric_type { TD_COUNTER, TD_GAUGE, TD_HISTOGRAM } td_metric_type;

struct td_exposition {
    struct td_text *text;
    bool openmetrics;
    const char *family; /* name without _total */
    td_metric_type type;
    /* Labels of the next sample, such as "a=\"b\",c=\"d\"", in `room`. */
    struct td_text labels;
    char room[2048];
};

void td_exposition_begin(struct td_exposition *exposition, struct td_text *text, bool openmetrics);
void td_exposition_end(struct td_exposition *exposition);

/* Starts a family. `name` has no suffix for its type, and must remain valid while the family is
 * written. */
void td_family(struct td_exposition *exposition, const char *name, td_metric_type type,
               const char *help);

/* Adds a label to the next sample. If the labels of the sample do not fit, the sample is omitted.
 * The value can be any UTF-8 text. */
void td_label(struct td_exposition *exposition, const char *name, const char *value);

/* Write a sample with the labels added since the last sample. The suffix is "", or "_bucket",
 * "_count" or "_sum" for a histogram. Counters get their suffix automatically. Durations are
 * written in seconds. */
void td_sample_uint(struct td_exposition *exposition, const char *suffix, uint64_t value);
void td_sample_seconds(struct td_exposition *exposition, const char *suffix, uint64_t ns);

/* Writes the samples of a duration histogram, with the labels added since the last sample. */
void td_sample_histogram(struct td_exposition *exposition, const int64_t *bounds_ns,
                         const uint64_t *buckets, int n_bounds, uint64_t sum_ns);

#endif
