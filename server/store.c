#include "api/attrs.h"
#include "api/suggest.h"
#include "server/clock.h"
#include "server/fault_guard.h"
#include "server/store_parts.h"

#include <sys/random.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copies below this size come from the heap: the pool's smallest buffer is 16 KiB. */
enum { SMALL = 8 << 10 };

/* An owner is kept for a tensor that leaves at most a quarter of it unused. */
#define MUCH_LARGER(owner, bytes) ((owner) / 5 * 4 > (bytes))

/* ---- names ---------------------------------------------------------------------------------- */

/* As strcmp, for a name of `length` bytes among which there may be a NUL. */
static int compare_names(const char *known, const char *name, size_t length)
{
    const size_t known_length = strlen(known);
    const int order = memcmp(known, name, known_length < length ? known_length : length);
    return order != 0 ? order : (known_length > length) - (known_length < length);
}

/* With the lock held: where the name stands, or would. */
static int place_of(const struct td_store *store, const char *name, size_t length, bool *there)
{
    int low = 0, high = store->n_entries;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = compare_names(store->entries[middle]->name, name, length);
        if (order == 0) {
            *there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *there = false;
    return low;
}

static struct entry *find(const struct td_store *store, const char *name, size_t length)
{
    bool there;
    const int place = place_of(store, name, length, &there);
    return there ? store->entries[place] : NULL;
}

td_status td_store_check_name(const char *name, struct td_error *err)
{
    if (td_name_valid(name))
        return TD_OK;
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "'%.140s' is no name of a tensor: 1 to %d of the characters A-Z, a-z, 0-9, "
                        "'.', '_', ':' and '-', the first of them not '.'",
                        name, TD_TENSOR_NAME - 1);
}

/* The nearest is looked for among the neighbours in order only, and without the lock: of 20000 names
 * it would be 37 ms on an I/O thread. */
static td_status not_found(struct td_store *store, const char *name, size_t length,
                           struct td_error *err)
{
    enum { NEIGHBOURS = 512 };
    const char *names[NEIGHBOURS];
    bool there;
    char(*copies)[TD_TENSOR_NAME] = malloc(NEIGHBOURS * sizeof *copies);
    int n = 0;
    pthread_rwlock_rdlock(&store->lock);
    const int place = place_of(store, name, length, &there);
    const int last = store->n_entries - NEIGHBOURS, middle = place - NEIGHBOURS / 2;
    const int first = middle > last ? last : middle;
    for (int i = first < 0 ? 0 : first; copies && i < store->n_entries && n < NEIGHBOURS; i++, n++)
        names[n] = memcpy(copies[n], store->entries[i]->name, TD_TENSOR_NAME);
    pthread_rwlock_unlock(&store->lock);
    td_unknown_name(err, TD_TENSOR_NOT_FOUND, "resident tensor", name, length, names, n,
                    "GET /v1/tensors");
    free(copies);
    return TD_TENSOR_NOT_FOUND;
}

/* ---- versions ------------------------------------------------------------------------------- */

static void release_version(struct td_buffer *base)
{
    struct version *version = (struct version *)(void *)base;
    td_buffer_unref(version->bytes);
    free(version);
}

struct version *td_version_new(const char *name, struct td_error *err)
{
    struct version *version = calloc(1, sizeof *version);
    if (!version) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for the tensor '%s'", name);
        return NULL;
    }
    td_buffer_init(&version->base, NULL, 0, release_version);
    version->range = -1;
    snprintf(version->name, sizeof version->name, "%s", name);
    return version;
}

void td_version_set(struct version *version, const struct td_tensor *tensor,
                    struct td_buffer *bytes)
{
    version->tensor = *tensor;
    version->tensor.owner = &version->base;
    version->base.data = tensor->data;
    version->base.size = tensor->bytes;
    version->bytes = bytes;
}

uint64_t td_store_mapped_held(const struct td_tensor *tensor)
{
    return tensor->dtype == TD_DTYPE_STRING ? td_tensor_footprint(tensor) - tensor->bytes : 0;
}

