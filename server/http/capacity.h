/* capacity.h - computes the maximum number of connections from the options and the limit on open
 * files.
 *
 * Threads  Main thread, before the daemon serves. */
#ifndef TD_SERVER_HTTP_CAPACITY_H
#define TD_SERVER_HTTP_CAPACITY_H

#include "server/auth/tls.h"
#include "server/clients/connections.h"
#include "server/config/config.h"
#include "server/observe/log.h"

struct td_capacity {
    struct td_connection_limits limits;
    int n_sockets; /* all socket numbers are below this */
    int64_t files; /* maximum number of open files */
    /* Minimum number of connections required to start, and the number of files that they need. */
    int64_t fewest, needed;
    /* Reason that fewer connections than --connection-limit are possible, or NULL. */
    const char *lowered_by;
};

/* Returns the memory that a connection needs, excluding the memory of its request. */
size_t td_capacity_connection_bytes(const struct td_config *config);

/* Raises the limit on open files as far as the system allows, and computes the possible number of
 * connections, which can be lower than --connection-limit. If too few connections would be
 * possible, returns false and sets only files, fewest and needed. */
bool td_capacity_find(const struct td_config *config, struct td_capacity *capacity);

/* Logs limits that are lower than the options request, or too low to start. `found` is the result
 * of td_capacity_find. */
void td_capacity_log(const struct td_capacity *capacity, bool found, const struct td_config *config,
                     const struct td_log *log);

#endif
