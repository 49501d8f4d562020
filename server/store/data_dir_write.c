#include "api/text/text.h"
#include "server/memory/fault_guard.h"
#include "server/store/data_dir_parts.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the system said about writing a file of `bytes`. */
static td_status disk_error(const struct td_data_dir *dir, const char *file, int reason,
                            uint64_t bytes, struct td_error *err)
{
    struct statvfs room;
    if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG) {
        const bool known = fstatvfs(dir->fd, &room) == 0;
        td_error_set(err, TD_RESOURCE_LIMIT, "%s needs %" PRIu64 " bytes of the data folder: %s",
                     file, bytes, strerror(reason));
        if (err) {
            snprintf(err->resource, sizeof err->resource, "disk_bytes");
            err->needed = bytes;
            err->limit = known ? (uint64_t)room.f_bavail * room.f_frsize : 0;
        }
        return TD_RESOURCE_LIMIT;
    }
    if (reason == EACCES || reason == EPERM || reason == EROFS)
        return td_error_set(err, TD_FORBIDDEN,
                            "the server may not change %s in its data folder: %s", file,
                            strerror(reason));
    return td_error_set(err, TD_DEVICE_UNAVAILABLE, "%s in the data folder cannot be changed: %s",
                        file, strerror(reason));
}

td_status td_data_dir_admit(struct td_data_dir *dir, uint64_t bytes, struct td_error *err)
{
    struct statvfs room;
    if (fstatvfs(dir->fd, &room) != 0 || (uint64_t)room.f_bavail >= bytes / room.f_frsize)
        return TD_OK; /* writing will tell */
    return disk_error(dir, "the tensor", ENOSPC, bytes, err);
}

/* The header of a .tensord file: length in front, spaces behind, so that the data is aligned. */
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

/* Offsets from 0 on, whatever those of a view begin with. */
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
    /* A full disk is told before a gigabyte is written; not every file system can. */
    if (fallocate(fd, 0, 0, (off_t)(length + td_tensor_footprint(tensor))) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        return errno;
    if (ftruncate(fd, 0) != 0) /* views of strings are shorter than what was set aside */
        return errno;
    int reason = write_all(fd, header, length);
    if (reason == 0)
        reason = tensor->dtype == TD_DTYPE_STRING ? write_strings(fd, tensor)
                                                  : write_all(fd, tensor->data, tensor->bytes);
    if (reason == 0 && fsync(fd) != 0)
        reason = errno;
    return reason;
}

static int remove_file(struct td_data_dir *dir, const char *file)
{
    return unlinkat(dir->fd, file, 0) == 0 || errno == ENOENT ? 0 : errno;
}

/* The file NAME and suffix, where it is a regular one; "" where not. */
static void existing(struct td_data_dir *dir, const char *name, int length, const char *suffix,
                     char file[TD_FILE_NAME])
{
    struct stat info;
    snprintf(file, TD_FILE_NAME, "%.*s%s", length, name, suffix);
    if (fstatat(dir->fd, file, &info, 0) != 0 || !S_ISREG(info.st_mode))
        file[0] = '\0';
}

/* Gives the finished file its name. */
static int publish(struct td_data_dir *dir, const char *temporary, const char *file,
                   const char *name)
{
    char plain[TD_FILE_NAME];
    if (renameat(dir->fd, temporary, dir->fd, file) != 0 || fsync(dir->fd) != 0)
        return errno;
    existing(dir, name, (int)strlen(name), TD_NPY_SUFFIX, plain);
    /* It would not be served any more, but come back once the new one is gone. */
    if (plain[0] && remove_file(dir, plain) != 0)
        td_log(dir->log, TD_LOG_WARN, "file_not_removed", TD_TEXT("file", plain),
               TD_TEXT("reason", strerror(errno)));
    return 0;
}

