/* listener.h - the sockets that the daemon listens on.
 *
 * Ownership  The caller closes single sockets. td_listeners_close closes the sockets of struct
 *            td_listeners.
 * Threads    Any.
 * Errors     *why is a static string, or the system's string for the error.
 * Source     sd_listen_fds(3) for inherited sockets. */
#ifndef TD_SERVER_HTTP_LISTENER_H
#define TD_SERVER_HTTP_LISTENER_H

#include "kernels/status.h"
#include "server/config/config.h"
#include "server/http/unix_socket.h"

#include <sys/socket.h>

#include <stdbool.h>
#include <stddef.h>

/* Listens on an address that was checked when the options were read. Returns -1 on failure. A Unix
 * socket can be used by this process's user only, until td_listener_set_mode. */
int td_listener_open(const char *address, const char **why);

/* Returns a socket that prevents others from listening on the address, but accepts no connections.
 * Returns -1 on failure, for example if another socket listens there. */
int td_listener_reserve(const char *address, const char **why);

/* Address to which a socket is bound, with the port that the system chose. */
struct td_listener_address {
    struct sockaddr_storage address;
    socklen_t length;
};
bool td_listener_find(int fd, struct td_listener_address *bound, const char **why);

/* True for a loopback address. */
bool td_listener_is_loopback(const struct td_listener_address *bound);

/* True for a Unix socket. */
bool td_listener_is_unix(const struct td_listener_address *bound);

/* True if the address accepts connections only from this machine. */
bool td_listener_is_local(const struct td_listener_address *bound);

/* Writes the address as text: "127.0.0.1:8080", "[::1]:8080" or "unix:/run/tensord.sock". */
void td_listener_print(const struct td_listener_address *bound, char *text, size_t size);

/* A listening socket and its address. */
struct td_listener {
    int fd;
    struct td_listener_address bound;
    struct td_socket_file file; /* of a Unix socket that this process has made */
};

/* Sets the permissions of a Unix socket's file. Does nothing for other sockets. */
bool td_listener_set_mode(const struct td_listener *listener, mode_t mode, const char **why);

/* Prevents new connections without refusing connections that are being established. After one round
 * trip, they can be accepted and the socket closed. Must not be used on a socket that other
 * processes use. */
void td_listener_shut(struct td_listener *listener);

/* The sockets of all addresses of --listen, or the inherited sockets. A zeroed struct has no
 * sockets. */
struct td_listeners {
    int n;
    struct td_listener all[TD_MOST_ADDRESSES];
};

/* Returns the socket that `open` (td_listener_open or td_listener_reserve) makes at the address. On
 * failure, returns -1 and sets *why to the reason, which says whether another listener of this
 * daemon might use the address. */
int td_listeners_open_beside(const struct td_listeners *listeners, const char *address,
                             int (*open)(const char *address, const char **why), const char **why);

/* Adds the socket that `open` makes. On failure, returns false and sets *why. */
bool td_listeners_add(struct td_listeners *listeners, const char *address,
                      int (*open)(const char *address, const char **why), const char **why);

/* Adds the socket `fd`. If the socket has no address, closes it, sets *why and returns false. */
bool td_listeners_take(struct td_listeners *listeners, int fd, const char **why);

/* Takes over the listening sockets that the parent process passed, so connections wait in their
 * backlogs while the daemon restarts. These are the LISTEN_FDS descriptors from 3 on, if LISTEN_PID
 * is this process. There might be none. Returns false, with the message set, if the passed
 * descriptors cannot be used. Call this before the first thread starts, because it removes the
 * variables to keep child processes from using them. */
TD_MUST_CHECK bool td_listeners_inherit(struct td_listeners *listeners,
                                        char message[TD_CONFIG_MESSAGE]);

/* Closes the sockets, and removes the files of the Unix sockets that this process has made. */
void td_listeners_close(struct td_listeners *listeners);

#endif
