/* hang_guard.h - the calls to a device, each of which may never return, and who notices that.
 *
 *     the batcher's thread ── td_hang_guard_api(guard)->free ──► inside, with a time limit
 *                                                                 │ the device's free
 *                             outside, with its results ◄─────────┘
 *     another thread ── td_hang_guard_give_up ──► true: the limit has passed. Who is inside then
 *                                                 never comes back, even if the device's
 *                                                 function does
 *
 * The vtable of a guard calls that of the device, and passes results on only if the call has not
 * been given up. So after give_up the caller may use whatever the thread inside used, except what
 * it has passed to the device, which the device may still read and write.
 *
 * Limit      limit_ns, and of a copy twice the time that a slow disk takes to deliver its bytes.
 * Ownership  A guard borrows the device's vtable. It is freed by whom it was made by, unless a call
 *            was given up: the thread inside refers to it for ever.
 * Threads    One thread at a time makes calls, after attach; `supports` is not guarded, and may be
 *            called by any thread. Any thread calls give_up. */
#ifndef TD_SERVER_DEVICES_HANG_GUARD_H
#define TD_SERVER_DEVICES_HANG_GUARD_H

#include "gpu/device.h"

struct td_hang_guard;

/* NULL without memory. */
struct td_hang_guard *td_hang_guard_new(const struct td_device_api *api, int64_t limit_ns);
void td_hang_guard_free(struct td_hang_guard *guard);

/* As the device's vtable, for the thread that has attached the guard. Lives as long as the
 * guard. */
const struct td_device_api *td_hang_guard_api(const struct td_hang_guard *guard);

/* This thread makes the calls from now on. */
void td_hang_guard_attach(struct td_hang_guard *guard);

/* Gives up the call that the thread is inside of, if it has exceeded its limit, or has taken more
 * than `most_ns`. False if there is no such call. */
bool td_hang_guard_give_up(struct td_hang_guard *guard, int64_t most_ns);

/* After that: what the call may still use, of which the guard keeps a pointer. */
void td_hang_guard_keep(struct td_hang_guard *guard, void *left);

#endif
