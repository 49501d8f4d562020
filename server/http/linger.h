/* linger.h - connections whose request was refused before its body had arrived.
 *
 * The answer is sent at once and our side of the connection ended. Who closes the socket while the
 * client still sends makes the kernel reset it, and the client loses the answer it has not read
 * yet. So what comes is read on and dropped, for a bounded time and size.
 *
 * Bounds     TD_LINGER_SOCKETS at a time, each for five seconds or 256 MiB; beyond that, and when
 *            the server stops, they are closed.
 * Threads    One of its own; take from any. */
#ifndef TD_SERVER_HTTP_LINGER_H
#define TD_SERVER_HTTP_LINGER_H

enum { TD_LINGER_SOCKETS = 32 };

struct td_linger;

struct td_linger *td_linger_new(void);         /* NULL without memory or threads */
void td_linger_free(struct td_linger *linger); /* NULL is fine */

/* Takes over the socket, whose sending side has been shut down. */
void td_linger_take(struct td_linger *linger, int socket);

#endif
