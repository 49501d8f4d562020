/* device_call.h - a call's way to the device and back.
 *
 *     admitted ─► place ─► submit ─► (batcher) ─► back: computed, or to be computed here after all,
 *                                                 or refused
 *     computed ─► place_upload ─► submit ─► (batcher) ─► back: the table is there, or it is not
 *
 * Ownership  Lies in the call's arena. From submit to `back` the call belongs to the batcher.
 * Threads    `back` is called by the batcher's thread; all else by the call's owner.
 * Errors     settle: what td_sources_check says. */
#ifndef TD_SERVER_CALLS_DEVICE_CALL_H
#define TD_SERVER_CALLS_DEVICE_CALL_H

#include "server/calls/call.h"

/* The one place where it is decided where an admitted call is computed: td_device_call_is_due
 * afterwards, where it goes to the device. With "device": "gpu" it does or is refused: as
 * td_devices_place says, or MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_device_call_place(struct td_call *call);

/* The same for a call that has been computed and wants a resident table to be on the device before it
 * is answered. False when there is no device, or no memory to ask it with. */
bool td_device_call_place_upload(struct td_call *call, const struct td_tensor *table);

/* Is it on its way there, and not back yet? */
bool td_device_call_is_due(const struct td_call *call);

/* Hands it over; `back` gets the call again, whatever has become of it, and must not wait. */
void td_device_call_submit(struct td_call *call, void (*back)(struct td_call *call));

/* What has become of a call that is back: it has its outputs, or its table is there; or call->error
 * says why it is refused, which no upload is; or else it goes on without the device. False of one that
 * was never there. */
bool td_device_call_is_done(const struct td_call *call);
bool td_device_call_is_refused(const struct td_call *call);

/* Of one that has its outputs, on a worker: were its inputs there to the end? Outputs that would hold
 * pinned memory which others need are copied out of it, where there is memory for that. */
TD_MUST_CHECK td_status td_device_call_settle(struct td_call *call);

#endif
