/* device_call.h - sends calls to the device and receives them back.
 *
 *     admitted ─► place ─► submit ─► (batcher) ─► back: computed, to compute on the CPU, or refused
 *     computed ─► place_upload ─► submit ─► (batcher) ─► back: the table is on the device or not
 *
 * Ownership  In the call's arena. From submit to `back` the call belongs to the batcher.
 * Threads    `back` runs on the batcher's thread; the call's owner calls the rest.
 * Errors     finish: those of td_sources_check. */
#ifndef TD_SERVER_CALLS_DEVICE_CALL_H
#define TD_SERVER_CALLS_DEVICE_CALL_H

#include "server/calls/call.h"

/* Decides where an admitted call is computed; td_device_call_is_due is true afterwards if that is
 * the device. A call with "device": "gpu" is computed there or refused. Errors: those of
 * td_devices_place, and MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_device_call_place(struct td_call *call);

/* Places the upload of a resident table, for a computed call that replies after the upload. False
 * if there is no device or no memory. */
bool td_device_call_place_upload(struct td_call *call, const struct td_tensor *table);

/* Is it placed on the device and not yet returned? */
bool td_device_call_is_due(const struct td_call *call);

/* Submits it to the batcher. `back` is called in any case, with the call, and must not block. */
void td_device_call_submit(struct td_call *call, void (*back)(struct td_call *call));

/* The result of a returned call. Done: it has its outputs, or its table is on the device. Refused:
 * call->error is set; never for an upload. Neither: it continues on the CPU. Both are false for a
 * call that was never submitted. */
bool td_device_call_is_done(const struct td_call *call);
bool td_device_call_is_refused(const struct td_call *call);

/* On a worker, for a call that has its outputs: td_sources_check, and copies outputs out of scarce
 * pinned memory if there is memory for the copy. */
TD_MUST_CHECK td_status td_device_call_finish(struct td_call *call);

#endif