void td_version_map(struct version *version, const struct td_tensor *tensor, int range)
{
    td_version_set(version, tensor, td_buffer_ref(tensor->owner));
    version->range = range;
    version->held = td_store_mapped_held(tensor);
    version->mapped = td_tensor_footprint(tensor) - version->held;
}

const struct version *td_version_of(const struct td_tensor *tensor)
{
    const struct td_buffer *owner = tensor->owner;
    return owner && owner->release == release_version ? (const struct version *)(const void *)owner
                                                      : NULL;
}

td_status td_version_check(const struct version *version, struct td_error *err)
{
    if (!td_guard_marked(version->range))
        return TD_OK;
    return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                        "the file %s behind '%s' was cut short while it was served, or cannot be "
                        "read; replace the tensor, or the file and send SIGHUP",
                        version->file, version->name);
}

void td_version_tag(const struct td_store *store, struct version *version,
                    const struct td_file_id *id, uint64_t stored_number)
{
    if (id)
        snprintf(version->etag, sizeof version->etag,
                 "\"f%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", id->inode, id->size,
                 (uint64_t)id->changed_ns, stored_number & 0xffffffff);
    else
        snprintf(version->etag, sizeof version->etag, "\"%016" PRIx64 "-%" PRIx64 "\"", store->seed,
                 version->number);
}

