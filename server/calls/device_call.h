/* device_call.h - applies the rules of "device", and places calls on the device (away.h) through
 * the batcher.
 *
 * Errors  A completed call can fail with the errors of td_borrowed_check. */
#ifndef TD_SERVER_CALLS_DEVICE_CALL_H
#define TD_SERVER_CALLS_DEVICE_CALL_H

#include "server/calls/call.h"

/* Returns DEVICE_UNAVAILABLE if the call has "device": "gpu" and the device is not available. For
 * calls that are never computed on a device. */
TD_MUST_CHECK td_status td_device_call_check(struct td_call *call);

/* Makes zero the default of the attribute bounds for "device": "gpu". An index out of bounds then
 * gives zeros, as in TensorFlow's GPU kernels. Called before the op's shapes are inferred. */
void td_device_call_set_defaults(struct td_call *call);

/* Refuses the upload of a table before the table is stored: UNSUPPORTED_DTYPE for strings,
 * DEVICE_UNAVAILABLE if the device is not available. */
TD_MUST_CHECK td_status td_device_call_check_upload(struct td_call *call,
                                                    const struct td_tensor *table);

/* Decides where an admitted call is computed. Sets TD_AWAY_DUE if the device computes the call. A
 * call with "device": "gpu" is computed on the device or refused. Fails with INVALID_ARGUMENT for
 * "gpu" with keys in place of row numbers, with the errors of td_devices_place, and with
 * MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_device_call_place(struct td_call *call);

/* Places the upload of a resident table, for a computed call that replies after the upload. The
 * upload is never refused. Returns false if there is no device or allocation fails. */
bool td_device_call_place_upload(struct td_call *call, const struct td_tensor *table);

#endif
