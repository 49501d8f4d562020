#include "server/data_dir.h"

#include "api/npy.h"
#include "api/safetensors.h"
#include "api/text.h"
#include "server/fault_guard.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char own_suffix[] = ".tensord", npy_suffix[] = ".npy",
                  safetensors_suffix[] = ".safetensors";
static const char temporary_prefix[] = ".tensord-tmp-";

struct td_data_dir {
    char *path;
    const struct td_log *log;
    int fd;
    atomic_uint_fast64_t temporaries; /* numbers their names */
};

bool td_name_valid(const char *name)
{
    const size_t length = strlen(name);
    return length >= 1 && length < TD_TENSOR_NAME && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") ==
               length;
}

static bool ends_with(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

static struct td_file_id id_of(const struct stat *info)
{
    return (struct td_file_id){ .inode = info->st_ino,
                                .size = (uint64_t)info->st_size,
                                .changed_ns = (int64_t)info->st_mtim.tv_sec * 1000000000 +
                                              info->st_mtim.tv_nsec };
}

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

/* ---- the folder ----------------------------------------------------------------------------- */

static void remove_temporaries(struct td_data_dir *dir)
{
    DIR *list = opendir(dir->path);
    for (const struct dirent *item; list && (item = readdir(list));) {
        if (strncmp(item->d_name, temporary_prefix, sizeof temporary_prefix - 1) != 0)
            continue;
        const int fd = openat(dir->fd, item->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        /* Its writer holds a lock as long as it lives. */
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dir->fd, item->d_name, 0) == 0)
            td_log(dir->log, TD_LOG_INFO, "temporary_removed", TD_TEXT("file", item->d_name));
        if (fd >= 0)
            close(fd);
    }
    if (list)
        closedir(list);
}

static void log_unreadable(const struct td_log *log, const char *path)
{
    td_log(log, TD_LOG_ERROR, "data_dir_unreadable", TD_TEXT("dir", path),
           TD_TEXT("reason", strerror(errno)));
}

struct td_data_dir *td_data_dir_open(const char *path, const struct td_log *log)
{
    struct td_data_dir *dir = calloc(1, sizeof *dir);
    if (!dir)
        return NULL;
    dir->log = log;
    dir->path = strdup(path);
    dir->fd = dir->path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir->fd < 0) {
        log_unreadable(log, path);
        td_data_dir_free(dir);
        return NULL;
    }
    remove_temporaries(dir);
    return dir;
}

void td_data_dir_free(struct td_data_dir *dir)
{
    if (!dir)
        return;
    if (dir->fd >= 0)
        close(dir->fd);
    free(dir->path);
    free(dir);
}

static int wanted(const struct dirent *item)
{
    return item->d_name[0] != '.' &&
           (ends_with(item->d_name, own_suffix) || ends_with(item->d_name, npy_suffix) ||
            ends_with(item->d_name, safetensors_suffix));
}

static int in_order(const struct dirent **a, const struct dirent **b)
{
    const bool own_a = ends_with((*a)->d_name, own_suffix),
               own_b = ends_with((*b)->d_name, own_suffix);
    return own_a != own_b ? own_b - own_a : strcmp((*a)->d_name, (*b)->d_name);
}

bool td_data_dir_list(struct td_data_dir *dir, struct td_data_file **files, int *count)
{
    struct dirent **names = NULL;
    const int n = scandirat(dir->fd, ".", &names, wanted, in_order);
    *count = 0;
    *files = n < 0 ? NULL : calloc((size_t)n + 1, sizeof **files);
    if (!*files)
        log_unreadable(dir->log, dir->path);
    for (int i = 0; i < n; i++) {
        if (*files) {
            struct td_data_file *file = &(*files)[(*count)++];
            snprintf(file->name, sizeof file->name, "%s", names[i]->d_name);
            (void)td_data_dir_look(dir, file->name, &file->id); /* loading says why not */
        }
        free(names[i]);
    }
    free(names);
    return *files != NULL;
}

bool td_data_dir_look(struct td_data_dir *dir, const char *file, struct td_file_id *id)
{
    struct stat info;
    if (fstatat(dir->fd, file, &info, 0) != 0)
        return false;
    *id = id_of(&info);
    return true;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A mapped file; each tensor in it holds a reference. */
struct mapping {
    struct td_buffer base; /* first: release casts back */
    int range;
};

static void unmap(struct td_buffer *base)
{
    struct mapping *mapping = (struct mapping *)(void *)base;
    td_guard_remove(mapping->range);
    munmap(base->data, base->size);
    free(mapping);
}

/* Takes what an open descriptor means into memory; NULL with *why set. */
static struct mapping *map(int fd, struct td_file_id *id, const char **why)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        *why = strerror(errno);
        return NULL;
    }
    if (!S_ISREG(info.st_mode) || info.st_size == 0) {
        *why = "it is empty or not a regular file";
        return NULL;
    }
    const size_t size = (size_t)info.st_size;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        *why = strerror(errno);
        return NULL;
    }
    struct mapping *mapping = malloc(sizeof *mapping);
    const int range = mapping ? td_guard_add(data, size) : -1;
    if (range < 0) {
        *why = mapping ? "too many files are mapped" : "no memory";
        free(mapping);
        munmap(data, size);
        return NULL;
    }
    td_buffer_init(&mapping->base, data, size, unmap);
    mapping->range = range;
    *id = id_of(&info);
    return mapping;
}

