#include "api/files/npy.h"
#include "api/files/safetensors.h"
#include "server/memory/fault_guard.h"
#include "server/store/data_dir_internal.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void unmap(struct td_buffer *base)
{
    struct td_mapping *mapping = (struct td_mapping *)(void *)base;
    td_guard_remove(mapping->range);
    munmap(base->data, base->size);
    free(mapping);
}

static td_status refuse(struct td_error *err, const char *why)
{
    return td_error_set(err, TD_MALFORMED_REQUEST, "%s", why);
}

/* The error for errno `reason` of reading. */
static td_status unreadable(struct td_error *err, int reason)
{
    return td_error_set(err, reason == ENOMEM ? TD_MEMORY_EXHAUSTED : TD_DEVICE_UNAVAILABLE, "%s",
                        strerror(reason));
}

struct td_mapping *td_mapping_new(int fd, struct td_file_id *id, struct td_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        unreadable(err, errno);
        return NULL;
    }
    if (!S_ISREG(info.st_mode) || info.st_size == 0) {
        refuse(err, "it is empty or not a regular file");
        return NULL;
    }
    const size_t size = (size_t)info.st_size;
    struct td_mapping *mapping = malloc(sizeof *mapping);
    void *data = mapping ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (data == MAP_FAILED) {
        unreadable(err, mapping ? errno : ENOMEM);
        free(mapping);
        return NULL;
    }
    mapping->range = td_guard_add(data, size);
    if (mapping->range < 0) {
        td_error_set(err, TD_DEVICE_UNAVAILABLE, "too many files are mapped");
        free(mapping);
        munmap(data, size);
        return NULL;
    }
    td_buffer_init(&mapping->base, data, size, unmap);
    *id = td_data_id_of(&info);
    return mapping;
}

/* Room for n tensors in the arena. */
static td_status make_room(struct td_data_content *out, int n, struct td_arena *arena,
                           struct td_error *err)
{
    out->tensors = td_arena_alloc(arena, (size_t)n, sizeof *out->tensors, err);
    return out->tensors ? TD_OK : err->status;
}

