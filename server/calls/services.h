/* services.h - the parts of the daemon below HTTP that calls can use.
 *
 * Threads  Opened before the first connection and closed after the last connection
 *          (services_open.h). In between, the only members that change are atomic or do their own
 *          locking. */
#ifndef TD_SERVER_CALLS_SERVICES_H
#define TD_SERVER_CALLS_SERVICES_H

#include "server/auth/tls.h"
#include "server/auth/tokens.h"
#include "server/calls/passes.h"
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

/* A scan of the data folder, or an attempt to lock the folder. Runs as a job on the disk
 * threads. */
struct td_rescan {
    struct td_job job; /* must be first, because run_rescan casts back */
    struct td_store *store;
    atomic_bool running; /* the job is running or queued */
    bool whole;          /* the job scans even if it did not get the lock */
    bool wanted;         /* a scan was requested; main thread only */
    int64_t tried_ns;    /* start of the last attempt to lock; main thread only */
};

/* Compares blocks of mapped files with their checksums. Runs as a worker pool job on an idle
 * worker, until a request is queued. */
struct td_verification {
    struct td_job job; /* must be first, because run_verification casts back */
    struct td_services *services;
    atomic_bool running; /* the job is running or queued */
};

struct td_services {
    struct td_config config;
    /* Called while td_services_open loads the data folder. NULL if nothing can request a stop. */
    bool (*stop_requested)(void);
    struct td_log log;
    struct td_log_state log_state;
    struct td_log_limit slow; /* limit on the log lines of slow requests */
    struct td_buffer_pool *buffers;
    struct td_reserve reserve; /* memory for documents that operators need */
    struct td_kept *kept;      /* compressed documents that do not change */
    struct td_worker_pool *workers;
    /* Threads for scans of the data folder and for changes that might wait for a disk. */
    struct td_worker_pool *disk_threads;
    struct td_refusals *refusals;
    struct td_store *store;
    struct td_devices *devices;
    struct td_passes passes;
    struct td_clients *clients;
    struct td_tokens *tokens;           /* NULL if no tokens are needed */
    struct td_tls *tls;                 /* NULL if HTTP runs without TLS */
    struct td_connections *connections; /* set before the first connection is accepted */
    /* Set before the first connection is accepted. Has one shard for each I/O thread, one for
     * --metrics-listen and one for the main thread. */
    struct td_metrics *metrics;
    struct td_connection_limits connection_limits;
    struct td_shm *shm;           /* NULL if clients cannot share memory */
    struct td_exporter *exporter; /* NULL if requests are not traced */
    struct td_rescan rescan;
    struct td_verification verification;
    atomic_bool tokens_kept, certificate_kept; /* the last reload of these files failed */
    /* the server is not ready; each reply closes its connection */
    atomic_bool draining;
    /* True if new and queued calls are refused, and running calls are stopped. */
    atomic_bool refusing;
    atomic_int_fast64_t in_flight; /* accepted requests that a task has not answered yet */
    /* Number of requests in flight that are queued for a worker or running on a worker. */
    atomic_int_fast64_t suspended;
    /* Number of requests that have arrived but whose replies have not been sent. */
    atomic_int_fast64_t unsent;
    atomic_uint_fast64_t next_request;
    uint64_t hash_seed;    /* seed of hash tables; must not be visible in any reply */
    uint64_t request_seed; /* makes request ids differ between processes */

    pthread_mutex_t mutex; /* guards the members below */
    struct td_call_shell *free_calls;
    int n_free_calls;
    int n_calls; /* number of struct td_call_shell, kept or in use */
};

#endif
