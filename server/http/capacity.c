#include "server/http/capacity.h"

#include "server/http/acceptor.h"
#include "server/http/linger.h"
#include "server/http/metrics_listener.h"

#include <sys/resource.h>

enum {
    /* Number of files for the log, the listening sockets, the data folder, and files being read or
     * written. */
    SPARE_FILES = 64,
    FILES_PER_IO_THREAD = 2, /* an epoll and an eventfd descriptor */
    FEWEST_CONNECTIONS = 64, /* the daemon does not start with fewer connections */
    MEMORY_SHARE = 4,
    FEW_CONNECTIONS = 16,
    /* memory of a connection in libmicrohttpd, in addition to --connection-memory */
    LIBRARY_BYTES = 2048
};

/* Returns the limit on open files, after raising it as far as the system allows. */
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

/* Returns the number of files needed in addition to the connections of --connection-limit. */
static int64_t reserved_files(const struct td_config *config)
{
    /* With TLS, Unix sockets have I/O threads of their own. */
    const int64_t n_plain_threads = config->tls_certificate[0] ? config->io_threads : 0;
    return SPARE_FILES + TD_LINGER_SOCKETS + TD_RESTRICTED_CONNECTIONS + TD_ENDING +
           FILES_PER_IO_THREAD * (config->io_threads + TD_FIRST_IO_THREADS + n_plain_threads) +
           (config->metrics_listen[0] ? TD_METRICS_CONNECTIONS + FILES_PER_IO_THREAD : 0) +
           (config->system_shared_memory ? TD_SHM_REGIONS : 0);
}

/* Returns the number of connections that fit in memory. Waiting connections take memory from
 * requests, so they get at most a quarter of the limit, but always enough for FEW_CONNECTIONS. */
static int64_t memory_room(const struct td_config *config)
{
    const int64_t room =
        config->memory_limit / MEMORY_SHARE / (int64_t)td_capacity_connection_bytes(config);
    return room > FEW_CONNECTIONS ? room : FEW_CONNECTIONS;
}

size_t td_capacity_connection_bytes(const struct td_config *config)
{
    return (size_t)config->connection_memory + LIBRARY_BYTES +
           (config->tls_certificate[0] ? TD_TLS_SESSION_BYTES : 0);
}

bool td_capacity_find(const struct td_config *config, struct td_capacity *capacity)
{
    const int64_t wanted = config->connection_limit, reserved = reserved_files(config);
    const int64_t fewest = wanted < FEWEST_CONNECTIONS ? wanted : FEWEST_CONNECTIONS;
    const int64_t in_memory = memory_room(config), per_client = config->client_connections;
    *capacity = (struct td_capacity){
        .files = file_limit(),
        .fewest = fewest,
        .needed = reserved + fewest,
    };
    const int64_t in_files = capacity->files - reserved;
    if (in_files < fewest)
        return false;
    int64_t open = wanted;
    if (in_files < open) {
        open = in_files;
        capacity->lowered_by = "the limit on open files";
    }
    if (in_memory < open) {
        open = in_memory;
        capacity->lowered_by = "a quarter of --memory-limit";
    }
    capacity->limits.open = (int)open;
    capacity->limits.per_client = (int)(per_client == 0     ? (open + 1) / 2
                                        : per_client < open ? per_client
                                                            : open);
    /* The kernel always assigns the lowest free descriptor number. */
    capacity->n_sockets = (int)(open + 2 * reserved + 1024);
    return true;
}

void td_capacity_log(const struct td_capacity *capacity, bool found, const struct td_config *config,
                     const struct td_log *log)
{
    if (!found)
        td_log(log, TD_LOG_ERROR, "too_few_files", TD_INT("limit", capacity->files),
               TD_INT("needed", capacity->needed), TD_INT("for_connections", capacity->fewest),
               TD_TEXT("raise", "RLIMIT_NOFILE: ulimit -n, or LimitNOFILE= in a systemd unit"));
    else if (capacity->lowered_by)
        td_log(log, TD_LOG_WARN, "connection_limit_lowered",
               TD_INT("wanted", config->connection_limit), TD_INT("limit", capacity->limits.open),
               TD_TEXT("reason", capacity->lowered_by));
}