uint64_t td_store_next_number(struct td_store *store, uint64_t given)
{
    pthread_rwlock_wrlock(&store->lock);
    const uint64_t number = given ? given : store->last_version + 1;
    if (number > store->last_version)
        store->last_version = number;
    pthread_rwlock_unlock(&store->lock);
    return number;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

td_status td_store_reserve(struct td_store *store, const struct version *replaced, uint64_t bytes,
                           uint64_t *leaving, struct td_error *err)
{
    pthread_rwlock_wrlock(&store->lock);
    *leaving = replaced ? replaced->held : 0;
    /* Who only asks whether there is room is no writer of the name, which may be gone meanwhile. */
    const uint64_t others = minus(store->held, store->leaving + *leaving);
    const bool fits = bytes <= store->quota && others <= store->quota - bytes;
    if (fits) {
        store->held += bytes;
        store->leaving += *leaving;
    }
    const bool crowded = others + bytes + store->spared > store->quota;
    pthread_rwlock_unlock(&store->lock);
    if (crowded)
        td_store_trim(store, INT64_MAX);
    if (fits)
        return TD_OK;
    *leaving = 0;
    return td_error_resource(err, "resident_bytes",
                             bytes < UINT64_MAX - others ? others + bytes : UINT64_MAX,
                             store->quota, "the resident tensors with this one");
}

void td_store_unreserve(struct td_store *store, uint64_t bytes, uint64_t leaving)
{
    pthread_rwlock_wrlock(&store->lock);
    store->held -= bytes;
    store->leaving -= leaving;
    pthread_rwlock_unlock(&store->lock);
}

td_status td_version_copy(struct td_store *store, struct version *version,
                          const struct td_tensor *tensor, struct td_error *err)
{
    const bool strings = tensor->dtype == TD_DTYPE_STRING;
    const size_t n_offsets = strings ? (size_t)tensor->numel + 1 : 0;
    const uint64_t first = strings ? tensor->offsets[0] : 0;
    const size_t bytes = strings ? (size_t)(tensor->offsets[tensor->numel] - first) : tensor->bytes;
    const size_t total = n_offsets * sizeof *tensor->offsets + bytes;
    struct td_memory *memory = total < SMALL ? td_memory_heap() : store->memory;
    struct td_buffer *buffer = memory->take(memory, total + 1, err);
    if (!buffer)
        return TD_MEMORY_EXHAUSTED;
    struct td_tensor copy = *tensor;
    copy.offsets = strings ? buffer->data : NULL;
    copy.data = (char *)buffer->data + n_offsets * sizeof *tensor->offsets;
    copy.bytes = bytes;
    for (size_t i = 0; i < n_offsets; i++)
        copy.offsets[i] = tensor->offsets[i] - first;
    memcpy(copy.data, (const char *)tensor->data + first, bytes);
    td_version_set(version, &copy, buffer);
    return TD_OK;
}

/* What a version may hold instead of a copy of the tensor; NULL for nothing. Of a version it is the
 * bytes and never the version: who has the bytes' only reference has them for itself. */
static struct td_buffer *bytes_to_keep(const struct td_tensor *tensor)
{
    struct td_buffer *owner = tensor->owner;
    if (!owner || tensor->dtype == TD_DTYPE_STRING || !td_tensor_is_aligned(tensor) ||
        MUCH_LARGER(owner->size, tensor->bytes))
        return NULL;
    const struct version *version = td_version_of(tensor);
    if (!version)
        return owner;
    /* A mapped version may change with its file, or be cut short with it. */
    return version->mapped == 0 ? version->bytes : NULL;
}

td_status td_version_persist(struct td_store *store, struct version *version,
                             const struct td_tensor *tensor, bool serve, struct td_error *err)
{
    struct td_arena arena;
    struct td_data_content content;
    const struct version *source = td_version_of(tensor);
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    const td_status status =
        td_data_dir_write(store->dir, version->name, tensor, source ? source->range : -1,
                          version->number, &arena, &content, err);
    if (status == TD_OK) {
        const struct td_data_tensor *stored = &content.tensors[0];
        snprintf(version->file, sizeof version->file, "%s.tensord", version->name);
        td_version_tag(store, version, &content.id, version->number);
        version->persisted = true;
        version->from_file = serve;
        if (serve)
            td_version_map(version, &stored->tensor, stored->range);
        td_store_wrote_file(store, version->name, version->file, &content.id);
    }
    td_arena_reset(&arena);
    return status;
}

bool td_store_publish(struct td_store *store, struct version *version, struct version **replaced,
                      struct td_error *err)
{
    bool there;
    *replaced = NULL;
    struct entry *fresh = calloc(1, sizeof *fresh);
    pthread_rwlock_wrlock(&store->lock);
    const int place = place_of(store, version->name, strlen(version->name), &there);
    if (!there && fresh && store->n_entries == store->capacity) {
        const int capacity = store->capacity ? store->capacity * 2 : 16;
        struct entry **entries = realloc(store->entries, (size_t)capacity * sizeof *entries);
        store->entries = entries ? entries : store->entries;
        store->capacity = entries ? capacity : store->capacity;
    }
    const bool room = there || (fresh && store->n_entries < store->capacity);
    if (room && !there) {
        struct entry **at = &store->entries[place];
        memmove(at + 1, at, (size_t)(store->n_entries - place) * sizeof *at);
        snprintf(fresh->name, sizeof fresh->name, "%s", version->name);
        *at = fresh;
        store->n_entries++;
        fresh = NULL;
    }
    if (room) {
        struct entry *entry = store->entries[place];
        *replaced = entry->current;
        entry->current = version;
        if (*replaced)
            atomic_store(&(*replaced)->replaced, true);
        store->mapped += version->mapped;
        store->held -= *replaced ? (*replaced)->held : 0;
        store->leaving -= version->leaving;
        version->leaving = 0;
        store->mapped -= *replaced ? (*replaced)->mapped : 0;
    }
    pthread_rwlock_unlock(&store->lock);
    free(fresh);
    if (!room)
        td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for the name '%s'",
                     version->name);
    return room;
}

void td_spare_free(struct spare *spare)
{
    free(spare->offsets);
    td_buffer_unref(spare->version ? &spare->version->base : NULL);
    *spare = (struct spare){ 0 };
}

/* With the lock held. */
static struct spare detach_spare(struct td_store *store, struct entry *entry)
{
    const struct spare spare = entry->spare;
    entry->spare = (struct spare){ 0 };
    if (spare.version) {
        store->n_spares--;
        store->spared -= spare.version->held;
    }
    return spare;
}

