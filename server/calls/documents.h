/* documents.h - handlers that describe the server: ops, devices, error codes.
 *
 * The handlers reply on the I/O thread, from data in memory. */
#ifndef TD_SERVER_CALLS_DOCUMENTS_H
#define TD_SERVER_CALLS_DOCUMENTS_H

#include "server/calls/call.h"

td_handler td_get_ops, td_get_op; /* td_get_op describes the op that the path names */
td_handler td_get_devices;
td_handler td_get_problem; /* describes the problem named by the first argument */

#endif
