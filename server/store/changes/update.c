/* Updates of a few bytes of a tensor. Two versions alternate: the current version, which can have
 * readers, and the spare copy, which does not contain the changes of the last update. An update
 * copies the missing slices to the spare copy, changes it, and makes it current. */
#include "server/observe/clock.h"
#include "server/store/changes/expiry.h"
#include "server/store/changes/write_check.h"
#include "server/store/changes/writers.h"
#include "server/store/entries.h"
#include "server/store/etag.h"
#include "server/store/lookup_errors.h"
#include "server/store/quota.h"
#include "server/store/state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct update {
    /* Must be the first member, because td_store_update_commit and td_store_update_abort cast
     * back. */
    struct td_store_update base;
    struct td_store *store;
    /* Used if the caller has not locked the name with a writer of its own. */
    struct td_writer writer;
    char name[TD_TENSOR_NAME];
    /* Names of `writer`. */
    const char *names[1];
    bool persist, entered;
    /* Executor for parallel copies, or NULL to copy on this thread only. */
    struct td_exec *exec;
    struct td_version *before; /* the current version, with a reference */
    struct td_tensor begun;    /* initial value of base.tensor */
    /* Buffer of the copy, or NULL for strings. */
    struct td_buffer *buffer;
    uint64_t reserved, outgoing;
};

/* ---- the copy ------------------------------------------------------------------------------- */

struct copy {
    char *to;
    const char *from;
    /* Offsets of the slices, or NULL to copy a whole range. */
    const uint64_t *offsets;
    size_t slice_bytes;
};

static void copy_range(void *context, int64_t begin, int64_t end)
{
    const struct copy *copy = context;
    memcpy(copy->to + begin, copy->from + begin, (size_t)(end - begin));
}

static void copy_slices(void *context, int64_t begin, int64_t end)
{
    const struct copy *copy = context;
    for (int64_t i = begin; i < end; i++)
        memcpy(copy->to + copy->offsets[i], copy->from + copy->offsets[i], copy->slice_bytes);
}

static td_status run(struct update *update, int64_t count, int64_t grain, td_range_fn *fn,
                     struct copy *copy, struct td_error *err)
{
    if (update->exec && count > grain)
        return td_exec_for(update->exec, count, grain, fn, copy, err);
    if (count > 0)
        fn(copy, 0, count);
    return TD_OK;
}

enum { COPY_GRAIN = 1 << 20 }; /* number of bytes per chunk of a parallel copy */

static bool is_only_reference(struct td_buffer *buffer)
{
    /* Acquire order makes the accesses of the last other holder happen before the accesses of this
     * thread. */
    return atomic_load_explicit(&buffer->refs, memory_order_acquire) == 1;
}

/* Waits until no other thread references the spare copy, but no longer than a full copy takes.
 * Returns false if the spare copy is still referenced. */
static bool wait_until_free(const struct td_spare *spare)
{
    enum { BYTES_PER_NS = 8, MOST_NS = 5000000 };
    const struct timespec pause = { .tv_nsec = 20000 };
    const int64_t copying = (int64_t)(spare->version->tensor.bytes / BYTES_PER_NS);
    const int64_t until = td_now_ns() + (copying < MOST_NS ? copying : MOST_NS);
    for (;;) {
        if (is_only_reference(&spare->version->base) && is_only_reference(spare->version->bytes))
            return true;
        if (td_now_ns() + pause.tv_nsec >= until)
            return false;
        nanosleep(&pause, NULL);
    }
}

/* True if the update changes the number of rows. */
static bool is_resized(const struct update *update)
{
    return !td_shape_equal(&update->base.tensor.shape, &update->before->tensor.shape);
}

/* Copies the missing slices to the spare copy and takes over its bytes. Returns false if the spare
 * copy cannot be used. */
static bool use_spare(struct update *update, td_status *status, struct td_error *err)
{
    const struct td_tensor *current = &update->before->tensor;
    struct td_spare spare = td_spare_take(update->store, update->name);
    const bool usable = spare.version && spare.successor == update->before->number &&
                        spare.version->tensor.bytes == current->bytes && !is_resized(update) &&
                        wait_until_free(&spare);
    if (usable) {
        struct copy copy = { .to = spare.version->tensor.data,
                             .from = current->data,
                             .offsets = spare.offsets,
                             .slice_bytes = spare.slice_bytes };
        const int64_t grain = (int64_t)(COPY_GRAIN / (spare.slice_bytes + 1)) + 1;
        *status = run(update, spare.count, grain, copy_slices, &copy, err);
        update->base.tensor.data = copy.to;
        update->buffer = td_buffer_ref(spare.version->bytes);
    }
    td_spare_free(&spare);
    return usable;
}

