#include "server/calls/services_open.h"

#include "api/programs/stored.h"
#include "server/calls/call.h"
#include "server/calls/models.h"
#include "server/memory/fault_guard.h"
#include "server/observe/clock.h"

#include <sys/random.h>

#include <unistd.h>

#define LOCK_RETRY_NS 1000000000 /* interval between attempts to lock the data folder */

/* Time for one verification job between two ticks, which are 100 ms apart. The job takes a quarter
 * of one worker's time, so idle workers still spend most of their time on the loops of requests. A
 * job of this cost counts as large, so no worker runs it between the chunks of a request's loop. */
#define VERIFY_NS 25000000

/* Number of disk threads. A disk thread mostly waits for a disk, so the number depends on how many
 * changes a disk should have in progress, not on the number of processors. A file system commits
 * several files together if they are synced at the same time. */
enum { DISK_THREADS = 4 };

enum { RESERVED_BUFFERS = 16 }; /* enough for two buffers for each of several metrics documents */

static bool release_spares(void *context, uint64_t bytes)
{
    struct td_services *services = context;
    td_store_trim(services->store, INT64_MAX);
    if (services->devices)
        td_devices_trim(services->devices);
    return td_store_drop_compiled(services->store, bytes);
}

/* Returns the maximum size of all compiled programs: an eighth of the memory, but at least one
 * program. */
static uint64_t compiled_limit(const struct td_config *config)
{
    const uint64_t share = (uint64_t)config->memory_limit / 8;
    return share > TD_PROGRAM_COMPILED_BYTES ? share : TD_PROGRAM_COMPILED_BYTES;
}

bool td_services_open(struct td_services *services)
{
    const struct td_config *config = &services->config;
    pthread_mutex_init(&services->mutex, NULL);
    td_passes_init(&services->passes);
    if (getrandom(&services->request_seed, sizeof services->request_seed, 0) < 0)
        services->request_seed = (uint64_t)getpid();
    if (getrandom(&services->hash_seed, sizeof services->hash_seed, 0) < 0)
        services->hash_seed = (uint64_t)td_now_ns() ^ (uint64_t)(uintptr_t)services;
    services->clients = td_clients_new(services->request_seed);
    services->kept = td_kept_new();
    services->buffers =
        td_buffer_pool_new((uint64_t)config->memory_limit, (uint64_t)config->pool_limit);
    if (services->buffers)
        td_reserve_init(&services->reserve, td_buffer_pool_memory(services->buffers),
                        RESERVED_BUFFERS);
    if (services->buffers)
        services->store = td_store_open(&(struct td_store_options){
            .dir = config->data_dir,
            .quota = (uint64_t)config->tensor_quota,
            .disk_quota = (uint64_t)config->disk_quota,
            .compiled_limit = compiled_limit(config),
            .keep_versions = config->keep_versions,
            .verify = config->verify,
            .read_only = config->read_only,
            .memory = td_buffer_pool_memory(services->buffers),
            .log = &services->log,
            .stop_requested = services->stop_requested,
        });
    if (services->buffers && services->store)
        td_buffer_pool_spares(services->buffers, release_spares, services);
    if (config->system_shared_memory)
        services->shm = td_shm_new();
    if (services->buffers)
        services->devices = td_devices_open(config, services->buffers, &services->log);
    services->workers = td_worker_pool_new((int)config->workers, config->queue_limit);
    services->disk_threads = td_worker_pool_new(DISK_THREADS, config->queue_limit);
    if (services->workers && services->disk_threads) {
        td_worker_pool_name(services->workers, "worker");
        td_worker_pool_name(services->disk_threads, "disk");
    }
    if (services->workers)
        services->refusals = td_refusals_new(services->workers);
    if (services->clients && services->kept && services->buffers && services->store &&
        services->refusals && services->disk_threads && services->devices &&
        (services->shm || !config->system_shared_memory)) {
        td_models_log_names(services);
        return true;
    }
    td_log(&services->log, TD_LOG_ERROR, "start_failed",
           TD_TEXT("part", !services->clients || !services->kept || !services->buffers ? "memory"
                           : !services->store                               ? "data folder"
                           : !services->refusals || !services->disk_threads ? "workers"
                           : !services->devices                             ? "devices"
                                                                            : "memory"));
    return false;
}

void td_services_stop_workers(struct td_services *services)
{
    td_refusals_free(services->refusals);
    services->refusals = NULL;
    if (services->store)
        td_store_stop(services->store); /* a scan might be running */
    td_worker_pool_stop(services->disk_threads);
    td_worker_pool_stop(services->workers);
}

bool td_services_close(struct td_services *services)
{
    td_services_stop_workers(services);
    td_worker_pool_free(services->disk_threads);
    td_worker_pool_free(services->workers);
    services->disk_threads = services->workers = NULL;
    /* Close the devices first, because they hold memory and versions of tensors. */
    const bool closed = td_devices_close(services->devices);
    services->devices = NULL;
    if (services->buffers) /* no other thread allocates from here on */
        td_buffer_pool_spares(services->buffers, NULL, NULL);
    td_call_free_shells(services);
    td_shm_free(services->shm);
    td_store_free(services->store);
    td_buffer_pool_free(services->buffers);
    td_kept_free(services->kept);
    td_clients_free(services->clients);
    td_passes_destroy(&services->passes);
    pthread_mutex_destroy(&services->mutex);
    return closed;
}

