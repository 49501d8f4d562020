/* exposition.h - writes metrics as Prometheus text (0.0.4) or OpenMetrics text (1.0.0).
 *
 *     td_family(&e, "tensord_connections", TD_GAUGE, "connections that are open");
 *     td_label(&e, "phase", "waiting");
 *     td_sample_uint(&e, "", 3);
 *
 * The two formats differ in the names of counters: "requests_total" is a family of its own in the
 * first, and a sample of the family "requests" in the second, which also has a last line.
 *
 * Threads  Not synchronised. */
#ifndef TD_SERVER_OBSERVE_EXPOSITION_H
#define TD_SERVER_OBSERVE_EXPOSITION_H

#include "api/text/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum td_metric_type { TD_COUNTER, TD_GAUGE, TD_HISTOGRAM } td_metric_type;

struct td_exposition {
    struct td_text *text;
    bool openmetrics;
    const char *family; /* without _total */
    td_metric_type type;
    struct td_text labels; /* of the next sample, so far; "a=\"b\",c=\"d\"" in `room` */
    char room[2048];
};

void td_exposition_begin(struct td_exposition *exposition, struct td_text *text, bool openmetrics);
void td_exposition_end(struct td_exposition *exposition);

/* Begins a family. name without a suffix for its type; it is kept. */
void td_family(struct td_exposition *exposition, const char *name, td_metric_type type,
               const char *help);

/* Adds a label to the next sample, which is left out if there is no room for its labels. The value
 * is any UTF-8. */
void td_label(struct td_exposition *exposition, const char *name, const char *value);

/* Writes a sample with the labels added since the last one. The suffix is "" or, of
 * histograms, "_bucket", "_count" or "_sum"; counters get theirs. Durations are printed in
 * seconds. */
void td_sample_uint(struct td_exposition *exposition, const char *suffix, uint64_t value);
void td_sample_seconds(struct td_exposition *exposition, const char *suffix, uint64_t ns);

/* The samples of a histogram of durations, with the labels added since the last one. */
void td_sample_histogram(struct td_exposition *exposition, const int64_t *bounds_ns,
                         const uint64_t *buckets, int n_bounds, uint64_t sum_ns);

#endif
