#include "gpu/reference.h"

#include "gpu/reference_options.h"
#include "kernels/gather/gather.h"
#include "kernels/gather_nd/gather_nd.h"
#include "kernels/rows/gathering.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KIND           "reference"
#define DEFAULT_MEMORY ((uint64_t)1 << 30)
#define ALIGN          256 /* of memory on the device */
#define HOST_ALIGN     64
#define FOR_EVER       INT64_MAX /* as a time: never */
#define RUBBISH        0xa5      /* what fresh memory holds */

/* Memory that was given out, on the device or on the host. */
struct block {
    struct block *next;
    char *data;
    size_t bytes;
};

struct td_device {
    struct td_reference_options options; /* those that apply to this one: see recover */
    uint64_t limit, used;                /* bytes on the device */
    struct block *blocks, *host_blocks;
    struct td_device_stream *streams;
    int64_t busy_until_ns; /* when all that was submitted will be done */
    int64_t allocs, launches;
    bool lost;
    char misuse[256]; /* of a function that cannot say so; what all others say from then on */
};

struct td_device_stream {
    struct td_device_stream *next;
    struct td_device *device;
    int64_t done_ns; /* when all that was submitted here will be done */
};

/* ---- counters -------------------------------------------------------------------------------- */

/* For the whole process, and relaxed: each is a number of its own. */
static struct {
    atomic_uint_fast64_t attempts, opens, launches, items;
    atomic_uint_fast64_t copies_in, copies_out, bytes_in, bytes_out;
    atomic_uint_fast64_t left, misuses;
} counted;

static uint64_t add(atomic_uint_fast64_t *counter, uint64_t n)
{
    return atomic_fetch_add_explicit(counter, n, memory_order_relaxed) + n;
}

