/* connections.h - the open sockets, so that those of disconnected clients are closed.
 *
 * libmicrohttpd uses edge-triggered epoll: when a client's last bytes and its FIN arrive together,
 * it misses the end until the idle time-out. td_connections_nudge finds sockets whose peer has
 * closed its side and shuts down their reading side too. There is nothing left to read, so nothing
 * is lost, but it is an edge: the library polls the socket again and closes it if it is idle.
 *
 * Threads  Any. The mutex is held during nudge's system calls, which do not block: a socket must
 *          not be closed and its number reused in between. */
#ifndef TD_SERVER_HTTP_CONNECTIONS_H
#define TD_SERVER_HTTP_CONNECTIONS_H

struct td_connections;

struct td_connections *td_connections_new(void);              /* NULL: out of memory */
void td_connections_free(struct td_connections *connections); /* NULL is fine */

/* A socket that cannot be added for lack of memory is not nudged; the idle time-out closes it. */
void td_connections_add(struct td_connections *connections, int socket);
void td_connections_remove(struct td_connections *connections, int socket);

void td_connections_nudge(struct td_connections *connections);

#endif
