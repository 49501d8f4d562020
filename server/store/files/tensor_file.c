#include "server/store/files/tensor_file.h"

#include "api/text/text.h"
#include "kernels/key_index/key_index.h"
#include "server/store/files/checksums.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The header of a .tensord file consists of its length, the JSON, and spaces that align the
 * data. */
#define HEADER_ALIGN 64

/* ---- parts ---------------------------------------------------------------------------------- */

static struct td_tensor_part *add_part(struct td_tensor_file *file, const char *name,
                                       const char *dtype, int64_t n, const void *data,
                                       uint64_t bytes)
{
    struct td_tensor_part *part = &file->parts[file->n_parts++];
    *part = (struct td_tensor_part){ .name = name, .dtype = dtype, .data = data, .bytes = bytes };
    snprintf(part->shape, sizeof part->shape, "[%" PRId64 "]", n);
    file->data_bytes += bytes;
    return part;
}

static void add_strings(struct td_tensor_file *file, const char *offsets_name,
                        const char *bytes_name, const struct td_tensor *strings)
{
    const uint64_t first = strings->offsets[0], bytes = strings->offsets[strings->numel] - first;
    add_part(file, offsets_name, "U64", strings->numel + 1, NULL,
             ((uint64_t)strings->numel + 1) * sizeof *strings->offsets)
        ->offsets_of = strings;
    add_part(file, bytes_name, "U8", (int64_t)bytes, (const char *)strings->data + first, bytes);
}

static void add_tensor(struct td_tensor_file *file, const struct td_tensor *tensor)
{
    if (tensor->dtype == TD_DTYPE_STRING) {
        add_strings(file, "offsets", "bytes", tensor);
        return;
    }
    const bool pairs = tensor->dtype == TD_DTYPE_COMPLEX128;
    const char *dtype = pairs ? "F64" : td_dtype_info(tensor->dtype)->safetensors;
    struct td_tensor_part *part =
        add_part(file, "tensor", dtype, 0, tensor->data, (uint64_t)tensor->bytes);
    if (pairs)
        snprintf(part->shape, sizeof part->shape, "[%" PRId64 ",2]", tensor->numel);
    else
        td_shape_text(&tensor->shape, part->shape, sizeof part->shape);
}

static void add_keys(struct td_tensor_file *file, const struct td_tensor *keys)
{
    static const char padding[TD_KEY_INDEX_ALIGN];
    const uint64_t left = file->data_bytes % TD_KEY_INDEX_ALIGN;
    const uint64_t index = td_key_index_bytes(keys->numel);
    if (left > 0)
        add_part(file, "padding", "U8", (int64_t)(TD_KEY_INDEX_ALIGN - left), padding,
                 TD_KEY_INDEX_ALIGN - left);
    add_part(file, "keys.index", "U8", (int64_t)index, td_key_index_image(keys->key_index), index);
    if (keys->dtype == TD_DTYPE_STRING)
        add_strings(file, "keys.offsets", "keys.bytes", keys);
    else
        add_part(file, "keys", td_dtype_info(keys->dtype)->safetensors, keys->numel, keys->data,
                 keys->bytes);
}

static size_t print_header(struct td_tensor_file *file, const struct td_tensor *tensor,
                           uint64_t version)
{
    const uint64_t data = file->data_bytes, digests = td_checksum_digests(data);
    char shape[TD_SHAPE_TEXT], *header = file->header;
    struct td_text text = { .at = header + sizeof(uint64_t),
                            .end = header + TD_TENSOR_FILE_HEADER };
    td_text_print(&text,
                  "{\"__metadata__\":{\"tensord\":\"1\",\"dtype\":\"%s\",\"shape\":\"%s\","
                  "\"version\":\"%" PRIu64 "\",\"checksum\":\"" TD_CHECKSUM_NAME "\"}",
                  td_dtype_info(tensor->dtype)->name,
                  td_shape_text(&tensor->shape, shape, sizeof shape), version);
    uint64_t at = 0;
    for (int i = 0; i < file->n_parts; i++) {
        const struct td_tensor_part *part = &file->parts[i];
        td_text_print(&text,
                      ",\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%" PRIu64
                      ",%" PRIu64 "]}",
                      part->name, part->dtype, part->shape, at, at + part->bytes);
        at += part->bytes;
    }
    td_text_print(&text,
                  ",\"checksums\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64
                  ",%d],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}}",
                  digests, TD_DIGEST_BYTES, data, data + digests * TD_DIGEST_BYTES);
    while ((text.at - header) % HEADER_ALIGN != 0)
        td_text_add(&text, " ", 1);
    const uint64_t length = (uint64_t)(text.at - header) - sizeof length;
    memcpy(header, &length, sizeof length);
    return (size_t)(text.at - header);
}

void td_tensor_file_plan(struct td_tensor_file *file, const struct td_tensor *tensor,
                         const struct td_tensor *keys, uint64_t version)
{
    file->n_parts = 0;
    file->data_bytes = 0;
    add_tensor(file, tensor);
    if (keys)
        add_keys(file, keys);
    file->header_bytes = print_header(file, tensor, version);
    file->has_checksums = true;
    file->bytes = file->header_bytes + file->data_bytes +
                  td_checksum_digests(file->data_bytes) * TD_DIGEST_BYTES;
}