struct spare td_spare_take(struct td_store *store, const char *name)
{
    pthread_rwlock_wrlock(&store->lock);
    struct entry *entry = find(store, name, strlen(name));
    const struct spare spare = entry ? detach_spare(store, entry) : (struct spare){ 0 };
    pthread_rwlock_unlock(&store->lock);
    return spare;
}

void td_spare_keep(struct td_store *store, const char *name, struct spare *spare)
{
    struct spare gone = *spare;
    const uint64_t bytes = spare->version->held;
    pthread_rwlock_wrlock(&store->lock);
    struct entry *entry = find(store, name, strlen(name));
    const uint64_t used = store->held + store->spared;
    if (entry && used <= store->quota && bytes <= store->quota - used) {
        gone = detach_spare(store, entry);
        entry->spare = *spare;
        store->n_spares++;
        store->spared += bytes;
    }
    pthread_rwlock_unlock(&store->lock);
    td_spare_free(&gone);
}

void td_store_drop(struct td_store *store, const char *name)
{
    bool there;
    struct entry *entry = NULL;
    pthread_rwlock_wrlock(&store->lock);
    const int place = place_of(store, name, strlen(name), &there);
    if (there) {
        struct entry **at = &store->entries[place];
        entry = *at;
        store->n_entries--;
        memmove(at, at + 1, (size_t)(store->n_entries - place) * sizeof *at);
        store->held -= entry->current->held;
        store->mapped -= entry->current->mapped;
        entry->spare = detach_spare(store, entry);
    }
    pthread_rwlock_unlock(&store->lock);
    if (!entry)
        return;
    td_spare_free(&entry->spare);
    atomic_store(&entry->current->replaced, true);
    td_buffer_unref(&entry->current->base);
    free(entry);
}

/* ---- readers -------------------------------------------------------------------------------- */

struct version *td_store_current(struct td_store *store, const char *name, size_t length)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct entry *entry = find(store, name, length);
    struct version *version = entry ? entry->current : NULL;
    if (version)
        td_buffer_ref(&version->base);
    pthread_rwlock_unlock(&store->lock);
    return version;
}

td_status td_store_need(struct td_store *store, const char *name, size_t length,
                        struct version **out, struct td_error *err)
{
    *out = td_store_current(store, name, length);
    if (!*out)
        return not_found(store, name, length, err);
    const td_status status = td_version_check(*out, err);
    if (status != TD_OK) {
        td_buffer_unref(&(*out)->base);
        *out = NULL;
    }
    return status;
}

td_status td_store_tell(struct version *version, struct td_arena *arena,
                        struct td_tensor_listing *out, struct td_error *err)
{
    if (!td_arena_keep(arena, &version->base, err))
        return TD_MEMORY_EXHAUSTED;
    *out = (struct td_tensor_listing){ .name = version->name,
                                       .tensor = &version->tensor,
                                       .source = version->from_file ? version->file : NULL,
                                       .version = version->number,
                                       .etag = version->etag,
                                       .persisted =
                                           version->persisted && !atomic_load(&version->orphaned) };
    return TD_OK;
}

td_status td_store_get(struct td_store *store, const char *name, size_t length,
                       struct td_arena *arena, struct td_tensor_listing *out, struct td_error *err)
{
    struct version *version;
    const td_status status = td_store_need(store, name, length, &version, err);
    return status == TD_OK ? td_store_tell(version, arena, out, err) : status;
}

td_status td_store_check(const struct td_tensor_listing *listing, struct td_error *err)
{
    const struct td_tensor *tensor = listing->tensor;
    const struct version *version = td_version_of(tensor);
    if (!version)
        return TD_OK;
    /* Who sends pages without looking at them is told by nobody that they are gone: a file that was
     * cut short lacks its end. */
    if (version->mapped > 0 && tensor->bytes > 0)
        (void)((const volatile char *)tensor->data)[tensor->bytes - 1];
    return td_version_check(version, err);
}

bool td_store_is_replaced(struct td_buffer *owner)
{
    const struct version *version = td_version_of(&(struct td_tensor){ .owner = owner });
    return version && atomic_load(&version->replaced);
}

