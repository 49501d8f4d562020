/* connections.h - the open sockets, so that none of a client that hung up stays behind.
 *
 * libmicrohttpd waits for edges: when a client's last bytes and its end arrive together, the end is
 * not seen until the idle time-out. td_connections_nudge finds sockets whose other side has ended
 * and shuts their reading side down, too. That changes nothing about them, since there is nothing
 * left to read, but it is an edge: the library looks again and closes what it does not need.
 *
 * Threads  Any. The mutex is held during nudge's system calls, which do not wait: a socket must
 *          not be closed, and its number given to another, in between. */
#ifndef TD_SERVER_HTTP_CONNECTIONS_H
#define TD_SERVER_HTTP_CONNECTIONS_H

struct td_connections;

struct td_connections *td_connections_new(void);              /* NULL without memory */
void td_connections_free(struct td_connections *connections); /* NULL is fine */

/* A socket that cannot be noted for lack of memory is not nudged, and ends by the idle time-out. */
void td_connections_add(struct td_connections *connections, int socket);
void td_connections_remove(struct td_connections *connections, int socket);

void td_connections_nudge(struct td_connections *connections);

#endif
