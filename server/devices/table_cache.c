#include "server/devices/table_cache.h"

#include "server/store/store.h"

#include <pthread.h>
#include <stdlib.h>

enum { N_BUCKETS = 1024 };

struct td_device_table {
    struct td_device_table *next; /* next table in the same bucket */
    struct td_buffer *owner;      /* owner of the table; this entry holds a reference to it */
    const void *from;             /* data on the host */
    size_t bytes;
    void *data; /* data on the device */
    /* Stream of the upload, or NULL if the upload is complete. */
    const struct td_device_stream *uploader;
    int users;
    bool kept;
    uint64_t used; /* value of the cache's `uses` at the last use */
};

struct td_table_cache {
    const struct td_device_api *api;
    struct td_device *device;
    uint64_t uses;
    int uploading; /* number of tables that have an uploader */
    /* The batcher's thread writes the members below with the mutex held and reads them without
     * it. */
    pthread_mutex_t mutex;
    struct td_table_cache_count count;
    struct td_device_table *buckets[N_BUCKETS];
};

/* Returns the bucket of an owner. Entries with the same owner are in the same bucket. */
static int bucket_of(const struct td_buffer *owner)
{
    const uint64_t address = (uint64_t)(uintptr_t)owner / sizeof(struct td_buffer);
    return (int)((address * UINT64_C(0x9E3779B97F4A7C15)) >> 54); /* 64 - log2(N_BUCKETS) */
}
_Static_assert(N_BUCKETS == 1 << 10, "bucket_of takes ten bits");

static struct td_device_table *find(const struct td_table_cache *cache,
                                    const struct td_tensor *tensor)
{
    struct td_device_table *table = cache->buckets[bucket_of(tensor->owner)];
    while (table && (table->owner != tensor->owner || table->from != tensor->data ||
                     table->bytes != tensor->bytes))
        table = table->next;
    return table;
}

static void insert(struct td_table_cache *cache, struct td_device_table *table)
{
    struct td_device_table **bucket = &cache->buckets[bucket_of(table->owner)];
    pthread_mutex_lock(&cache->mutex);
    table->next = *bucket;
    *bucket = table;
    cache->count.tables++;
    cache->count.bytes += table->bytes;
    pthread_mutex_unlock(&cache->mutex);
}

/* Removes the table from its bucket. */
static void detach(struct td_table_cache *cache, struct td_device_table *table)
{
    struct td_device_table **link = &cache->buckets[bucket_of(table->owner)];
    pthread_mutex_lock(&cache->mutex);
    while (*link != table)
        link = &(*link)->next;
    *link = table->next;
    cache->count.tables--;
    cache->count.bytes -= table->bytes;
    pthread_mutex_unlock(&cache->mutex);
}

static void drop(struct td_table_cache *cache, struct td_device_table *table)
{
    detach(cache, table);
    cache->api->free(cache->device, table->data);
    td_buffer_unref(table->owner);
    free(table);
}

/* True if a must be evicted before b. */
static bool evict_before(const struct td_device_table *a, const struct td_device_table *b)
{
    return a->kept != b->kept ? b->kept : a->used < b->used;
}

/* Drops the least recently used table. Drops a kept table only if no other table can be dropped.
 * Returns false if all tables are in use. */
static bool evict(struct td_table_cache *cache)
{
    struct td_device_table *victim = NULL;
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct td_device_table *table = cache->buckets[i]; table; table = table->next)
            if (table->users == 0 && (!victim || evict_before(table, victim)))
                victim = table;
    if (!victim)
        return false;
    drop(cache, victim);
    pthread_mutex_lock(&cache->mutex);
    cache->count.evicted++;
    pthread_mutex_unlock(&cache->mutex);
    return true;
}

