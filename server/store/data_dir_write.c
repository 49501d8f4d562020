#include "api/text/text.h"
#include "server/memory/fault_guard.h"
#include "server/store/data_dir_internal.h"

#include <sys/statvfs.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

td_status td_data_dir_admit(struct td_data_dir *dir, uint64_t bytes, struct td_error *err)
{
    struct statvfs room;
    td_data_hold(dir);
    td_status status = td_data_check_lock(dir, "the tensor", bytes, err);
    /* If fstatvfs fails, the write itself decides. */
    if (status == TD_OK && fstatvfs(dir->folder.fd, &room) == 0 &&
        (uint64_t)room.f_bavail < bytes / room.f_frsize)
        status = td_data_disk_error(dir, "the tensor", ENOSPC, bytes, err);
    td_data_release(dir);
    return status;
}

/* The header of a .tensord file: its length, the JSON, and spaces that align the data. */
#define HEADER_ALIGN 64
#define HEADER_ROOM  2048

static size_t write_header(const struct td_tensor *tensor, uint64_t version, char *header)
{
    char shape[TD_SHAPE_TEXT];
    struct td_text text = { .at = header + sizeof(uint64_t), .end = header + HEADER_ROOM };
    td_text_print(&text,
                  "{\"__metadata__\":{\"tensord\":\"1\",\"dtype\":\"%s\",\"shape\":\"%s\","
                  "\"version\":\"%" PRIu64 "\"},",
                  td_dtype_info(tensor->dtype)->name,
                  td_shape_text(&tensor->shape, shape, sizeof shape), version);
    if (tensor->dtype == TD_DTYPE_STRING) {
        const uint64_t offsets = ((uint64_t)tensor->numel + 1) * sizeof(uint64_t),
                       bytes = tensor->offsets[tensor->numel] - tensor->offsets[0];
        td_text_print(&text,
                      "\"offsets\":{\"dtype\":\"U64\",\"shape\":[%" PRId64
                      "],\"data_offsets\":[0,%" PRIu64 "]},\"bytes\":{\"dtype\":\"U8\","
                      "\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}}",
                      tensor->numel + 1, offsets, bytes, offsets, offsets + bytes);
    } else {
        const bool pairs = tensor->dtype == TD_DTYPE_COMPLEX128;
        if (pairs)
            snprintf(shape, sizeof shape, "[%" PRId64 ",2]", tensor->numel);
        td_text_print(&text, "\"tensor\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}",
                      pairs ? "F64" : td_dtype_info(tensor->dtype)->safetensors, shape,
                      tensor->bytes);
    }
    while ((text.at - header) % HEADER_ALIGN != 0)
        td_text_add(&text, " ", 1);
    const uint64_t length = (uint64_t)(text.at - header) - sizeof length;
    memcpy(header, &length, sizeof length);
    return (size_t)(text.at - header);
}

/* 0 or errno. */
static int write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t written = write(fd, at, bytes);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            at += written;
            bytes -= (size_t)written;
        }
    }
    return 0;
}

/* Writes offsets from 0, also those of a view. */
static int write_strings(int fd, const struct td_tensor *tensor)
{
    enum { AT_ONCE = 512 };
    uint64_t part[AT_ONCE];
    const uint64_t first = tensor->offsets[0];
    int reason = 0;
    for (int64_t i = 0; i <= tensor->numel && reason == 0;) {
        size_t n = 0;
        for (; n < AT_ONCE && i <= tensor->numel; i++)
            part[n++] = tensor->offsets[i] - first;
        reason = write_all(fd, part, n * sizeof *part);
    }
    return reason != 0 ? reason
                       : write_all(fd, (const char *)tensor->data + first,
                                   tensor->offsets[tensor->numel] - first);
}

