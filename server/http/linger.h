/* linger.h - closes connections slowly if the client might still be sending, because its request
 * was refused before its body arrived, or because the connection moves to another I/O thread.
 *
 * The reply is sent, and the sending side is shut down. If the server closed the socket
 * while the client is still sending, the kernel would reset the connection, and the client could
 * lose the reply. This module therefore reads and drops incoming bytes, up to a time and size
 * limit.
 *
 * Bounds     At most TD_LINGER_SOCKETS at a time, each for at most 5 s and 256 MiB. Additional
 *            sockets are closed at once. All sockets are closed when the server stops.
 * Threads    The module has one thread. Any thread can call td_linger_take. */
#ifndef TD_SERVER_HTTP_LINGER_H
#define TD_SERVER_HTTP_LINGER_H

enum { TD_LINGER_SOCKETS = 32 };

struct td_linger;

struct td_linger *td_linger_new(void);         /* NULL if no memory or thread is available */
void td_linger_free(struct td_linger *linger); /* NULL is allowed */

/* Takes over a socket whose sending side has been shut down. */
void td_linger_take(struct td_linger *linger, int socket);

#endif