/* True if `bytes` would fit after the eviction of all tables that are not in use. */
static bool may_fit(struct td_table_cache *cache, size_t bytes)
{
    struct td_device_info info;
    uint64_t room = 0;
    cache->api->info(cache->device, &info);
    for (int i = 0; i < N_BUCKETS; i++)
        for (const struct td_device_table *table = cache->buckets[i]; table; table = table->next)
            room += table->users == 0 ? table->bytes : 0;
    const uint64_t used = info.memory_used > room ? info.memory_used - room : 0;
    return used <= info.memory && bytes <= info.memory - used;
}

/* True if `bytes` will fit after work in flight frees its memory, in which case evicting more
 * tables would not help. */
static bool comes_back(const struct td_table_cache *cache, size_t bytes)
{
    struct td_device_info info;
    cache->api->info(cache->device, &info);
    return info.memory_freeing > 0 && info.memory_used <= info.memory &&
           bytes <= info.memory - info.memory_used;
}

td_status td_table_cache_alloc(struct td_table_cache *cache, size_t bytes, void **out,
                               struct td_error *err)
{
    td_status status = cache->api->alloc(cache->device, bytes, out, err);
    if (status != TD_MEMORY_EXHAUSTED)
        return status;
    td_table_cache_drop_stale(cache);
    if (!may_fit(cache, bytes))
        return status;
    do
        status = cache->api->alloc(cache->device, bytes, out, err);
    while (status == TD_MEMORY_EXHAUSTED && !comes_back(cache, bytes) && evict(cache));
    return status;
}

bool td_table_cache_lacks(struct td_table_cache *cache, const struct td_tensor *tensor)
{
    return !find(cache, tensor);
}

static void use(struct td_table_cache *cache, struct td_device_table *table)
{
    table->users++;
    table->used = ++cache->uses;
}

/* Makes an entry, with device memory, for a table that is not in the cache yet. */
static td_status make(struct td_table_cache *cache, const struct td_tensor *tensor,
                      const struct td_device_stream *stream, struct td_device_table **out,
                      struct td_error *err)
{
    struct td_device_table *table = calloc(1, sizeof *table);
    if (!table) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory is left for the entry of a table");
        return TD_MEMORY_EXHAUSTED;
    }
    /* Drop stale versions first, because the store might want to write the next version into a
     * previous version's memory. */
    td_table_cache_drop_stale(cache);
    const td_status status =
        td_table_cache_alloc(cache, tensor->bytes ? tensor->bytes : 1, &table->data, err);
    if (status != TD_OK) {
        free(table);
        return status;
    }
    table->owner = td_buffer_ref(tensor->owner);
    table->from = tensor->data;
    table->bytes = tensor->bytes;
    table->uploader = stream;
    *out = table;
    return TD_OK;
}

static void enter(struct td_table_cache *cache, struct td_device_table *table)
{
    cache->uploading++;
    insert(cache, table);
    use(cache, table);
}

td_status td_table_cache_add(struct td_table_cache *cache, const struct td_tensor *tensor,
                             const struct td_device_stream *stream, struct td_device_table **out,
                             struct td_error *err)
{
    const td_status status = make(cache, tensor, stream, out, err);
    if (status == TD_OK)
        enter(cache, *out);
    return status;
}

static td_status upload(struct td_table_cache *cache, const struct td_tensor *tensor,
                        struct td_device_stream *stream, struct td_device_table **out,
                        struct td_error *err)
{
    struct td_device_table *table;
    td_status status = make(cache, tensor, stream, &table, err);
    if (status == TD_OK && tensor->bytes > 0) {
        status = cache->api->copy_to_device(stream, table->data, tensor->data, tensor->bytes, err);
        if (status != TD_OK) {
            /* Any other error means that the device is lost, and a call to it might not return. */
            if (status == TD_MEMORY_EXHAUSTED)
                cache->api->free(cache->device, table->data);
            td_buffer_unref(table->owner);
            free(table);
        }
    }
    if (status != TD_OK)
        return status;
    enter(cache, table);
    *out = table;
    return TD_OK;
}

