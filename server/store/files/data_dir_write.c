#include "server/memory/fault_guard.h"
#include "server/store/files/data_dir_internal.h"
#include "server/store/files/tensor_file.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

td_status td_data_dir_admit(struct td_data_dir *dir, const char *name, uint64_t bytes,
                            struct td_error *err)
{
    char file[TD_FILE_NAME];
    struct statvfs room;
    td_data_own_file(name, file);
    td_data_hold(dir);
    td_status status = td_data_check_lock(dir, file, bytes, err);
    if (status == TD_OK)
        status = td_data_check_quota(dir, file, bytes, err);
    /* If fstatvfs fails, the write itself finds out whether the disk is full. */
    if (status == TD_OK && fstatvfs(dir->folder.fd, &room) == 0 &&
        (uint64_t)room.f_bavail < bytes / room.f_frsize)
        status = td_data_disk_error(dir, file, ENOSPC, bytes, err);
    td_data_release(dir);
    return status;
}

int td_data_publish(struct td_data_dir *dir, const char *temporary, const char *file, bool *done)
{
    char before[TD_HIDDEN_NAME];
    td_data_hidden_name(dir, before);
    bool kept = linkat(dir->folder.fd, file, dir->folder.fd, before, 0) == 0;
    const bool created = !kept && errno == ENOENT;
    int reason = renameat(dir->folder.fd, temporary, dir->folder.fd, file) == 0 ? 0 : errno;
    *done = reason == 0;
    if (*done && fsync(dir->folder.fd) != 0) {
        reason = errno;
        if (kept)
            *done = kept = renameat(dir->folder.fd, before, dir->folder.fd, file) != 0;
        else if (created)
            *done = unlinkat(dir->folder.fd, file, 0) != 0;
    }
    if (kept)
        td_data_remove_hidden(dir, before);
    return reason;
}

/* Writes all bytes. Returns 0 or errno. */
static int write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno != EINTR)
            return errno;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Writes the parts to an empty file and fsyncs the file. Returns 0 or errno. */
static int write_open(int fd, const struct iovec *parts, int n, struct td_file_id *id)
{
    struct stat info;
    int reason = 0;
    /* The umask might have removed permissions. */
    (void)fchmod(fd, TD_FILE_MODE);
    for (int i = 0; i < n && reason == 0; i++)
        reason = write_all(fd, parts[i].iov_base, parts[i].iov_len);
    if (reason != 0)
        return reason;
    if (fsync(fd) != 0 || fstat(fd, &info) != 0)
        return errno;
    *id = td_data_id_of(&info);
    return 0;
}

int td_data_write_parts(struct td_data_dir *dir, const char *file, const struct iovec *parts, int n,
                        struct td_file_id *id, bool *done)
{
    char temporary[TD_HIDDEN_NAME];
    td_data_hidden_name(dir, temporary);
    const int fd =
        openat(dir->folder.fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, TD_FILE_MODE);
    int reason = fd < 0 ? errno : write_open(fd, parts, n, id);
    if (fd >= 0)
        close(fd);
    if (reason == 0)
        reason = td_data_publish(dir, temporary, file, done);
    if (!*done && fd >= 0)
        td_data_remove_hidden(dir, temporary);
    return reason;
}

/* Removes NAME.npy and the file of its keys, because the new file replaces them. Otherwise they
 * would be served again if the new file were removed. Programs have no such file. */
static void remove_plain(struct td_data_dir *dir, const char *name)
{
    char file[TD_FILE_NAME];
    bool found;
    if (!td_data_npy_file(name, file))
        return;
    int reason = td_data_file_exists(dir, file, &found);
    if (reason == 0 && found && unlinkat(dir->folder.fd, file, 0) != 0)
        reason = errno;
    if (reason != 0)
        td_log(dir->log, TD_LOG_WARN, "file_not_removed", TD_TEXT("file", file),
               TD_TEXT("reason", strerror(reason)));
    if (reason != 0 || !found)
        return;
    td_data_log_removed(dir, file, name);
    td_data_remove_keys(dir, name);
}

/* A file that is being written. */
struct new_file {
    struct td_data_dir *dir;
    const char *name;
    char file[TD_FILE_NAME], temporary[TD_HIDDEN_NAME];
    struct td_tensor_file content;
    /* Fault guard ranges of the three sources; see td_data_dir_write. */
    const int *ranges;
};

/* Writes the temporary file. Returns 0, an errno, or ECANCELED with err filled if the writing was
 * stopped. The descriptor is then closed, and the file is opened again only for reading, so nothing
 * can change the file afterwards. */