static int write_tensor(int fd, const struct td_tensor *tensor, uint64_t version)
{
    char header[HEADER_ROOM];
    const size_t length = write_header(tensor, version, header);
    /* Detects a full disk before a gigabyte is written, where the file system supports it. */
    if (fallocate(fd, 0, 0, (off_t)(length + td_tensor_footprint(tensor))) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        return errno;
    if (ftruncate(fd, 0) != 0) /* views of strings are shorter than the allocation */
        return errno;
    int reason = write_all(fd, header, length);
    if (reason == 0)
        reason = tensor->dtype == TD_DTYPE_STRING ? write_strings(fd, tensor)
                                                  : write_all(fd, tensor->data, tensor->bytes);
    if (reason == 0 && fsync(fd) != 0)
        reason = errno;
    return reason;
}

/* Renames the finished file; 0 or errno. A hidden hard link keeps the file that is replaced, to
 * restore it if the folder cannot be fsynced. Without hard links, or if restoring fails, the new
 * file stays. */
static int publish(struct td_data_dir *dir, const char *temporary, const char *file, bool *done)
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

/* Removes NAME.npy, which the new file replaces: it would be served again once the new file is
 * removed. */
static void remove_plain(struct td_data_dir *dir, const char *name)
{
    char file[TD_FILE_NAME];
    bool found;
    snprintf(file, sizeof file, "%s%s", name, TD_NPY_SUFFIX);
    int reason = td_data_file_exists(dir, file, &found);
    if (reason == 0 && found && unlinkat(dir->folder.fd, file, 0) != 0)
        reason = errno;
    if (reason != 0)
        td_log(dir->log, TD_LOG_WARN, "file_not_removed", TD_TEXT("file", file),
               TD_TEXT("reason", strerror(reason)));
}

/* Writes an open file and maps it before it has a name, so that a file that cannot be mapped
 * replaces nothing. */
static td_status fill(struct td_data_dir *dir, int fd, const char *file,
                      const struct td_tensor *tensor, int range, uint64_t version,
                      struct td_arena *arena, struct td_data_content *out, struct td_error *err)
{
    const int reason = write_tensor(fd, tensor, version);
    /* Writing from a truncated mapping fails with EFAULT, or succeeds with zeros if another
     * thread faulted first. */
    if (reason == EFAULT || (reason == 0 && td_guard_marked(range)))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "the source of %s was truncated while it was written", file);
    if (reason != 0)
        return td_data_disk_error(dir, file, reason, td_tensor_footprint(tensor), err);
    struct td_mapping *mapping = td_mapping_new(fd, &out->id, err);
    return mapping ? td_mapping_read(mapping, file, arena, out, err) : err->status;
}

/* Writes the temporary file and maps it. */
static td_status write_temporary(struct td_data_dir *dir, const char *temporary, const char *file,
                                 const struct td_tensor *tensor, int range, uint64_t version,
                                 struct td_arena *arena, struct td_data_content *out,
                                 struct td_error *err)
{
    const int fd = openat(dir->folder.fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return td_data_disk_error(dir, file, errno, td_tensor_footprint(tensor), err);
    const td_status status = fill(dir, fd, file, tensor, range, version, arena, out, err);
    close(fd);
    return status;
}

static td_status write_file(struct td_data_dir *dir, const char *name, const char *file,
                            const struct td_tensor *tensor, int range, uint64_t version,
                            struct td_arena *arena, struct td_data_content *out, bool *done,
                            struct td_error *err)
{
    char temporary[TD_HIDDEN_NAME];
    int reason = 0;
    td_data_hidden_name(dir, temporary);
    td_status status =
        write_temporary(dir, temporary, file, tensor, range, version, arena, out, err);
    if (status == TD_OK)
        reason = publish(dir, temporary, file, done);
    if (reason != 0 && *done)
        status = td_error_set(err, TD_DEVICE_UNAVAILABLE,
                              "'%s' is changed and %s is written, but the data folder can neither "
                              "be fsynced (%s) nor restored: a power failure may undo the change",
                              name, file, strerror(reason));
    else if (reason != 0)
        status = td_data_disk_error(dir, file, reason, td_tensor_footprint(tensor), err);
    if (status == TD_OK)
        remove_plain(dir, name);
    if (!*done)
        td_data_remove_hidden(dir, temporary);
    return status;
}

td_status td_data_dir_write(struct td_data_dir *dir, const char *name,
                            const struct td_tensor *tensor, int range, uint64_t version,
                            struct td_arena *arena, struct td_data_content *out, bool *done,
                            struct td_error *err)
{
    char file[TD_FILE_NAME];
    *done = false;
    *out = (struct td_data_content){ 0 };
    snprintf(file, sizeof file, "%s%s", name, TD_OWN_SUFFIX);
    td_data_hold(dir);
    td_status status = td_data_check_lock(dir, file, td_tensor_footprint(tensor), err);
    if (status == TD_OK)
        status = write_file(dir, name, file, tensor, range, version, arena, out, done, err);
    td_data_release(dir);
    return status;
}
