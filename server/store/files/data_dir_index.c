/* Stored indices of keys. Building the index of 10 million keys takes 0.3 s, so the server stores
 * the index of X.keys.npy beside that file, and the next start maps it:
 *
 *     .X.keys.npy.index.tensord    struct header, image of kernels/key_index/key_index.h
 *
 * The digests are compared before the index is used, so a stored index that is damaged, or belongs
 * to other keys, is ignored and replaced. The digests do not protect against a program that changes
 * the file on purpose, or after the comparison. A search in such an image stays within the image
 * and compares each key, so it can miss keys but never returns a wrong row. */
#include "kernels/key_index/key_index.h"
#include "server/memory/fault_guard.h"
#include "server/store/files/data_dir_internal.h"

#include <sys/mman.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14 */
#endif

/* Building an index of fewer keys takes less than 2 ms. */
enum { MIN_KEYS = 65536 };

struct header {
    char magic[8];
    uint64_t image_digest, keys_digest;
    uint64_t unused[5];
};

_Static_assert(sizeof(struct header) == TD_KEY_INDEX_ALIGN, "the image is aligned");

/* The digit is the version of the header. The image has its own version. */
static const char magic[8] = { 'T', 'D', 'I', 'N', 'D', 'E', 'X', '1' };

bool td_data_stores_index(const char *keys_file, const struct td_tensor *keys)
{
    char table[TD_FILE_NAME];
    return keys->dtype != TD_DTYPE_STRING && keys->numel >= MIN_KEYS && !strchr(keys_file, '/') &&
           td_data_table_of_keys_file(keys_file, table);
}

static uint64_t digest_of(const void *data, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data & ~(page - 1);
    /* Maps all pages at once, because the page faults would take as long as the digest. */
    (void)madvise((void *)begin, (uintptr_t)data + bytes - begin, MADV_POPULATE_READ);
    return XXH3_64bits(data, bytes);
}

uint64_t td_data_keys_digest(const struct td_tensor *keys)
{
    return digest_of(keys->data, keys->bytes);
}

/* Opens the image in a mapped file. Returns NULL, or the reason that the file cannot be used. */
static const char *open_image(const struct td_mapping *mapping, const struct td_tensor *keys,
                              struct td_key_index *out)
{
    struct header header;
    const size_t size = mapping->base.size, bytes = td_key_index_bytes(keys->numel);
    if (bytes == 0 || size < sizeof header || size - sizeof header != bytes)
        return "its size does not match the number of keys";
    memcpy(&header, mapping->base.data, sizeof header);
    const char *image = (const char *)mapping->base.data + sizeof header;
    if (memcmp(header.magic, magic, sizeof magic) != 0)
        return "it has an unknown format";
    if (digest_of(image, bytes) != header.image_digest)
        return "it is damaged";
    if (td_data_keys_digest(keys) != header.keys_digest)
        return "it belongs to other keys";
    if (!td_key_index_open(image, bytes, keys, out))
        return "it belongs to keys of another dtype, or to another version of tensord";
    td_guard_look_at_end(mapping->range);
    return td_guard_marked(mapping->range) ? "it was truncated" : NULL;
}

static void log_index(const struct td_data_dir *dir, const char *event, const char *keys_file,
                      const char *reason)
{
    td_log(dir->log, TD_LOG_INFO, event, TD_TEXT("file", keys_file), TD_TEXT("reason", reason));
}

struct td_buffer *td_data_dir_map_index(struct td_data_dir *dir, const char *keys_file,
                                        const struct td_tensor *keys, struct td_key_index *out,
                                        int *range)
{
    char file[TD_FILE_NAME];
    struct td_file_id id;
    struct td_error err = { 0 };
    td_data_index_file(keys_file, file);
    const int fd = openat(dir->folder.fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        if (errno != ENOENT)
            log_index(dir, "key_index_refused", keys_file, strerror(errno));
        return NULL;
    }
    struct td_mapping *mapping = td_mapping_new(fd, &id, &err);
    close(fd);
    const char *reason = mapping ? open_image(mapping, keys, out) : err.message;
    if (!reason) {
        *range = mapping->range;
        return &mapping->base;
    }
    log_index(dir, "key_index_refused", keys_file, reason);
    td_buffer_unref(mapping ? &mapping->base : NULL);
    return NULL;
}

static int write_index(struct td_data_dir *dir, const char *file, const struct td_key_index *index,
                       uint64_t keys_digest)
{
    const void *image = td_key_index_image(index);
    const size_t bytes = td_key_index_bytes(index->keys.numel);
    struct header header = { .image_digest = digest_of(image, bytes), .keys_digest = keys_digest };
    struct td_file_id id;
    bool done = false;
    memcpy(header.magic, magic, sizeof magic);
    const struct iovec parts[] = { { &header, sizeof header },
                                   { (void *)(uintptr_t)image, bytes } };
    return td_data_write_parts(dir, file, parts, 2, &id, &done);
}

/* Stores the index. Returns NULL, or the reason that it was not stored. */
static const char *store_index(struct td_data_dir *dir, const char *file,
                               const struct td_key_index *index, uint64_t digest)
{
    if (td_data_keys_digest(&index->keys) != digest)
        return "the keys changed while the index was built";
    td_data_hold(dir);
    const int reason =
        dir->folder.lock < 0 ? dir->folder.reason : write_index(dir, file, index, digest);
    td_data_release(dir);
    if (reason == EWOULDBLOCK)
        return "another process holds the lock of the folder";
    return reason == 0 ? NULL : strerror(reason);
}

bool td_data_dir_store_index(struct td_data_dir *dir, const char *keys_file,
                             const struct td_key_index *index, uint64_t digest)
{
    char file[TD_FILE_NAME];
    if (dir->read_only)
        return false;
    td_data_index_file(keys_file, file);
    const char *reason = store_index(dir, file, index, digest);
    log_index(dir, reason ? "key_index_not_stored" : "key_index_stored", keys_file, reason);
    return !reason;
}
