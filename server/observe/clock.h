/* clock.h - monotonic time in nanoseconds, and waits until such a time. */
#ifndef TD_SERVER_OBSERVE_CLOCK_H
#define TD_SERVER_OBSERVE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline int64_t td_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define TD_NEVER INT64_MAX /* no deadline */

/* Initialises a condition variable for td_clock_wait. */
static inline void td_clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Waits with the mutex, as pthread_cond_timedwait. Returns false if the time has come. */
static inline bool td_clock_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns)
{
    const struct timespec until = { .tv_sec = until_ns / 1000000000,
                                    .tv_nsec = until_ns % 1000000000 };
    return until_ns == TD_NEVER ? pthread_cond_wait(cond, mutex) == 0
                                : pthread_cond_timedwait(cond, mutex, &until) == 0;
}

#endif
