#include "server/devices/batch.h"

#include "server/devices/results.h"
#include "server/devices/upload.h"
#include "server/observe/clock.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 32768 }; /* first block of the arena; enough for a few dozen calls */

/* Scratch memory is allocated in multiples of this size. */
#define SCRATCH_STEP ((size_t)1 << 16)

struct td_batch {
    struct td_batch_device *shared;
    struct td_device_stream *stream;
    /* Scratch memory on the device. It is kept for the next batch, because allocating and freeing
     * memory would end the overlap of two batches. */
    void *scratch;
    size_t scratch_bytes;
    /* Maximum scratch memory, in bytes, that a batch has needed since td_batch_settle. */
    size_t scratch_most;
    /* td_batch_settle must run again when the batch in flight has ended. */
    bool settles;

    bool in_flight;
    td_batch_kind kind; /* kind of the items in the batch */
    int64_t begun_ns, deadline_ns;
    struct td_batch_item **items; /* [batch_limit]; an entry is NULL after its item is given back */
    int n_items;
    struct td_launch launch; /* unused by an upload */
    struct td_buffer *in, *out;
    /* Tables in use, and their indices. */
    struct td_device_table *tables[2 * TD_BATCH_TABLES];
    int n_tables;
    /* Upload of a large table. Nothing else is in flight during the upload. */
    struct td_upload upload;
    /* Upper bound on the number of bytes moved. Included in shared->bytes. */
    uint64_t bytes;
    /* Work has been submitted since the stream was last idle. */
    bool submitted;

    struct td_arena arena; /* holds data that must live while the batch is in flight */
    _Alignas(64) char first[FIRST_BLOCK];
};

/* ---- time limit ------------------------------------------------------------------------------ */

int64_t td_batch_time_limit_ns(const struct td_batch_device *shared)
{
    /* Bytes per us: 100 MB/s, the rate of the slowest disks. */
    const uint64_t disk = 100;
    const uint64_t copies = shared->copy_bytes_per_us;
    const uint64_t rate = copies > 0 && copies < disk ? copies : disk;
    return shared->hang_ns + (int64_t)(2e3 * (double)shared->bytes / (double)rate);
}

