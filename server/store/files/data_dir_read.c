#include "api/files/foreign.h"
#include "api/files/npy.h"
#include "api/files/safetensors.h"
#include "api/programs/stored.h"
#include "api/text/sorted_names.h"
#include "kernels/shown_text.h"
#include "server/config/read_error.h"
#include "server/memory/fault_guard.h"
#include "server/store/files/checksums.h"
#include "server/store/files/data_dir_internal.h"
#include "server/store/keys.h"

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

/* Sets and returns the error for a file that cannot be read. `reason` is the errno. */
static td_status unreadable(struct td_error *err, int reason)
{
    const td_status status = reason == ENOMEM ? TD_MEMORY_EXHAUSTED : TD_DEVICE_UNAVAILABLE;
    char text[TD_READ_ERROR];
    td_error_set(err, status, "%s", td_read_error(NULL, reason, text));
    return status;
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
    td_guard_watch_end(mapping->range);
    *id = td_data_id_of(&info);
    id->ends = td_digest_ends(data, size);
    return mapping;
}

/* Allocates room in the arena for `n` tensors, readable or not. */
static td_status make_room(struct td_data_content *out, int n, struct td_arena *arena,
                           struct td_error *err)
{
    out->tensors = td_arena_alloc(arena, (size_t)n, sizeof *out->tensors, err);
    out->unreadable =
        out->tensors ? td_arena_alloc(arena, (size_t)n, sizeof *out->unreadable, err) : NULL;
    return out->unreadable ? TD_OK : err->status;
}

static td_status read_npy(struct td_mapping *mapping, const char *stem, struct td_arena *arena,
                          struct td_data_content *out, struct td_error *err)
{
    struct td_tensor tensor;
    /* False if the tensor was converted into the arena. */
    bool mapped;
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

/* Parses a shape such as "[2,3]". */
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

/* A copy of the offsets of mapped strings, and the mapping that holds the bytes of the strings. */
struct strings {
    struct td_buffer base; /* must be first, because release casts back */
    struct td_buffer *mapping;
    uint64_t offsets[];
};

static void free_strings(struct td_buffer *base)
{
    struct strings *strings = (struct strings *)(void *)base;
    td_buffer_unref(strings->mapping);
    free(strings);
}

/* Copies the offsets of strings. The arena holds the copy. Returns NULL if no memory is
 * available. */
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

/* Builds a tensor from mapped strings. The offsets must increase from 0 to the number of bytes, or
 * reads would leave the mapping. The offsets are copied before they are checked, because a
 * truncation of the file would turn mapped offsets into zeros. */
static td_status join_strings(struct td_mapping *mapping, const struct td_tensor *offsets,
                              const struct td_tensor *bytes, struct td_arena *arena,
                              struct td_tensor *tensor, struct td_error *err)
{
    if (!offsets || !bytes || offsets->numel - 1 != tensor->numel)
        return refuse(err, "it does not contain the offsets and bytes of its strings");
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

/* Reads the keys of a table: the vector `numbers`, or the strings with these offsets and bytes. */
static td_status read_keys(struct td_mapping *mapping, const struct td_tensor *numbers,
                           const struct td_tensor *offsets, const struct td_tensor *bytes,
                           struct td_arena *arena, struct td_data_tensor *out, struct td_error *err)
{
    out->keys_range = mapping->range;
    if (numbers) {
        out->keys = *numbers;
        out->keys.owner = &mapping->base;
        return TD_OK;
    }
    if (!offsets || offsets->numel == 0)
        return refuse(err, "it has no offsets for its keys");
    const struct td_shape vector = { .rank = 1, .dim = { offsets->numel - 1 } };
    const td_status status = td_tensor_describe(&out->keys, "keys", TD_DTYPE_STRING, &vector, err);
    return status != TD_OK ? status : join_strings(mapping, offsets, bytes, arena, &out->keys, err);
}

/* The entries of a file, sorted by name. */
struct sorted_entries {
    const struct td_safetensors_entry **entries;
    int count;
    /* False if no entry holds keys. */
    bool any_keys;
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp((*(const struct td_safetensors_entry *const *)a)->name,
                  (*(const struct td_safetensors_entry *const *)b)->name);
}

static td_status sort_entries(const struct td_safetensors *file, struct td_arena *arena,
                              struct sorted_entries *out, struct td_error *err)
{
    out->count = file->n_entries;
    out->entries = td_arena_alloc(arena, (size_t)out->count + 1, sizeof *out->entries, err);
    if (!out->entries)
        return err->status;
    out->any_keys = false;
    for (int i = 0; i < out->count; i++) {
        out->entries[i] = &file->entries[i];
        out->any_keys |= strstr(file->entries[i].name, ".keys") != NULL;
    }
    qsort(out->entries, (size_t)out->count, sizeof *out->entries, compare_entries);
    return TD_OK;
}

static const char *entry_name(const void *sorted, int i)
{
    return ((const struct sorted_entries *)sorted)->entries[i]->name;
}

/* Returns the entry whose name is `table` followed by `suffix`. Returns NULL if there is none, or
 * if the name would be longer than the name of any table. */
static const struct td_safetensors_entry *find_entry(const struct sorted_entries *sorted,
                                                     const char *table, size_t length,
                                                     const char *suffix)
{
    char name[2 * TD_TENSOR_NAME];
    bool found;
    if (length >= TD_TENSOR_NAME)
        return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)length, table, suffix);
    const int place = td_sorted_find(sorted, sorted->count, entry_name, name, strlen(name), &found);
    return found ? sorted->entries[place] : NULL;
}

