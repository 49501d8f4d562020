/* linger.h - lingering close of connections whose request was refused before its body arrived.
 *
 * The reply is sent at once and the sending side shut down. Closing the socket while the client
 * still sends makes the kernel reset the connection, and the client loses the reply if it has not
 * read it. So incoming bytes are read and dropped, for a bounded time and size.
 *
 * Bounds     TD_LINGER_SOCKETS at a time, each for 5 s or 256 MiB; others, and all when the server
 *            stops, are closed at once.
 * Threads    One of its own; any thread calls take. */
#ifndef TD_SERVER_HTTP_LINGER_H
#define TD_SERVER_HTTP_LINGER_H

enum { TD_LINGER_SOCKETS = 32 };

struct td_linger;

struct td_linger *td_linger_new(void);         /* NULL: no memory or thread */
void td_linger_free(struct td_linger *linger); /* NULL is fine */

/* Takes over the socket, whose sending side has been shut down. */
void td_linger_take(struct td_linger *linger, int socket);

#endif