/* Allocates the data of base.tensor, and copies as much of the current version's data as fits. */
static td_status copy_all(struct update *update, struct td_error *err)
{
    struct td_memory *memory = update->store->memory;
    const struct td_tensor *current = &update->before->tensor;
    const size_t bytes = update->base.tensor.bytes;
    update->buffer = memory->take(memory, bytes + 1, err);
    if (!update->buffer)
        return err->status;
    struct copy copy = { .to = update->buffer->data, .from = current->data };
    update->base.tensor.data = copy.to;
    return run(update, (int64_t)(bytes < current->bytes ? bytes : current->bytes), COPY_GRAIN,
               copy_range, &copy, err);
}

/* ---- begin ---------------------------------------------------------------------------------- */

static void unreserve(struct update *update)
{
    td_store_unreserve(update->store, update->reserved, update->outgoing);
    update->reserved = update->outgoing = 0;
}

static void end(struct update *update)
{
    unreserve(update);
    td_buffer_unref(update->buffer);
    td_buffer_unref(update->before ? &update->before->base : NULL);
    if (update->entered)
        td_writer_leave(update->store, &update->writer);
}

/* Looks up the current version and checks the write against it. The caller has locked the name. */
static td_status find_before(struct update *update, const struct td_store_write *write,
                             struct td_error *err)
{
    struct td_version *before;
    td_status status =
        td_store_need(update->store, update->name, strlen(update->name), &before, err);
    if (status != TD_OK)
        return status;
    update->before = before;
    update->base.tensor = update->begun = before->tensor;
    update->base.before = &before->tensor;
    update->base.from = before->number;
    return td_store_check_before(write, before, err);
}

static void enter(struct update *update)
{
    update->names[0] = update->name;
    update->writer = (struct td_writer){ .names = update->names, .n_names = 1 };
    td_writer_wait(update->store, &update->writer);
    update->entered = true;
}

td_status td_store_update_open(struct td_store *store, const struct td_store_write *write,
                               struct td_arena *arena, struct td_exec *exec,
                               struct td_store_update **out, struct td_error *err)
{
    td_status status = td_store_check_write(store, write, err);
    if (status != TD_OK)
        return status;
    struct update *update = td_arena_alloc(arena, 1, sizeof *update, err);
    if (!update)
        return TD_MEMORY_EXHAUSTED;
    *update = (struct update){ .store = store, .persist = write->persist, .exec = exec };
    memcpy(update->name, write->name, strlen(write->name) + 1);
    if (!write->writer)
        enter(update);
    status = find_before(update, write, err);
    if (status == TD_OK)
        *out = &update->base;
    else
        end(update);
    return status;
}

/* Sets the number of rows of base.tensor, which still has the shape of the current version. */
static td_status set_rows(struct update *update, int64_t rows, struct td_error *err)
{
    const struct td_tensor *before = &update->before->tensor;
    struct td_shape shape = before->shape;
    if (shape.rank == 0 || shape.dim[0] == rows)
        return TD_OK;
    shape.dim[0] = rows;
    return td_tensor_describe(&update->base.tensor, update->name, before->dtype, &shape, err);
}

td_status td_store_update_copy(struct td_store_update *base, int64_t rows, struct td_error *err)
{
    struct update *update = (struct update *)(void *)base;
    struct td_version *before = update->before;
    if (base->tensor.dtype == TD_DTYPE_STRING)
        return TD_OK;
    td_status status = set_rows(update, rows, err);
    if (status != TD_OK)
        return status;
    const uint64_t held = base->tensor.bytes + td_version_keys_held(before);
    status = td_store_reserve(update->store, before->held, held, &update->outgoing, err);
    if (status != TD_OK)
        return status;
    update->reserved = held;
    base->tensor.owner = NULL;
    if (!use_spare(update, &status, err))
        status = copy_all(update, err);
    update->begun = base->tensor;
    return status;
}

td_status td_store_update_begin(struct td_store *store, const struct td_store_write *write,
                                struct td_arena *arena, struct td_exec *exec,
                                struct td_store_update **out, struct td_error *err)
{
    struct td_store_update *update;
    td_status status = td_store_update_open(store, write, arena, exec, &update, err);
    if (status != TD_OK)
        return status;
    const struct td_shape *shape = &update->before->shape;
    status = td_store_update_copy(update, shape->rank > 0 ? shape->dim[0] : 1, err);
    if (status == TD_OK)
        *out = update;
    else
        td_store_update_abort(update);
    return status;
}

/* ---- commit --------------------------------------------------------------------------------- */

/* Keeps the replaced version as the spare copy for the next update, because it differs from the new
 * version only in these slices. Takes over the reference to the replaced version. */
