/* services_open.h - opens and closes the parts of the daemon that calls use.
 *
 * Threads  The main thread. Any thread can call td_services_holdings. */
#ifndef TD_SERVER_CALLS_SERVICES_OPEN_H
#define TD_SERVER_CALLS_SERVICES_OPEN_H

#include "server/calls/services.h"

/* Opens the parts according to services->config. If a part fails, logs the failure and returns
 * false; td_services_close then closes the parts that were opened. If services->stop_requested()
 * has returned true, tensors might be missing, so the caller must not serve requests. */
TD_MUST_CHECK bool td_services_open(struct td_services *services);
/* Closes all parts. Returns false if a device is left open (td_batcher_free). The process must then
 * end with _exit, because exit handlers, including the driver's, might wait for the device
 * forever. */
bool td_services_close(struct td_services *services);

/* Stops the workers and ends the delayed refusals, before the other parts are closed. Do not queue
 * calls afterwards. */
void td_services_stop_workers(struct td_services *services);

/* Scans the data folder as soon as the queue has a free place, if `wanted` is set or the store
 * needs a scan. If either becomes true during a scan, scans again. Tries to lock the folder every
 * second while another process holds its lock. The main thread calls this function at every
 * tick. */
void td_services_rescan(struct td_services *services, bool wanted);

/* True if a scan is wanted, queued or running. */
bool td_services_is_rescanning(const struct td_services *services);

/* Lets an idle worker compare mapped files with their checksums. The worker stops when a request is
 * queued, and after part of the time until the next tick. The main thread calls this function at
 * every tick. */
void td_services_verify(struct td_services *services);

/* Refuses calls that are queued, and calls that wait for another writer, if their deadline has
 * passed or `everything` is set. */
void td_services_expire(struct td_services *services, int64_t now_ns, bool everything);

/* Resources that the daemon holds, as GET /readyz reports them: sizes in bytes, then counts. */
struct td_services_holdings {
    struct td_buffer_pool_usage buffers;
    uint64_t calls; /* bytes of struct td_call_shell, kept or in use */
    struct td_store_usage store;
    struct td_connection_counts connections;
    int64_t requests;
    int mappings, regions; /* `mappings` counts mapped files and regions */
};
struct td_services_holdings td_services_holdings(struct td_services *services);

#endif
