/* services_open.h - opening and closing the parts of the daemon that calls use.
 *
 * Threads  The main thread; td_services_holdings from any. */
#ifndef TD_SERVER_CALLS_SERVICES_OPEN_H
#define TD_SERVER_CALLS_SERVICES_OPEN_H

#include "server/calls/services.h"

/* Opens the parts, as services->config says; false (logged) when one fails. Once
 * services->stop_requested() is true, tensors may be missing, and nothing may be served.
 * td_services_close also closes what a failed td_services_open has opened. */
TD_MUST_CHECK bool td_services_open(struct td_services *services);
/* False if a device is left open (td_batcher_free): then the process is to end by _exit, since the
 * handlers of exit, a driver's among them, may wait for that device for ever. */
bool td_services_close(struct td_services *services);

/* Ends the workers and the delayed refusals, before the rest. No call may be queued any more. */
void td_services_stop_workers(struct td_services *services);

/* Scans the data folder, as soon as there is a free place in the queue; again when `wanted` during
 * a scan. Tries for the folder's lock each second while another process holds it. Called by the
 * main thread at every tick. */
void td_services_rescan(struct td_services *services, bool wanted);

/* Whether a scan is wanted, queued or running. */
bool td_services_is_rescanning(const struct td_services *services);

/* Lets an idle worker compare mapped files with their checksums for part of the time until the next
 * tick, and until a request is queued. Called by the main thread at every tick. */
void td_services_verify(struct td_services *services);

/* Refuses the queued calls, and those that wait for another writer, whose deadline has passed; all
 * of them if `everything`. */
void td_services_expire(struct td_services *services, int64_t now_ns, bool everything);

/* What the daemon holds, as GET /readyz reports it: bytes, then numbers. */
struct td_services_holdings {
    struct td_buffer_pool_stats buffers;
    uint64_t calls; /* shells of calls, kept or in use */
    struct td_store_stats store;
    struct td_connection_counts connections;
    int64_t requests;
    int mappings, regions; /* mapped files and regions; regions */
};
struct td_services_holdings td_services_holdings(struct td_services *services);

#endif
