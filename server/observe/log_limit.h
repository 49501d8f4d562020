/* log_limit.h - limits the number of log lines of one kind per second, and counts the suppressed
 * lines.
 *
 * Threads  Any thread. */
#ifndef TD_SERVER_OBSERVE_LOG_LIMIT_H
#define TD_SERVER_OBSERVE_LOG_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* State of a limit. Initially all zero. */
struct td_log_limit {
    /* The current second. The lower bits count its lines. */
    atomic_uint_fast64_t window;
    /* Events since the server started, logged or not. */
    atomic_uint_fast64_t events;
    /* Suppressed lines that no line has reported yet. */
    atomic_uint_fast64_t suppressed;
};

/* Counts an event. Returns true if the event is among the first `per_second` events of its second
 * and must therefore be logged. */
bool td_log_limit_take(struct td_log_limit *limit, int64_t now_ns, unsigned per_second);

/* Returns the number of lines suppressed since the last call, and resets the number. */
uint64_t td_log_limit_suppressed(struct td_log_limit *limit);

/* Like td_log_limit_suppressed, but returns 0 until the second in which lines were last logged is
 * over. */
uint64_t td_log_limit_suppressed_before(struct td_log_limit *limit, int64_t now_ns);

#endif
