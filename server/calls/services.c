#include "server/calls/services.h"

#include "server/calls/call.h"
#include "server/observe/clock.h"

#include <sys/random.h>

#include <unistd.h>

static void let_go_of_spares(void *context)
{
    struct td_server *server = context;
    td_store_trim(server->store, INT64_MAX);
    if (server->devices)
        td_devices_trim(server->devices);
}

bool td_server_open(struct td_server *server)
{
    const struct td_config *config = &server->config;
    pthread_mutex_init(&server->mutex, NULL);
    if (getrandom(&server->request_seed, sizeof server->request_seed, 0) < 0)
        server->request_seed = (uint64_t)getpid();
    server->buffers =
        td_buffer_pool_new((uint64_t)config->memory_limit, (uint64_t)config->pool_limit);
    if (server->buffers)
        server->store = td_store_open(&(struct td_store_options){
            .dir = config->data_dir,
            .quota = (uint64_t)config->tensor_quota,
            .memory = td_buffer_pool_memory(server->buffers),
            .log = &server->log,
        });
    if (server->buffers && server->store)
        td_buffer_pool_spares(server->buffers, let_go_of_spares, server);
    if (config->system_shared_memory)
        server->shm = td_shm_new();
    if (server->buffers)
        server->devices = td_devices_open(config, server->buffers, &server->log);
    server->workers = td_worker_pool_new((int)config->workers, config->queue_limit);
    if (server->buffers && server->store && server->workers && server->devices &&
        (server->shm || !config->system_shared_memory))
        return true;
    td_log(&server->log, TD_LOG_ERROR, "start_failed",
           TD_TEXT("part", !server->buffers   ? "memory"
                           : !server->store   ? "data folder"
                           : !server->workers ? "workers"
                           : !server->devices ? "devices"
                                              : "memory"));
    return false;
}

void td_server_stop_workers(struct td_server *server)
{
    td_worker_pool_free(server->workers);
    server->workers = NULL;
}

void td_server_close(struct td_server *server)
{
    if (server->buffers)
        td_buffer_pool_spares(server->buffers, NULL, NULL);
    td_server_stop_workers(server);
    td_devices_close(server->devices); /* it holds versions of tensors, and memory */
    td_call_free_shells(server);
    td_shm_free(server->shm);
    td_store_free(server->store);
    td_buffer_pool_free(server->buffers);
    pthread_mutex_destroy(&server->mutex);
}

static void run_rescan(struct td_job *job, struct td_worker *worker)
{
    struct td_rescan *rescan = (struct td_rescan *)(void *)job;
    (void)worker;
    td_store_rescan(rescan->store);
    atomic_store(&rescan->running, false);
}

static void drop_rescan(struct td_job *job, td_status why)
{
    struct td_rescan *rescan = (struct td_rescan *)(void *)job;
    (void)why; /* the server stops */
    atomic_store(&rescan->running, false);
}

void td_server_rescan(struct td_server *server, bool wanted)
{
    struct td_rescan *rescan = &server->rescan;
    rescan->wanted = rescan->wanted || wanted;
    if (!rescan->wanted || atomic_load(&rescan->running) ||
        !td_worker_pool_reserve(server->workers))
        return;
    rescan->wanted = false;
    rescan->store = server->store;
    rescan->job = (struct td_job){
        .cost_ns = TD_JOB_SMALL_NS, .deadline_ns = TD_NEVER, .run = run_rescan, .drop = drop_rescan
    };
    atomic_store(&rescan->running, true);
    td_worker_pool_submit(server->workers, &rescan->job);
}

struct td_server_memory td_server_memory(struct td_server *server)
{
    struct td_server_memory memory = { .buffers = td_buffer_pool_stats(server->buffers),
                                       .tables = td_store_stats(server->store).mapped };
    pthread_mutex_lock(&server->mutex);
    memory.calls = (uint64_t)server->n_calls * sizeof(struct td_call_shell);
    pthread_mutex_unlock(&server->mutex);
    return memory;
}
