#include "server/memory/shared_memory.h"

#include "api/text/sorted_names.h"
#include "kernels/shown_text.h"
#include "kernels/utf8.h"
#include "server/memory/fault_guard.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_SIZE = 256, NAME_SIZE = 1024 };

/* A registered region. The buffer is the mapping. The registry and each request that uses the
 * region hold a reference. */
struct region {
    /* Must be first, because release casts back. The data of the buffer starts at the start of the
     * region. */
    struct td_buffer mapping;
    char *name, *key;
    uint64_t offset, bytes; /* position within the object */
    void *map;              /* starts at the region's first page */
    size_t map_bytes;
    int fd, guard;
    atomic_bool truncated; /* the object has been too short at least once */
};

struct td_shm {
    struct td_regions regions;           /* must be first, because find casts back */
    pthread_mutex_t mutex;               /* guards the following members */
    struct region *list[TD_SHM_REGIONS]; /* sorted by name */
    int count;
};

static void release(struct td_buffer *buffer)
{
    struct region *region = (struct region *)(void *)buffer;
    td_guard_remove(region->guard);
    if (region->map)
        munmap(region->map, region->map_bytes);
    if (region->fd >= 0)
        close(region->fd);
    free(region->name);
    free(region->key);
    free(region);
}

/* ---- the list -------------------------------------------------------------------------------- */

static const char *name_at(const void *shm, int i)
{
    return ((const struct td_shm *)shm)->list[i]->name;
}

/* Sets *found if the name is registered. Returns its index, or the index at which to insert it. The
 * caller holds the mutex. */
static int place_of(const struct td_shm *shm, const char *name, size_t length, bool *found)
{
    return td_sorted_find(shm, shm->count, name_at, name, length, found);
}

static td_status taken(const char *name, struct td_error *err)
{
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "the shared memory region '%.128s' is already registered; unregister it "
                        "first",
                        name);
}

static td_status too_many(struct td_error *err)
{
    return td_error_resource(err, "shared_memory_regions", TD_SHM_REGIONS + 1, TD_SHM_REGIONS,
                             "one more region");
}

/* Inserts the region and takes over the caller's reference. */
static td_status insert(struct td_shm *shm, struct region *region, struct td_error *err)
{
    bool found;
    td_status status = TD_OK;
    pthread_mutex_lock(&shm->mutex);
    const int at = place_of(shm, region->name, strlen(region->name), &found);
    if (found || shm->count == TD_SHM_REGIONS) {
        status = found ? TD_INVALID_ARGUMENT : TD_RESOURCE_LIMIT;
    } else {
        memmove(&shm->list[at + 1], &shm->list[at], (size_t)(shm->count - at) * sizeof *shm->list);
        shm->list[at] = region;
        shm->count++;
    }
    pthread_mutex_unlock(&shm->mutex);
    if (status == TD_OK)
        return TD_OK;
    status = found ? taken(region->name, err) : too_many(err);
    td_buffer_unref(&region->mapping);
    return status;
}

/* ---- register -------------------------------------------------------------------------------- */

/* Extracts the only path component of a key, which can have leading slashes. */
static td_status read_key(const char *key, char object[KEY_SIZE + 1], struct td_error *err)
{
    const char *name = key + strspn(key, "/");
    const size_t length = strlen(name);
    const char *wrong = length == 0                  ? "it is empty"
                        : length >= KEY_SIZE         ? "it is longer than 255 bytes"
                        : strchr(name, '/')          ? "it contains a slash"
                        : strcmp(name, ".") == 0     ? "it is a folder"
                        : strstr(name, "..") != NULL ? "it contains '..'"
                                                     : NULL;
    if (wrong) {
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "the key '%.64s' is not a valid shared memory name: %s", key, wrong);
        return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "key");
    }
    object[0] = '/';
    memcpy(object + 1, name, length + 1);
    return TD_OK;
}

/* Sets and returns the error for an object that could not be opened. All causes give the same
 * error, so clients cannot probe for other objects. */
static td_status not_opened(const char *key, struct td_error *err)
{
    td_error_set(err, TD_INVALID_ARGUMENT, "the key '%.128s' cannot be opened as shared memory",
                 key);
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "key");
}