static void keep_as_spare(struct update *update, struct td_version *replaced, uint64_t number,
                          const uint64_t *offsets, int64_t count, size_t slice_bytes)
{
    enum { MOST_SLICES = 1 << 20 };
    const size_t bytes = replaced->tensor.bytes;
    struct td_spare spare = { .version = replaced,
                              .held = replaced->held - td_version_keys_held(replaced),
                              .successor = number,
                              .count = count,
                              .slice_bytes = slice_bytes,
                              .since_ns = td_now_ns() };
    /* Copying many slices one by one is not faster than copying the whole tensor. */
    const bool few = count <= MOST_SLICES && (size_t)count * slice_bytes <= bytes / 2;
    if (spare.held > 0 && few)
        spare.offsets = malloc((size_t)count * sizeof *offsets + 1);
    if (!spare.offsets) {
        td_spare_free(&spare);
        return;
    }
    if (count > 0)
        memcpy(spare.offsets, offsets, (size_t)count * sizeof *offsets);
    td_spare_keep(update->store, update->name, &spare);
}

/* Moves the changed copy, whose bytes are already reserved, into the version. */
static td_status fill_changed(struct update *update, struct td_version *version,
                              const struct td_stop *stop, struct td_error *err)
{
    version->number = td_store_next_number(update->store, 0);
    td_etag_from_number(update->store, version);
    td_version_set(version, &update->base.tensor, td_buffer_ref(update->buffer));
    version->held = update->reserved;
    version->outgoing = update->outgoing;
    update->reserved = update->outgoing = 0;
    return update->persist
               ? td_version_persist(update->store, version, &version->tensor, false, stop, err)
               : TD_OK;
}

static td_status fill_whole(struct update *update, struct td_version *version,
                            const struct td_stop *stop, struct td_error *err)
{
    unreserve(update);
    return td_version_fill(update->store, version, update->before, &update->base.tensor,
                           update->persist, stop, err);
}

/* Sets the keys of the version. The bytes of new keys are reserved before the keys are made. */
static td_status fill_keys(struct update *update, struct td_version *version,
                           const struct td_stop *stop, struct td_error *err)
{
    const struct td_tensor *vector = update->base.keys,
                           *now = vector ? vector : update->before->tensor.keys;
    struct td_keys *keys = NULL;
    td_status status =
        now ? td_keys_check(now, update->name, &update->base.tensor.shape, err) : TD_OK;
    if (status == TD_OK && !vector)
        td_version_set_keys(version, td_keys_ref(update->before->keys));
    if (status != TD_OK || !vector)
        return status;
    uint64_t held = update->buffer ? update->base.tensor.bytes : 0;
    if (__builtin_add_overflow(held, td_keys_footprint(vector), &held))
        held = UINT64_MAX;
    unreserve(update);
    status = td_store_reserve(update->store, update->before->held, held, &update->outgoing, err);
    if (status != TD_OK)
        return status;
    update->reserved = held;
    status = td_keys_make(update->store, vector, update->exec, stop, &keys, err);
    if (status == TD_OK)
        td_version_set_keys(version, keys);
    return status;
}

td_status td_store_update_commit(struct td_store_update *base, const uint64_t *offsets,
                                 int64_t count, size_t slice_bytes, struct td_arena *arena,
                                 struct td_tensor_listing *out, struct td_error *err)
{
    struct update *update = (struct update *)(void *)base;
    struct td_version *version, *replaced = NULL;
    const bool whole = !update->buffer || base->tensor.data != update->begun.data;
    td_status status = td_version_prepare(update->store, update->name, arena, &version, err);
    if (status == TD_OK)
        status = td_version_check(update->before, err);
    if (status == TD_OK)
        status = fill_keys(update, version, &arena->stop, err);
    if (status == TD_OK)
        status = whole ? fill_whole(update, version, &arena->stop, err)
                       : fill_changed(update, version, &arena->stop, err);
    if (version)
        td_expiry_keep(version, update->before);
    if (status == TD_OK || (version && version->persisted))
        replaced = td_version_publish(update->store, version, out);
    else
        td_version_abandon(update->store, version);
    if (replaced && (whole || is_resized(update)))
        td_buffer_unref(&replaced->base);
    else if (replaced)
        keep_as_spare(update, replaced, out->version, offsets, count, slice_bytes);
    end(update);
    return status;
}

/* Keeps the unchanged copy for the next update. */
static void keep_copy(struct update *update)
{
    struct td_version *version = td_version_new(update->name, TD_IGNORED);
    if (!version)
        return;
    td_version_set(version, &update->begun, update->buffer);
    version->held = update->begun.bytes;
    update->buffer = NULL;
    unreserve(update);
    struct td_spare spare = { .version = version,
                              .successor = update->before->number,
                              .since_ns = td_now_ns() };
    td_spare_keep(update->store, update->name, &spare);
}

void td_store_update_abort(struct td_store_update *base)
{
    struct update *update = (struct update *)(void *)base;
    if (!update)
        return;
    if (base->unchanged && update->buffer && !is_resized(update))
        keep_copy(update);
    end(update);
}
