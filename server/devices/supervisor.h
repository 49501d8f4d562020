/* supervisor.h - a thread that calls a device, and another one that takes over when a call does not
 * return.
 *
 *     supervisor ── starts ──► the device's thread: serve(context, api), whose calls are guarded
 *         ▲                        │ returns: the end
 *         └── take_over(context) ◄─┘ a call did not return: what the thread has is the
 *                                    supervisor's now, and a new thread serves
 *
 * Calls      Those of the api have the guard's time limit (hang_guard.h); in a hurry they have
 *            `hurry_ns`.
 * Ownership  Borrows the context and the device's vtable until td_supervisor_free. A thread whose
 *            call did not return is left behind; it uses nothing any more if the call returns after
 *            all.
 * Threads    serve and take_over never run at the same time. Any thread calls hurry. */
#ifndef TD_SERVER_DEVICES_SUPERVISOR_H
#define TD_SERVER_DEVICES_SUPERVISOR_H

#include "gpu/device.h"

struct td_supervisor;

struct td_supervised {
    const struct td_device_api *device;
    void (*serve)(void *context, const struct td_device_api *api);
    void *(*take_over)(void *context); /* returns what the call may still use, NULL for nothing */
    void *context;
    int64_t limit_ns, hurry_ns;
};

/* NULL without memory or threads. */
struct td_supervisor *td_supervisor_new(const struct td_supervised *supervised);

/* From now on calls have hurry_ns, those in progress too. */
void td_supervisor_hurry(struct td_supervisor *supervisor);

/* Waits until serve has returned; hurries. NULL is fine. */
void td_supervisor_free(struct td_supervisor *supervisor);

#endif
