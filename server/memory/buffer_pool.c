#include "server/memory/buffer_pool.h"

#include "server/observe/clock.h"

#include <sys/mman.h>

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

enum {
    /* The smallest class has 16 KiB. Every class then consists of whole pages, so all mapped bytes
     * are counted. */
    SMALLEST_SHIFT = 14,
    STEPS = 4, /* classes per power of two */
    N_CLASSES = (46 - SMALLEST_SHIFT) * STEPS
};

/* Minimum size of buffers that use huge pages, which reduce the page faults of the first access by
 * a factor of 512. */
#define HUGE_FROM ((size_t)4 << 20)

struct pooled {
    struct td_buffer base; /* must be first, because release casts back */
    struct td_buffer_pool *pool;
    int size_class;
    int64_t warm_since_ns;
    struct pooled *next;
};

struct td_buffer_pool {
    struct td_memory memory; /* must be first, because take casts back */
    uint64_t limit, warm_limit;
    td_release_spares *release_spares; /* NULL if there is no callback */
    void *context;
    pthread_mutex_t mutex; /* guards the following members */
    uint64_t in_use, warm;
    struct pooled *classes[N_CLASSES]; /* lists with the most recently released buffer first */
};

static size_t class_bytes(int size_class)
{
    return ((size_t)(STEPS + size_class % STEPS) << (size_class / STEPS + SMALLEST_SHIFT)) / STEPS;
}

/* Returns the smallest class that holds `bytes`, or -1. */
static int class_of(size_t bytes)
{
    for (int shift = 0; shift < N_CLASSES / STEPS; shift++)
        if (bytes <= (size_t)2 << (shift + SMALLEST_SHIFT))
            for (int step = 0; step <= STEPS; step++)
                if (shift * STEPS + step < N_CLASSES && bytes <= class_bytes(shift * STEPS + step))
                    return shift * STEPS + step;
    return -1;
}

static void destroy(struct pooled *buffer)
{
    munmap(buffer->base.data, class_bytes(buffer->size_class));
    free(buffer);
}

static void destroy_list(struct pooled *list)
{
    while (list) {
        struct pooled *next = list->next;
        destroy(list);
        list = next;
    }
}

/* Removes warm buffers from the classes, largest first, until at least `bytes` bytes are removed.
 * The caller destroys the list after unlocking the mutex. */
static struct pooled *evict(struct td_buffer_pool *pool, uint64_t bytes)
{
    struct pooled *evicted_list = NULL;
    uint64_t evicted = 0;
    for (int i = N_CLASSES - 1; i >= 0 && evicted < bytes; i--)
        while (pool->classes[i] && evicted < bytes) {
            struct pooled *buffer = pool->classes[i];
            pool->classes[i] = buffer->next;
            buffer->next = evicted_list;
            evicted_list = buffer;
            evicted += class_bytes(i);
        }
    pool->warm -= evicted;
    return evicted_list;
}