static uint64_t value_of(atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

struct td_device_reference_counts td_device_reference_counts(void)
{
    return (struct td_device_reference_counts){
        .opens = value_of(&counted.opens),
        .launches = value_of(&counted.launches),
        .items = value_of(&counted.items),
        .copies_in = value_of(&counted.copies_in),
        .copies_out = value_of(&counted.copies_out),
        .bytes_in = value_of(&counted.bytes_in),
        .bytes_out = value_of(&counted.bytes_out),
        .left = value_of(&counted.left),
        .misuses = value_of(&counted.misuses),
    };
}

void td_device_reference_reset(void)
{
    atomic_uint_fast64_t *const all[] = {
        &counted.attempts,  &counted.opens,      &counted.launches, &counted.items,
        &counted.copies_in, &counted.copies_out, &counted.bytes_in, &counted.bytes_out,
        &counted.left,      &counted.misuses,
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        atomic_store_explicit(all[i], 0, memory_order_relaxed);
}

/* ---- a device that is lost, a caller who broke the contract ---------------------------------- */

static td_status misused(struct td_error *err, const char *what)
{
    add(&counted.misuses, 1);
    return td_error_set(err, TD_INTERNAL, "%s", what);
}

/* What every call begins with. */
static td_status check_device(const struct td_device *device, struct td_error *err)
{
    if (device->misuse[0])
        return td_error_set(err, TD_INTERNAL, "%s", device->misuse);
    if (device->lost)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "the reference device was lost at launch %" PRId64
                            ", as its option lose_at says",
                            device->launches);
    return TD_OK;
}

static bool is_hung(const struct td_device *device)
{
    return device->busy_until_ns == FOR_EVER;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Are these bytes all in one of the blocks? None are, wherever they are. */
static bool lies_in(const struct block *block, const void *address, size_t bytes)
{
    uintptr_t begin = (uintptr_t)address;
    if (bytes == 0)
        return true;
    for (; block; block = block->next) {
        uintptr_t first = (uintptr_t)block->data;
        if (begin >= first && begin - first <= block->bytes &&
            bytes <= block->bytes - (begin - first))
            return true;
    }
    return false;
}

/* As large as the next multiple of align, and filled with what nobody expects. */
static td_status new_block(struct block **list, size_t bytes, size_t align, void **out,
                           struct td_error *err)
{
    size_t rounded = (bytes + align - 1) / align * align;
    struct block *block = malloc(sizeof(*block));
    char *data = aligned_alloc(align, rounded);
    if (!block || !data) {
        free(block);
        free(data);
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the host has no %zu bytes for the reference device", rounded);
    }
    memset(data, RUBBISH, rounded);
    *block = (struct block){ .next = *list, .data = data, .bytes = bytes };
    *list = block;
    *out = data;
    return TD_OK;
}

/* False when no block begins there. */
static bool free_block(struct block **list, const void *data, size_t *bytes)
{
    for (struct block **at = list; *at; at = &(*at)->next) {
        struct block *block = *at;
        if (block->data != data)
            continue;
        *at = block->next;
        *bytes = block->bytes;
        free(block->data);
        free(block);
        return true;
    }
    return false;
}

/* What an allocation takes of the device: one of no bytes has an address as well. */
static size_t footprint(size_t bytes)
{
    return bytes == 0 ? ALIGN : (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static td_status reference_alloc(struct td_device *device, size_t bytes, void **out,
                                 struct td_error *err)
{
    *out = NULL;
    td_status status = check_device(device, err);
    if (status != TD_OK)
        return status;
    device->allocs++;
    if (device->options.fail_alloc > 0 && device->allocs >= device->options.fail_alloc)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the reference device fails at allocation %" PRId64
                            ", as its option fail_alloc says",
                            device->allocs);
    if (bytes > device->limit || footprint(bytes) > device->limit - device->used)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the reference device has %" PRIu64 " of its %" PRIu64
                            " bytes left; %zu are needed",
                            device->limit - device->used, device->limit, bytes);
    status = new_block(&device->blocks, bytes > 0 ? bytes : 1, ALIGN, out, err);
    if (status == TD_OK)
        device->used += footprint(bytes);
    return status;
}

/* A pointer that is not there, or not any more, is noted: free itself has no way to say so. */
static size_t release(struct td_device *device, struct block **list, void *memory,
                      const char *function)
{
    size_t bytes = 0;
    if (!memory || free_block(list, memory, &bytes))
        return bytes;
    snprintf(device->misuse, sizeof(device->misuse),
             "%s was called with %p, where nothing begins that was allocated and not freed",
             function, memory);
    (void)misused(NULL, device->misuse);
    return 0;
}

static void reference_free(struct td_device *device, void *memory)
{
    size_t bytes = release(device, &device->blocks, memory, "free");
    if (bytes > 0)
        device->used -= footprint(bytes);
}

static td_status reference_host_alloc(struct td_device *device, size_t bytes, void **out,
                                      struct td_error *err)
{
    *out = NULL;
    td_status status = check_device(device, err);
    if (status != TD_OK)
        return status;
    if (bytes > SIZE_MAX / 2) /* so that rounding up cannot overflow */
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "the host has no %zu bytes", bytes);
    return new_block(&device->host_blocks, bytes > 0 ? bytes : 1, HOST_ALIGN, out, err);
}

static void reference_host_free(struct td_device *device, void *memory)
{
    release(device, &device->host_blocks, memory, "host_free");
}

/* ---- opening and closing --------------------------------------------------------------------- */

static td_status reference_open(const struct td_device_options *options, struct td_device **out,
                                struct td_error *err)
{
    struct td_reference_options own;
    *out = NULL;
    td_status status = td_reference_options_read(options->text, &own, err);
    if (status != TD_OK)
        return status;
    if (options->number != 0)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "there is no reference device %d; there is one, number 0",
                            options->number);
    uint64_t attempt = add(&counted.attempts, 1);
    if (attempt == (uint64_t)own.fail_open)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "the reference device fails at opening %" PRIu64
                            ", as its option fail_open says",
                            attempt);
    struct td_device *device = calloc(1, sizeof(*device));
    if (!device)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "the host has no memory for a device");
    uint64_t opens = add(&counted.opens, 1);
    if (own.recover > 0 && opens >= (uint64_t)own.recover)
        own.fail_alloc = own.lose_at = own.hang_at = 0;
    device->options = own;
    device->limit = options->memory > 0 ? options->memory : DEFAULT_MEMORY;
    *out = device;
    return TD_OK;
}

