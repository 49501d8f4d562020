/* unix_socket.h - opens Unix sockets, and removes their files.
 *
 * A socket file without a process that listens remains after a crash, and is replaced. A process
 * holds a lock on the socket's folder (flock) while it checks and replaces the file, so two daemons
 * that start at the same time do not replace each other's file. Nothing but a socket is ever
 * removed, and symbolic links at the path are not followed.
 *
 * Threads    Any.
 * Errors     *why is a static string, or the system's string for the error.
 * Source     unix(7). */
#ifndef TD_SERVER_HTTP_UNIX_SOCKET_H
#define TD_SERVER_HTTP_UNIX_SOCKET_H

#include "server/config/config.h"

#include <sys/stat.h>

#include <stdbool.h>

/* Makes a socket at the path and returns it, or -1 on failure. Only this process's user can connect
 * to it. With a backlog of 0, the socket does not listen. The path has at most TD_SOCKET_PATH
 * bytes. */
int td_unix_socket_open(const char *path, int backlog, const char **why);

/* File of a socket. A zeroed struct has no file. */
struct td_socket_file {
    char path[TD_SOCKET_PATH + 1]; /* "" without a file */
    /* Identify the file, because another process can replace it. */
    dev_t device;
    ino_t inode;
};

/* Sets `file`, which is zeroed, to the file of a socket that this process has just made. */
void td_socket_file_find(struct td_socket_file *file, const char *path);

bool td_socket_file_set_mode(const struct td_socket_file *file, mode_t mode, const char **why);

/* Removes the file, unless another file is at its path. */
void td_socket_file_remove(struct td_socket_file *file);

#endif
