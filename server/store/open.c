#include "server/observe/clock.h"
#include "server/store/aliases/alias_flip.h"
#include "server/store/aliases/alias_folder.h"
#include "server/store/aliases/alias_load.h"
#include "server/store/changes/retention.h"
#include "server/store/entries.h"
#include "server/store/files/data_dir.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/problems.h"
#include "server/store/scan/scan.h"
#include "server/store/scan/version_folders.h"
#include "server/store/state.h"

#include <sys/random.h>

#include <stdlib.h>
#include <unistd.h>

uint64_t td_store_counted_bytes(struct td_store *store)
{
    return store->dir ? td_data_dir_counted_bytes(store->dir) : 0;
}

/* Logs a warning if the files exceed the disk quota, for example because the quota was lowered. An
 * inspector calls td_store_counted_bytes itself. */
static void warn_of_quota(struct td_store *store, uint64_t quota)
{
    const uint64_t bytes = td_store_counted_bytes(store);
    if (bytes > quota && !store->read_only)
        td_log(store->log, TD_LOG_WARN, "disk_quota_exceeded", TD_INT("bytes", bytes),
               TD_INT("limit", quota));
}

struct td_store *td_store_open(const struct td_store_options *options)
{
    struct td_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->resolver.resolve = td_store_resolve;
    store->log = options->log;
    store->memory = options->memory;
    store->quota = options->quota;
    store->verify = options->verify;
    store->next_expiry_ns = TD_NEVER;
    store->keep_versions = options->keep_versions;
    store->inspector = options->inspector;
    store->read_only = options->read_only;
    store->stop_requested = options->stop_requested;
    if (getrandom(&store->seed, sizeof store->seed, 0) < 0)
        store->seed = (uint64_t)td_now_ns() ^ (uint64_t)getpid() << 32;
    if (getrandom(&store->hash_seed, sizeof store->hash_seed, 0) < 0)
        store->hash_seed = (uint64_t)td_now_ns() ^ (uint64_t)(uintptr_t)store;
    td_compiled_cache_init(&store->compiled, options->compiled_limit);
    pthread_rwlock_init(&store->lock, NULL);
    pthread_mutex_init(&store->writing, NULL);
    pthread_cond_init(&store->written, NULL);
    pthread_mutex_init(&store->files_mutex, NULL);
    pthread_mutex_init(&store->scanning, NULL);
    pthread_mutex_init(&store->aliases_file_mutex, NULL);
    store->dir = options->dir[0] ? td_data_dir_open(options->dir, options->disk_quota,
                                                    options->read_only, options->log)
                                 : NULL;
    /* Load the aliases before the files, so no tensor gets the name of an alias. */
    if (store->dir)
        (void)td_alias_load(store);
    if (options->dir[0] && (!store->dir || !td_store_scan(store))) {
        td_store_free(store);
        return NULL;
    }
    if (store->dir) {
        td_alias_forget_gone(store);
        td_alias_check_targets(store);
    }
    warn_of_quota(store, options->disk_quota);
    store->opened = true;
    td_store_retain(store, UINT64_MAX);
    return store;
}

void td_store_free(struct td_store *store)
{
    if (!store)
        return;
    td_buffer_unref(store->verifying ? &store->verifying->base : NULL);
    td_store_free_entries(store);
    td_store_free_files(store);
    td_alias_free(store);
    td_version_folders_free(store);
    td_store_free_problems(store);
    td_data_dir_free(store->dir);
    td_compiled_cache_destroy(&store->compiled);
    pthread_mutex_destroy(&store->aliases_file_mutex);
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
        td_store_scan_again(store, true);
}

bool td_store_needs_scan(struct td_store *store)
{
    return atomic_load(&store->needs_scan) && atomic_exchange(&store->needs_scan, false);
}

struct td_store_reading td_store_reading(struct td_store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    const int problems = store->n_problems;
    pthread_rwlock_unlock(&store->lock);
    return (struct td_store_reading){ .folder = !atomic_load(&store->folder_unread),
                                      .aliases = !atomic_load(&store->aliases_unread),
                                      .problems = problems };
}

bool td_store_is_locked_out(struct td_store *store)
{
    return store->dir && !store->read_only && !td_data_dir_is_locked(store->dir);
}

void td_store_retry_lock(struct td_store *store)
{
    if (td_store_is_locked_out(store))
        td_store_scan_again(store, false);
}
