#include "gpu/reference/state.h"

#include <inttypes.h>
#include <stdatomic.h>

static atomic_uint_fast64_t counters[TD_REFERENCE_COUNTERS];

uint64_t td_reference_count(enum td_reference_counter counter, uint64_t n)
{
    return atomic_fetch_add_explicit(&counters[counter], n, memory_order_relaxed) + n;
}

uint64_t td_reference_counter_value(enum td_reference_counter counter)
{
    return atomic_load_explicit(&counters[counter], memory_order_relaxed);
}

void td_reference_counters_reset(void)
{
    for (int i = 0; i < TD_REFERENCE_COUNTERS; i++)
        atomic_store_explicit(&counters[i], 0, memory_order_relaxed);
}

td_status td_reference_check(const struct td_device *device, struct td_error *err)
{
    if (device->misuse[0])
        return td_error_set(err, TD_INTERNAL, "%s", device->misuse);
    if (device->lost)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "the reference device was lost at launch %" PRId64 " (option lose_at)",
                            device->launches);
    return TD_OK;
}

td_status td_reference_misuse(struct td_error *err, const char *message)
{
    td_reference_count(TD_REFERENCE_MISUSES, 1);
    return td_error_set(err, TD_INTERNAL, "%s", message);
}
