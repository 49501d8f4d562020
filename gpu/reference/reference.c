#include "gpu/reference/reference.h"

#include "gpu/reference/memory.h"
#include "gpu/reference/stream.h"
#include "gpu/reference/work.h"

#include <inttypes.h>
#include <stdlib.h>

#define KIND           "reference"
#define DEFAULT_MEMORY ((uint64_t)1 << 30)

/* ---- opening and closing --------------------------------------------------------------------- */

static td_status reference_open(const struct td_device_options *options, struct td_device **out,
                                struct td_error *err)
{
    struct td_reference_options own;
    *out = NULL;
    td_status status = td_reference_options_parse(options->text, &own, err);
    if (status != TD_OK)
        return status;
    if (options->ordinal != 0)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "there is no reference device %d; the only one is 0", options->ordinal);
    uint64_t attempt = td_reference_count(TD_REFERENCE_OPEN_ATTEMPTS, 1);
    if (attempt == (uint64_t)own.fail_open)
        return td_error_set(
            err, TD_DEVICE_UNAVAILABLE,
            "attempt %" PRIu64 " to open the reference device fails (option fail_open)", attempt);
    struct td_device *device = calloc(1, sizeof(*device));
    if (!device)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "the host has no memory for a device");
    uint64_t opens = td_reference_count(TD_REFERENCE_OPENS, 1);
    if (own.recover > 0 && opens >= (uint64_t)own.recover)
        own.fail_alloc = own.lose_at = own.lose_copy = own.hang_at = own.hang_free = 0;
    device->options = own;
    device->limit = options->memory > 0 ? options->memory : DEFAULT_MEMORY;
    *out = device;
    return TD_OK;
}

static void reference_close(struct td_device *device)
{
    if (!device)
        return;
    uint64_t leaked =
        td_reference_free_blocks(device->blocks) + td_reference_free_blocks(device->host_blocks);
    for (struct td_device_stream *stream = device->streams, *next; stream;
         stream = next, leaked++) {
        next = stream->next;
        free(stream);
    }
    if (!device->lost && !td_reference_is_hung(device))
        td_reference_count(TD_REFERENCE_LEAKED, leaked);
    free(device);
}

/* Reported bandwidth of copies that take no time. It is high enough that the CPU is never
 * preferred, and not 0, because callers divide by it. */
#define NO_TIME_PER_US 1000000000

static uint64_t per_us(int64_t mb_per_s)
{
    return mb_per_s > 0 ? (uint64_t)mb_per_s : NO_TIME_PER_US;
}

static void reference_info(struct td_device *device, struct td_device_info *out)
{
    const struct td_reference_options *own = &device->options;
    *out = (struct td_device_info){
        .name = "the host, as a reference",
        .kind = KIND,
        .memory = device->limit,
        .memory_used = device->used,
        .direct_bytes = (uint64_t)own->direct_bytes,
        .launch_ns = own->launch_us > 0 ? (uint64_t)own->launch_us * 1000 : 1,
        .next_launch_ns = (uint64_t)own->launch_us * 1000,
        .copy_bytes_per_us = per_us(own->copy_mb_per_s),
        .back_bytes_per_us = per_us(td_reference_back_mb_per_s(own)),
        .fill_bytes_per_us = per_us(own->fill_mb_per_s),
        .device_bytes_per_us = NO_TIME_PER_US,
        .float32_flops_per_us = NO_TIME_PER_US,
    };
}

/* ---- the vtable ------------------------------------------------------------------------------ */

static const struct td_device_api api = {
    .abi = TD_DEVICE_ABI,
    .args_size = sizeof(struct td_op_args),
    .kind = KIND,
    .open = reference_open,
    .close = reference_close,
    .info = reference_info,
    .alloc = td_reference_alloc,
    .free = td_reference_free,
    .host_alloc = td_reference_host_alloc,
    .host_free = td_reference_host_free,
    .stream_open = td_reference_stream_open,
    .stream_close = td_reference_stream_close,
    .copy_to_device = td_reference_copy_to_device,
    .copy_to_host = td_reference_copy_to_host,
    .supports = td_reference_supports,
    .workspace_bytes = td_reference_workspace_bytes,
    .run = td_reference_run,
    .poll = td_reference_poll,
    .wait = td_reference_wait,
};

const struct td_device_api *td_device_reference(void)
{
    return &api;
}

/* ---- counters -------------------------------------------------------------------------------- */

struct td_device_reference_counts td_device_reference_counts(void)
{
    return (struct td_device_reference_counts){
        .opens = td_reference_counter_value(TD_REFERENCE_OPENS),
        .launches = td_reference_counter_value(TD_REFERENCE_LAUNCHES),
        .items = td_reference_counter_value(TD_REFERENCE_ITEMS),
        .copies_to_device = td_reference_counter_value(TD_REFERENCE_COPIES_TO_DEVICE),
        .copies_to_host = td_reference_counter_value(TD_REFERENCE_COPIES_TO_HOST),
        .bytes_to_device = td_reference_counter_value(TD_REFERENCE_BYTES_TO_DEVICE),
        .bytes_to_host = td_reference_counter_value(TD_REFERENCE_BYTES_TO_HOST),
        .leaked = td_reference_counter_value(TD_REFERENCE_LEAKED),
        .misuses = td_reference_counter_value(TD_REFERENCE_MISUSES),
    };
}

void td_device_reference_reset(void)
{
    td_reference_counters_reset();
}
