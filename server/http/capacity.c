#include "server/http/capacity.h"

#include "server/http/acceptor.h"
#include "server/http/linger.h"
#include "server/http/metrics_listener.h"

#include <sys/resource.h>

enum {
    SPARE_FILES = 64,        /* log, listening socket, data folder, files being read or written */
    FILES_PER_IO_THREAD = 2, /* an epoll and an eventfd */
    FEWEST_CONNECTIONS = 64, /* with less than this there is no use in starting */
    MEMORY_SHARE = 4,
    FEW_CONNECTIONS = 16,
    LIBRARY_BYTES = 2048 /* of a connection, in libmicrohttpd, beside --connection-memory */
};

/* The limit on open files, raised to what the system allows. */
static int64_t file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return INT64_MAX;
    const rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        files.rlim_cur = before;
    return files.rlim_cur >= (rlim_t)INT64_MAX ? INT64_MAX : (int64_t)files.rlim_cur;
}

/* Files beside the connections of --connection-limit. */
static int64_t reserved_files(const struct td_services *services)
{
    return SPARE_FILES + TD_LINGER_SOCKETS + TD_RESTRICTED_CONNECTIONS + TD_ENDING +
           FILES_PER_IO_THREAD * (services->config.io_threads + TD_FIRST_IO_THREADS) +
           (services->config.metrics_listen[0] ? TD_METRICS_CONNECTIONS + FILES_PER_IO_THREAD : 0) +
           (services->shm ? TD_SHM_REGIONS : 0);
}

/* Connections that wait take memory from requests: a quarter of it at most, beside a few. */
static int64_t memory_room(const struct td_services *services)
{
    const int64_t room = services->config.memory_limit / MEMORY_SHARE /
                         (int64_t)td_capacity_connection_bytes(services);
    return room > FEW_CONNECTIONS ? room : FEW_CONNECTIONS;
}

size_t td_capacity_connection_bytes(const struct td_services *services)
{
    return (size_t)services->config.connection_memory + LIBRARY_BYTES;
}

bool td_capacity_find(const struct td_services *services, struct td_capacity *capacity)
{
    const int64_t wanted = services->config.connection_limit, reserved = reserved_files(services);
    const int64_t files = file_limit(), room = files - reserved;
    const int64_t fewest = wanted < FEWEST_CONNECTIONS ? wanted : FEWEST_CONNECTIONS;
    int64_t open = room < wanted ? room : wanted;
    if (open < fewest) {
        td_log(&services->log, TD_LOG_ERROR, "too_few_files", TD_INT("limit", files),
               TD_INT("needed", reserved + fewest), TD_INT("for_connections", fewest),
               TD_TEXT("raise", "RLIMIT_NOFILE: ulimit -n, or LimitNOFILE= in a systemd unit"));
        return false;
    }
    const int64_t in_memory = memory_room(services);
    const bool lowered_by_memory = in_memory < open;
    if (lowered_by_memory)
        open = in_memory;
    if (open < wanted)
        td_log(&services->log, TD_LOG_WARN, "connection_limit_lowered", TD_INT("wanted", wanted),
               TD_INT("limit", open),
               TD_TEXT("reason", lowered_by_memory ? "a quarter of --memory-limit"
                                                   : "the limit on open files"));
    const int64_t per_client = services->config.client_connections;
    capacity->limits.open = (int)open;
    capacity->limits.per_client = (int)(per_client == 0     ? (open + 1) / 2
                                        : per_client < open ? per_client
                                                            : open);
    capacity->n_sockets = (int)(open + 2 * reserved + 1024); /* the lowest free number is used */
    return true;
}