static uint64_t free_all(struct block *block)
{
    uint64_t n = 0;
    for (struct block *next; block; block = next, n++) {
        next = block->next;
        free(block->data);
        free(block);
    }
    return n;
}

static void reference_close(struct td_device *device)
{
    if (!device)
        return;
    uint64_t left = free_all(device->blocks) + free_all(device->host_blocks);
    for (struct td_device_stream *stream = device->streams, *next; stream; stream = next, left++) {
        next = stream->next;
        free(stream);
    }
    if (!device->lost && !is_hung(device))
        add(&counted.left, left);
    free(device);
}

/* Where no time is modelled, so fast that nobody would rather take the processor. Never 0: people
 * divide by it. */
#define NO_TIME_PER_US 1000000000

static void reference_info(struct td_device *device, struct td_device_info *out)
{
    const struct td_reference_options *own = &device->options;
    *out = (struct td_device_info){
        .name = "the host, as a reference",
        .kind = KIND,
        .memory = device->limit,
        .memory_used = device->used,
        .launch_ns = own->launch_us > 0 ? (uint64_t)own->launch_us * 1000 : 1,
        .copy_bytes_per_us = own->copy_mb_per_s > 0 ? (uint64_t)own->copy_mb_per_s : NO_TIME_PER_US,
        .device_bytes_per_us = NO_TIME_PER_US,
        .float32_flops_per_us = NO_TIME_PER_US,
    };
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* a + b of times, for ever where that is too far away. */
static int64_t later(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? FOR_EVER : sum;
}

static void sleep_until(int64_t when_ns)
{
    struct timespec when = { .tv_sec = when_ns / 1000000000, .tv_nsec = when_ns % 1000000000 };
    while (now_ns() < when_ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL); /* again after a signal */
}

/* What was submitted now takes its turn behind everything else. */
static void take_turn(struct td_device_stream *stream, int64_t duration_ns)
{
    struct td_device *device = stream->device;
    int64_t now = now_ns();
    int64_t begin = device->busy_until_ns > now ? device->busy_until_ns : now;
    stream->done_ns = device->busy_until_ns = later(begin, duration_ns);
}

/* ---- streams --------------------------------------------------------------------------------- */

static td_status reference_stream_open(struct td_device *device, struct td_device_stream **out,
                                       struct td_error *err)
{
    *out = NULL;
    td_status status = check_device(device, err);
    if (status != TD_OK)
        return status;
    struct td_device_stream *stream = malloc(sizeof(*stream));
    if (!stream)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "the host has no memory for a stream");
    *stream = (struct td_device_stream){ .next = device->streams, .device = device };
    device->streams = stream;
    *out = stream;
    return TD_OK;
}

static void reference_stream_close(struct td_device_stream *stream)
{
    if (!stream)
        return;
    if (!stream->device->lost && stream->done_ns != FOR_EVER)
        sleep_until(stream->done_ns);
    struct td_device_stream **at = &stream->device->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
}

static td_status reference_poll(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    *done = false;
    td_status status = check_device(stream->device, err);
    if (status == TD_OK)
        *done = stream->done_ns != FOR_EVER && stream->done_ns <= now_ns();
    return status;
}