static td_status refuse(struct td_error *err, const char *why)
{
    return td_error_set(err, TD_MALFORMED_REQUEST, "%s", why);
}

/* Room for n tensors in the arena. */
static td_status make_room(struct td_data_content *out, int n, struct td_arena *arena,
                           struct td_error *err)
{
    out->tensors = td_arena_alloc(arena, (size_t)n, sizeof *out->tensors, err);
    return out->tensors ? TD_OK : err->status;
}

static td_status read_npy(struct mapping *mapping, const char *stem, struct td_arena *arena,
                          struct td_data_content *out, struct td_error *err)
{
    struct td_tensor tensor;
    bool mapped; /* or converted, in the arena */
    td_status status =
        td_npy_read(mapping->base.data, mapping->base.size, arena, &tensor, &mapped, err);
    if (status == TD_OK)
        status = make_room(out, 1, arena, err);
    if (status != TD_OK)
        return status;
    tensor.owner = mapped ? &mapping->base : NULL;
    out->tensors[out->count++] = (struct td_data_tensor){ .name = stem,
                                                          .tensor = tensor,
                                                          .range = mapped ? mapping->range : -1 };
    return TD_OK;
}

static td_status read_safetensors(struct mapping *mapping, const char *stem, struct td_arena *arena,
                                  struct td_data_content *out, struct td_error *err)
{
    struct td_safetensors file;
    td_status status =
        td_safetensors_open(mapping->base.data, mapping->base.size, arena, &file, err);
    if (status == TD_OK)
        status = make_room(out, file.n_entries, arena, err);
    for (int i = 0; i < file.n_entries && status == TD_OK; i++) {
        char name[2 * TD_TENSOR_NAME]; /* what is cut off here is too long to be valid */
        const int length = snprintf(name, sizeof name, "%.128s:%.128s", stem, file.entries[i].name);
        const char *copy = td_arena_text(arena, name, (size_t)length, err);
        status = copy ? TD_OK : err->status;
        file.entries[i].tensor.owner = &mapping->base;
        out->tensors[out->count++] = (struct td_data_tensor){ .name = copy,
                                                              .tensor = file.entries[i].tensor,
                                                              .range = mapping->range };
    }
    return status;
}

static const char *note(const struct td_safetensors *file, const char *key)
{
    for (int i = 0; i < file->n_notes; i++)
        if (strcmp(file->notes[i].key, key) == 0)
            return file->notes[i].value;
    return "";
}

static const struct td_tensor *entry(const struct td_safetensors *file, const char *name,
                                     td_dtype dtype)
{
    for (int i = 0; i < file->n_entries; i++)
        if (strcmp(file->entries[i].name, name) == 0 && file->entries[i].tensor.dtype == dtype)
            return &file->entries[i].tensor;
    return NULL;
}

/* "[2,3]" */
static bool parse_shape(const char *text, struct td_shape *shape)
{
    shape->rank = 0;
    if (*text++ != '[')
        return false;
    while (*text != ']') {
        char *end;
        if (shape->rank == TD_MAX_RANK || *text < '0' || *text > '9')
            return false;
        errno = 0;
        shape->dim[shape->rank++] = strtoll(text, &end, 10);
        if (errno != 0 || (*end != ',' && *end != ']'))
            return false;
        text = *end == ',' ? end + 1 : end;
    }
    return text[1] == '\0';
}

/* The offsets of mapped strings, copied, and the mapping of their bytes. */
struct strings {
    struct td_buffer base; /* first: release casts back */
    struct td_buffer *mapping;
    uint64_t offsets[];
};

static void free_strings(struct td_buffer *base)
{
    struct strings *strings = (struct strings *)(void *)base;
    td_buffer_unref(strings->mapping);
    free(strings);
}

/* The arena's; NULL without memory. */
static struct strings *copy_offsets(struct mapping *mapping, const struct td_tensor *offsets,
                                    struct td_arena *arena, struct td_error *err)
{
    struct strings *strings = malloc(sizeof *strings + offsets->bytes);
    if (!strings) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for the offsets of strings");
        return NULL;
    }
    td_buffer_init(&strings->base, mapping->base.data, mapping->base.size, free_strings);
    strings->mapping = td_buffer_ref(&mapping->base);
    memcpy(strings->offsets, offsets->data, offsets->bytes);
    return td_arena_keep(arena, &strings->base, err) ? strings : NULL;
}

/* Offsets lead through the bytes from the first to the last, or reading would leave them. They are
 * copied first: where the file is cut short they would be zeros later, whatever they were here. */
