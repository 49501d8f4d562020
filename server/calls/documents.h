/* documents.h - handlers that describe the server: ops, devices, error codes, health.
 *
 * They answer from memory, on the I/O thread. */
#ifndef TD_SERVER_CALLS_DOCUMENTS_H
#define TD_SERVER_CALLS_DOCUMENTS_H

#include "server/calls/call.h"

td_handler td_get_ops, td_get_op; /* of the call's op */
td_handler td_get_devices;
td_handler td_get_problem; /* named by the call's first argument */
td_handler td_get_health, td_get_ready;

#endif
