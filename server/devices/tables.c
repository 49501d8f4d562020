#include "server/devices/tables.h"

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

struct td_device_tables {
    const struct td_device_api *api;
    struct td_device *device;
    uint64_t uses;
    int uploading; /* number of tables that have an uploader */
    /* The batcher's thread writes the members below with the mutex held and reads them without
     * it. */
    pthread_mutex_t mutex;
    struct td_device_tables_count count;
    struct td_device_table *buckets[N_BUCKETS];
};

/* Returns the bucket of an owner. Entries with the same owner are in the same bucket. */
static int bucket_of(const struct td_buffer *owner)
{
    const uint64_t address = (uint64_t)(uintptr_t)owner / sizeof(struct td_buffer);
    return (int)((address * UINT64_C(0x9E3779B97F4A7C15)) >> 54); /* 64 - log2(N_BUCKETS) */
}
_Static_assert(N_BUCKETS == 1 << 10, "bucket_of takes ten bits");

static struct td_device_table *find(const struct td_device_tables *tables,
                                    const struct td_tensor *tensor)
{
    struct td_device_table *table = tables->buckets[bucket_of(tensor->owner)];
    while (table && (table->owner != tensor->owner || table->from != tensor->data ||
                     table->bytes != tensor->bytes))
        table = table->next;
    return table;
}

static void insert(struct td_device_tables *tables, struct td_device_table *table)
{
    struct td_device_table **bucket = &tables->buckets[bucket_of(table->owner)];
    pthread_mutex_lock(&tables->mutex);
    table->next = *bucket;
    *bucket = table;
    tables->count.tables++;
    tables->count.bytes += table->bytes;
    pthread_mutex_unlock(&tables->mutex);
}

/* Removes the table from its bucket. */
static void detach(struct td_device_tables *tables, struct td_device_table *table)
{
    struct td_device_table **link = &tables->buckets[bucket_of(table->owner)];
    pthread_mutex_lock(&tables->mutex);
    while (*link != table)
        link = &(*link)->next;
    *link = table->next;
    tables->count.tables--;
    tables->count.bytes -= table->bytes;
    pthread_mutex_unlock(&tables->mutex);
}

static void drop(struct td_device_tables *tables, struct td_device_table *table)
{
    detach(tables, table);
    tables->api->free(tables->device, table->data);
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
static bool evict(struct td_device_tables *tables)
{
    struct td_device_table *victim = NULL;
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct td_device_table *table = tables->buckets[i]; table; table = table->next)
            if (table->users == 0 && (!victim || evict_before(table, victim)))
                victim = table;
    if (!victim)
        return false;
    drop(tables, victim);
    pthread_mutex_lock(&tables->mutex);
    tables->count.evicted++;
    pthread_mutex_unlock(&tables->mutex);
    return true;
}

/* True if `bytes` would fit after the eviction of all tables that are not in use. */
static bool may_fit(struct td_device_tables *tables, size_t bytes)
{
    struct td_device_info info;
    uint64_t room = 0;
    tables->api->info(tables->device, &info);
    for (int i = 0; i < N_BUCKETS; i++)
        for (const struct td_device_table *table = tables->buckets[i]; table; table = table->next)
            room += table->users == 0 ? table->bytes : 0;
    const uint64_t used = info.memory_used > room ? info.memory_used - room : 0;
    return used <= info.memory && bytes <= info.memory - used;
}

/* True if `bytes` will fit after work in flight frees its memory, in which case evicting more
 * tables would not help. */
static bool comes_back(const struct td_device_tables *tables, size_t bytes)
{
    struct td_device_info info;
    tables->api->info(tables->device, &info);
    return info.memory_freeing > 0 && info.memory_used <= info.memory &&
           bytes <= info.memory - info.memory_used;
}

td_status td_device_tables_alloc(struct td_device_tables *tables, size_t bytes, void **out,
                                 struct td_error *err)
{
    td_status status = tables->api->alloc(tables->device, bytes, out, err);
    if (status != TD_MEMORY_EXHAUSTED)
        return status;
    td_device_tables_drop_stale(tables);
    if (!may_fit(tables, bytes))
        return status;
    do
        status = tables->api->alloc(tables->device, bytes, out, err);
    while (status == TD_MEMORY_EXHAUSTED && !comes_back(tables, bytes) && evict(tables));
    return status;
}

bool td_device_tables_lacks(struct td_device_tables *tables, const struct td_tensor *tensor)
{
    return !find(tables, tensor);
}

static void use(struct td_device_tables *tables, struct td_device_table *table)
{
    table->users++;
    table->used = ++tables->uses;
}