static int write_temporary(const struct new_file *new, const struct td_stop *stop,
                           struct td_error *err)
{
    const int fd = openat(new->dir->folder.fd, new->temporary,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, TD_FILE_MODE);
    if (fd < 0)
        return errno;
    /* fchmod restores permissions that the umask removed. A failure is ignored, because some file
     * systems have no permissions. */
    (void)fchmod(fd, TD_FILE_MODE);
    const int reason = td_tensor_file_write(&new->content, fd, stop, err);
    close(fd);
    return reason;
}

/* Maps the file before renaming it, so a file that cannot be mapped replaces nothing. */
static td_status map_temporary(const struct new_file *new, struct td_arena *arena,
                               struct td_data_content *out, struct td_error *err)
{
    const int fd = openat(new->dir->folder.fd, new->temporary, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return td_data_disk_error(new->dir, new->file, errno, new->content.bytes, err);
    struct td_mapping *mapping = td_mapping_new(fd, &out->id, err);
    close(fd);
    return mapping ? td_mapping_read(mapping, new->file, arena, out, err) : err->status;
}

static bool any_cut(const int ranges[3])
{
    bool cut = false;
    for (int i = 0; i < 3; i++) {
        td_guard_look_at_end(ranges[i]);
        cut |= td_guard_marked(ranges[i]);
    }
    return cut;
}

static td_status fill(const struct new_file *new, struct td_arena *arena,
                      struct td_data_content *out, struct td_error *err)
{
    const int reason = write_temporary(new, &arena->stop, err);
    if (reason == ECANCELED)
        return err->status;
    const bool cut = any_cut(new->ranges);
    /* Writing from a truncated mapping fails with EFAULT, or succeeds with zeros if another
     * thread faulted first. */
    if (reason == EFAULT || (reason == 0 && cut))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "the source of %s was truncated while it was written", new->file);
    if (reason != 0)
        return td_data_disk_error(new->dir, new->file, reason, new->content.bytes, err);
    return map_temporary(new, arena, out, err);
}

/* Reads the inode's change time again, because the rename has set it. */
static void note_renamed(const struct new_file *new, struct td_file_id *id)
{
    struct td_file_id now;
    if (td_data_dir_stat(new->dir, new->file, &now) == TD_FILE_PRESENT &&
        td_file_id_equal(&now, id))
        id->changed_ns = now.changed_ns;
}

static td_status write_file(struct new_file *new, struct td_arena *arena,
                            struct td_data_content *out, bool *done, struct td_error *err)
{
    int reason = 0;
    td_data_hidden_name(new->dir, new->temporary);
    td_status status = fill(new, arena, out, err);
    if (status == TD_OK)
        reason = td_data_publish(new->dir, new->temporary, new->file, done);
    if (*done)
        note_renamed(new, &out->id);
    if (reason != 0 && *done)
        status = td_error_set(err, TD_DEVICE_UNAVAILABLE,
                              "%s is changed and %s is written, but the data folder can be neither "
                              "fsynced (%s) nor restored, so a power failure might undo the change",
                              TD_NAMED(new->name), new->file, strerror(reason));
    else if (reason != 0)
        status = td_data_disk_error(new->dir, new->file, reason, new->content.bytes, err);
    if (status == TD_OK)
        remove_plain(new->dir, new->name);
    if (!*done)
        td_data_remove_hidden(new->dir, new->temporary);
    return status;
}

td_status td_data_dir_write(struct td_data_dir *dir, const char *name,
                            const struct td_tensor *tensor, const struct td_tensor *keys,
                            const int *ranges, uint64_t version, struct td_arena *arena,
                            struct td_data_content *out, bool *done, struct td_error *err)
{
    struct new_file new = { .dir = dir, .name = name, .ranges = ranges };
    *done = false;
    *out = (struct td_data_content){ 0 };
    td_data_own_file(name, new.file);
    if (td_data_file_is(new.file, TD_PROGRAM_SUFFIX))
        td_tensor_file_plan_bytes(&new.content, tensor);
    else
        td_tensor_file_plan(&new.content, tensor, keys, version);
    struct td_reserved_file reserved = { .file = new.file, .bytes = new.content.bytes };
    td_data_hold(dir);
    td_status status = td_data_check_lock(dir, new.file, new.content.bytes, err);
    if (status == TD_OK)
        status = td_data_reserve(dir, &reserved, err);
    if (status == TD_OK) {
        status = write_file(&new, arena, out, done, err);
        td_data_unreserve(dir, &reserved);
    }
    td_data_release(dir);
    return status;
}
