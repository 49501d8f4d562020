#include "server/observe/log_limit.h"

enum { COUNT_BITS = 16, NS_PER_S = 1000000000 };

static uint64_t second_of(int64_t now_ns)
{
    return (uint64_t)now_ns / NS_PER_S;
}

bool td_log_limit_take(struct td_log_limit *limit, int64_t now_ns, unsigned per_second)
{
    const uint64_t second = second_of(now_ns);
    uint_fast64_t seen = atomic_load_explicit(&limit->window, memory_order_relaxed), next;
    atomic_fetch_add_explicit(&limit->events, 1, memory_order_relaxed);
    do {
        /* A thread can arrive with an earlier second, which counts as the last second. */
        const bool is_new = seen >> COUNT_BITS < second;
        const uint64_t count = is_new ? 0 : seen & ((1U << COUNT_BITS) - 1);
        if (count >= per_second) {
            atomic_fetch_add_explicit(&limit->suppressed, 1, memory_order_relaxed);
            return false;
        }
        next = is_new ? (second << COUNT_BITS) + 1 : seen + 1;
    } while (!atomic_compare_exchange_weak_explicit(&limit->window, &seen, next,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

uint64_t td_log_limit_suppressed(struct td_log_limit *limit)
{
    return atomic_load_explicit(&limit->suppressed, memory_order_relaxed) > 0
               ? atomic_exchange_explicit(&limit->suppressed, 0, memory_order_relaxed)
               : 0;
}

uint64_t td_log_limit_suppressed_before(struct td_log_limit *limit, int64_t now_ns)
{
    const uint64_t window = atomic_load_explicit(&limit->window, memory_order_relaxed);
    return window >> COUNT_BITS < second_of(now_ns) ? td_log_limit_suppressed(limit) : 0;
}