/* Makes an entry, with device memory, for a table that is not in the cache yet. */
static td_status make(struct td_device_tables *tables, const struct td_tensor *tensor,
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
    td_device_tables_drop_stale(tables);
    const td_status status =
        td_device_tables_alloc(tables, tensor->bytes ? tensor->bytes : 1, &table->data, err);
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

static void enter(struct td_device_tables *tables, struct td_device_table *table)
{
    tables->uploading++;
    insert(tables, table);
    use(tables, table);
}

td_status td_device_tables_add(struct td_device_tables *tables, const struct td_tensor *tensor,
                               const struct td_device_stream *stream, struct td_device_table **out,
                               struct td_error *err)
{
    const td_status status = make(tables, tensor, stream, out, err);
    if (status == TD_OK)
        enter(tables, *out);
    return status;
}

static td_status upload(struct td_device_tables *tables, const struct td_tensor *tensor,
                        struct td_device_stream *stream, struct td_device_table **out,
                        struct td_error *err)
{
    struct td_device_table *table;
    td_status status = make(tables, tensor, stream, &table, err);
    if (status == TD_OK && tensor->bytes > 0) {
        status = tables->api->copy_to_device(stream, table->data, tensor->data, tensor->bytes, err);
        if (status != TD_OK) {
            /* Any other error means that the device is lost, and a call to it might not return. */
            if (status == TD_MEMORY_EXHAUSTED)
                tables->api->free(tables->device, table->data);
            td_buffer_unref(table->owner);
            free(table);
        }
    }
    if (status != TD_OK)
        return status;
    enter(tables, table);
    *out = table;
    return TD_OK;
}

td_status td_device_tables_use(struct td_device_tables *tables, const struct td_tensor *tensor,
                               struct td_device_stream *stream, struct td_device_table **out,
                               bool *submitted, struct td_error *err)
{
    struct td_device_table *table = find(tables, tensor);
    if (!table) {
        const td_status status = upload(tables, tensor, stream, out, err);
        *submitted = *submitted || status == TD_OK;
        return status;
    }
    use(tables, table);
    *out = table;
    return TD_OK;
}

bool td_device_tables_uploading(struct td_device_tables *tables, const struct td_tensor *tensor,
                                const struct td_device_stream *stream)
{
    const struct td_device_table *table = find(tables, tensor);
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

void td_device_tables_unuse(struct td_device_tables *tables, struct td_device_table *table)
{
    (void)tables;
    table->users--;
}

void td_device_tables_finish_uploads(struct td_device_tables *tables,
                                     const struct td_device_stream *stream)
{
    if (tables->uploading == 0)
        return;
    pthread_mutex_lock(&tables->mutex);
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct td_device_table *table = tables->buckets[i]; table; table = table->next)
            if (table->uploader == stream) {
                table->uploader = NULL;
                tables->uploading--;
            }
    pthread_mutex_unlock(&tables->mutex);
}

/* True if the table's version has been replaced, or if only the cache holds references to it. In
 * the second case, no new reference can appear, because references are only made from existing
 * references. */
static bool is_stale(const struct td_device_tables *tables, const struct td_device_table *table)
{
    size_t ours = 0;
    for (const struct td_device_table *other = tables->buckets[bucket_of(table->owner)]; other;
         other = other->next)
        ours += other->owner == table->owner;
    return table->users == 0 &&
           (atomic_load(&table->owner->refs) == ours || td_store_is_replaced(table->owner));
}

void td_device_tables_drop_stale(struct td_device_tables *tables)
{
    for (int i = 0; i < N_BUCKETS; i++) {
        struct td_device_table *table = tables->buckets[i];
        while (table) {
            struct td_device_table *next = table->next;
            if (is_stale(tables, table))
                drop(tables, table);
            table = next;
        }
    }
}

bool td_device_tables_has(struct td_device_tables *tables, const struct td_tensor *tensor)
{
    pthread_mutex_lock(&tables->mutex);
    const struct td_device_table *table = find(tables, tensor);
    const bool there = table && !table->uploader;
    pthread_mutex_unlock(&tables->mutex);
    return there;
}

struct td_device_tables_count td_device_tables_count(struct td_device_tables *tables)
{
    pthread_mutex_lock(&tables->mutex);
    const struct td_device_tables_count counted = tables->count;
    pthread_mutex_unlock(&tables->mutex);
    return counted;
}

struct td_device_tables *td_device_tables_new(const struct td_device_api *api,
                                              struct td_device *device)
{
    struct td_device_tables *tables = calloc(1, sizeof *tables);
    if (!tables)
        return NULL;
    tables->api = api;
    tables->device = device;
    pthread_mutex_init(&tables->mutex, NULL);
    return tables;
}

static void destroy(struct td_device_tables *tables)
{
    pthread_mutex_destroy(&tables->mutex);
    free(tables);
}

void td_device_tables_free(struct td_device_tables *tables)
{
    if (!tables)
        return;
    for (int i = 0; i < N_BUCKETS; i++)
        while (tables->buckets[i])
            drop(tables, tables->buckets[i]);
    destroy(tables);
}

void td_device_tables_abandon(struct td_device_tables *tables, bool closed)
{
    if (!tables)
        return;
    for (int i = 0; i < N_BUCKETS; i++) {
        struct td_device_table *table;
        while ((table = tables->buckets[i])) {
            detach(tables, table);
            if (closed || !table->uploader)
                td_buffer_unref(table->owner);
            free(table);
        }
    }
    destroy(tables);
}