/* True if the entry is not a table but holds the keys of a table: "w.keys", "w.keys.offsets" or
 * "w.keys.bytes" in a file that contains "w". */
static bool has_keys_of_table(const struct sorted_entries *sorted, const char *name)
{
    static const char *const suffixes[] = { ".keys", ".keys.offsets", ".keys.bytes" };
    const size_t length = strlen(name);
    for (int i = 0; i < 3 && sorted->any_keys; i++) {
        const size_t cut = strlen(suffixes[i]);
        if (length > cut && strcmp(name + length - cut, suffixes[i]) == 0 &&
            find_entry(sorted, name, length - cut, ""))
            return true;
    }
    return false;
}

static td_status read_plain_keys(struct td_mapping *mapping, const struct sorted_entries *sorted,
                                 const char *table, struct td_arena *arena,
                                 struct td_data_tensor *out, struct td_error *err)
{
    if (!sorted->any_keys)
        return TD_OK;
    const size_t length = strlen(table);
    const struct td_safetensors_entry *numbers = find_entry(sorted, table, length, ".keys"),
                                      *offsets = find_entry(sorted, table, length, ".keys.offsets"),
                                      *bytes = find_entry(sorted, table, length, ".keys.bytes");
    const struct td_safetensors_entry *const entries[] = { numbers, offsets, bytes };
    for (int i = 0; i < 3; i++)
        if (entries[i] && entries[i]->unreadable)
            return refuse(err, entries[i]->unreadable);
    if (numbers)
        return read_keys(mapping, &numbers->tensor, NULL, NULL, arena, out, err);
    if (!offsets && !bytes)
        return TD_OK;
    if (!offsets || !bytes || offsets->tensor.dtype != TD_DTYPE_INT64 ||
        bytes->tensor.dtype != TD_DTYPE_UINT8)
        return refuse(err, "its keys are strings without int64 offsets and uint8 bytes");
    /* Negative offsets are also refused, because they are too large as unsigned numbers. */
    return read_keys(mapping, NULL, &offsets->tensor, &bytes->tensor, arena, out, err);
}

/* Adds the table of an entry, with its keys. A table with unusable keys is not served. */
static td_status read_table(struct td_mapping *mapping, const struct sorted_entries *sorted,
                            const struct td_safetensors_entry *entry, const char *name,
                            struct td_arena *arena, struct td_data_content *out,
                            struct td_error *err)
{
    if (entry->unreadable) {
        out->unreadable[out->n_unreadable++] =
            (struct td_data_unreadable){ .name = name, .why = entry->unreadable };
        return TD_OK;
    }
    struct td_data_tensor *found = &out->tensors[out->count++];
    *found =
        (struct td_data_tensor){ .name = name, .tensor = entry->tensor, .range = mapping->range };
    found->tensor.owner = &mapping->base;
    const td_status status = read_plain_keys(mapping, sorted, entry->name, arena, found, err);
    if (status != TD_MALFORMED_REQUEST)
        return status;
    found->keys_refused = td_arena_text(arena, err->message, strlen(err->message), err);
    return found->keys_refused ? TD_OK : TD_MEMORY_EXHAUSTED;
}

static td_status read_safetensors(struct td_mapping *mapping, const char *stem,
                                  struct td_arena *arena, struct td_data_content *out,
                                  struct td_error *err)
{
    struct td_safetensors file;
    td_status status =
        td_safetensors_open_partly(mapping->base.data, mapping->base.size, arena, &file, err);
    struct sorted_entries sorted;
    if (status == TD_OK)
        status = sort_entries(&file, arena, &sorted, err);
    if (status == TD_OK)
        status = make_room(out, file.n_entries, arena, err);
    for (int i = 0; i < file.n_entries && status == TD_OK; i++) {
        char name[TD_NAME_IN_FILE];
        if (has_keys_of_table(&sorted, sorted.entries[i]->name))
            continue;
        td_data_name_in_file(stem, sorted.entries[i]->name, name);
        const char *copy = td_arena_text(arena, name, strlen(name), err);
        status = copy ? read_table(mapping, &sorted, sorted.entries[i], copy, arena, out, err)
                      : err->status;
    }
    return status;
}