bool td_store_is_mapped(const struct td_tensor *tensor)
{
    const struct version *version = td_version_of(tensor);
    return version && version->mapped > 0;
}

static td_status resolve(struct td_resolver *resolver, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    struct version *version;
    const td_status status =
        td_store_need((struct td_store *)(void *)resolver, name, length, &version, err);
    if (status != TD_OK)
        return status;
    *out = version->tensor;
    return td_arena_keep(arena, &version->base, err) ? TD_OK : TD_MEMORY_EXHAUSTED;
}

struct td_resolver *td_store_resolver(struct td_store *store)
{
    return &store->resolver;
}

/* All current versions, referenced, in an array of their own; NULL without memory. */
static struct version **all_versions(struct td_store *store, int *count)
{
    pthread_rwlock_rdlock(&store->lock);
    struct version **versions = malloc(((size_t)store->n_entries + 1) * sizeof *versions);
    *count = versions ? store->n_entries : 0;
    for (int i = 0; i < *count && versions; i++) {
        versions[i] = store->entries[i]->current;
        td_buffer_ref(&versions[i]->base);
    }
    pthread_rwlock_unlock(&store->lock);
    return versions;
}

td_status td_store_list(struct td_store *store, struct td_arena *arena,
                        struct td_tensor_listing **list, int *count, struct td_error *err)
{
    struct version **versions = all_versions(store, count);
    if (!versions)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for the list of tensors");
    *list = td_arena_alloc(arena, (size_t)*count, sizeof **list, err);
    td_status status = *list ? TD_OK : TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < *count; i++) {
        if (status == TD_OK)
            status = td_store_tell(versions[i], arena, &(*list)[i], err);
        else
            td_buffer_unref(&versions[i]->base);
    }
    free(versions);
    return status;
}

struct td_store_stats td_store_stats(struct td_store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct td_store_stats stats = { .tensors = store->n_entries,
                                          .mapped = store->mapped,
                                          .held = store->held + store->spared,
                                          .quota = store->quota };
    pthread_rwlock_unlock(&store->lock);
    return stats;
}

/* ---- writers -------------------------------------------------------------------------------- */

/* Updates that this thread has begun and not ended. Between the two it may run other requests. */
static _Thread_local int updates;

void td_writer_begins_update(void)
{
    updates++;
}

void td_writer_ends_update(void)
{
    updates--;
}

/* With store->writing held. */
static bool is_written(const struct td_store *store, const char *name)
{
    const struct writer *writer = store->writers;
    while (writer && strcmp(writer->name, name) != 0)
        writer = writer->next;
    return writer != NULL;
}

td_status td_writer_enter(struct td_store *store, struct writer *writer, const char *name,
                          struct td_error *err)
{
    writer->name = name;
    pthread_mutex_lock(&store->writing);
    while (updates == 0 && is_written(store, name))
        pthread_cond_wait(&store->written, &store->writing);
    const bool entered = !is_written(store, name);
    if (entered) {
        writer->next = store->writers;
        store->writers = writer;
    }
    pthread_mutex_unlock(&store->writing);
    if (entered)
        return TD_OK;
    td_error_set(err, TD_QUEUE_FULL, "'%s' is being written by another request", name);
    if (err)
        err->retry_after_s = 1;
    return TD_QUEUE_FULL;
}

void td_writer_leave(struct td_store *store, struct writer *writer)
{
    pthread_mutex_lock(&store->writing);
    struct writer **link = &store->writers;
    while (*link != writer)
        link = &(*link)->next;
    *link = writer->next;
    pthread_cond_broadcast(&store->written);
    pthread_mutex_unlock(&store->writing);
}

td_status td_store_check_write(struct td_store *store, const struct td_store_write *write,
                               struct td_error *err)
{
    const td_status status = td_store_check_name(write->name, err);
    if (status != TD_OK || !write->persist || store->dir)
        return status;
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "nothing can be persisted here: the server was started without a data folder");
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "persist");
}