void td_tensor_file_plan_bytes(struct td_tensor_file *file, const struct td_tensor *tensor)
{
    file->parts[0] = (struct td_tensor_part){ .data = tensor->data, .bytes = tensor->bytes };
    file->n_parts = 1;
    file->header_bytes = 0;
    file->has_checksums = false;
    file->bytes = file->data_bytes = tensor->bytes;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A file that is being written. */
struct output {
    int fd;
    /* Number of bytes written to the file, and how many of them were handed to the disk. */
    off_t written, begun;
    struct td_checksum_writer checksums; /* digests of the data */
    const struct td_stop *stop;
    struct td_error *err; /* receives the error of `stop` */
};

/* Writes some of the bytes and advances *at. Returns 0 or errno. */
static int write_some(struct output *output, const char **at, size_t *bytes)
{
    const ssize_t written = write(output->fd, *at, *bytes < TD_STOP_STEP ? *bytes : TD_STOP_STEP);
    if (written < 0)
        return errno == EINTR ? 0 : errno;
    *at += written;
    *bytes -= (size_t)written;
    output->written += written;
    return 0;
}

/* Hands the bytes written since the last call to the disk, and waits for the bytes that the last
 * call handed over. This leaves little for fsync, which cannot be stopped. Then checks whether to
 * stop. */
static int flush(struct output *output)
{
    enum { AT_ONCE = 32 << 20 };
    const off_t begun = output->begun, before = begun < AT_ONCE ? begun : AT_ONCE;
    if (output->written - begun < AT_ONCE)
        return 0;
    /* Skip an empty range, because a length of 0 would mean the rest of the file. */
    if (sync_file_range(output->fd, begun, output->written - begun, SYNC_FILE_RANGE_WRITE) != 0 ||
        (before > 0 && sync_file_range(output->fd, begun - before, before,
                                       SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                           SYNC_FILE_RANGE_WAIT_AFTER) != 0)) {
        /* The kernel reports a disk error only once, so fsync would not report it again. */
        if (errno == EIO || errno == ENOSPC || errno == EDQUOT)
            return errno;
    }
    output->begun = output->written;
    return td_stop_check(output->stop, output->err) == TD_OK ? 0 : ECANCELED;
}

/* Writes all the bytes. Returns 0 or errno. */
static int write_all(struct output *output, const void *data, size_t bytes)
{
    const char *at = data;
    int reason = 0;
    while (bytes > 0 && reason == 0) {
        reason = write_some(output, &at, &bytes);
        if (reason == 0)
            reason = flush(output);
    }
    return reason;
}

/* Writes data in blocks. Each block is written right after its digest is computed, while it is in
 * the cache. */
static int write_data(struct output *output, const void *data, size_t bytes)
{
    const char *at = data;
    int reason = 0;
    while (bytes > 0 && reason == 0) {
        const size_t room = td_checksum_room(&output->checksums), n = bytes < room ? bytes : room;
        td_checksum_add(&output->checksums, at, n);
        reason = write_all(output, at, n);
        at += n;
        bytes -= n;
    }
    return reason;
}

static int write_digests(struct output *output)
{
    td_checksum_finish(&output->checksums);
    return write_all(output, output->checksums.digests,
                     (size_t)output->checksums.count * TD_DIGEST_BYTES);
}

/* Writes the offsets of strings, counted from 0 even if the strings are a view. */
static int write_offsets(struct output *output, const struct td_tensor *strings)
{
    enum { AT_ONCE = 512 };
    uint64_t part[AT_ONCE];
    const uint64_t first = strings->offsets[0];
    int reason = 0;
    for (int64_t i = 0; i <= strings->numel && reason == 0;) {
        size_t n = 0;
        for (; n < AT_ONCE && i <= strings->numel; i++)
            part[n++] = strings->offsets[i] - first;
        reason = write_data(output, part, n * sizeof *part);
    }
    return reason;
}

static int write_part(struct output *output, const struct td_tensor_part *part)
{
    return part->offsets_of ? write_offsets(output, part->offsets_of)
                            : write_data(output, part->data, (size_t)part->bytes);
}

int td_tensor_file_write(const struct td_tensor_file *file, int fd, const struct td_stop *stop,
                         struct td_error *err)
{
    struct output output = { .fd = fd, .stop = stop, .err = err };
    /* Detects a full disk before writing a gigabyte, if the file system supports fallocate. */
    if (fallocate(fd, 0, 0, (off_t)file->bytes) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        return errno;
    if (ftruncate(fd, 0) != 0)
        return errno;
    if (!td_checksum_begin(&output.checksums, file->header, file->header_bytes, file->data_bytes))
        return ENOMEM;
    int reason = write_all(&output, file->header, file->header_bytes);
    for (int i = 0; i < file->n_parts && reason == 0; i++)
        reason = write_part(&output, &file->parts[i]);
    if (reason == 0 && file->has_checksums)
        reason = write_digests(&output);
    if (reason == 0 && fsync(fd) != 0)
        reason = errno;
    td_checksum_end(&output.checksums);
    return reason;
}
