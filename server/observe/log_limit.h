/* log_limit.h - bounds how many lines of one kind are logged in a second, and counts the others.
 *
 * Threads  Any. */
#ifndef TD_SERVER_OBSERVE_LOG_LIMIT_H
#define TD_SERVER_OBSERVE_LOG_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero at first. */
struct td_log_limit {
    atomic_uint_fast64_t window; /* the second, and in the lower bits how many lines it has had */
    atomic_uint_fast64_t events; /* since the start, logged or not */
    atomic_uint_fast64_t suppressed; /* not logged, nor reported yet */
};

/* Counts an event. True if its line is to be logged: one of the first `per_second` in its
 * second. */
bool td_log_limit_take(struct td_log_limit *limit, int64_t now_ns, unsigned per_second);

/* How many lines have been suppressed since the last time it was asked. */
uint64_t td_log_limit_suppressed(struct td_log_limit *limit);

/* The same, but 0 while the second goes on in which some were. */
uint64_t td_log_limit_suppressed_before(struct td_log_limit *limit, int64_t now_ns);

#endif
