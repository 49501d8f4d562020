/* handshakes.h - a thread that performs the TLS handshakes of new connections.
 *
 *     acceptor -> I/O thread (library): suspended -> handshakes -> I/O thread: resumed
 *
 * The library could perform handshakes on its I/O threads. But a signature takes up to two
 * milliseconds, and with epoll the library asks for more bytes without pause while a client has
 * sent only part of its handshake (README.md).
 *
 * The library makes the session of a connection. Before the client's first byte is read, the I/O
 * thread suspends the connection, and this thread performs the handshake. When the library then
 * calls gnutls_handshake for the session, there is nothing left to do except perhaps to send the
 * last bytes.
 *
 * A connection waits for its handshake as for the headers of a request (TD_CONNECTION_WAITING).
 * Sweeps end handshakes that are too slow, and the acceptor can end them to make room.
 *
 * Ownership  Borrows the services. The library closes the sockets, even after a failed handshake.
 * Threads    The module has one thread. The I/O thread of the connection calls prepare, forget and
 *            submit. The main thread calls start and stop.
 * Errors     Failed handshakes are counted, and logged at level debug, because any client can cause
 *            them. */
#ifndef TD_SERVER_HTTP_HANDSHAKES_H
#define TD_SERVER_HTTP_HANDSHAKES_H

#include "server/calls/services.h"

#include <microhttpd.h>

struct td_handshake;
struct td_handshakes;

enum { TD_HANDSHAKE_OPTIONS = 2 };

/* True if the library was built with TLS. */
bool td_handshakes_are_possible(void);

/* Sets the library options that the flag MHD_USE_TLS requires. */
void td_handshakes_set_options(struct MHD_OptionItem options[TD_HANDSHAKE_OPTIONS]);

/* Returns NULL if no memory, file or thread is available. */
struct td_handshakes *td_handshakes_start(struct td_services *services);

/* Adds a handshake to the list of an I/O thread. Call when the library starts the connection. */
void td_handshakes_prepare(struct td_handshake **prepared, struct MHD_Connection *connection,
                           int socket);

/* Removes the handshake, if any. Call when the library ends the connection. */
void td_handshakes_forget(struct td_handshake **prepared, const struct MHD_Connection *connection);

/* Suspends the connections of the list, and hands their handshakes to the thread. Call while the
 * I/O thread is not in the library. */
void td_handshakes_submit(struct td_handshakes *handshakes, struct td_handshake **prepared);

/* Ends the handshakes that are not complete, and resumes their connections. Call after the I/O
 * threads have stopped. NULL is allowed. */
void td_handshakes_stop(struct td_handshakes *handshakes);

#endif