static void run_rescan(struct td_job *job, struct td_worker *worker)
{
    struct td_rescan *rescan = (struct td_rescan *)(void *)job;
    (void)worker;
    if (rescan->whole)
        td_store_rescan(rescan->store);
    else
        td_store_retry_lock(rescan->store);
    atomic_store(&rescan->running, false);
}

static void drop_rescan(struct td_job *job, td_status why)
{
    struct td_rescan *rescan = (struct td_rescan *)(void *)job;
    (void)why; /* the server is stopping */
    atomic_store(&rescan->running, false);
}

void td_services_rescan(struct td_services *services, bool wanted)
{
    struct td_rescan *rescan = &services->rescan;
    const int64_t now = td_now_ns();
    rescan->wanted = rescan->wanted || wanted || td_store_needs_scan(services->store);
    /* Check this first, because td_store_is_locked_out would block this thread while the job
     * exchanges the folder. */
    if (atomic_load(&rescan->running))
        return;
    const bool retry =
        now - rescan->tried_ns >= LOCK_RETRY_NS && td_store_is_locked_out(services->store);
    if ((!rescan->wanted && !retry) || !td_worker_pool_reserve_free(services->disk_threads))
        return;
    rescan->whole = rescan->wanted;
    rescan->wanted = false;
    rescan->tried_ns = now;
    rescan->store = services->store;
    rescan->job = (struct td_job){ .cost_ns = TD_JOB_SMALL_NS,
                                   .deadline_ns = TD_NEVER,
                                   .keep = true,
                                   .run = run_rescan,
                                   .drop = drop_rescan };
    atomic_store(&rescan->running, true);
    td_worker_pool_submit(services->disk_threads, &rescan->job);
}

bool td_services_is_rescanning(const struct td_services *services)
{
    return services->rescan.wanted || atomic_load(&services->rescan.running);
}

/* ---- verification --------------------------------------------------------------------------- */

static void drop_verification(struct td_job *job, td_status why)
{
    struct td_verification *verification = (struct td_verification *)(void *)job;
    (void)why; /* the server is stopping */
    atomic_store(&verification->running, false);
}

/* Verifies one block after another until a request needs a worker. A block takes about 0.1 ms if
 * the file is in the page cache. */
static void run_verification(struct td_job *job, struct td_worker *worker)
{
    struct td_verification *verification = (struct td_verification *)(void *)job;
    struct td_services *services = verification->services;
    const int64_t until = td_now_ns() + VERIFY_NS;
    (void)worker;
    while (td_worker_pool_room(services->workers) > 0 && !atomic_load(&services->draining) &&
           td_now_ns() < until && td_store_verify(services->store))
        ;
    atomic_store(&verification->running, false);
}

void td_services_verify(struct td_services *services)
{
    struct td_verification *verification = &services->verification;
    if (atomic_load(&verification->running) || !td_store_has_unverified(services->store))
        return;
    verification->services = services;
    verification->job = (struct td_job){ .cost_ns = VERIFY_NS,
                                         .deadline_ns = TD_NEVER,
                                         .keep = true,
                                         .run = run_verification,
                                         .drop = drop_verification };
    atomic_store(&verification->running, true);
    if (!td_worker_pool_submit_if_idle(services->workers, &verification->job))
        atomic_store(&verification->running, false);
}

void td_services_expire(struct td_services *services, int64_t now_ns, bool everything)
{
    /* These come first, because requests that wait for a pass or a writer return to the queues. */
    td_passes_expire(&services->passes, now_ns);
    td_writers_expire(services->store, now_ns, everything);
    td_worker_pool_expire(services->disk_threads, now_ns, everything);
    td_worker_pool_expire(services->workers, now_ns, everything);
}

struct td_services_holdings td_services_holdings(struct td_services *services)
{
    struct td_services_holdings held = {
        .buffers = td_buffer_pool_usage(services->buffers),
        .store = td_store_usage(services->store),
        .requests = atomic_load(&services->in_flight),
        .connections = td_connections_counts(services->connections, td_now_ns()),
        .mappings = td_guard_ranges(),
        .regions = services->shm ? td_shm_count(services->shm) : 0,
    };
    /* The memory of connections is reported separately. It was read slightly later than in_use, so
     * it can exceed in_use. */
    held.buffers.in_use -= held.buffers.in_use < held.connections.memory_bytes
                               ? held.buffers.in_use
                               : held.connections.memory_bytes;
    pthread_mutex_lock(&services->mutex);
    held.calls = (uint64_t)services->n_calls * sizeof(struct td_call_shell);
    pthread_mutex_unlock(&services->mutex);
    return held;
}