td_status td_store_check_count(struct td_store *store, struct td_error *err)
{
    pthread_rwlock_rdlock(&store->lock);
    const int count = store->n_entries;
    pthread_rwlock_unlock(&store->lock);
    return count < TD_STORE_TENSORS
               ? TD_OK
               : td_error_resource(err, "resident_tensors", (uint64_t)count + 1, TD_STORE_TENSORS,
                                   "the store with this tensor");
}

static td_status check_before(struct td_store *store, const struct td_store_write *write,
                              const struct version *before, struct td_error *err)
{
    const td_status status =
        td_condition_check(&write->condition, write->name, before ? before->etag : NULL, err);
    return status == TD_OK && !before ? td_store_check_count(store, err) : status;
}

td_status td_store_admit(struct td_store *store, const struct td_store_write *write, uint64_t bytes,
                         struct td_error *err)
{
    td_status status = td_store_check_write(store, write, err);
    if (status != TD_OK)
        return status;
    struct version *before = td_store_current(store, write->name, strlen(write->name));
    status = check_before(store, write, before, err);
    if (status == TD_OK && write->persist) {
        status = td_data_dir_admit(store->dir, bytes, err);
    } else if (status == TD_OK) {
        uint64_t leaving;
        status = td_store_reserve(store, before, bytes, &leaving, err);
        if (status == TD_OK)
            td_store_unreserve(store, bytes, leaving);
    }
    td_buffer_unref(before ? &before->base : NULL);
    return status;
}

/* Keeps the tensor's bytes in memory. */
static td_status take_bytes(struct td_store *store, struct version *version,
                            const struct td_tensor *tensor, struct td_error *err)
{
    const struct version *source = td_version_of(tensor);
    struct td_buffer *bytes = bytes_to_keep(tensor);
    td_status status = TD_OK;
    if (bytes)
        td_version_set(version, tensor, td_buffer_ref(bytes));
    else
        status = td_version_copy(store, version, tensor, err);
    if (status == TD_OK && source)
        status = td_version_check(source, err);
    version->held = td_tensor_footprint(tensor);
    td_version_tag(store, version, NULL, 0);
    return status;
}

td_status td_version_fill(struct td_store *store, struct version *version,
                          const struct version *before, const struct td_tensor *tensor,
                          bool persist, struct td_error *err)
{
    version->number = td_store_next_number(store, 0);
    const uint64_t footprint = persist ? td_store_mapped_held(tensor) : td_tensor_footprint(tensor);
    td_status status = td_store_reserve(store, before, footprint, &version->leaving, err);
    if (status != TD_OK)
        return status;
    status = persist ? td_version_persist(store, version, tensor, true, err)
                     : take_bytes(store, version, tensor, err);
    if (status != TD_OK) {
        version->held = 0;
        td_store_unreserve(store, footprint, version->leaving);
    }
    return status;
}
td_status td_version_reveal(struct td_store *store, struct version *version, struct td_arena *arena,
                            struct td_tensor_listing *out, struct version **replaced,
                            struct td_error *err)
{
    *replaced = NULL;
    td_buffer_ref(&version->base); /* the arena's; told first, since it is what may fail */
    const td_status status = td_store_tell(version, arena, out, err);
    if (status == TD_OK && td_store_publish(store, version, replaced, err))
        return TD_OK;
    td_store_unreserve(store, version->held, version->leaving);
    td_buffer_unref(&version->base);
    return TD_MEMORY_EXHAUSTED;
}

