/* services.h - what a call may reach: the parts of the daemon below HTTP, put together.
 *
 * Threads  Set up by main before the first connection and taken down after the last; in between
 *          only what is atomic or guards itself changes. */
#ifndef TD_SERVER_CALLS_SERVICES_H
#define TD_SERVER_CALLS_SERVICES_H

#include "server/config/config.h"
#include "server/devices/devices.h"
#include "server/memory/buffer_pool.h"
#include "server/memory/shared_memory.h"
#include "server/observe/log.h"
#include "server/observe/statistics.h"
#include "server/store/store.h"
#include "server/workers/worker_pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct td_call;

/* Looking at the data folder again: a job like others, since large files may have to be read. */
struct td_rescan {
    struct td_job job; /* first: run casts back */
    struct td_store *store;
    atomic_bool running; /* or queued */
    bool wanted;         /* main thread */
};

struct td_services {
    struct td_statistics statistics; /* first: it is aligned to cache lines */
    struct td_config config;
    struct td_log log;
    struct td_buffer_pool *buffers;
    struct td_worker_pool *workers;
    struct td_store *store;
    struct td_devices *devices;
    struct td_shm *shm; /* NULL: clients may not share memory */
    struct td_rescan rescan;
    atomic_bool draining;          /* refuse new op requests */
    atomic_bool refusing;          /* refuse to queue even accepted ones: the workers go */
    atomic_int_fast64_t in_flight; /* op requests accepted and not yet answered */
    atomic_int_fast64_t suspended; /* of those, how many wait for a worker or run on one */
    atomic_int_fast64_t sending;   /* answers on their way, of any request */
    atomic_uint_fast64_t next_request;
    uint64_t request_seed; /* makes request ids differ between processes */

    pthread_mutex_t mutex; /* guards all below */
    struct td_call_shell *free_calls;
    int n_free_calls;
    int n_calls; /* shells there are, kept or in use */
};

/* Makes the parts that config asks for; false (logged) when one cannot be had. td_services_close also
 * takes down what a failed td_services_open left. */
TD_MUST_CHECK bool td_services_open(struct td_services *services);
void td_services_close(struct td_services *services);

/* Ends the workers before the rest; no call may be queued any more. */
void td_services_stop_workers(struct td_services *services);

/* Has the data folder looked at again: as soon as there is a place in the queue, and once more when
 * it is asked for in the middle of it. Called by the main thread again and again. */
void td_services_rescan(struct td_services *services, bool wanted);

/* Memory as the server announces it, under GET /readyz. */
struct td_services_memory {
    struct td_buffer_pool_stats buffers;
    uint64_t calls;  /* shells of calls, kept or in use */
    uint64_t tables; /* mapped files */
};
struct td_services_memory td_services_memory(struct td_services *services);

#endif
