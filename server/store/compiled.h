/* compiled.h - the compiled forms of programs, kept with their versions as a cache.
 *
 * A form can be compiled again from the text of its version. When a new form would exceed the
 * limit, or when memory is short, the cache therefore drops the least recently used forms that no
 * call uses.
 *
 * The file defines td_store_compiled, td_store_keep_compiled and td_store_drop_compiled of store.h.
 *
 * Bounds     The forms of all versions together never exceed `limit`.
 * Ownership  The cache holds one reference to each form. A form of which the cache holds the only
 *            reference is idle.
 * Threads    Any thread. No other lock is taken, and no form is released, while the mutex is
 *            held. */
#ifndef TD_SERVER_STORE_COMPILED_H
#define TD_SERVER_STORE_COMPILED_H

#include "kernels/buffer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct td_compiled_cache {
    uint64_t limit; /* constant */
    /* Guards the following members, and the forms of all versions. */
    pthread_mutex_t mutex;
    struct td_compiled *newest, *oldest; /* by last use */
    uint64_t bytes, evicted;
};

/* The compiled form of a version. All members are zero while the cache has no form of the
 * version. */
struct td_compiled {
    /* The cache that has the form. The release of the version reads this member without the mutex,
     * so an eviction clears it last. */
    _Atomic(struct td_compiled_cache *) cache;
    struct td_buffer *form;
    uint64_t bytes;
    struct td_compiled *newer, *older;
};

void td_compiled_cache_init(struct td_compiled_cache *cache, uint64_t limit);

/* Drops all forms, including forms in use. Versions can be released later. */
void td_compiled_cache_destroy(struct td_compiled_cache *cache);

/* Drops the form of a version that is being released. */
void td_compiled_release(struct td_compiled *compiled);

struct td_compiled_count {
    uint64_t bytes, evicted;
};
struct td_compiled_count td_compiled_cache_count(struct td_compiled_cache *cache);

#endif
