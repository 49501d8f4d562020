/* plan_limits.h - the limits of the server that a plan is compared with. */
#ifndef TD_API_MESSAGE_PLAN_LIMITS_H
#define TD_API_MESSAGE_PLAN_LIMITS_H

#include <stdint.h>

struct td_plan_limits {
    int threads;         /* number of threads; determines the size of the workspace */
    uint64_t max_flops;  /* 0: no limit */
    uint64_t max_output; /* bytes */
    uint64_t memory;     /* memory budget in bytes, for all requests together */
};

#endif