static td_status open_object(const char *key, int *fd, uint64_t *size, struct td_error *err)
{
    char object[KEY_SIZE + 1];
    struct stat stat;
    td_status status = read_key(key, object, err);
    *fd = -1;
    if (status != TD_OK)
        return status;
    *fd = shm_open(object, O_RDWR | O_NONBLOCK, 0);
    if (*fd < 0 && (errno == EMFILE || errno == ENFILE))
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "no file descriptor is left for another region");
    if (*fd < 0 || fstat(*fd, &stat) != 0 || !S_ISREG(stat.st_mode))
        return not_opened(key, err);
    *size = (uint64_t)stat.st_size;
    return TD_OK;
}

static td_status check_extent(const struct region *region, uint64_t size, struct td_error *err)
{
    uint64_t end;
    if (region->bytes == 0) {
        td_error_set(err, TD_INVALID_ARGUMENT, "byte_size is 0; must be at least 1");
        return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "byte_size");
    }
    if (!__builtin_add_overflow(region->offset, region->bytes, &end) && end <= size)
        return TD_OK;
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "offset %llu and byte_size %llu reach beyond the %llu bytes of the key '%.128s'",
                 (unsigned long long)region->offset, (unsigned long long)region->bytes,
                 (unsigned long long)size, region->key);
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "byte_size");
}

static td_status map(struct region *region, struct td_error *err)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = region->offset % page;
    region->map_bytes = (size_t)(region->bytes + before);
    void *place = mmap(NULL, region->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd,
                       (off_t)(region->offset - before));
    if (place == MAP_FAILED)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no address space for %llu bytes",
                            (unsigned long long)region->bytes);
    region->map = place;
    region->mapping.data = (char *)place + before;
    region->mapping.size = (size_t)region->bytes;
    region->guard = td_guard_add(place, region->map_bytes);
    return region->guard >= 0 ? TD_OK : too_many(err);
}

static struct region *new_region(const char *name, const char *key, uint64_t offset, uint64_t bytes)
{
    struct region *region = calloc(1, sizeof *region);
    if (!region)
        return NULL;
    td_buffer_init(&region->mapping, NULL, 0, release);
    region->fd = region->guard = -1;
    region->offset = offset;
    region->bytes = bytes;
    region->name = strdup(name);
    region->key = strdup(key);
    if (region->name && region->key)
        return region;
    td_buffer_unref(&region->mapping);
    return NULL;
}

static bool is_registered(struct td_shm *shm, const char *name)
{
    bool found;
    pthread_mutex_lock(&shm->mutex);
    (void)place_of(shm, name, strlen(name), &found);
    pthread_mutex_unlock(&shm->mutex);
    return found;
}

td_status td_shm_register(struct td_shm *shm, const char *name, const char *key, uint64_t offset,
                          uint64_t bytes, struct td_error *err)
{
    struct region *region;
    uint64_t size = 0;
    if (strlen(name) >= NAME_SIZE)
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "the region name is too long; expected at most %d bytes",
                            NAME_SIZE - 1);
    if (!td_utf8_valid(name, strlen(name))) /* the name is printed as JSON */
        return td_error_set(err, TD_MALFORMED_REQUEST, "the region name must be UTF-8");
    if (is_registered(shm, name)) /* checked before the key */
        return taken(name, err);
    region = new_region(name, key, offset, bytes);
    if (!region)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for another region");
    td_status status = open_object(key, &region->fd, &size, err);
    if (status == TD_OK)
        status = check_extent(region, size, err);
    if (status == TD_OK)
        status = map(region, err);
    if (status == TD_OK)
        return insert(shm, region, err);
    td_buffer_unref(&region->mapping);
    return status;
}

void td_shm_unregister(struct td_shm *shm, const char *name)
{
    struct region *removed[TD_SHM_REGIONS];
    bool found = true;
    pthread_mutex_lock(&shm->mutex);
    const int first = name ? place_of(shm, name, strlen(name), &found) : 0;
    const int count = !found ? 0 : name ? 1 : shm->count;
    memcpy(removed, &shm->list[first], (size_t)count * sizeof *removed);
    shm->count -= count;
    memmove(&shm->list[first], &shm->list[first + count],
            (size_t)(shm->count - first) * sizeof *shm->list);
    pthread_mutex_unlock(&shm->mutex);
    for (int i = 0; i < count; i++)
        /* Dropping the reference can unmap memory, so the mutex must not be held. */
        td_buffer_unref(&removed[i]->mapping);
}

/* ---- use ------------------------------------------------------------------------------------- */

