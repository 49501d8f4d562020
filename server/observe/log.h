/* log.h - structured logging to standard error, one line per event, as text or JSON.
 *
 *     td_log(log, TD_LOG_INFO, "listening", TD_TEXT("address", address), TD_INT("workers", n));
 *
 * Text:  2026-01-31T12:00:00.123Z info listening address=127.0.0.1:8080 workers=2
 * JSON:  {"time":"2026-01-31T12:00:00.123Z","level":"info","event":"listening",
 *         "address":"127.0.0.1:8080","workers":2}           (all on one line)
 *
 * Bounds   Values are escaped in both formats; a line longer than 4 KiB is truncated within its
 *          last text, with "...".
 * Threads  Any; a line is one write, so lines never interleave. */
#ifndef TD_SERVER_OBSERVE_LOG_H
#define TD_SERVER_OBSERVE_LOG_H

#include "server/config/config.h"

#include <stdbool.h>
#include <stdint.h>

struct td_log {
    enum td_log_level level;
    enum td_log_format format;
    int fd;
};

struct td_log_field {
    const char *name;
    enum { TD_FIELD_TEXT, TD_FIELD_INT, TD_FIELD_MS } kind;
    const char *text;
    int64_t number; /* TD_FIELD_MS: nanoseconds, printed as milliseconds */
};

#define TD_TEXT(name, value) ((struct td_log_field){ name, TD_FIELD_TEXT, value, 0 })
#define TD_INT(name, value)  ((struct td_log_field){ name, TD_FIELD_INT, NULL, (int64_t)(value) })
#define TD_MS(name, ns)      ((struct td_log_field){ name, TD_FIELD_MS, NULL, (int64_t)(ns) })

static inline bool td_log_wants(const struct td_log *log, enum td_log_level level)
{
    return level <= log->level;
}

/* Omits fields whose text is NULL. */
void td_log_write(const struct td_log *log, enum td_log_level level, const char *event,
                  const struct td_log_field *fields, int n_fields);

#define td_log(log, level, event, ...)                                                             \
    td_log_write(                                                                                  \
        log, level, event, (const struct td_log_field[]){ __VA_ARGS__ },                           \
        (int)(sizeof((const struct td_log_field[]){ __VA_ARGS__ }) / sizeof(struct td_log_field)))

#endif
