/* clock.h - monotonic time in nanoseconds. */
#ifndef TD_SERVER_OBSERVE_CLOCK_H
#define TD_SERVER_OBSERVE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t td_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define TD_NEVER INT64_MAX /* no deadline */

#endif
