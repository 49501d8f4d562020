#include "server/observe/statistics.h"

#include <time.h>

static int index_of(const struct td_op *op)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++)
        if (ops[i] == op)
            return i;
    return -1;
}

static void add(atomic_uint_fast64_t *counter, int64_t amount)
{
    if (amount > 0)
        atomic_fetch_add_explicit(counter, (uint64_t)amount, memory_order_relaxed);
}

static uint64_t get(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now); /* 4 ms resolution at a quarter of the cost */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void td_statistics_count(struct td_statistics *statistics, const struct td_op *op,
                         const struct td_times *times, bool succeeded)
{
    const int index = index_of(op);
    if (index < 0)
        return;
    struct td_op_counters *counters = &statistics->ops[index];
    if (succeeded) {
        add(&counters->queue_ns, times->queue);
        add(&counters->input_ns, times->decode);
        add(&counters->infer_ns, times->compute);
        add(&counters->output_ns, times->encode);
        add(&counters->succeeded, 1);
        atomic_store_explicit(&counters->last_ms, now_ms(), memory_order_relaxed);
    } else {
        add(&counters->failed_ns, times->queue + times->decode + times->compute + times->encode);
        add(&counters->failed, 1);
    }
}

void td_statistics_read(const struct td_statistics *statistics, const struct td_op *op,
                        struct td_oip_stats *out)
{
    const int index = index_of(op);
    *out = (struct td_oip_stats){ 0 };
    if (index < 0)
        return;
    const struct td_op_counters *counters = &statistics->ops[index];
    const uint64_t count = get(&counters->succeeded);
    *out = (struct td_oip_stats){
        .last_ms = get(&counters->last_ms),
        .inferences = count,
        .executions = count,
        .fail = { get(&counters->failed), get(&counters->failed_ns) },
        .queue = { count, get(&counters->queue_ns) },
        .input = { count, get(&counters->input_ns) },
        .infer = { count, get(&counters->infer_ns) },
        .output = { count, get(&counters->output_ns) },
    };
    out->success = (struct td_oip_stat){ count, out->queue.ns + out->input.ns + out->infer.ns +
                                                    out->output.ns };
}
