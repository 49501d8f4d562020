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
 * Threads  Any; a line is one write, so lines never interleave. The level may change at any time.
 * Blocking A log that td_log_open opened never waits for the reader of a pipe, socket or terminal:
 *          a line for which there is no room is dropped and counted, and the next one says how many
 *          were, as `dropped`. */
#ifndef TD_SERVER_OBSERVE_LOG_H
#define TD_SERVER_OBSERVE_LOG_H

#include "server/config/config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How a line is written without waiting. */
enum td_log_kind {
    TD_LOG_PLAIN,  /* write(2): a file, or a descriptor that does not block */
    TD_LOG_SOCKET, /* send(2) with MSG_DONTWAIT */
    /* a pipe or terminal that cannot be opened again: only when poll(2) has seen room */
    TD_LOG_SHARED
};

/* What the threads that write a log share. */
struct td_log_state {
    atomic_uint_fast64_t dropped;   /* lines, since the start */
    atomic_uint_fast64_t unwritten; /* of those, not yet reported by a line */
    atomic_bool torn;               /* the last line was written in part */
    pthread_mutex_t mutex;          /* TD_LOG_SHARED: of poll and write */
};

struct td_log {
    _Atomic(enum td_log_level) level;
    enum td_log_format format;
    int fd;
    enum td_log_kind kind;
    struct td_log_state *state; /* NULL: what is dropped is not counted; PLAIN and SOCKET only */
};

struct td_log_field {
    const char *name;
    enum { TD_FIELD_TEXT, TD_FIELD_INT, TD_FIELD_COUNT, TD_FIELD_MS } kind;
    const char *text;
    int64_t number; /* TD_FIELD_MS: nanoseconds, printed as milliseconds */
};

#define TD_TEXT(name, value) ((struct td_log_field){ name, TD_FIELD_TEXT, value, 0 })
#define TD_INT(name, value)  ((struct td_log_field){ name, TD_FIELD_INT, NULL, (int64_t)(value) })
#define TD_COUNT(name, value)                                                                      \
    ((struct td_log_field){ name, TD_FIELD_COUNT, NULL, (int64_t)(value) })
#define TD_MS(name, ns) ((struct td_log_field){ name, TD_FIELD_MS, NULL, (int64_t)(ns) })

/* A log on a descriptor, which stays open and as it is: other processes may share it. The state
 * must outlive the log. */
void td_log_open(struct td_log *log, int fd, enum td_log_level level, enum td_log_format format,
                 struct td_log_state *state);

/* Relaxed: a line that is made while the level changes may be written or not. */
static inline bool td_log_wants(const struct td_log *log, enum td_log_level level)
{
    return level <= atomic_load_explicit(&log->level, memory_order_relaxed);
}

/* One level more verbose (1) or less (-1), unless that is beyond the last one; logged at any
 * level. */
void td_log_change_level(struct td_log *log, int by);

/* Writes a line at any level of the log. Omits fields whose text is NULL or whose count is 0. */
void td_log_write(const struct td_log *log, enum td_log_level level, const char *event,
                  const struct td_log_field *fields, int n_fields);

#define TD_LOG_COUNT(...)                                                                          \
    (int)(sizeof((const struct td_log_field[]){ __VA_ARGS__ }) / sizeof(struct td_log_field))

/* A line, if the log wants the level. */
#define td_log(log, level, event, ...)                                                             \
    (td_log_wants(log, level)                                                                      \
         ? td_log_write(log, level, event, (const struct td_log_field[]){ __VA_ARGS__ },           \
                        TD_LOG_COUNT(__VA_ARGS__))                                                 \
         : (void)0)

#endif
