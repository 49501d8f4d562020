/* hang_guard.h - wraps the calls to a device, and detects a call that does not return.
 *
 *     the batcher's thread ── guard->api.free ──► inside, with a time limit
 *                                                  │ the device's free
 *                             outside again ◄──────┘
 *     another thread ── td_hang_guard_give_up ──► true: the limit has passed. The thread inside
 *                                                 never comes back, even if the device's
 *                                                 function does
 *
 * After give_up, nothing that the stuck thread uses can be freed or reused: its stack, with the
 * variables for results, and the memory that it passed to the device. The device might still read
 * and write them. Callers must therefore keep results on their stack or in memory of the device's
 * session.
 *
 * Limit      limit_ns; for a copy, plus twice the time that a slow disk takes to deliver the bytes.
 * Ownership  Borrows the device's vtable. After give_up, the thread inside uses the guard forever.
 * Threads    One thread attaches the guard and makes the calls. `supports` is not guarded, and any
 *            thread can call it. Any thread can call give_up. */
#ifndef TD_SERVER_DEVICES_HANG_GUARD_H
#define TD_SERVER_DEVICES_HANG_GUARD_H

#include "gpu/device.h"

#include <stdatomic.h>

/* A guard whose members are all zero has no call in progress. */
struct td_hang_guard {
    const struct td_device_api *device; /* vtable of the device, which the guard calls */
    struct td_device_api api;           /* vtable that the attached thread uses */
    int64_t limit_ns;
    atomic_uint_fast64_t state;
    /* Start and time limit of the call in progress. */
    _Atomic int64_t begun_ns, late_ns;
};

/* Attaches the guard to the current thread. From then on, the thread makes its calls through
 * guard->api. */
void td_hang_guard_attach(struct td_hang_guard *guard, const struct td_device_api *device,
                          int64_t limit_ns);

/* Gives up the call in progress if it has exceeded its limit or has taken longer than `most_ns`.
 * Otherwise returns false. */
bool td_hang_guard_give_up(struct td_hang_guard *guard, int64_t most_ns);

#endif