static td_status reference_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                                struct td_error *err)
{
    if (!stream->device->lost && timeout_ns > 0) {
        int64_t until = later(now_ns(), timeout_ns);
        sleep_until(stream->done_ns < until ? stream->done_ns : until);
    }
    return reference_poll(stream, done, err);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* `inside` is the end that lies on the device, `outside` the one that does not. */
static td_status check_copy(const struct td_device *device, const char *function,
                            const void *inside, const void *outside, size_t bytes,
                            struct td_error *err)
{
    td_status status = check_device(device, err);
    char what[200];
    if (status != TD_OK || bytes == 0)
        return status;
    if (!lies_in(device->blocks, inside, bytes))
        snprintf(what, sizeof(what), "%s of %zu bytes: %p is not that much memory of the device",
                 function, bytes, inside);
    else if (lies_in(device->blocks, outside, 1))
        snprintf(what, sizeof(what), "%s of %zu bytes: %p is memory of the device, not of the host",
                 function, bytes, outside);
    else
        return TD_OK;
    return misused(err, what);
}

/* What comes behind a launch that never ends is not copied either. */
static void copy(struct td_device_stream *stream, void *to, const void *from, size_t bytes)
{
    const struct td_device *device = stream->device;
    int64_t mb_per_s = device->options.copy_mb_per_s;
    if (bytes > 0 && !is_hung(device))
        memcpy(to, from, bytes);
    double ns = mb_per_s > 0 ? (double)bytes * 1000 / (double)mb_per_s : 0;
    take_turn(stream, (int64_t)ns);
}

static td_status reference_copy_in(struct td_device_stream *stream, void *to, const void *from,
                                   size_t bytes, struct td_error *err)
{
    td_status status = check_copy(stream->device, "copy_in", to, from, bytes, err);
    if (status != TD_OK)
        return status;
    add(&counted.copies_in, 1);
    add(&counted.bytes_in, bytes);
    copy(stream, to, from, bytes);
    return TD_OK;
}

static td_status reference_copy_out(struct td_device_stream *stream, void *to, const void *from,
                                    size_t bytes, struct td_error *err)
{
    td_status status = check_copy(stream->device, "copy_out", from, to, bytes, err);
    if (status != TD_OK)
        return status;
    add(&counted.copies_out, 1);
    add(&counted.bytes_out, bytes);
    copy(stream, to, from, bytes);
    return TD_OK;
}

/* ---- work: is it as the contract says? ------------------------------------------------------- */

static bool reference_supports(const struct td_op *op, const struct td_op_args *args)
{
    for (int i = 0; i < op->n_inputs; i++)
        for (int j = 0; j < args->inputs[i].count; j++)
            if (args->inputs[i].tensors[j].dtype == TD_DTYPE_STRING)
                return false;
    return true;
}

/* Scratch memory is an arena's first block; without any need there is no block. */
static size_t reference_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    enum { ROOM_TO_ALIGN = 1024 };
    (void)device;
    struct td_cost cost = work->op->cost(work->args);
    uint64_t bytes = cost.workspace + cost.workspace_per_thread;
    return bytes > 0 ? (size_t)bytes + ROOM_TO_ALIGN : 0;
}

static td_status check_tensor(const struct td_device *device, const char *name, int number,
                              const struct td_tensor *tensor, size_t align, struct td_error *err)
{
    char what[200];
    if (!lies_in(device->blocks, tensor->data, tensor->bytes))
        snprintf(what, sizeof(what), "%s[%d], %zu bytes at %p, is not in the memory of the device",
                 name, number, tensor->bytes, tensor->data);
    else if (tensor->bytes > 0 && (uintptr_t)tensor->data % align != 0)
        snprintf(what, sizeof(what), "%s[%d] at %p is not aligned to %zu bytes", name, number,
                 tensor->data, align);
    else
        return TD_OK;
    return misused(err, what);
}

