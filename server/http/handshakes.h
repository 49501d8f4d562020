/* handshakes.h - a thread that does the TLS handshakes of new connections, and then hands them to
 * their I/O threads.
 *
 *     acceptor ─► handshakes ─► I/O thread (library)
 *
 * I/O threads do not wait for signatures, which take up to a millisecond each, and the library sees
 * only connections whose handshake is complete. It would do handshakes itself, but with epoll it
 * asks for bytes without pause until they arrive (libmicrohttpd 1.0.10: one client that sends half
 * a handshake keeps a processor busy). So its calls of gnutls_init and gnutls_handshake are
 * replaced, when the program is linked: it gets the session that is complete.
 *
 * A connection waits for its handshake as for the headers of a request (TD_CONNECTION_WAITING):
 * sweeps end those that are too slow, and others may be accepted in favour of those that wait.
 *
 * Ownership  Borrows the services and the I/O threads. Takes sockets that are in the table of
 *            connections, and closes those whose handshake fails.
 * Threads    One of its own. add: the acceptor. Start and stop: the main thread.
 * Errors     Of a handshake: counted, and logged at debug, since any client can cause them. */
#ifndef TD_SERVER_HTTP_HANDSHAKES_H
#define TD_SERVER_HTTP_HANDSHAKES_H

#include "server/http/acceptor.h"

#include <sys/socket.h>

#include <microhttpd.h>

struct td_handshakes;

enum { TD_HANDSHAKE_OPTIONS = 3 };

/* Whether the library was built with TLS and can be given sessions: it is linked statically. */
bool td_handshakes_are_possible(void);

/* Options of the library, beside the flag MHD_USE_TLS. */
void td_handshakes_set_options(struct MHD_OptionItem options[TD_HANDSHAKE_OPTIONS]);

/* NULL without memory, a file or a thread. */
struct td_handshakes *td_handshakes_start(struct td_services *services,
                                          struct td_io_thread *io_threads);

/* Takes over the socket, whose record is open. False without memory or files: it is still the
 * caller's then. */
TD_MUST_CHECK bool td_handshakes_add(struct td_handshakes *handshakes, int socket,
                                     const struct sockaddr_storage *peer, socklen_t length,
                                     int io_thread);

/* Ends the handshakes that are not complete, after the acceptor and before the I/O threads have
 * stopped. NULL is fine. */
void td_handshakes_stop(struct td_handshakes *handshakes);

#endif