/* True if the file has only entries and metadata of files from older servers, which have no
 * digests. If a flipped bit hides the digests of a newer file, its other new entries or metadata
 * still show that the file is newer. */
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

/* Finds the digests. Files from older servers have none. */
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

static td_status read_own_keys(struct td_mapping *mapping, const struct td_safetensors *file,
                               struct td_arena *arena, struct td_data_tensor *out,
                               struct td_error *err)
{
    const struct td_tensor *numbers = entry(file, "keys", TD_DTYPE_INT64),
                           *offsets = entry(file, "keys.offsets", TD_DTYPE_UINT64),
                           *index = entry(file, "keys.index", TD_DTYPE_UINT8);
    if (!numbers)
        numbers = entry(file, "keys", TD_DTYPE_UINT64);
    if (!index)
        return numbers || offsets ? refuse(err, "it has no index for its keys") : TD_OK;
    out->index = index->data;
    out->index_bytes = index->bytes;
    return read_keys(mapping, numbers, offsets, entry(file, "keys.bytes", TD_DTYPE_UINT8), arena,
                     out, err);
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
        return refuse(err, "its __metadata__ does not describe a .tensord file");
    struct td_checksums checksums = { 0 };
    status = td_tensor_describe(&tensor, "tensor", dtype, &shape, err);
    if (status != TD_OK)
        return status;
    if (dtype == TD_DTYPE_STRING) {
        status = join_strings(mapping, entry(&file, "offsets", TD_DTYPE_UINT64),
                              entry(&file, "bytes", TD_DTYPE_UINT8), arena, &tensor, err);
    } else {
        const td_dtype stored = dtype == TD_DTYPE_COMPLEX128 ? TD_DTYPE_FLOAT64 : dtype;
        const struct td_tensor *found = entry(&file, "tensor", stored);
        if (!found || found->bytes != tensor.bytes)
            return refuse(err, "it does not contain the tensor that its __metadata__ describes");
        tensor.data = found->data;
        tensor.owner = &mapping->base;
    }
    if (status == TD_OK)
        status = find_digests(mapping, &file, dtype == TD_DTYPE_STRING, &checksums, err);
    struct td_data_tensor *found = &out->tensors[out->count++];
    *found = (struct td_data_tensor){ .name = stem,
                                      .tensor = tensor,
                                      .range = mapping->range,
                                      .version = strtoull(metadata(&file, "version"), NULL, 10),
                                      .checksums = checksums };
    return status == TD_OK ? read_own_keys(mapping, &file, arena, found, err) : status;
}

/* Returns MALFORMED_REQUEST, with the place in the text, unless the text is a program. */
static td_status check_program(const char *text, size_t bytes, struct td_error *err)
{
    struct td_error why = { 0 };
    const td_status status = td_program_check_text(text, bytes, &why);
    if (status == TD_MEMORY_EXHAUSTED)
        *err = why;
    if (status == TD_OK || status == TD_MEMORY_EXHAUSTED)
        return status;
    return td_error_set(err, TD_MALFORMED_REQUEST, "%s%s%s",
                        TD_SHOWN(why.pointer, why.pointer_length),
                        why.pointer_length > 0 ? ": " : "", why.message);
}

/* Reads the text of a program. Copies the text into the arena before checking it, because text
 * files are often edited in place. */
static td_status read_program(const struct td_mapping *mapping, const char *program,
                              struct td_arena *arena, struct td_data_content *out,
                              struct td_error *err)
{
    const struct td_shape shape = { .rank = 1, .dim = { (int64_t)mapping->base.size } };
    struct td_data_tensor *found;
    char name[TD_TENSOR_NAME];
    if (mapping->base.size > TD_PROGRAM_BYTES)
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "it has %zu bytes, but a program has at most %zu", mapping->base.size,
                            TD_PROGRAM_BYTES);
    if (!td_program_name(program, name))
        return refuse(err, "its name is too long for the name of a program");
    td_status status = make_room(out, 1, arena, err);
    if (status != TD_OK)
        return status;
    found = &out->tensors[0];
    *found = (struct td_data_tensor){ .name = td_arena_text(arena, name, strlen(name), err),
                                      .range = -1 };
    status = td_tensor_describe(&found->tensor, "program", TD_DTYPE_UINT8, &shape, err);
    char *text = found->name ? td_arena_alloc(arena, mapping->base.size, 1, err) : NULL;
    if (status != TD_OK || !text)
        return err->status;
    memcpy(text, mapping->base.data, mapping->base.size);
    found->tensor.data = text;
    out->count = 1;
    return check_program(text, mapping->base.size, err);
}

