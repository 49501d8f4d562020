/* log.h - structured logging to standard error, one line per event, as text or JSON.
 *
 *     td_log(log, TD_LOG_INFO, "listening", TD_TEXT("address", address), TD_INT("workers", n));
 *
 * Text:  2026-01-31T12:00:00.123Z info listening address=127.0.0.1:8080 workers=2
 * JSON:  {"time":"2026-01-31T12:00:00.123Z","level":"info","event":"listening",
 *         "address":"127.0.0.1:8080","workers":2}           (all on one line)
 *
 * Bounds   Values are escaped in both formats. A line longer than 4 KiB is truncated within its
 *          last string, which then ends with "...".
 * Threads  Any thread. A line is one write, so lines never interleave. The level can change at any
 *          time.
 * Blocking A log opened by td_log_open never waits for the reader of a pipe, socket or terminal. If
 *          there is no room for a line, the line is dropped and counted. The next line reports the
 *          number of dropped lines as `dropped`. */
#ifndef TD_SERVER_OBSERVE_LOG_H
#define TD_SERVER_OBSERVE_LOG_H

#include "server/config/config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How a line is written without waiting. */
enum td_log_kind {
    /* write(2), for a file or a descriptor that does not block. */
    TD_LOG_PLAIN,
    TD_LOG_SOCKET, /* send(2) with MSG_DONTWAIT */
    /* A pipe or terminal that cannot be opened again. Written only after poll(2) has reported
     * room. */
    TD_LOG_SHARED
};

/* State shared by the threads that write to a log. */
struct td_log_state {
    atomic_uint_fast64_t dropped;   /* lines dropped since the server started */
    atomic_uint_fast64_t unwritten; /* dropped lines that no line has reported yet */
    atomic_bool torn;               /* the last line was only partly written */
    pthread_mutex_t mutex;          /* for TD_LOG_SHARED: held during poll and write */
};

struct td_log {
    _Atomic(enum td_log_level) level;
    enum td_log_format format;
    int fd;
    enum td_log_kind kind;
    /* NULL if dropped lines are not counted, which is possible only for PLAIN and SOCKET. */
    struct td_log_state *state;
};

struct td_log_field {
    const char *name;
    enum { TD_FIELD_TEXT, TD_FIELD_INT, TD_FIELD_COUNT, TD_FIELD_MS } kind;
    const char *text;
    /* For TD_FIELD_MS, nanoseconds that are printed as milliseconds. */
    int64_t number;
};

#define TD_TEXT(name, value) ((struct td_log_field){ name, TD_FIELD_TEXT, value, 0 })
#define TD_INT(name, value)  ((struct td_log_field){ name, TD_FIELD_INT, NULL, (int64_t)(value) })
#define TD_COUNT(name, value)                                                                      \
    ((struct td_log_field){ name, TD_FIELD_COUNT, NULL, (int64_t)(value) })
#define TD_MS(name, ns) ((struct td_log_field){ name, TD_FIELD_MS, NULL, (int64_t)(ns) })

/* Opens a log on a descriptor. The descriptor stays open and unchanged, because other processes
 * might share it. The state must outlive the log. */
void td_log_open(struct td_log *log, int fd, enum td_log_level level, enum td_log_format format,
                 struct td_log_state *state);

/* True if lines of this level are written. Relaxed order is enough, because a line can be written
 * or omitted while the level changes. */
static inline bool td_log_wants(const struct td_log *log, enum td_log_level level)
{
    return level <= atomic_load_explicit(&log->level, memory_order_relaxed);
}

/* Makes the log more verbose by one level (by = 1) or less verbose (by = -1), within the existing
 * levels. Logs the change regardless of the level. */
void td_log_change_level(struct td_log *log, int by);

/* Writes a line regardless of the log's level. Omits fields whose text is NULL or whose count is
 * 0. */
void td_log_write(const struct td_log *log, enum td_log_level level, const char *event,
                  const struct td_log_field *fields, int n_fields);

#define TD_LOG_COUNT(...)                                                                          \
    (int)(sizeof((const struct td_log_field[]){ __VA_ARGS__ }) / sizeof(struct td_log_field))

/* Writes a line if the log wants the level. */
#define td_log(log, level, event, ...)                                                             \
    (td_log_wants(log, level)                                                                      \
         ? td_log_write(log, level, event, (const struct td_log_field[]){ __VA_ARGS__ },           \
                        TD_LOG_COUNT(__VA_ARGS__))                                                 \
         : (void)0)

#endif
