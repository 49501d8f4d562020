/* hang_guard.h - wraps calls to a device, any of which might never return, and detects such calls.
 *
 *     the batcher's thread ── td_hang_guard_api(guard)->free ──► inside, with a time limit
 *                                                                 │ the device's free
 *                             outside, with its results ◄─────────┘
 *     another thread ── td_hang_guard_give_up ──► true: the limit has passed. The thread inside
 *                                                 never comes back, even if the device's
 *                                                 function does
 *
 * The guard's vtable calls the device's vtable, and passes results on only if the call has not been
 * given up. So after give_up the caller can use whatever the thread inside used, except the data
 * that was passed to the device, which the device might still read and write.
 *
 * Limit      limit_ns; for a copy, plus twice the time that a slow disk takes to deliver the bytes.
 * Ownership  A guard borrows the device's vtable. Whoever made the guard frees it, unless a call
 *            was given up: the thread inside then refers to the guard forever.
 * Threads    One thread at a time makes calls, after attach. `supports` is not guarded, and any
 *            thread can call it. Any thread can call give_up. */
#ifndef TD_SERVER_DEVICES_HANG_GUARD_H
#define TD_SERVER_DEVICES_HANG_GUARD_H

#include "gpu/device.h"

struct td_hang_guard;

/* Returns NULL if no memory is available. */
struct td_hang_guard *td_hang_guard_new(const struct td_device_api *api, int64_t limit_ns);
void td_hang_guard_free(struct td_hang_guard *guard);

/* Returns a vtable like the device's, for the thread that has attached the guard. Lives as long as
 * the guard. */
const struct td_device_api *td_hang_guard_api(const struct td_hang_guard *guard);

/* Makes the current thread the one that makes the calls from now on. */
void td_hang_guard_attach(struct td_hang_guard *guard);

/* Gives up the call in progress if it has exceeded its limit or has taken more than `most_ns`.
 * Returns false if there is no such call. */
bool td_hang_guard_give_up(struct td_hang_guard *guard, int64_t most_ns);

/* Keeps a pointer, after give_up, to the data that the call might still use. */
void td_hang_guard_keep(struct td_hang_guard *guard, void *left);

#endif
