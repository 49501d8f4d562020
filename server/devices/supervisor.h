/* supervisor.h - a thread that calls a device, and a second thread that takes over if a call does
 * not return.
 *
 *     supervisor ── starts ──► the device's thread: serve(context, api), whose calls are guarded
 *         ▲                        │ returns: the end
 *         └── take_over(context) ◄─┘ a call did not return: the supervisor takes over the thread's
 *                                    state, and a new thread serves
 *
 * Calls      Calls through the api have the guard's time limit (hang_guard.h), or `hurry_ns` after
 *            td_supervisor_hurry.
 * Ownership  Borrows the context and the device's vtable until td_supervisor_free. A thread whose
 *            call did not return is left behind. Even if the call returns later, the thread uses
 *            neither the context nor the vtable.
 * Threads    serve and take_over never run at the same time. Any thread can call hurry. */
#ifndef TD_SERVER_DEVICES_SUPERVISOR_H
#define TD_SERVER_DEVICES_SUPERVISOR_H

#include "gpu/device.h"

struct td_supervisor;

struct td_supervised {
    const struct td_device_api *device;
    void (*serve)(void *context, const struct td_device_api *api);
    /* Returns the data that the stuck call might still use, or NULL. */
    void *(*take_over)(void *context);
    void *context;
    int64_t limit_ns, hurry_ns; /* hurry_ns is at most limit_ns */
};

/* Returns NULL if allocation fails or no thread can be started. */
struct td_supervisor *td_supervisor_new(const struct td_supervised *supervised);

/* Limits calls, including calls in progress, to hurry_ns from now on. */
void td_supervisor_hurry(struct td_supervisor *supervisor);

/* Hurries the calls, waits until `serve` has returned, and frees the supervisor. Accepts NULL. */
void td_supervisor_free(struct td_supervisor *supervisor);

#endif
