#include "server/calls/client_limits.h"

#include "server/calls/services.h"

#include <stdio.h>

td_status td_client_limits_exceeded(struct td_error *err, const char *resource, uint64_t needed,
                                    uint64_t limit)
{
    snprintf(err->resource, sizeof err->resource, "%s", resource);
    err->needed = needed;
    err->limit = limit;
    return TD_CLIENT_LIMIT;
}

/* The counters use relaxed atomics because they order nothing else. A refused request is never
 * added, not even briefly, because that could refuse a concurrent call that fits. */
td_status td_client_limits_take_request(struct td_call *call)
{
    const int64_t limit = call->services->config.client_requests;
    if (!call->client || limit == 0)
        return TD_OK;
    int_fast64_t requests = atomic_load_explicit(&call->client->requests, memory_order_relaxed);
    while (requests < limit)
        if (atomic_compare_exchange_weak_explicit(&call->client->requests, &requests, requests + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            call->limits.counted = true;
            return TD_OK;
        }
    td_error_set(&call->error, TD_CLIENT_LIMIT,
                 "this client has %lld requests queued or running; --client-requests allows no "
                 "more",
                 (long long)limit);
    return td_client_limits_exceeded(&call->error, "requests", (uint64_t)limit + 1,
                                     (uint64_t)limit);
}

void td_client_limits_give_request(struct td_call *call)
{
    if (call->limits.counted)
        atomic_fetch_sub_explicit(&call->client->requests, 1, memory_order_relaxed);
    call->limits.counted = false;
}

/* True if the call can hold `bytes` more while all calls of its client hold `held` bytes. */
static bool may_take(const struct td_call *call, uint64_t held, size_t bytes)
{
    const uint64_t limit = (uint64_t)call->services->config.client_memory;
    const bool is_only = held <= call->limits.charged;
    return is_only || (held <= limit && bytes <= limit - held);
}

td_status td_client_limits_charge(struct td_call *call, size_t bytes)
{
    const uint64_t limit = (uint64_t)call->services->config.client_memory;
    if (!call->client)
        return TD_OK;
    atomic_uint_fast64_t *held_bytes = &call->client->memory_bytes;
    uint_fast64_t held = atomic_load_explicit(held_bytes, memory_order_relaxed);
    while (may_take(call, held, bytes))
        if (atomic_compare_exchange_weak_explicit(held_bytes, &held, held + bytes,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            call->limits.charged += bytes;
            return TD_OK;
        }
    td_error_set(
        &call->error, TD_CLIENT_LIMIT,
        "this client's requests in progress hold %llu bytes, and this request needs %zu more; "
        "--client-memory allows %llu",
        (unsigned long long)held, bytes, (unsigned long long)limit);
    return td_client_limits_exceeded(&call->error, "memory_bytes", held + bytes, limit);
}

void td_client_limits_give_back(struct td_call *call, size_t bytes)
{
    if (bytes > call->limits.charged)
        bytes = call->limits.charged;
    if (bytes)
        atomic_fetch_sub_explicit(&call->client->memory_bytes, bytes, memory_order_relaxed);
    call->limits.charged -= bytes;
}

void td_client_limits_discharge(struct td_call *call)
{
    td_client_limits_give_back(call, call->limits.charged);
}