td_status td_store_put(struct td_store *store, const struct td_store_write *write,
                       const struct td_tensor *tensor, struct td_arena *arena,
                       struct td_tensor_listing *out, bool *created, struct td_error *err)
{
    struct writer writer;
    struct version *before = NULL, *version = NULL, *replaced = NULL;
    td_status status = td_store_check_write(store, write, err);
    if (status == TD_OK)
        status = td_writer_enter(store, &writer, write->name, err);
    if (status != TD_OK)
        return status;
    before = td_store_current(store, write->name, strlen(write->name));
    status = check_before(store, write, before, err);
    if (status != TD_OK)
        goto done;
    version = td_version_new(write->name, err);
    if (!version) {
        status = TD_MEMORY_EXHAUSTED;
        goto done;
    }
    status = td_version_fill(store, version, before, tensor, write->persist, err);
    if (status != TD_OK) {
        td_buffer_unref(&version->base);
        goto done;
    }
    status = td_version_reveal(store, version, arena, out, &replaced, err);
    *created = !before;
done:
    td_buffer_unref(replaced ? &replaced->base : NULL);
    td_buffer_unref(before ? &before->base : NULL);
    td_writer_leave(store, &writer);
    return status;
}

td_status td_store_delete(struct td_store *store, const struct td_store_write *write,
                          struct td_error *err)
{
    struct writer writer;
    td_status status = td_store_check_name(write->name, err);
    if (status == TD_OK)
        status = td_writer_enter(store, &writer, write->name, err);
    if (status != TD_OK)
        return status;
    struct version *before = td_store_current(store, write->name, strlen(write->name));
    status = before ? td_condition_check(&write->condition, write->name, before->etag, err)
                    : not_found(store, write->name, strlen(write->name), err);
    if (status == TD_OK && store->dir)
        status = td_data_dir_forget(store->dir, write->name, err);
    if (status == TD_OK) {
        td_store_removed_files(store, write->name);
        td_store_drop(store, write->name);
    }
    td_buffer_unref(before ? &before->base : NULL);
    td_writer_leave(store, &writer);
    return status;
}

void td_store_trim(struct td_store *store, int64_t since_ns)
{
    pthread_rwlock_wrlock(&store->lock);
    struct spare *old = store->n_spares ? calloc((size_t)store->n_spares, sizeof *old) : NULL;
    int n_old = 0;
    for (int i = 0; i < store->n_entries && old; i++)
        if (store->entries[i]->spare.version && store->entries[i]->spare.since_ns < since_ns)
            old[n_old++] = detach_spare(store, store->entries[i]);
    pthread_rwlock_unlock(&store->lock);
    for (int i = 0; i < n_old; i++)
        td_spare_free(&old[i]);
    free(old);
}

/* ---- the store ------------------------------------------------------------------------------ */

struct td_store *td_store_open(const struct td_store_options *options)
{
    struct td_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->resolver.resolve = resolve;
    store->log = options->log;
    store->memory = options->memory;
    store->quota = options->quota;
    if (getrandom(&store->seed, sizeof store->seed, 0) < 0)
        store->seed = (uint64_t)td_now_ns() ^ (uint64_t)getpid() << 32;
    pthread_rwlock_init(&store->lock, NULL);
    pthread_mutex_init(&store->writing, NULL);
    pthread_cond_init(&store->written, NULL);
    pthread_mutex_init(&store->files_mutex, NULL);
    pthread_mutex_init(&store->scanning, NULL);
    store->dir = options->dir[0] ? td_data_dir_open(options->dir, options->log) : NULL;
    if (options->dir[0] && (!store->dir || !td_store_scan(store))) {
        td_store_free(store);
        return NULL;
    }
    store->opened = true;
    return store;
}

void td_store_free(struct td_store *store)
{
    if (!store)
        return;
    for (int i = 0; i < store->n_entries; i++) {
        td_spare_free(&store->entries[i]->spare);
        td_buffer_unref(&store->entries[i]->current->base);
        free(store->entries[i]);
    }
    free(store->entries);
    td_store_free_files(store);
    td_data_dir_free(store->dir);
    pthread_mutex_destroy(&store->scanning);
    pthread_mutex_destroy(&store->files_mutex);
    pthread_cond_destroy(&store->written);
    pthread_mutex_destroy(&store->writing);
    pthread_rwlock_destroy(&store->lock);
    free(store);
}

void td_store_rescan(struct td_store *store)
{
    if (store->dir)
        (void)td_store_scan(store); /* it logs */
}