td_status td_mapping_read(struct td_mapping *mapping, const char *file, struct td_arena *arena,
                          struct td_data_content *out, struct td_error *err)
{
    const char *stem = td_arena_text(arena, file, (size_t)(td_data_file_suffix(file) - file), err);
    if (!td_arena_keep(arena, &mapping->base, err) || !stem)
        return err->status;
    const td_status status =
        td_data_file_is(file, TD_OWN_SUFFIX)   ? read_own(mapping, stem, arena, out, err)
        : td_data_file_is(file, TD_NPY_SUFFIX) ? read_npy(mapping, stem, arena, out, err)
        : td_data_file_is(file, TD_PROGRAM_SUFFIX)
            ? read_program(mapping, stem, arena, out, err)
            : read_safetensors(mapping, stem, arena, out, err);
    return td_foreign_explain_file(status, mapping->base.data, mapping->base.size, err);
}

td_status td_data_join_keys(struct td_data_content *table, const struct td_data_content *keys,
                            const char *keys_file, struct td_error *err)
{
    struct td_error why = { 0 };
    struct td_data_tensor *found = &table->tensors[0];
    const struct td_data_tensor *vector = &keys->tensors[0];
    if (keys->count != 1)
        return td_error_set(err, TD_MALFORMED_REQUEST, "%s: it has no keys", keys_file);
    if (td_keys_check(&vector->tensor, found->name, &found->tensor.shape, &why) != TD_OK)
        return td_error_set(err, TD_MALFORMED_REQUEST, "%s: %s", keys_file, why.message);
    found->keys = vector->tensor;
    found->keys_range = vector->range;
    td_file_id_set_keys(&table->id, &keys->id);
    return TD_OK;
}

/* Opens a file for reading. Returns -1, with errno set, on failure. Without O_NONBLOCK, opening a
 * FIFO would block until the FIFO has a writer. */
static int open_file(const struct td_data_dir *dir, const char *file)
{
    return openat(dir->folder.fd, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* Returns 0, or errno if the file cannot be opened for reading. */
static int try_open(const struct td_data_dir *dir, const char *file)
{
    const int fd = open_file(dir, file);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

td_status td_data_dir_check_read(struct td_data_dir *dir, const char *file, struct td_error *err)
{
    char keys[TD_FILE_NAME], text[TD_READ_ERROR];
    int reason = try_open(dir, file);
    if (reason != 0)
        return unreadable(err, reason);
    reason = td_data_keys_file(file, keys) ? try_open(dir, keys) : 0;
    if (reason != 0 && !td_data_dir_has_gone(dir, keys))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE, "%s: %s", keys,
                            td_read_error(NULL, reason, text));
    return TD_OK;
}

static td_status load_file(const struct td_data_dir *dir, const char *file, struct td_arena *arena,
                           struct td_data_content *out, struct td_error *err)
{
    *out = (struct td_data_content){ 0 };
    const int fd = open_file(dir, file);
    if (fd < 0)
        return unreadable(err, errno);
    struct td_mapping *mapping = td_mapping_new(fd, &out->id, err);
    close(fd);
    return mapping ? td_mapping_read(mapping, file, arena, out, err) : err->status;
}

/* Adds the keys from the table's keys file, if that file exists. */
static td_status load_keys(struct td_data_dir *dir, const char *file, struct td_arena *arena,
                           struct td_data_content *out, struct td_error *err)
{
    char keys_file[TD_FILE_NAME];
    struct td_data_content keys;
    struct td_error why = { 0 };
    if (!td_data_keys_file(file, keys_file))
        return TD_OK;
    const td_status status = load_file(dir, keys_file, arena, &keys, &why);
    if (status == TD_OK)
        return td_data_join_keys(out, &keys, keys_file, err);
    return td_data_dir_has_gone(dir, keys_file)
               ? TD_OK
               : td_error_set(err, status, "%s: %s", keys_file, why.message);
}

td_status td_data_dir_load(struct td_data_dir *dir, const char *file, bool with_keys,
                           struct td_arena *arena, struct td_data_content *out,
                           struct td_error *err)
{
    td_status status = load_file(dir, file, arena, out, err);
    if (status == TD_OK && with_keys)
        status = load_keys(dir, file, arena, out, err);
    if (status != TD_RESOURCE_LIMIT)
        return status;
    /* The shape exceeds the limits of the parsers, so reading the file again would not help. */
    err->status = TD_MALFORMED_REQUEST;
    return TD_MALFORMED_REQUEST;
}