static td_status read_npy(struct td_mapping *mapping, const char *stem, struct td_arena *arena,
                          struct td_data_content *out, struct td_error *err)
{
    struct td_tensor tensor;
    bool mapped; /* otherwise converted, in the arena */
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

static td_status read_safetensors(struct td_mapping *mapping, const char *stem,
                                  struct td_arena *arena, struct td_data_content *out,
                                  struct td_error *err)
{
    struct td_safetensors file;
    td_status status =
        td_safetensors_open(mapping->base.data, mapping->base.size, arena, &file, err);
    if (status == TD_OK)
        status = make_room(out, file.n_entries, arena, err);
    for (int i = 0; i < file.n_entries && status == TD_OK; i++) {
        char name[TD_TABLE_NAME_IN_FILE];
        td_table_name_in_file(stem, file.entries[i].name, name);
        const char *copy = td_arena_text(arena, name, strlen(name), err);
        status = copy ? TD_OK : err->status;
        file.entries[i].tensor.owner = &mapping->base;
        out->tensors[out->count++] = (struct td_data_tensor){ .name = copy,
                                                              .tensor = file.entries[i].tensor,
                                                              .range = mapping->range };
    }
    return status;
}

static const char *metadata(const struct td_safetensors *file, const char *key)
{
    for (int i = 0; i < file->n_metadata; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
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

/* A copy of the offsets of mapped strings, and the mapping of their bytes. */
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

/* Held by the arena; NULL without memory. */
static struct strings *copy_offsets(struct td_mapping *mapping, const struct td_tensor *offsets,
                                    struct td_arena *arena, struct td_error *err)
{
    struct strings *strings = malloc(sizeof *strings + offsets->bytes);
    if (!strings) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the offsets of strings");
        return NULL;
    }
    td_buffer_init(&strings->base, mapping->base.data, mapping->base.size, free_strings);
    strings->mapping = td_buffer_ref(&mapping->base);
    memcpy(strings->offsets, offsets->data, offsets->bytes);
    return td_arena_keep(arena, &strings->base, err) ? strings : NULL;
}

/* Offsets must increase from 0 to the number of bytes, or reading would leave the mapping. They
 * are copied before they are checked: a truncation of the file would turn them into zeros. */
static td_status join_strings(struct td_mapping *mapping, const struct td_safetensors *file,
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
    bool valid = offset[0] == 0 && offset[tensor->numel] == bytes->bytes;
    for (int64_t i = 0; i < tensor->numel; i++)
        valid &= offset[i] <= offset[i + 1];
    if (!valid)
        return refuse(err,
                      "the offsets of its strings do not increase from 0 to the number of bytes");
    tensor->offsets = offset;
    tensor->data = bytes->data;
    tensor->bytes = bytes->bytes;
    tensor->owner = &strings->base;
    return TD_OK;
}

/* Whether the file is as older servers wrote it: a flipped bit that hides the digests of a newer one
 * leaves entries or metadata that are not known. */
static bool has_only_known(const struct td_safetensors *file, bool strings)
{
    static const char *const keys[] = { "tensord", "dtype", "shape", "version" };
    for (int i = 0; i < file->n_metadata; i++) {
        bool known = false;
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
            known |= strcmp(file->metadata[i].key, keys[j]) == 0;
        if (!known)
            return false;
    }
    return file->n_entries == (strings ? 2 : 1);
}

/* Finds the digests; none in a file of an older server. */
static td_status find_digests(const struct td_mapping *mapping, const struct td_safetensors *file,
                              bool strings, struct td_checksums *out, struct td_error *err)
{
    const struct td_tensor *digests = entry(file, "checksums", TD_DTYPE_UINT8);
    *out = (struct td_checksums){ 0 };
    if (!digests && has_only_known(file, strings))
        return TD_OK;
    if (!digests || strcmp(metadata(file, "checksum"), TD_CHECKSUM_NAME) != 0)
        return refuse(err, "its checksums are missing or of an unknown kind");
    const uint64_t bytes = (uint64_t)((const char *)digests->data - file->data);
    if (digests->bytes != td_checksum_digests(bytes) * TD_DIGEST_BYTES ||
        file->data + bytes + digests->bytes !=
            (const char *)mapping->base.data + mapping->base.size)
        return refuse(err, "its checksums do not follow its data, or are not one per block");
    *out = (struct td_checksums){ .digests = digests->data,
                                  .data = file->data,
                                  .bytes = bytes,
                                  .offset =
                                      (uint64_t)(file->data - (const char *)mapping->base.data) };
    return TD_OK;
}

static td_status read_own(struct td_mapping *mapping, const char *stem, struct td_arena *arena,
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
    const char *name = metadata(&file, "dtype");
    if (strcmp(metadata(&file, "tensord"), "1") != 0 ||
        !td_dtype_from_name(name, strlen(name), &dtype) ||
        !parse_shape(metadata(&file, "shape"), &shape))
        return refuse(err, "its __metadata__ is not that of a .tensord file");
    struct td_checksums checksums = { 0 };
    status = td_tensor_describe(&tensor, "tensor", dtype, &shape, err);
    if (status != TD_OK)
        return status;
    if (dtype == TD_DTYPE_STRING) {
        status = join_strings(mapping, &file, arena, &tensor, err);
    } else {
        const td_dtype stored = dtype == TD_DTYPE_COMPLEX128 ? TD_DTYPE_FLOAT64 : dtype;
        const struct td_tensor *found = entry(&file, "tensor", stored);
        if (!found || found->bytes != tensor.bytes)
            return refuse(err, "it lacks the tensor that its __metadata__ describes");
        tensor.data = found->data;
        tensor.owner = &mapping->base;
    }
    if (status == TD_OK)
        status = find_digests(mapping, &file, dtype == TD_DTYPE_STRING, &checksums, err);
    out->tensors[out->count++] =
        (struct td_data_tensor){ .name = stem,
                                 .tensor = tensor,
                                 .range = mapping->range,
                                 .version = strtoull(metadata(&file, "version"), NULL, 10),
                                 .checksums = checksums };
    return status;
}

td_status td_mapping_read(struct td_mapping *mapping, const char *file, struct td_arena *arena,
                          struct td_data_content *out, struct td_error *err)
{
    const char *stem = td_arena_text(arena, file, (size_t)(strrchr(file, '.') - file), err);
    if (!td_arena_keep(arena, &mapping->base, err) || !stem)
        return err->status;
    return td_data_file_is(file, TD_OWN_SUFFIX) ? read_own(mapping, stem, arena, out, err)
           : td_data_file_is(file, TD_NPY_SUFFIX)
               ? read_npy(mapping, stem, arena, out, err)
               : read_safetensors(mapping, stem, arena, out, err);
}

td_status td_data_dir_load(struct td_data_dir *dir, const char *file, struct td_arena *arena,
                           struct td_data_content *out, struct td_error *err)
{
    *out = (struct td_data_content){ 0 };
    /* O_NONBLOCK: opening a FIFO would block until it has a writer. */
    const int fd = openat(dir->folder.fd, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return unreadable(err, errno);
    struct td_mapping *mapping = td_mapping_new(fd, &out->id, err);
    close(fd);
    if (!mapping)
        return err->status;
    const td_status status = td_mapping_read(mapping, file, arena, out, err);
    if (status != TD_RESOURCE_LIMIT)
        return status;
    /* A shape above the limits of the parsers: reading the file again does not help. */
    err->status = TD_MALFORMED_REQUEST;
    return TD_MALFORMED_REQUEST;
}
