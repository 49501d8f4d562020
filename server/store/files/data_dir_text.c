#include "server/config/read_error.h"
#include "server/store/files/data_dir_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static td_status unreadable(const char *file, int reason, struct td_error *err)
{
    char text[TD_READ_ERROR];
    return td_error_set(err, TD_DEVICE_UNAVAILABLE, "%s cannot be read: %s", file,
                        td_read_error(NULL, reason, text));
}

/* Reads an open file that had `size` bytes when it was opened. Returns 0 or errno. *bytes is less
 * than `size` if the file has shrunk. */
static int read_all(int fd, char *text, size_t size, size_t *bytes)
{
    *bytes = 0;
    while (*bytes < size) {
        const ssize_t n = read(fd, text + *bytes, size - *bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : 0;
        *bytes += (size_t)n;
    }
    return 0;
}

static td_status read_open(int fd, const char *file, size_t most, char **text, size_t *bytes,
                           struct td_file_id *id, struct td_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return unreadable(file, errno, err);
    if (!S_ISREG(info.st_mode))
        return td_error_set(err, TD_MALFORMED_REQUEST, "%s is not a regular file", file);
    *id = td_data_id_of(&info);
    if (id->size > most)
        return td_error_resource(err, "text_bytes", id->size, most, file);
    *text = malloc((size_t)id->size + 1);
    if (!*text)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory to read %s", file);
    const int reason = read_all(fd, *text, (size_t)id->size, bytes);
    (*text)[*bytes] = '\0';
    if (reason == 0)
        return TD_OK;
    free(*text);
    *text = NULL;
    return unreadable(file, reason, err);
}

/* Returns TD_OK if the folder has no entry of this name. Otherwise returns an error; `reason` is
 * the errno. */
static td_status not_opened(int folder, const char *file, int reason, struct td_error *err)
{
    struct stat info;
    if (reason != ENOENT)
        return unreadable(file, reason, err);
    if (fstatat(folder, file, &info, AT_SYMLINK_NOFOLLOW) == 0)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s cannot be read: it is a symbolic link that leads nowhere", file);
    return errno == ENOENT ? TD_OK : unreadable(file, errno, err);
}

static td_status read_text(int folder, const char *file, int flags, size_t most, char **text,
                           size_t *bytes, struct td_file_id *id, struct td_error *err)
{
    *text = NULL;
    *bytes = 0;
    *id = td_file_id_unknown;
    /* Without O_NONBLOCK, opening a FIFO would block until the FIFO has a writer. */
    const int fd = openat(folder, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd < 0)
        return not_opened(folder, file, errno, err);
    const td_status status = read_open(fd, file, most, text, bytes, id, err);
    close(fd);
    return status;
}

td_status td_data_dir_read_text(struct td_data_dir *dir, const char *file, size_t most, char **text,
                                size_t *bytes, struct td_file_id *id, struct td_error *err)
{
    return read_text(dir->folder.fd, file, 0, most, text, bytes, id, err);
}

td_status td_sub_folder_read_text(int folder, const char *file, size_t most, char **text,
                                  size_t *bytes, struct td_file_id *id, struct td_error *err)
{
    return read_text(folder, file, O_NOFOLLOW, most, text, bytes, id, err);
}

static td_status write_locked(struct td_data_dir *dir, const char *file, const char *text,
                              size_t bytes, struct td_file_id *id, bool *done, struct td_error *err)
{
    const struct iovec part = { (void *)(uintptr_t)text, bytes };
    const int reason = td_data_write_parts(dir, file, &part, 1, id, done);
    if (reason == 0)
        return TD_OK;
    return *done ? td_error_set(err, TD_DEVICE_UNAVAILABLE,
                                "%s is written, but the data folder can be neither fsynced (%s) "
                                "nor restored, so a power failure might undo the change",
                                file, strerror(reason))
                 : td_data_disk_error(dir, file, reason, bytes, err);
}

td_status td_data_dir_write_text(struct td_data_dir *dir, const char *file, const char *text,
                                 size_t bytes, struct td_file_id *id, bool *done,
                                 struct td_error *err)
{
    *done = false;
    td_data_hold(dir);
    td_status status = td_data_check_lock(dir, file, bytes, err);
    if (status == TD_OK)
        status = write_locked(dir, file, text, bytes, id, done, err);
    td_data_release(dir);
    return status;
}
