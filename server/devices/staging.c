#include "server/devices/staging.h"

#include "server/memory/buffer_pool.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    /* 16 KiB, because memory is pinned in whole pages and small batches share one class. */
    SMALLEST_SHIFT = 14,
    STEPS = 4, /* size classes per power of two */
    N_CLASSES = (46 - SMALLEST_SHIFT) * STEPS
};

struct staged {
    struct td_buffer base; /* must be first, because release casts back */
    struct td_staging *staging;
    struct staged *next;
    int size_class;
};

struct td_staging {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_buffer_pool *pool;
    uint64_t limit;
    pthread_mutex_t mutex; /* guards the members below */
    uint64_t bytes;
    uint64_t out, out_bytes; /* number and size of the buffers in use */
    bool abandoned;          /* releasing the last buffer frees this struct */
    struct staged *classes[N_CLASSES];
};

static size_t class_bytes(int size_class)
{
    return ((size_t)(STEPS + size_class % STEPS) << (size_class / STEPS + SMALLEST_SHIFT)) / STEPS;
}

/* Returns the smallest class that holds `bytes`, or -1. */
static int class_of(size_t bytes)
{
    for (int i = 0; i < N_CLASSES; i++)
        if (bytes <= class_bytes(i))
            return i;
    return -1;
}

static void destroy(struct td_staging *staging)
{
    pthread_mutex_destroy(&staging->mutex);
    free(staging);
}

static void release(struct td_buffer *base)
{
    struct staged *buffer = (struct staged *)(void *)base;
    struct td_staging *staging = buffer->staging;
    pthread_mutex_lock(&staging->mutex);
    const bool abandoned = staging->abandoned;
    const bool last = --staging->out == 0;
    staging->out_bytes -= base->size;
    if (!abandoned) {
        buffer->next = staging->classes[buffer->size_class];
        staging->classes[buffer->size_class] = buffer;
    }
    pthread_mutex_unlock(&staging->mutex);
    if (abandoned)
        free(buffer);
    if (abandoned && last)
        destroy(staging);
}

/* Removes and returns a free buffer of this class or of a class up to twice its size. Returns NULL
 * if there is none. If buffers were not shared among classes, every class would fill up when batch
 * sizes vary. */
static struct staged *reuse(struct td_staging *staging, int size_class)
{
    struct staged *buffer = NULL;
    pthread_mutex_lock(&staging->mutex);
    for (int i = size_class; !buffer && i <= size_class + STEPS && i < N_CLASSES; i++) {
        buffer = staging->classes[i];
        if (buffer)
            staging->classes[i] = buffer->next;
    }
    if (buffer) {
        staging->out++;
        staging->out_bytes += class_bytes(buffer->size_class);
    }
    pthread_mutex_unlock(&staging->mutex);
    return buffer;
}

/* Removes and returns the largest free buffer, or NULL if there is none. */
static struct staged *largest_free(struct td_staging *staging)
{
    struct staged *buffer = NULL;
    pthread_mutex_lock(&staging->mutex);
    for (int i = N_CLASSES - 1; !buffer && i >= 0; i--) {
        buffer = staging->classes[i];
        if (buffer)
            staging->classes[i] = buffer->next;
    }
    pthread_mutex_unlock(&staging->mutex);
    return buffer;
}

/* Counts a new buffer as in use. */
static void count_new(struct td_staging *staging, uint64_t bytes)
{
    pthread_mutex_lock(&staging->mutex);
    staging->bytes += bytes;
    staging->out_bytes += bytes;
    staging->out++;
    pthread_mutex_unlock(&staging->mutex);
}

/* Counts a free buffer as released to the device. */
static void count_freed(struct td_staging *staging, uint64_t bytes)
{
    pthread_mutex_lock(&staging->mutex);
    staging->bytes -= bytes;
    pthread_mutex_unlock(&staging->mutex);
}

/* Releases one free buffer to the device. Returns false if there is none. */
static bool shrink(struct td_staging *staging)
{
    struct staged *buffer = largest_free(staging);
    if (!buffer)
        return false;
    const size_t bytes = class_bytes(buffer->size_class);
    staging->api->host_free(staging->device, buffer->base.data);
    td_buffer_pool_discharge(staging->pool, bytes);
    count_freed(staging, bytes);
    free(buffer);
    return true;
}

/* Releases free buffers until there is room for `bytes`. Returns false if there is still no
 * room. */
static bool make_room(struct td_staging *staging, size_t bytes)
{
    if (bytes > staging->limit)
        return false;
    while (td_staging_bytes(staging) > staging->limit - bytes)
        if (!shrink(staging))
            return false;
    return true;
}