td_status td_data_dir_write(struct td_data_dir *dir, const char *name,
                            const struct td_tensor *tensor, int range, uint64_t version,
                            struct td_arena *arena, struct td_data_content *out,
                            struct td_error *err)
{
    char temporary[64], file[TD_FILE_NAME];
    const char *why = NULL;
    struct mapping *mapping = NULL;
    td_status status = TD_OK;
    *out = (struct td_data_content){ 0 };
    snprintf(temporary, sizeof temporary, "%s%ld-%" PRIuFAST64, TD_TEMPORARY_PREFIX, (long)getpid(),
             atomic_fetch_add(&dir->temporaries, 1));
    snprintf(file, sizeof file, "%s%s", name, TD_OWN_SUFFIX);
    const int fd = openat(dir->fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return disk_error(dir, file, errno, td_tensor_footprint(tensor), err);
    (void)flock(fd, LOCK_EX | LOCK_NB); /* nobody else takes it for one that a crash left */
    int reason = write_tensor(fd, tensor, version);
    /* Mapped before it has a name, so that what cannot be mapped replaces nothing. */
    if (reason == 0) {
        mapping = td_mapping_new(fd, &out->id, &why);
        status = mapping ? td_mapping_read(mapping, file, arena, out, err)
                         : td_error_set(err, TD_DEVICE_UNAVAILABLE, "%s cannot be mapped: %s", file,
                                        why);
    }
    if (reason == 0 && status == TD_OK && td_guard_marked(range))
        reason = EFAULT; /* as for a write that meets the end of the tensor's own file */
    if (reason == 0 && status == TD_OK)
        reason = publish(dir, temporary, file, name);
    if (reason == EFAULT)
        status = td_error_set(err, TD_DEVICE_UNAVAILABLE,
                              "what %s is made of was cut short while it was written", file);
    else if (reason != 0)
        status = disk_error(dir, file, reason, td_tensor_footprint(tensor), err);
    if (status != TD_OK)
        (void)unlinkat(dir->fd, temporary, 0);
    close(fd);
    return status;
}

/* Is `tensor` in the safetensors file, and how many are there in all? */
static bool holds(struct td_data_dir *dir, const char *file, const char *name, int *count)
{
    struct td_arena arena;
    struct td_data_content content;
    struct td_error err;
    bool found = false;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    if (td_data_dir_load(dir, file, &arena, &content, &err) == TD_OK)
        for (int i = 0; i < content.count; i++)
            found |= strcmp(content.tensors[i].name, name) == 0;
    *count = content.count;
    td_arena_reset(&arena);
    return found;
}

td_status td_data_dir_forget(struct td_data_dir *dir, const char *name, struct td_error *err)
{
    char file[TD_FILE_NAME];
    const int length = (int)strlen(name);
    int reason = 0, removed = 0;
    /* First whether it can be, then doing it: both passes go over the same files. */
    for (int pass = 0; pass < 2; pass++) {
        for (const char *colon = strchr(name, ':'); colon; colon = strchr(colon + 1, ':')) {
            int count;
            existing(dir, name, (int)(colon - name), TD_SAFETENSORS_SUFFIX, file);
            if (!file[0] || !holds(dir, file, name, &count))
                continue;
            if (count > 1)
                return td_error_set(err, TD_FORBIDDEN,
                                    "'%s' comes from %s, which holds %d other tensors; take it "
                                    "out of that file",
                                    name, file, count - 1);
            if (pass == 1 && (reason = remove_file(dir, file)) != 0)
                return disk_error(dir, file, reason, 0, err);
            removed += pass;
        }
    }
    /* What takes the place of the others goes last: a crash in between leaves it served. */
    for (const char *const *suffix = (const char *const[]){ TD_NPY_SUFFIX, TD_OWN_SUFFIX, NULL };
         *suffix; suffix++) {
        existing(dir, name, length, *suffix, file);
        if (!file[0])
            continue;
        if ((reason = remove_file(dir, file)) != 0)
            return disk_error(dir, file, reason, 0, err);
        removed++;
    }
    if (removed > 0 && fsync(dir->fd) != 0)
        return disk_error(dir, name, errno, 0, err);
    return TD_OK;
}
