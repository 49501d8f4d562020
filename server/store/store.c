#include "server/store/store.h"

#include "server/observe/clock.h"
#include "server/store/entries.h"
#include "server/store/files.h"
#include "server/store/parts.h"
#include "server/store/scan.h"
#include "server/store/writers.h"

#include <sys/random.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- readers -------------------------------------------------------------------------------- */

td_status td_store_get(struct td_store *store, const char *name, size_t length,
                       struct td_arena *arena, struct td_tensor_listing *out, struct td_error *err)
{
    struct version *version;
    td_status status = td_store_need(store, name, length, &version, err);
    if (status == TD_OK)
        status = td_version_keep(version, arena, err);
    if (status == TD_OK)
        *out = td_version_listing(version);
    return status;
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
    return td_version_keep(version, arena, err);
}

struct td_resolver *td_store_resolver(struct td_store *store)
{
    return &store->resolver;
}

td_status td_store_list(struct td_store *store, struct td_arena *arena,
                        struct td_tensor_listing **list, int *count, struct td_error *err)
{
    struct version **versions = td_store_all_current(store, count);
    if (!versions)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for the list of tensors");
    *list = td_arena_alloc(arena, (size_t)*count, sizeof **list, err);
    td_status status = *list ? TD_OK : TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < *count; i++) {
        if (status == TD_OK)
            (*list)[i] = td_version_listing(versions[i]);
        if (status == TD_OK)
            status = td_version_keep(versions[i], arena, err);
        else
            td_buffer_unref(&versions[i]->base);
    }
    free(versions);
    return status;
}

/* ---- writers -------------------------------------------------------------------------------- */

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
    status = td_version_prepare(store, write->name, arena, &version, err);
    if (status == TD_OK)
        status = td_version_fill(store, version, before, tensor, write->persist, err);
    if (status == TD_OK || (version && version->persisted))
        replaced = td_version_reveal(store, version, out);
    else
        td_version_abandon(store, version);
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
    bool done = false;
    td_status status = td_store_check_name(write->name, err);
    if (status == TD_OK)
        status = td_writer_enter(store, &writer, write->name, err);
    if (status != TD_OK)
        return status;
    struct version *before = td_store_current(store, write->name, strlen(write->name));
    status = before ? td_condition_check(&write->condition, write->name, before->etag, err)
                    : td_store_not_found(store, write->name, strlen(write->name), err);
    if (status == TD_OK && store->dir)
        status = td_data_dir_forget(store->dir, write->name, &done, err);
    if (status == TD_OK || done) {
        td_store_removed_files(store, write->name);
        td_store_drop(store, write->name);
    }
    td_buffer_unref(before ? &before->base : NULL);
    td_writer_leave(store, &writer);
    return status;
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
    td_store_free_entries(store);
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