/* Tries once to make a buffer. MEMORY_EXHAUSTED means that releasing free buffers might help. */
static td_status make(struct td_staging *staging, int size_class, struct staged **out,
                      struct td_error *err)
{
    const size_t bytes = class_bytes(size_class);
    struct staged *buffer = calloc(1, sizeof *buffer);
    if (!buffer) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory is left for the entry of a buffer");
        return TD_MEMORY_EXHAUSTED;
    }
    td_status status = td_buffer_pool_charge(staging->pool, bytes, err);
    if (status != TD_OK) {
        td_error_set(
            err, TD_MEMORY_EXHAUSTED,
            "%zu bytes of staging memory do not fit into the memory budget, which requests share",
            bytes);
        free(buffer);
        return TD_MEMORY_EXHAUSTED;
    }
    status = staging->api->host_alloc(staging->device, bytes, &buffer->base.data, err);
    if (status != TD_OK) {
        td_buffer_pool_discharge(staging->pool, bytes);
        free(buffer);
        return status;
    }
    buffer->staging = staging;
    buffer->size_class = size_class;
    count_new(staging, bytes);
    *out = buffer;
    return TD_OK;
}

/* Returns the size that is counted for a buffer of `bytes`. */
static uint64_t needed(size_t bytes)
{
    const int size_class = class_of(bytes);
    return size_class < 0 ? bytes : class_bytes(size_class);
}

td_status td_staging_check(const struct td_staging *staging, size_t a, size_t b,
                           struct td_error *err)
{
    uint64_t both;
    if (__builtin_add_overflow(needed(a), needed(b), &both))
        both = UINT64_MAX;
    return both <= staging->limit
               ? TD_OK
               : td_error_resource(err, "gpu_staging_bytes", both, staging->limit,
                                   "the data that the device reads and writes");
}

struct td_buffer *td_staging_take(struct td_staging *staging, size_t bytes, struct td_error *err)
{
    const int size_class = class_of(bytes);
    struct staged *buffer = size_class < 0 ? NULL : reuse(staging, size_class);
    if (!buffer) {
        if (size_class < 0 || !make_room(staging, class_bytes(size_class))) {
            td_error_set(err, TD_MEMORY_EXHAUSTED,
                         "%zu bytes of staging memory are needed; the limit of %llu bytes leaves "
                         "no room for them at the moment",
                         bytes, (unsigned long long)staging->limit);
            return NULL;
        }
        td_status status;
        do
            status = make(staging, size_class, &buffer, err);
        while (status == TD_MEMORY_EXHAUSTED && shrink(staging));
        if (status != TD_OK)
            return NULL;
    }
    td_buffer_init(&buffer->base, buffer->base.data, class_bytes(buffer->size_class), release);
    return &buffer->base;
}

bool td_staging_is_scarce(const struct td_buffer *buffer)
{
    if (buffer->release != release)
        return false;
    struct td_staging *staging = ((const struct staged *)(const void *)buffer)->staging;
    pthread_mutex_lock(&staging->mutex);
    const bool short_of_room = staging->out_bytes > staging->limit / 2;
    pthread_mutex_unlock(&staging->mutex);
    return short_of_room;
}

bool td_staging_all_returned(struct td_staging *staging)
{
    pthread_mutex_lock(&staging->mutex);
    const bool back = staging->out == 0;
    pthread_mutex_unlock(&staging->mutex);
    return back;
}

uint64_t td_staging_limit(const struct td_staging *staging)
{
    return staging->limit;
}

uint64_t td_staging_bytes(struct td_staging *staging)
{
    pthread_mutex_lock(&staging->mutex);
    const uint64_t bytes = staging->bytes;
    pthread_mutex_unlock(&staging->mutex);
    return bytes;
}

struct td_staging *td_staging_new(const struct td_device_api *api, struct td_device *device,
                                  struct td_buffer_pool *pool, uint64_t limit)
{
    struct td_staging *staging = calloc(1, sizeof *staging);
    if (!staging)
        return NULL;
    staging->api = api;
    staging->device = device;
    staging->pool = pool;
    staging->limit = limit;
    pthread_mutex_init(&staging->mutex, NULL);
    return staging;
}

void td_staging_abandon(struct td_staging *staging)
{
    if (!staging)
        return;
    struct staged *buffer;
    while ((buffer = largest_free(staging)))
        free(buffer);
    /* All bytes are discharged now, because the pool might be freed before the last buffer is
     * released. */
    td_buffer_pool_discharge(staging->pool, td_staging_bytes(staging));
    pthread_mutex_lock(&staging->mutex);
    /* Frees, under the mutex, the buffers released since the loop above. Buffers released later
     * free themselves. */
    for (int i = 0; i < N_CLASSES; i++)
        while ((buffer = staging->classes[i])) {
            staging->classes[i] = buffer->next;
            free(buffer);
        }
    staging->abandoned = true;
    const bool last = staging->out == 0;
    pthread_mutex_unlock(&staging->mutex);
    if (last)
        destroy(staging);
}

bool td_staging_trim(struct td_staging *staging)
{
    bool trimmed = false;
    while (shrink(staging))
        trimmed = true;
    return trimmed;
}

void td_staging_free(struct td_staging *staging)
{
    if (!staging)
        return;
    (void)td_staging_trim(staging);
    td_staging_abandon(staging);
}