static void count_bytes(struct td_batch *batch, uint64_t bytes)
{
    batch->bytes += bytes;
    batch->shared->bytes += bytes;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* References a table until the batch ends. */
static td_status take_table(struct td_batch *batch, const struct td_tensor *tensor,
                            struct td_device_table **out, struct td_error *err)
{
    bool uploads = false;
    const td_status status =
        td_table_cache_use(batch->shared->table_cache, tensor, batch->stream, out, &uploads, err);
    if (status != TD_OK)
        return status;
    batch->tables[batch->n_tables++] = *out;
    batch->submitted = batch->submitted || uploads;
    count_bytes(batch, uploads ? tensor->bytes : 0);
    return TD_OK;
}

static bool is_large_and_lacking(const struct td_batch *batch, const struct td_tensor *tensor)
{
    return tensor->bytes >= TD_UPLOAD_LEAST &&
           td_table_cache_lacks(batch->shared->table_cache, tensor);
}

/* References a table that is small or already on the device. Stores any other table in *missing,
 * unless *missing is already set. */
static td_status take_or_miss(struct td_batch *batch, const struct td_tensor *tensor,
                              struct td_device_table **out, struct td_tensor *missing,
                              struct td_error *err)
{
    *out = NULL;
    if (!is_large_and_lacking(batch, tensor))
        return take_table(batch, tensor, out, err);
    if (!missing->owner)
        *missing = *tensor;
    return TD_OK;
}

/* References table i of the launch, and the table's index. */
static td_status take_indexed(struct td_batch *batch, int i, struct td_tensor *missing,
                              struct td_error *err)
{
    const struct td_tensor *from = td_launch_input(batch->items[0]->args, i);
    struct td_device_table *table, *index = NULL;
    struct td_tensor image;
    td_status status = take_or_miss(batch, from, &table, missing, err);
    if (status == TD_OK && td_launch_index_of(from, &image))
        status = take_or_miss(batch, &image, &index, missing, err);
    if (status != TD_OK || missing->owner)
        return status;
    return td_launch_bind_table(&batch->launch, i, td_device_table_data(table),
                                index ? td_device_table_data(index) : NULL, &batch->arena, err);
}

/* References all tables, so no table is evicted while another is uploaded. If a table must be
 * uploaded first, stores it in *missing. */
static td_status take_tables(struct td_batch *batch, struct td_tensor *missing,
                             struct td_error *err)
{
    td_status status = TD_OK;
    *missing = (struct td_tensor){ 0 };
    for (int i = 0; i < batch->launch.n_inputs && status == TD_OK; i++)
        if (td_launch_is_table(&batch->launch, i))
            status = take_indexed(batch, i, missing, err);
    return status;
}

static td_status take_staging(struct td_batch *batch, struct td_error *err)
{
    const struct td_launch *launch = &batch->launch;
    struct td_staging *staging = batch->shared->staging;
    size_t in_bytes;
    if (!td_size_add(launch->report_bytes, launch->in_bytes, &in_bytes))
        in_bytes = SIZE_MAX;
    const td_status status = td_staging_check(staging, in_bytes, launch->out_bytes, err);
    if (status != TD_OK)
        return status;
    batch->in = td_staging_take(staging, in_bytes, err);
    if (!batch->in)
        return err->status;
    batch->out = td_staging_take(staging, launch->out_bytes, err);
    return batch->out ? TD_OK : err->status;
}

bool td_batch_trim(struct td_batch *batch)
{
    if (!batch->scratch || batch->in_flight)
        return false;
    batch->shared->api->free(batch->shared->device, batch->scratch);
    batch->scratch = NULL;
    batch->scratch_bytes = 0;
    return true;
}

void td_batch_settle(struct td_batch *batch)
{
    batch->settles = batch->in_flight;
    if (batch->in_flight)
        return;
    /* A block of the minimum size is not freed, because it would soon be allocated again. */
    if (batch->scratch_bytes > SCRATCH_STEP && batch->scratch_most < batch->scratch_bytes / 4)
        (void)td_batch_trim(batch);
    batch->scratch_most = 0;
}

/* Allocates one and a half times the previous size, so slowly growing batches rarely allocate.
 * Evicts no table. Returns false if the device has no room. */
static bool grow_generously(struct td_batch *batch, size_t bytes, size_t before)
{
    const struct td_device_api *api = batch->shared->api;
    struct td_error unused;
    size_t more;
    if (!td_size_add(before, before / 2, &more) ||
        !td_size_add(more > bytes ? more : bytes, SCRATCH_STEP - 1, &more))
        return false;
    more = more / SCRATCH_STEP * SCRATCH_STEP;
    if (api->alloc(batch->shared->device, more, &batch->scratch, &unused) != TD_OK)
        return false;
    batch->scratch_bytes = more;
    return true;
}

/* Grows the scratch memory to at least `bytes`. Frees the old block first. */
static td_status grow_scratch(struct td_batch *batch, size_t bytes, struct td_error *err)
{
    const size_t before = batch->scratch_bytes;
    if (bytes > batch->scratch_most)
        batch->scratch_most = bytes;
    if (bytes <= before)
        return TD_OK;
    (void)td_batch_trim(batch);
    if (grow_generously(batch, bytes, before))
        return TD_OK;
    const td_status status =
        td_table_cache_alloc(batch->shared->table_cache, bytes, &batch->scratch, err);
    if (status == TD_OK)
        batch->scratch_bytes = bytes;
    else
        batch->scratch = NULL;
    return status;
}

static struct td_device_report *reports_of(const struct td_batch *batch)
{
    return batch->in->data;
}

static char *inputs_of(const struct td_batch *batch)
{
    return (char *)batch->in->data + batch->launch.report_bytes;
}

/* True if the launch is so small that the device can read and write staging memory directly. */
static bool is_direct(const struct td_batch_device *shared, const struct td_launch *launch)
{
    return !launch->args.plan && launch->in_bytes <= shared->direct_bytes &&
           launch->out_bytes <= shared->direct_bytes - launch->in_bytes;
}

static td_status lay_out_scratch(struct td_batch *batch, struct td_error *err)
{
    const struct td_batch_device *shared = batch->shared;
    struct td_launch *launch = &batch->launch;
    size_t workspace = 0;
    td_launch_set_reports(launch, reports_of(batch));
    for (int w = 0; w < launch->n_works; w++) {
        const size_t bytes = shared->api->workspace_bytes(shared->device, &launch->works[w]);
        workspace = bytes > workspace ? bytes : workspace;
    }
    if (workspace == SIZE_MAX)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the device cannot compute how much memory %s needs", launch->op->name);
    td_launch_lay_out_scratch(launch, workspace);
    return TD_OK;
}

/* Checks that the batch would fit in the device's memory if the device held nothing else. */
static td_status check_device(struct td_batch *batch, uint64_t tables, uint64_t scratch,
                              struct td_error *err)
{
    struct td_device_info info;
    uint64_t bytes;
    batch->shared->api->info(batch->shared->device, &info);
    if (__builtin_add_overflow(tables, scratch, &bytes))
        bytes = UINT64_MAX;
    return bytes <= info.memory ? TD_OK
                                : td_error_resource(err, "gpu_memory_bytes", bytes, info.memory,
                                                    "the request on the device");
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Translates the error of a device that finds out only at the launch that it has no kernel. The
 * call gets the same reply as a call that td_support_check refuses. */
static td_status no_kernel_is_a_dtype(td_status status, struct td_error *err)
{
    if (status != TD_NOT_SUPPORTED)
        return status;
    err->status = TD_UNSUPPORTED_DTYPE;
    return td_error_at_device(err, TD_UNSUPPORTED_DTYPE, "gpu");
}

static td_status run_work(struct td_batch *batch, int w, struct td_error *err)
{
    const struct td_launch *launch = &batch->launch;
    const td_status status = batch->shared->api->run(batch->stream, &launch->works[w], err);
    return td_launch_blame(launch, w, no_kernel_is_a_dtype(status, err), err);
}

static td_status submit(struct td_batch *batch, struct td_error *err)
{
    const struct td_device_api *api = batch->shared->api;
    const struct td_launch *launch = &batch->launch;
    td_status status = TD_OK;
    batch->submitted = true;
    count_bytes(batch, launch->in_bytes + launch->out_bytes);
    if (launch->in_bytes > 0 && !launch->direct)
        status = api->copy_to_device(batch->stream, batch->scratch, inputs_of(batch),
                                     launch->in_bytes, err);
    for (int w = 0; w < launch->n_works && status == TD_OK; w++)
        status = run_work(batch, w, err);
    if (status == TD_OK && launch->out_bytes > 0 && !launch->direct)
        status = api->copy_to_host(batch->stream, batch->out->data, launch->args.outputs[0].data,
                                   launch->out_bytes, err);
    return status;
}

/* Releases the batch's tables and staging memory, so the batch can be started again. No other
 * function releases them. */
static void release(struct td_batch *batch)
{
    td_upload_end(&batch->upload);
    while (batch->n_tables > 0)
        td_table_cache_unuse(batch->shared->table_cache, batch->tables[--batch->n_tables]);
    td_buffer_unref(batch->in);
    td_buffer_unref(batch->out);
    batch->in = batch->out = NULL;
    batch->n_items = 0;
    batch->in_flight = batch->submitted = false;
    batch->shared->bytes -= batch->bytes;
    batch->bytes = 0;
    td_arena_reset(&batch->arena);
}

/* Waits for work that was already submitted before a start failed, because the stream reads and
 * writes memory that is about to be released. */
static td_status drain(struct td_batch *batch, struct td_error *err)
{
    const int64_t late_ns = td_now_ns() + td_batch_time_limit_ns(batch->shared);
    bool done = !batch->submitted;
    while (!done) {
        const td_status status = td_batch_wait(batch, 1000000, &done, err);
        if (status != TD_OK)
            return status;
        if (!done && td_now_ns() > late_ns)
            return td_error_set(err, TD_DEVICE_UNAVAILABLE, "the device no longer responds");
    }
    return TD_OK;
}

bool td_batch_is_lost(td_status status)
{
    return status == TD_DEVICE_UNAVAILABLE || status == TD_INTERNAL;
}

/* Restores the idle state after a failed start. Returns `status`, or the device's error if the
 * device turns out to be lost. */
static td_status undo(struct td_batch *batch, td_status status, struct td_error *err)
{
    struct td_error lost;
    if (!td_batch_is_lost(status) && drain(batch, &lost) != TD_OK) {
        *err = lost;
        status = lost.status;
    }
    release(batch);
    return status;
}

static void begin(struct td_batch *batch)
{
    batch->in_flight = true;
    batch->begun_ns = td_now_ns();
    batch->deadline_ns = TD_NEVER;
    for (int i = 0; i < batch->n_items; i++) {
        struct td_batch_item *item = batch->items[i];
        td_batch_item_begun(item, batch->begun_ns);
        if (item->deadline_ns < batch->deadline_ns)
            batch->deadline_ns = item->deadline_ns;
    }
}

/* Starts to upload a table that is not on the device. */
static td_status upload_large(struct td_batch *batch, const struct td_tensor *tensor,
                              struct td_device_table **out, struct td_error *err)
{
    const struct td_upload_device device = { batch->shared->api, batch->stream,
                                             batch->shared->staging, batch->shared->copiers };
    td_status status = td_upload_take(&batch->upload, &device, tensor->bytes, err);
    if (status == TD_OK)
        status = td_table_cache_add(batch->shared->table_cache, tensor, batch->stream, out, err);
    if (status != TD_OK) {
        td_upload_end(&batch->upload);
        return status;
    }
    batch->tables[batch->n_tables++] = *out;
    count_bytes(batch, tensor->bytes);
    td_upload_begin(&batch->upload, td_device_table_data(*out), tensor->data);
    return TD_OK;
}

static td_status upload(struct td_batch *batch, struct td_error *err)
{
    const struct td_tensor *tensor = batch->items[0]->table;
    struct td_device_table *table;
    td_status status = check_device(batch, tensor->bytes, 0, err);
    if (status == TD_OK)
        status = is_large_and_lacking(batch, tensor) ? upload_large(batch, tensor, &table, err)
                                                     : take_table(batch, tensor, &table, err);
    if (status == TD_OK)
        td_device_table_keep(table);
    return status;
}

/* Starts the upload of a table that the items need before they can start. */
static td_status prepare(struct td_batch *batch, const struct td_tensor *missing,
                         struct td_error *err)
{
    struct td_device_table *table;
    const td_status status = upload_large(batch, missing, &table, err);
    if (status != TD_OK)
        return status;
    batch->kind = TD_BATCH_UPLOAD;
    batch->n_items = 0;
    td_buffer_unref(batch->in);
    td_buffer_unref(batch->out);
    batch->in = batch->out = NULL;
    return TD_OK;
}

static td_status launch_items(struct td_batch *batch, struct td_error *err)
{
    struct td_launch *launch = &batch->launch;
    struct td_tensor missing;
    td_status status = td_launch_make(launch, batch->shared->api, batch->items, batch->n_items,
                                      &batch->arena, err);
    if (status == TD_OK)
        status = take_staging(batch, err);
    launch->direct = is_direct(batch->shared, launch);
    if (status == TD_OK)
        status = lay_out_scratch(batch, err);
    if (status == TD_OK)
        status = check_device(batch, td_launch_table_bytes(launch), launch->scratch_bytes, err);
    if (status == TD_OK)
        status = take_tables(batch, &missing, err);
    if (status == TD_OK && missing.owner)
        return prepare(batch, &missing, err);
    if (status == TD_OK) {
        td_launch_fill(launch, batch->items, batch->shared->copiers, batch->in->data);
        status = grow_scratch(batch, launch->scratch_bytes, err);
    }
    if (status != TD_OK)
        return status;
    if (launch->direct)
        td_launch_bind(launch, inputs_of(batch), batch->out->data, batch->scratch);
    else
        td_launch_bind(launch, batch->scratch, (char *)batch->scratch + launch->outputs,
                       batch->scratch);
    return submit(batch, err);
}

td_status td_batch_start(struct td_batch *batch, struct td_batch_item **items, int n,
                         bool *prepares, struct td_error *err)
{
    memcpy(batch->items, items, (size_t)n * sizeof *items);
    batch->n_items = n;
    batch->kind = items[0]->kind;
    const td_status status =
        batch->kind == TD_BATCH_UPLOAD ? upload(batch, err) : launch_items(batch, err);
    if (status != TD_OK)
        return undo(batch, status, err);
    *prepares = batch->n_items == 0;
    begin(batch);
    return TD_OK;
}

/* ---- while it is in flight ------------------------------------------------------------------- */

bool td_batch_must_wait(const struct td_batch *batch, const struct td_batch_item *item)
{
    struct td_table_cache *cache = batch->shared->table_cache;
    if (item->kind == TD_BATCH_UPLOAD)
        return td_table_cache_uploading(cache, item->table, batch->stream);
    const int n = td_launch_count_inputs(item->op, item->args);
    for (int i = 0; i < n; i++) {
        const struct td_tensor *table = td_launch_input(item->args, i);
        struct td_tensor index;
        if (td_batch_tables_has(&item->resident, i) &&
            (td_table_cache_uploading(cache, table, batch->stream) ||
             (td_launch_index_of(table, &index) &&
              td_table_cache_uploading(cache, &index, batch->stream))))
            return true;
    }
    return false;
}

bool td_batch_in_flight(const struct td_batch *batch)
{
    return batch->in_flight;
}

bool td_batch_is_upload(const struct td_batch *batch)
{
    return batch->kind == TD_BATCH_UPLOAD;
}

int64_t td_batch_begun_ns(const struct td_batch *batch)
{
    return batch->begun_ns;
}

int64_t td_batch_deadline_ns(const struct td_batch *batch)
{
    return batch->in_flight ? batch->deadline_ns : TD_NEVER;
}

td_status td_batch_wait(struct td_batch *batch, int64_t timeout_ns, bool *done,
                        struct td_error *err)
{
    const struct td_device_api *api = batch->shared->api;
    td_status status;
    *done = false;
    if (batch->upload.bytes > 0)
        status = td_upload_step(&batch->upload, timeout_ns, done, err);
    else
        status = timeout_ns > 0 ? api->wait(batch->stream, timeout_ns, done, err)
                                : api->poll(batch->stream, done, err);
    if (status == TD_OK && *done)
        td_table_cache_finish_uploads(batch->shared->table_cache, batch->stream);
    return status;
}

static void give_back(struct td_batch *batch, int i, td_status status, const struct td_error *err)
{
    struct td_batch_item *item = batch->items[i];
    batch->items[i] = NULL;
    td_batch_item_give_back(item, status, err);
}

void td_batch_expire(struct td_batch *batch, int64_t now_ns)
{
    if (!batch->in_flight || now_ns <= batch->deadline_ns)
        return;
    int64_t next_ns = TD_NEVER;
    for (int i = 0; i < batch->n_items; i++) {
        const struct td_batch_item *item = batch->items[i];
        if (item && now_ns > item->deadline_ns) {
            struct td_error err;
            td_error_set(&err, TD_DEADLINE_EXCEEDED,
                         "the deadline passed while %s was being computed",
                         td_batch_item_subject(item));
            give_back(batch, i, TD_DEADLINE_EXCEEDED, &err);
        } else if (item && item->deadline_ns < next_ns) {
            next_ns = item->deadline_ns;
        }
    }
    batch->deadline_ns = next_ns;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Gives back the remaining items with their results, or with the lost device's error. */
static void finish(struct td_batch *batch, const struct td_error *lost)
{
    const struct td_results results = { .launch = &batch->launch,
                                        .reports = batch->in ? reports_of(batch) : NULL,
                                        .out = batch->out };
    for (int i = 0; i < batch->n_items; i++) {
        struct td_error err;
        td_status status = TD_OK;
        if (!batch->items[i])
            continue;
        if (lost)
            status = TD_DEVICE_UNAVAILABLE;
        else if (batch->kind == TD_BATCH_OP)
            status = td_results_take(&results, i, batch->items[i], &err);
        give_back(batch, i, status, lost ? lost : &err);
    }
    release(batch);
}

void td_batch_end(struct td_batch *batch)
{
    finish(batch, NULL);
    if (batch->settles)
        td_batch_settle(batch);
}

void td_batch_fail(struct td_batch *batch, const struct td_error *err)
{
    finish(batch, err);
}

/* If the batch is not in flight, its items are still in the queue or have been given back. */
void td_batch_leave(struct td_batch *batch, const struct td_error *err)
{
    for (int i = 0; batch->in_flight && i < batch->n_items; i++)
        if (batch->items[i])
            give_back(batch, i, TD_DEVICE_UNAVAILABLE, err);
}

/* ---- making and freeing ---------------------------------------------------------------------- */

struct td_batch *td_batch_new(struct td_batch_device *shared, struct td_error *err)
{
    struct td_batch *batch = aligned_alloc(64, (sizeof *batch + 63) / 64 * 64);
    if (batch) {
        memset(batch, 0, sizeof *batch);
        batch->shared = shared;
        batch->items = calloc((size_t)shared->batch_limit, sizeof(struct td_batch_item *));
        td_arena_init(&batch->arena, batch->first, sizeof batch->first, shared->memory);
    }
    if (!batch || !batch->items) {
        free(batch);
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory is left for a batch");
        return NULL;
    }
    if (shared->api->stream_open(shared->device, &batch->stream, err) != TD_OK) {
        batch->stream = NULL;
        td_batch_abandon(batch);
        return NULL;
    }
    return batch;
}

void td_batch_abandon(struct td_batch *batch)
{
    if (!batch)
        return;
    td_arena_reset(&batch->arena);
    free(batch->items);
    free(batch);
}

void td_batch_free(struct td_batch *batch)
{
    if (!batch)
        return;
    batch->shared->api->stream_close(batch->stream);
    (void)td_batch_trim(batch);
    td_batch_abandon(batch);
}