static void release(struct td_buffer *base)
{
    struct pooled *buffer = (struct pooled *)(void *)base;
    struct td_buffer_pool *pool = buffer->pool;
    const uint64_t bytes = class_bytes(buffer->size_class);
    buffer->warm_since_ns = td_now_ns();
    pthread_mutex_lock(&pool->mutex);
    pool->in_use -= bytes;
    const bool keep = pool->warm + bytes <= pool->warm_limit;
    if (keep) {
        pool->warm += bytes;
        buffer->next = pool->classes[buffer->size_class];
        pool->classes[buffer->size_class] = buffer;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (!keep)
        destroy(buffer);
}

static td_status refuse_large(const struct td_buffer_pool *pool, uint64_t bytes,
                              struct td_error *err)
{
    td_error_resource(err, "workspace_bytes", bytes, pool->limit, "the request");
    td_error_hint(err, "the server's option --memory-limit sets this limit");
    return TD_RESOURCE_LIMIT;
}

static td_status refuse(const struct td_buffer_pool *pool, uint64_t bytes, uint64_t in_use,
                        struct td_error *err)
{
    if (bytes > pool->limit)
        return refuse_large(pool, bytes, err);
    return td_error_set(
        err, TD_MEMORY_EXHAUSTED,
        "%llu bytes are needed, but other requests and resident tensors use %llu of the budget "
        "of %llu bytes, which the server's option --memory-limit sets",
        (unsigned long long)bytes, (unsigned long long)in_use, (unsigned long long)pool->limit);
}

static uint64_t in_use_of(struct td_buffer_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    const uint64_t in_use = pool->in_use;
    pthread_mutex_unlock(&pool->mutex);
    return in_use;
}

/* Releases spare buffers, because `bytes` do not fit in addition to the memory in use. Returns true
 * if another call might release more. */
static bool make_room(struct td_buffer_pool *pool, uint64_t bytes, uint64_t in_use)
{
    return pool->release_spares && bytes <= pool->limit &&
           pool->release_spares(pool->context, in_use - (pool->limit - bytes));
}

/* Counts `bytes` as in use, and evicts warm buffers to make room. If size_class is not -1, sets
 * *reuse to a warm buffer of the class if there is one. Returns false if the bytes do not fit. */
static bool count_in(struct td_buffer_pool *pool, uint64_t bytes, int size_class,
                     struct pooled **reuse, uint64_t *in_use)
{
    struct pooled *evicted_list = NULL;
    pthread_mutex_lock(&pool->mutex);
    *in_use = pool->in_use;
    const bool fits = bytes <= pool->limit && *in_use <= pool->limit - bytes;
    if (fits) {
        pool->in_use += bytes;
        if (size_class >= 0 && pool->classes[size_class]) {
            *reuse = pool->classes[size_class];
            pool->classes[size_class] = (*reuse)->next;
            pool->warm -= bytes;
        } else if (pool->in_use + pool->warm > pool->limit) {
            evicted_list = evict(pool, pool->in_use + pool->warm - pool->limit);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    destroy_list(evicted_list);
    return fits;
}

/* Like count_in, but releases spare buffers if necessary. Repeats this, because another thread can
 * take the memory that was released. */
static td_status reserve(struct td_buffer_pool *pool, uint64_t bytes, int size_class,
                         struct pooled **reuse, struct td_error *err)
{
    uint64_t in_use;
    bool more = true;
    while (!count_in(pool, bytes, size_class, reuse, &in_use)) {
        if (!more)
            return refuse(pool, bytes, in_use, err);
        more = make_room(pool, bytes, in_use);
    }
    return TD_OK;
}

static struct pooled *map_fresh(struct td_buffer_pool *pool, int size_class)
{
    const size_t bytes = class_bytes(size_class);
    struct pooled *buffer = malloc(sizeof *buffer);
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!buffer || data == MAP_FAILED) {
        free(buffer);
        if (data != MAP_FAILED)
            munmap(data, bytes);
        return NULL;
    }
    if (bytes >= HUGE_FROM)
        madvise(data, bytes, MADV_HUGEPAGE);
    buffer->pool = pool;
    buffer->size_class = size_class;
    buffer->base.data = data;
    return buffer;
}

static struct td_buffer *take(struct td_memory *memory, size_t bytes, struct td_error *err)
{
    struct td_buffer_pool *pool = (struct td_buffer_pool *)(void *)memory;
    const int size_class = class_of(bytes);
    struct pooled *buffer = NULL;
    if (size_class < 0) {
        refuse_large(pool, bytes, err);
        return NULL;
    }
    const size_t size = class_bytes(size_class);
    if (reserve(pool, size, size_class, &buffer, err) != TD_OK)
        return NULL;
    if (!buffer)
        buffer = map_fresh(pool, size_class);
    if (!buffer) {
        td_buffer_pool_discharge(pool, size);
        td_error_set(err, TD_MEMORY_EXHAUSTED, "the system cannot map %zu bytes", size);
        return NULL;
    }
    td_buffer_init(&buffer->base, buffer->base.data, size, release);
    return &buffer->base;
}

struct td_buffer_pool *td_buffer_pool_new(uint64_t limit, uint64_t warm_limit)
{
    struct td_buffer_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->memory.take = take;
    pool->limit = limit;
    pool->warm_limit = warm_limit < limit ? warm_limit : limit;
    pthread_mutex_init(&pool->mutex, NULL);
    return pool;
}

void td_buffer_pool_spares(struct td_buffer_pool *pool, td_release_spares *release_spares,
                           void *context)
{
    pool->release_spares = release_spares;
    pool->context = context;
}

void td_buffer_pool_free(struct td_buffer_pool *pool)
{
    if (!pool)
        return;
    td_buffer_pool_trim(pool, INT64_MAX);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

struct td_memory *td_buffer_pool_memory(struct td_buffer_pool *pool)
{
    return &pool->memory;
}

td_status td_buffer_pool_charge(struct td_buffer_pool *pool, uint64_t bytes, struct td_error *err)
{
    return reserve(pool, bytes, -1, NULL, err);
}

bool td_buffer_pool_charge_if_room(struct td_buffer_pool *pool, uint64_t bytes)
{
    uint64_t in_use;
    return count_in(pool, bytes, -1, NULL, &in_use);
}

void td_buffer_pool_discharge(struct td_buffer_pool *pool, uint64_t bytes)
{
    pthread_mutex_lock(&pool->mutex);
    pool->in_use -= bytes;
    pthread_mutex_unlock(&pool->mutex);
}

td_status td_buffer_pool_admit(struct td_buffer_pool *pool, uint64_t held, uint64_t bytes,
                               struct td_error *err)
{
    if (bytes > UINT64_MAX - held)
        bytes = UINT64_MAX - held;
    uint64_t in_use = in_use_of(pool);
    for (bool more = bytes <= pool->limit; more && in_use > pool->limit - bytes;
         in_use = in_use_of(pool))
        more = make_room(pool, bytes, in_use);
    if (held + bytes > pool->limit)
        return refuse(pool, held + bytes, in_use, err);
    if (in_use > pool->limit - bytes)
        return refuse(pool, bytes, in_use > held ? in_use - held : 0, err);
    return TD_OK;
}

void td_buffer_pool_trim(struct td_buffer_pool *pool, int64_t since_ns)
{
    struct pooled *evicted_list = NULL;
    pthread_mutex_lock(&pool->mutex);
    for (int i = 0; i < N_CLASSES; i++) {
        struct pooled **link = &pool->classes[i];
        while (*link && (*link)->warm_since_ns >= since_ns)
            link = &(*link)->next;
        /* The list is sorted by time, so all buffers after the first old buffer are also old. */
        struct pooled *old = *link;
        *link = NULL;
        while (old) {
            struct pooled *next = old->next;
            pool->warm -= class_bytes(i);
            old->next = evicted_list;
            evicted_list = old;
            old = next;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    destroy_list(evicted_list);
}

struct td_buffer_pool_usage td_buffer_pool_usage(struct td_buffer_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    const struct td_buffer_pool_usage usage = { pool->limit, pool->in_use, pool->warm };
    pthread_mutex_unlock(&pool->mutex);
    return usage;
}
