#include "server/auth/secret_file.h"

#include "server/config/read_error.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opens the file and checks that it is a regular file and not too large. Does not block, not even
 * on a FIFO without a writer. Returns NULL, or a description of the error. */
static const char *open_regular(const char *path, size_t most, int *file, struct stat *info,
                                char reason[TD_READ_ERROR])
{
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*file < 0 || fstat(*file, info) != 0)
        return td_read_error(path, errno, reason);
    if (!S_ISREG(info->st_mode))
        return "not a regular file";
    if (info->st_size < 0 || (size_t)info->st_size > most)
        return "the file is too large";
    return NULL;
}

/* Reads at most `capacity` bytes. Returns -1, with errno set, on failure. */
static ssize_t read_all(int file, char *bytes, size_t capacity)
{
    size_t length = 0;
    while (length < capacity) {
        const ssize_t n = read(file, bytes + length, capacity - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        length += (size_t)n;
    }
    return (ssize_t)length;
}

/* Reads the whole file. Returns NULL, or a description of the error. Requests one byte more than
 * the file's size, to detect that the file is growing. */
static const char *read_file(int file, const struct stat *info, struct td_secret *secret)
{
    const size_t bytes = (size_t)info->st_size;
    secret->bytes = malloc(bytes + 1);
    if (!secret->bytes)
        return strerror(ENOMEM);
    secret->length = bytes + 1; /* wipe all these bytes even after an error */
    const ssize_t length = read_all(file, secret->bytes, bytes + 1);
    if (length < 0)
        return strerror(errno);
    if ((size_t)length > bytes)
        return "the file grew while it was being read";
    secret->length = (size_t)length;
    secret->bytes[length] = '\0';
    secret->exposed = (info->st_mode & (S_IROTH | S_IWOTH)) != 0;
    return NULL;
}

bool td_secret_read(const char *option, const char *path, size_t most, struct td_secret *secret,
                    char *message, size_t size)
{
    struct stat info = { .st_size = 0 };
    char reason[TD_READ_ERROR];
    int file = -1;
    *secret = (struct td_secret){ .bytes = NULL };
    const char *why = open_regular(path, most, &file, &info, reason);
    if (!why)
        why = read_file(file, &info, secret);
    if (file >= 0)
        close(file);
    if (!why)
        return true;
    snprintf(message, size, "%s: cannot read %.300s: %s", option, path, why);
    td_secret_free(secret);
    return false;
}

void td_secret_free(struct td_secret *secret)
{
    if (secret->bytes)
        explicit_bzero(secret->bytes, secret->length);
    free(secret->bytes);
    *secret = (struct td_secret){ .bytes = NULL };
}