static td_status join_strings(struct mapping *mapping, const struct td_safetensors *file,
                              struct td_arena *arena, struct td_tensor *tensor,
                              struct td_error *err)
{
    const struct td_tensor *offsets = entry(file, "offsets", TD_DTYPE_UINT64),
                           *bytes = entry(file, "bytes", TD_DTYPE_UINT8);
    if (!offsets || !bytes || offsets->numel - 1 != tensor->numel || !td_tensor_is_aligned(offsets))
        return refuse(err, "it lacks the offsets and bytes of its strings");
    struct strings *strings = copy_offsets(mapping, offsets, arena, err);
    if (!strings)
        return TD_MEMORY_EXHAUSTED;
    uint64_t *offset = strings->offsets;
    bool good = offset[0] == 0 && offset[tensor->numel] == bytes->bytes;
    for (int64_t i = 0; i < tensor->numel; i++)
        good &= offset[i] <= offset[i + 1];
    if (!good)
        return refuse(err, "the offsets of its strings do not follow each other");
    tensor->offsets = offset;
    tensor->data = bytes->data;
    tensor->bytes = bytes->bytes;
    tensor->owner = &strings->base;
    return TD_OK;
}

static td_status read_own(struct mapping *mapping, const char *stem, struct td_arena *arena,
                          struct td_data_content *out, struct td_error *err)
{
    struct td_safetensors file;
    struct td_shape shape;
    struct td_tensor tensor;
    td_dtype dtype;
    td_status status =
        td_safetensors_open(mapping->base.data, mapping->base.size, arena, &file, err);
    if (status == TD_OK)
        status = make_room(out, 1, arena, err);
    if (status != TD_OK)
        return status;
    const char *name = note(&file, "dtype");
    if (strcmp(note(&file, "tensord"), "1") != 0 ||
        !td_dtype_from_name(name, strlen(name), &dtype) ||
        !parse_shape(note(&file, "shape"), &shape))
        return refuse(err, "its __metadata__ is not that of a .tensord file");
    status = td_tensor_describe(&tensor, "tensor", dtype, &shape, err);
    if (status != TD_OK)
        return status;
    if (dtype == TD_DTYPE_STRING) {
        status = join_strings(mapping, &file, arena, &tensor, err);
    } else {
        const td_dtype stored = dtype == TD_DTYPE_COMPLEX128 ? TD_DTYPE_FLOAT64 : dtype;
        const struct td_tensor *found = entry(&file, "tensor", stored);
        if (!found || found->bytes != tensor.bytes)
            return refuse(err, "it lacks the tensor that its __metadata__ tells of");
        tensor.data = found->data;
        tensor.owner = &mapping->base;
    }
    out->tensors[out->count++] =
        (struct td_data_tensor){ .name = stem,
                                 .tensor = tensor,
                                 .range = mapping->range,
                                 .version = strtoull(note(&file, "version"), NULL, 10) };
    return status;
}

/* Gives the mapping to the arena. */
static td_status read_content(struct mapping *mapping, const char *file, struct td_arena *arena,
                              struct td_data_content *out, struct td_error *err)
{
    const char *stem = td_arena_text(arena, file, (size_t)(strrchr(file, '.') - file), err);
    if (!td_arena_keep(arena, &mapping->base, err) || !stem)
        return err->status;
    return ends_with(file, own_suffix)   ? read_own(mapping, stem, arena, out, err)
           : ends_with(file, npy_suffix) ? read_npy(mapping, stem, arena, out, err)
                                         : read_safetensors(mapping, stem, arena, out, err);
}

td_status td_data_dir_load(struct td_data_dir *dir, const char *file, struct td_arena *arena,
                           struct td_data_content *out, struct td_error *err)
{
    const char *why = NULL;
    *out = (struct td_data_content){ 0 };
    /* A FIFO would keep a blocking open waiting for its writer. */
    const int fd = openat(dir->fd, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct mapping *mapping = NULL;
    if (fd < 0) {
        why = strerror(errno);
    } else {
        mapping = map(fd, &out->id, &why);
        close(fd);
    }
    return mapping ? read_content(mapping, file, arena, out, err) : refuse(err, why);
}

/* ---- writing -------------------------------------------------------------------------------- */

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
    existing(dir, name, (int)strlen(name), npy_suffix, plain);
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
    snprintf(temporary, sizeof temporary, "%s%ld-%" PRIuFAST64, temporary_prefix, (long)getpid(),
             atomic_fetch_add(&dir->temporaries, 1));
    snprintf(file, sizeof file, "%s%s", name, own_suffix);
    const int fd = openat(dir->fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return disk_error(dir, file, errno, td_tensor_footprint(tensor), err);
    (void)flock(fd, LOCK_EX | LOCK_NB); /* nobody else takes it for one that a crash left */
    int reason = write_tensor(fd, tensor, version);
    /* Mapped before it has a name, so that what cannot be mapped replaces nothing. */
    if (reason == 0) {
        mapping = map(fd, &out->id, &why);
        status = mapping ? read_content(mapping, file, arena, out, err)
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
            existing(dir, name, (int)(colon - name), safetensors_suffix, file);
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
    for (const char *const *suffix = (const char *const[]){ npy_suffix, own_suffix, NULL }; *suffix;
         suffix++) {
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