static td_status check_tensors(const struct td_device *device, const struct td_device_work *work,
                               struct td_error *err)
{
    const struct td_op_args *args = work->args;
    td_status status = TD_OK;
    for (int i = 0; i < work->op->n_inputs; i++)
        for (int j = 0; status == TD_OK && j < args->inputs[i].count; j++) {
            const struct td_tensor *tensor = &args->inputs[i].tensors[j];
            status = check_tensor(device, work->op->inputs[i].name, j, tensor,
                                  td_dtype_info(tensor->dtype)->align, err);
        }
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = check_tensor(device, "outputs", i, &args->outputs[i], ALIGN, err);
    return status;
}

/* The tuples whose components the op checks, as depth and bounds; false: it replaces none. */
static bool index_space(const struct td_op *op, const struct td_op_args *args,
                        struct td_tuple_space *space)
{
    const struct td_shape *params = &args->inputs[TD_GATHERING_PARAMS].tensors->shape;
    const struct td_operand *indices = &args->inputs[TD_GATHERING_INDICES];
    int axis;
    if (op == &td_op_gather) {
        struct td_gather_attrs attrs;
        memcpy(&attrs, args->attrs, sizeof(attrs));
        if (attrs.axis == TD_ATTR_UNSET)
            attrs.axis = attrs.batch_dims < 0 ? attrs.batch_dims + indices->tensors->shape.rank
                                              : attrs.batch_dims;
        (void)td_axis_normalize(attrs.axis, params->rank, &axis); /* infer has seen to it */
    } else if (op == &td_op_batch_gather) {
        axis = indices->tensors->shape.rank - 1;
    } else if (op == &td_op_gather_nd) {
        struct td_gather_nd_attrs attrs;
        memcpy(&attrs, args->attrs, sizeof(attrs));
        const struct td_shape *shape = &indices->tensors->shape;
        td_gathering_tuple_space(params, (int)attrs.batch_dims, (int)shape->dim[shape->rank - 1],
                                 space);
        return true;
    } else {
        return false;
    }
    *space = (struct td_tuple_space){ .depth = 1, .bound = { params->dim[axis] } };
    return true;
}

/* Do the items follow each other, in whole tuples, and fill the indices? */
static td_status check_items(const struct td_device_work *work, struct td_error *err)
{
    struct td_tuple_space space;
    if (work->n_items < 1)
        return misused(err, "work has no items; 1 or more is expected");
    if (!index_space(work->op, work->args, &space))
        return TD_OK;
    if (!work->item_end)
        return work->n_items == 1 ? TD_OK
                                  : misused(err, "several items of indices have no item_end");
    int64_t begin = 0, depth = space.depth > 0 ? space.depth : 1;
    for (int i = 0; i < work->n_items; i++) {
        if (work->item_end[i] < begin || work->item_end[i] % depth != 0)
            return misused(err, "an item_end lies before the one before it, or inside a tuple");
        begin = work->item_end[i];
    }
    if (begin != work->args->inputs[TD_GATHERING_INDICES].tensors->numel)
        return misused(err, "the last item_end is not where the indices end");
    return TD_OK;
}

static td_status check_work(struct td_device *device, const struct td_device_work *work,
                            struct td_error *err)
{
    td_status status = check_device(device, err);
    if (status == TD_OK && !reference_supports(work->op, work->args))
        status = td_error_set(err, TD_NOT_SUPPORTED, "the reference device takes no strings");
    if (status == TD_OK)
        status = check_items(work, err);
    if (status == TD_OK)
        status = check_tensors(device, work, err);
    if (status != TD_OK)
        return status;
    size_t reports = (size_t)work->n_items * sizeof(work->reports[0]);
    if (work->reports && !lies_in(device->host_blocks, work->reports, reports))
        return misused(err, "reports are not in memory of host_alloc");
    if (!lies_in(device->blocks, work->workspace, reference_workspace_bytes(device, work)))
        return misused(err, "the workspace is not as much memory of the device as is needed");
    return TD_OK;
}

/* ---- work: the result ------------------------------------------------------------------------ */

static const struct td_attr_spec *bounds_attr(const struct td_op *op)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].choices == td_bounds_names)
            return &op->attrs[i];
    return NULL;
}

