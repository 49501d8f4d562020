#include "server/store/compiled.h"

#include "server/store/state.h"
#include "server/store/version.h"

#include <assert.h>

/* ---- the list of forms. The caller holds the mutex ------------------------------------------- */

static void detach(struct td_compiled_cache *cache, struct td_compiled *compiled)
{
    *(compiled->newer ? &compiled->newer->older : &cache->newest) = compiled->older;
    *(compiled->older ? &compiled->older->newer : &cache->oldest) = compiled->newer;
}

static void put_first(struct td_compiled_cache *cache, struct td_compiled *compiled)
{
    compiled->newer = NULL;
    compiled->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = compiled;
    cache->newest = compiled;
}

static void add(struct td_compiled_cache *cache, struct td_compiled *compiled,
                struct td_buffer *form, uint64_t bytes)
{
    compiled->form = td_buffer_ref(form);
    compiled->bytes = bytes;
    cache->bytes += bytes;
    put_first(cache, compiled);
    atomic_store(&compiled->cache, cache);
}

/* Returns the cache's reference to the form, which the caller releases without the mutex. */
static struct td_buffer *take(struct td_compiled_cache *cache, struct td_compiled *compiled)
{
    struct td_buffer *form = compiled->form;
    detach(cache, compiled);
    cache->bytes -= compiled->bytes;
    compiled->form = NULL;
    atomic_store(&compiled->cache, NULL);
    return form;
}

/* Returns a new reference to the form, or NULL if there is no form. */
static struct td_buffer *use(struct td_compiled_cache *cache, struct td_compiled *compiled)
{
    if (!compiled->form)
        return NULL;
    detach(cache, compiled);
    put_first(cache, compiled);
    return td_buffer_ref(compiled->form);
}

static struct td_compiled *oldest_idle(const struct td_compiled_cache *cache)
{
    struct td_compiled *compiled = cache->oldest;
    while (compiled && atomic_load(&compiled->form->refs) > 1)
        compiled = compiled->newer;
    return compiled;
}

/* ---- the cache ------------------------------------------------------------------------------- */

void td_compiled_cache_init(struct td_compiled_cache *cache, uint64_t limit)
{
    *cache = (struct td_compiled_cache){ .limit = limit };
    pthread_mutex_init(&cache->mutex, NULL);
}

void td_compiled_cache_destroy(struct td_compiled_cache *cache)
{
    while (cache->oldest)
        td_buffer_unref(take(cache, cache->oldest));
    pthread_mutex_destroy(&cache->mutex);
}

void td_compiled_release(struct td_compiled *compiled)
{
    struct td_compiled_cache *cache = atomic_load(&compiled->cache);
    if (!cache)
        return;
    pthread_mutex_lock(&cache->mutex);
    struct td_buffer *form = compiled->form ? take(cache, compiled) : NULL;
    pthread_mutex_unlock(&cache->mutex);
    td_buffer_unref(form);
}

struct td_compiled_count td_compiled_cache_count(struct td_compiled_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    const struct td_compiled_count count = { cache->bytes, cache->evicted };
    pthread_mutex_unlock(&cache->mutex);
    return count;
}

/* Drops the least recently used idle forms until at least `bytes` bytes are dropped. Returns the
 * number of bytes dropped. */
static uint64_t evict(struct td_compiled_cache *cache, uint64_t bytes)
{
    uint64_t dropped = 0;
    struct td_buffer *form = NULL;
    do {
        td_buffer_unref(form);
        form = NULL;
        pthread_mutex_lock(&cache->mutex);
        struct td_compiled *oldest = dropped < bytes ? oldest_idle(cache) : NULL;
        if (oldest) {
            dropped += oldest->bytes;
            cache->evicted++;
            form = take(cache, oldest);
        }
        pthread_mutex_unlock(&cache->mutex);
    } while (form);
    return dropped;
}

/* Returns the number of bytes to drop before a form of `bytes` bytes fits. */
static uint64_t excess(struct td_compiled_cache *cache, const struct td_compiled *compiled,
                       uint64_t bytes)
{
    pthread_mutex_lock(&cache->mutex);
    const bool fits =
        compiled->form || bytes > cache->limit || cache->bytes <= cache->limit - bytes;
    const uint64_t over = fits ? 0 : cache->bytes - (cache->limit - bytes);
    pthread_mutex_unlock(&cache->mutex);
    return over;
}

/* ---- the forms of a store -------------------------------------------------------------------- */

/* Readers share the version, and change this member only with the mutex. */
static struct td_compiled *compiled_of(const struct td_tensor *tensor)
{
    struct td_version *version = (struct td_version *)(uintptr_t)td_version_of(tensor);
    return version ? &version->compiled : NULL;
}

struct td_buffer *td_store_compiled(struct td_store *store, const struct td_tensor *tensor)
{
    struct td_compiled_cache *cache = &store->compiled;
    struct td_compiled *compiled = compiled_of(tensor);
    if (!compiled)
        return NULL;
    pthread_mutex_lock(&cache->mutex);
    struct td_buffer *form = use(cache, compiled);
    pthread_mutex_unlock(&cache->mutex);
    return form;
}

struct td_buffer *td_store_keep_compiled(struct td_store *store, const struct td_tensor *tensor,
                                         struct td_buffer *form, uint64_t bytes)
{
    struct td_compiled_cache *cache = &store->compiled;
    struct td_compiled *compiled = compiled_of(tensor);
    assert(compiled);
    (void)evict(cache, excess(cache, compiled, bytes));
    pthread_mutex_lock(&cache->mutex);
    struct td_buffer *kept = use(cache, compiled);
    if (!kept && bytes <= cache->limit && cache->bytes <= cache->limit - bytes)
        add(cache, compiled, form, bytes);
    pthread_mutex_unlock(&cache->mutex);
    if (!kept)
        return form;
    td_buffer_unref(form);
    return kept;
}

bool td_store_drop_compiled(struct td_store *store, uint64_t bytes)
{
    return evict(&store->compiled, bytes) > 0;
}
