/* services.h - the parts of the daemon that a call may use, all those below HTTP.
 *
 * Threads  Opened before the first connection and closed after the last one (services_open.h); in
 *          between only members that are atomic, or guard themselves, change. */
#ifndef TD_SERVER_CALLS_SERVICES_H
#define TD_SERVER_CALLS_SERVICES_H

#include "server/auth/tls.h"
#include "server/auth/tokens.h"
#include "server/clients/connections.h"
#include "server/compression/kept.h"
#include "server/config/config.h"
#include "server/devices/devices.h"
#include "server/memory/buffer_pool.h"
#include "server/memory/reserve.h"
#include "server/memory/shared_memory.h"
#include "server/observe/log.h"
#include "server/observe/log_limit.h"
#include "server/observe/metrics.h"
#include "server/store/store.h"
#include "server/traces/exporter.h"
#include "server/workers/worker_pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct td_call;

/* A scan of the data folder, or an attempt to lock it: a job of the disk threads. */
struct td_rescan {
    struct td_job job; /* first: run casts back */
    struct td_store *store;
    atomic_bool running; /* or queued */
    bool whole;          /* of the job: scan also if the lock was not taken */
    bool wanted;         /* main thread */
    int64_t tried_ns;    /* main thread: when the last attempt to lock began */
};

/* Compares blocks of mapped files with their checksums: a job of the worker pool, which an idle
 * worker runs until a request is queued. */
struct td_verification {
    struct td_job job; /* first: run casts back */
    struct td_services *services;
    atomic_bool running; /* or queued */
};

struct td_services {
    struct td_config config;
    bool (*stop_requested)(void); /* NULL, or asked while td_services_open loads the data folder */
    struct td_log log;
    struct td_log_state log_state;
    struct td_log_limit slow; /* of the lines of slow requests */
    struct td_buffer_pool *buffers;
    struct td_reserve reserve; /* of documents for operators */
    struct td_kept *kept;      /* documents that do not change, compressed */
    struct td_worker_pool *workers;
    struct td_worker_pool *disk_threads; /* make the changes that may wait for a disk; scans */
    struct td_refusals *refusals;
    struct td_store *store;
    struct td_devices *devices;
    struct td_clients *clients;
    struct td_tokens *tokens;           /* NULL: none are needed */
    struct td_tls *tls;                 /* NULL: HTTP without TLS */
    struct td_connections *connections; /* set before the first one is accepted, */
    struct td_metrics *metrics;         /* as these: a shard for each I/O thread, one for
                                        --metrics-listen and one for the main thread */
    struct td_connection_limits connection_limits;
    struct td_shm *shm;           /* NULL: clients may not share memory */
    struct td_exporter *exporter; /* NULL: requests are not traced */
    struct td_rescan rescan;
    struct td_verification verification;
    atomic_bool tokens_kept, certificate_kept; /* the last reload of them failed */
    atomic_bool draining;                      /* not ready; each reply closes its connection */
    atomic_bool refusing;          /* refuse new calls and queued ones, and stop running ones */
    atomic_int_fast64_t in_flight; /* requests of tasks, accepted and not yet answered */
    atomic_int_fast64_t suspended; /* of those: wait for a worker or run on one */
    atomic_int_fast64_t unsent;    /* requests that have arrived and replies that are not sent
                                        yet, of any request */
    atomic_uint_fast64_t next_request;
    uint64_t hash_seed;    /* of hash tables; not to be seen in any reply */
    uint64_t request_seed; /* makes request ids differ between processes */

    pthread_mutex_t mutex; /* guards all below */
    struct td_call_shell *free_calls;
    int n_free_calls;
    int n_calls; /* shells, kept or in use */
};

#endif