td_status td_table_cache_use(struct td_table_cache *cache, const struct td_tensor *tensor,
                             struct td_device_stream *stream, struct td_device_table **out,
                             bool *submitted, struct td_error *err)
{
    struct td_device_table *table = find(cache, tensor);
    if (!table) {
        const td_status status = upload(cache, tensor, stream, out, err);
        *submitted = *submitted || status == TD_OK;
        return status;
    }
    use(cache, table);
    *out = table;
    return TD_OK;
}

bool td_table_cache_uploading(struct td_table_cache *cache, const struct td_tensor *tensor,
                              const struct td_device_stream *stream)
{
    const struct td_device_table *table = find(cache, tensor);
    return table && table->uploader && table->uploader != stream;
}

void *td_device_table_data(const struct td_device_table *table)
{
    return table->data;
}

void td_device_table_keep(struct td_device_table *table)
{
    table->kept = true;
}

void td_table_cache_unuse(struct td_table_cache *cache, struct td_device_table *table)
{
    (void)cache;
    table->users--;
}

void td_table_cache_finish_uploads(struct td_table_cache *cache,
                                   const struct td_device_stream *stream)
{
    if (cache->uploading == 0)
        return;
    pthread_mutex_lock(&cache->mutex);
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct td_device_table *table = cache->buckets[i]; table; table = table->next)
            if (table->uploader == stream) {
                table->uploader = NULL;
                cache->uploading--;
            }
    pthread_mutex_unlock(&cache->mutex);
}

/* True if the table's version has been replaced, or if only the cache holds references to it. In
 * the second case, no new reference can appear, because references are only made from existing
 * references. */
static bool is_stale(const struct td_table_cache *cache, const struct td_device_table *table)
{
    size_t ours = 0;
    for (const struct td_device_table *other = cache->buckets[bucket_of(table->owner)]; other;
         other = other->next)
        ours += other->owner == table->owner;
    return table->users == 0 &&
           (atomic_load(&table->owner->refs) == ours || td_store_is_replaced(table->owner));
}

void td_table_cache_drop_stale(struct td_table_cache *cache)
{
    for (int i = 0; i < N_BUCKETS; i++) {
        struct td_device_table *table = cache->buckets[i];
        while (table) {
            struct td_device_table *next = table->next;
            if (is_stale(cache, table))
                drop(cache, table);
            table = next;
        }
    }
}

bool td_table_cache_has(struct td_table_cache *cache, const struct td_tensor *tensor)
{
    pthread_mutex_lock(&cache->mutex);
    const struct td_device_table *table = find(cache, tensor);
    const bool there = table && !table->uploader;
    pthread_mutex_unlock(&cache->mutex);
    return there;
}

struct td_table_cache_count td_table_cache_count(struct td_table_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    const struct td_table_cache_count counted = cache->count;
    pthread_mutex_unlock(&cache->mutex);
    return counted;
}

struct td_table_cache *td_table_cache_new(const struct td_device_api *api, struct td_device *device)
{
    struct td_table_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->api = api;
    cache->device = device;
    pthread_mutex_init(&cache->mutex, NULL);
    return cache;
}

static void destroy(struct td_table_cache *cache)
{
    pthread_mutex_destroy(&cache->mutex);
    free(cache);
}

void td_table_cache_free(struct td_table_cache *cache)
{
    if (!cache)
        return;
    for (int i = 0; i < N_BUCKETS; i++)
        while (cache->buckets[i])
            drop(cache, cache->buckets[i]);
    destroy(cache);
}

void td_table_cache_abandon(struct td_table_cache *cache, bool closed)
{
    if (!cache)
        return;
    for (int i = 0; i < N_BUCKETS; i++) {
        struct td_device_table *table;
        while ((table = cache->buckets[i])) {
            detach(cache, table);
            if (closed || !table->uploader)
                td_buffer_unref(table->owner);
            free(table);
        }
    }
    destroy(cache);
}
