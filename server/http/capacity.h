/* capacity.h - how many connections the daemon can hold, from its options and the limit on
 * open files.
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
    int n_sockets; /* all sockets are numbered below */
    int64_t files; /* that may be open */
    int64_t fewest,
        needed; /* the fewest connections to start with, and the files that these need */
    const char *lowered_by; /* why there are fewer connections than the option says; or NULL */
};

/* The memory that a connection takes, without that of its request. */
size_t td_capacity_connection_bytes(const struct td_config *config);

/* Raises the limit on open files as far as the system allows. If that is not enough for
 * --connection-limit, there will be fewer connections; false if there would be hardly any: then
 * only files, fewest and needed are set. */
bool td_capacity_find(const struct td_config *config, struct td_capacity *capacity);

/* Logs what is less than the options ask for, after td_capacity_find returned `found`. */
void td_capacity_log(const struct td_capacity *capacity, bool found, const struct td_config *config,
                     const struct td_log *log);

#endif
