/* capacity.h - how many connections the daemon can hold, from its options and the limit on
 * open files.
 *
 * Threads  Main thread, before the daemon serves.
 * Errors   Logged. */
#ifndef TD_SERVER_HTTP_CAPACITY_H
#define TD_SERVER_HTTP_CAPACITY_H

#include "server/calls/services.h"

struct td_capacity {
    struct td_connection_limits limits;
    int n_sockets; /* all sockets are numbered below */
};

/* The memory that a connection takes, without that of its request. */
size_t td_capacity_connection_bytes(const struct td_services *services);

/* Raises the limit on open files as far as the system allows. If that is not enough for
 * --connection-limit, there will be fewer connections; false if there would be hardly any. */
bool td_capacity_find(const struct td_services *services, struct td_capacity *capacity);

#endif
