#include "server/http/unix_socket.h"

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OWNER_ONLY = 0600, LOCK_WAIT_MS = 10, LOCK_TRIES = 100 };

/* Opens and locks the folder of the path. Returns -1 on failure. A file system without locks is not
 * an error. */
static int lock_folder(const char *path, const char **why)
{
    char folder[TD_SOCKET_PATH + 1];
    const size_t length = (size_t)(strrchr(path, '/') - path);
    snprintf(folder, sizeof folder, "%.*s", length > 0 ? (int)length : 1, path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        *why = errno == ENOENT   ? "the folder of the socket does not exist; create it first"
               : errno == EACCES ? "the folder of the socket cannot be read: Permission denied"
                                 : strerror(errno);
        return -1;
    }
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
        if (i == LOCK_TRIES) {
            *why = "another process has locked the folder of the socket";
            close(fd);
            return -1;
        }
        (void)poll(NULL, 0, LOCK_WAIT_MS);
    }
    return fd;
}

/* Describes why a file that is not a socket cannot be replaced. */
static const char *other_file(mode_t mode)
{
    return S_ISLNK(mode)   ? "a symbolic link has this path; expected a socket or no file"
           : S_ISDIR(mode) ? "a folder has this path; expected a socket or no file"
                           : "a file that is not a socket has this path; expected a socket or no "
                             "file";
}

/* Connects to the socket. Returns 0, or the error of the system. */
static int probe(const struct sockaddr_un *address)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        error = errno;
    if (fd >= 0)
        close(fd);
    return error;
}

/* Removes a socket on which no process listens. Returns false if something else has the path. */
static bool remove_stale(const struct sockaddr_un *address, const char **why)
{
    struct stat file;
    if (lstat(address->sun_path, &file) != 0)
        return errno == ENOENT || (*why = strerror(errno), false);
    if (!S_ISSOCK(file.st_mode))
        return *why = other_file(file.st_mode), false;
    const int error = probe(address);
    if (error == ECONNREFUSED && unlink(address->sun_path) == 0)
        return true;
    *why = strerror(error == 0 || error == EAGAIN || error == EPROTOTYPE ? EADDRINUSE
                    : error == ECONNREFUSED                              ? errno
                                                                         : error);
    return false;
}

/* Makes the socket. The caller holds the lock of the folder. */
static int make_socket(const char *path, int backlog, const char **why)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (!remove_stale(&address, why))
        return -1;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The mode of the socket before bind is the maximum mode of the file. */
    if (fd >= 0 && fchmod(fd, OWNER_ONLY) == 0 &&
        bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        (backlog == 0 || listen(fd, backlog) == 0))
        return fd;
    *why = strerror(errno);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* --wrap prescribes these names. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
int __real_setsockopt(int socket, int level, int option, const void *value, socklen_t size);
__attribute__((weak)) int __wrap_setsockopt(int socket, int level, int option, const void *value,
                                            socklen_t size);
/* NOLINTEND(bugprone-reserved-identifier) */

/* Unix sockets refuse options of TCP with EOPNOTSUPP, but libmicrohttpd expects ENOPROTOOPT, after
 * which it sets no more such options. Otherwise, each reply would cost two calls that fail. The
 * function is weak, because tests that control the clock wrap setsockopt as well. */
int __wrap_setsockopt(int socket, int level, int option, const void *value, socklen_t size)
{
    const int result = __real_setsockopt(socket, level, option, value, size);
    if (result != 0 && errno == EOPNOTSUPP)
        errno = ENOPROTOOPT;
    return result;
}

int td_unix_socket_open(const char *path, int backlog, const char **why)
{
    const int folder = lock_folder(path, why);
    if (folder < 0)
        return -1;
    const int fd = make_socket(path, backlog, why);
    close(folder); /* and unlocks it */
    return fd;
}

void td_socket_file_find(struct td_socket_file *file, const char *path)
{
    struct stat found;
    if (lstat(path, &found) != 0)
        return;
    snprintf(file->path, sizeof file->path, "%s", path);
    file->device = found.st_dev;
    file->inode = found.st_ino;
}

bool td_socket_file_set_mode(const struct td_socket_file *file, mode_t mode, const char **why)
{
    if (fchmodat(AT_FDCWD, file->path, mode, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    *why = strerror(errno);
    return false;
}

void td_socket_file_remove(struct td_socket_file *file)
{
    struct stat found;
    if (file->path[0] && lstat(file->path, &found) == 0 && found.st_dev == file->device &&
        found.st_ino == file->inode)
        (void)unlink(file->path);
    file->path[0] = '\0';
}
