#include "server/server.h"

#include "server/call.h"

#include <sys/random.h>

#include <unistd.h>

bool td_server_open(struct td_server *server)
{
    const struct td_config *config = &server->config;
    pthread_mutex_init(&server->mutex, NULL);
    if (getrandom(&server->request_seed, sizeof server->request_seed, 0) < 0)
        server->request_seed = (uint64_t)getpid();
    server->buffers =
        td_buffer_pool_new((uint64_t)config->memory_limit, (uint64_t)config->pool_limit);
    server->store = td_store_open(config->data_dir, &server->log);
    server->connections = td_connections_new();
    server->workers = td_worker_pool_new((int)config->workers, config->queue_limit);
    if (server->buffers && server->store && server->connections && server->workers)
        return true;
    td_log(&server->log, TD_LOG_ERROR, "start_failed",
           TD_TEXT("part", !server->store     ? "data folder"
                           : !server->workers ? "workers"
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
    td_server_stop_workers(server);
    td_call_free_shells(server);
    td_connections_free(server->connections);
    td_store_free(server->store);
    td_buffer_pool_free(server->buffers);
    pthread_mutex_destroy(&server->mutex);
}

struct td_server_memory td_server_memory(struct td_server *server)
{
    struct td_server_memory memory = { .buffers = td_buffer_pool_stats(server->buffers),
                                       .tables = td_store_bytes(server->store) };
    pthread_mutex_lock(&server->mutex);
    memory.calls = (uint64_t)server->n_calls * sizeof(struct td_call);
    pthread_mutex_unlock(&server->mutex);
    return memory;
}