static td_status unknown(const char *name, size_t length, struct td_error *err)
{
    return td_error_set(err, TD_NOT_FOUND, "there is no shared memory region '%s'",
                        TD_SHOWN(name, length));
}

/* Checks that the object still has its size. A truncated region is refused even if the object grows
 * again, because the lost bytes are zeros, and pages that the guard replaced are no longer shared
 * with the client. */
static td_status check_size(struct region *region, struct td_error *err)
{
    struct stat stat;
    if (fstat(region->fd, &stat) != 0 || (uint64_t)stat.st_size < region->offset + region->bytes)
        atomic_store_explicit(&region->truncated, true, memory_order_relaxed);
    if (!atomic_load_explicit(&region->truncated, memory_order_relaxed) &&
        !td_guard_marked(region->guard))
        return TD_OK;
    return td_error_set(
        err, TD_INVALID_ARGUMENT,
        "the shared memory region '%.128s' has been truncated since it was registered; "
        "register it again",
        region->name);
}

static td_status check_range(const struct region *region, uint64_t offset, uint64_t bytes,
                             struct td_error *err)
{
    if (offset <= region->bytes && bytes <= region->bytes - offset)
        return TD_OK;
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "offset %llu and byte size %llu reach beyond the %llu bytes of the shared "
                        "memory region '%.128s'",
                        (unsigned long long)offset, (unsigned long long)bytes,
                        (unsigned long long)region->bytes, region->name);
}

static td_status find(struct td_regions *self, const char *name, size_t length, uint64_t offset,
                      uint64_t bytes, struct td_arena *arena, void **out, struct td_error *err)
{
    struct td_shm *shm = (struct td_shm *)(void *)self;
    struct region *region = NULL;
    bool found;
    pthread_mutex_lock(&shm->mutex);
    const int at = place_of(shm, name, length, &found);
    if (found) {
        region = shm->list[at];
        td_buffer_ref(&region->mapping);
    }
    pthread_mutex_unlock(&shm->mutex);
    if (!region)
        return unknown(name, length, err);
    if (!td_arena_keep(arena, &region->mapping, err))
        return TD_MEMORY_EXHAUSTED;
    td_status status = check_size(region, err);
    if (status == TD_OK)
        status = check_range(region, offset, bytes, err);
    if (status == TD_OK)
        *out = (char *)region->mapping.data + offset;
    return status;
}

/* ---- list ------------------------------------------------------------------------------------ */

static td_status describe(const struct region *region, struct td_arena *arena,
                          struct td_oip_region *out, struct td_error *err)
{
    out->name = td_arena_text(arena, region->name, strlen(region->name), err);
    out->key = out->name ? td_arena_text(arena, region->key, strlen(region->key), err) : NULL;
    out->offset = region->offset;
    out->bytes = region->bytes;
    return out->key ? TD_OK : TD_MEMORY_EXHAUSTED;
}

td_status td_shm_list(struct td_shm *shm, const char *name, struct td_arena *arena,
                      struct td_oip_region **list, int *count, struct td_error *err)
{
    bool found = true;
    td_status status = TD_OK;
    pthread_mutex_lock(&shm->mutex);
    const int first = name ? place_of(shm, name, strlen(name), &found) : 0;
    *count = name ? found : shm->count;
    *list = td_arena_alloc(arena, (size_t)*count, sizeof **list, err);
    if (!*list)
        status = TD_MEMORY_EXHAUSTED;
    for (int i = 0; status == TD_OK && i < *count; i++)
        status = describe(shm->list[first + i], arena, &(*list)[i], err);
    pthread_mutex_unlock(&shm->mutex);
    return found ? status : unknown(name, strlen(name), err);
}

int td_shm_count(struct td_shm *shm)
{
    pthread_mutex_lock(&shm->mutex);
    const int count = shm->count;
    pthread_mutex_unlock(&shm->mutex);
    return count;
}

/* ---- the registry ---------------------------------------------------------------------------- */

struct td_shm *td_shm_new(void)
{
    struct td_shm *shm = calloc(1, sizeof *shm);
    if (!shm)
        return NULL;
    shm->regions.find = find;
    pthread_mutex_init(&shm->mutex, NULL);
    return shm;
}

void td_shm_free(struct td_shm *shm)
{
    if (!shm)
        return;
    td_shm_unregister(shm, NULL);
    pthread_mutex_destroy(&shm->mutex);
    free(shm);
}

struct td_regions *td_shm_regions(struct td_shm *shm)
{
    return &shm->regions;
}