/* A device leaves bad rows zero where the policy is error, and where clip and wrap have nothing to
 * choose from: the kernel then says INDEX_OUT_OF_BOUNDS and has done nothing. */
static td_status run_kernel(const struct td_device_work *work, struct td_exec *exec,
                            struct td_error *err)
{
    struct td_op_args args = *work->args;
    td_status status = work->op->run(&args, exec, err);
    const struct td_attr_spec *bounds = bounds_attr(work->op);
    if (status != TD_INDEX_OUT_OF_BOUNDS || !bounds)
        return status;
    td_op_choose(bounds, &args, TD_BOUNDS_ZERO);
    return work->op->run(&args, exec, err);
}

static td_status write_reports(const struct td_device_work *work, struct td_exec *exec,
                               struct td_error *err)
{
    struct td_tuple_space space;
    bool checked = index_space(work->op, work->args, &space);
    const struct td_tensor *indices = work->args->inputs[TD_GATHERING_INDICES].tensors;
    int64_t begin = 0;
    for (int i = 0; i < work->n_items; i++) {
        work->reports[i] = (struct td_device_report){ .first_bad = INT64_MAX };
        if (!checked)
            continue;
        int64_t end = work->item_end ? work->item_end[i] : indices->numel, n_bad, first;
        struct td_tensor part = *indices;
        part.data = (char *)indices->data + (size_t)begin * td_dtype_info(part.dtype)->size;
        part.numel = end - begin;
        td_status status = td_rows_check_tuples(&part, &space, exec, &n_bad, &first, err);
        if (status != TD_OK)
            return status;
        if (n_bad > 0)
            work->reports[i] = (struct td_device_report){ .first_bad = first, .n_bad = n_bad };
        begin = end;
    }
    return TD_OK;
}

static td_status compute(struct td_device *device, const struct td_device_work *work,
                         struct td_error *err)
{
    struct td_arena arena;
    struct td_exec exec;
    size_t room = reference_workspace_bytes(device, work);
    td_arena_init(&arena, room > 0 ? work->workspace : NULL, room, td_memory_heap());
    td_exec_serial(&exec, &arena);
    td_status status = run_kernel(work, &exec, err);
    if (status == TD_OK && work->reports)
        status = write_reports(work, &exec, err);
    td_arena_reset(&arena);
    return status;
}

static td_status reference_run(struct td_device_stream *stream, const struct td_device_work *work,
                               struct td_error *err)
{
    struct td_device *device = stream->device;
    td_status status = check_work(device, work, err);
    if (status != TD_OK)
        return status;
    add(&counted.launches, 1);
    add(&counted.items, (uint64_t)work->n_items);
    device->launches++;
    if (device->launches == device->options.lose_at) {
        device->lost = true; /* who submitted this is told when he asks what became of it */
        return TD_OK;
    }
    if (device->launches == device->options.hang_at)
        device->busy_until_ns = FOR_EVER;
    if (!is_hung(device))
        status = compute(device, work, err);
    if (status == TD_OK)
        take_turn(stream, device->options.launch_us * 1000);
    return status;
}

/* ---- the vtable ------------------------------------------------------------------------------ */

static const struct td_device_api api = {
    .abi = TD_DEVICE_ABI,
    .args_size = sizeof(struct td_op_args),
    .kind = KIND,
    .open = reference_open,
    .close = reference_close,
    .info = reference_info,
    .alloc = reference_alloc,
    .free = reference_free,
    .host_alloc = reference_host_alloc,
    .host_free = reference_host_free,
    .stream_open = reference_stream_open,
    .stream_close = reference_stream_close,
    .copy_in = reference_copy_in,
    .copy_out = reference_copy_out,
    .supports = reference_supports,
    .workspace_bytes = reference_workspace_bytes,
    .run = reference_run,
    .poll = reference_poll,
    .wait = reference_wait,
};

const struct td_device_api *td_device_reference(void)
{
    return &api;
}
