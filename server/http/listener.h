/* listener.h - the sockets that the daemon listens on.
 *
 * Ownership  The caller closes a socket; td_listeners_close those of struct td_listeners.
 * Threads    Any.
 * Errors     *why is a static text, or the system's for the error.
 * Source     sd_listen_fds(3) for inherited sockets. */
#ifndef TD_SERVER_HTTP_LISTENER_H
#define TD_SERVER_HTTP_LISTENER_H

#include "kernels/status.h"
#include "server/config/config.h"

#include <sys/socket.h>

#include <stdbool.h>
#include <stddef.h>

/* Listens on an address that was checked when the options were read; -1 on failure. */
int td_listener_open(const char *address, const char **why);

/* A socket that keeps others from listening on the address, and makes no connections; -1 if it
 * cannot be had, as when another one listens there. */
int td_listener_reserve(const char *address, const char **why);

/* Lets no further connections be made, without refusing those that are just being made: after the
 * time of a round trip they can be accepted, and then the socket can be closed. Not for a socket
 * that other processes use. */
void td_listener_shut(int fd);

/* The address that a socket is bound to, with the port that the system chose. */
struct td_listener_address {
    struct sockaddr_storage address;
    socklen_t length;
};
bool td_listener_find(int fd, struct td_listener_address *bound, const char **why);

/* Does it accept connections from this machine only? */
bool td_listener_is_loopback(const struct td_listener_address *bound);

/* "127.0.0.1:8080", "[::1]:8080". */
void td_listener_print(const struct td_listener_address *bound, char *text, size_t size);

/* A listening socket and its address. */
struct td_listener {
    int fd;
    struct td_listener_address bound;
};

/* The sockets of all addresses of --listen, or those inherited; none at first, as zeros. */
struct td_listeners {
    int n;
    struct td_listener all[TD_MOST_ADDRESSES];
};

/* The socket that `open`, td_listener_open or td_listener_reserve, makes at the address. Returns -1
 * and sets *why on failure; *why says so if one of the listeners may have the address. */
int td_listeners_open_beside(const struct td_listeners *listeners, const char *address,
                             int (*open)(const char *address, const char **why), const char **why);

/* Adds the socket that `open` makes. False with *why set if it cannot. */
bool td_listeners_add(struct td_listeners *listeners, const char *address,
                      int (*open)(const char *address, const char **why), const char **why);

/* Adds this socket. False with *why set, and the socket closed, if it has no address. */
bool td_listeners_take(struct td_listeners *listeners, int fd, const char **why);

/* Takes the listening sockets that the process which started this one has passed, so that
 * connections wait in their backlogs while the daemon restarts: descriptors 3 and on, LISTEN_FDS of
 * them, if LISTEN_PID is this process. None is fine. False with the message if what was passed
 * cannot be used. Removes the variables, so that no other process takes them for its own: call it
 * before the first thread starts. */
TD_MUST_CHECK bool td_listeners_inherit(struct td_listeners *listeners,
                                        char message[TD_CONFIG_MESSAGE]);

void td_listeners_close(struct td_listeners *listeners);

#endif
