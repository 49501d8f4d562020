#include "server/devices/placement.h"

/* Time for an amount at a measured rate, at most MOST_NS; 0 if the rate is unknown. */
static uint64_t time_ns(uint64_t amount, uint64_t per_us)
{
    static const double MOST_NS = 1e18; /* some of these can be added without an overflow */
    const double ns = per_us ? (double)amount * 1e3 / (double)per_us : 0;
    return (uint64_t)(ns < MOST_NS ? ns : MOST_NS);
}

/* Bytes of inputs that are not on the device. */
static uint64_t bytes_in(struct td_batcher *batcher, const struct td_request *request,
                         uint32_t resident)
{
    uint64_t bytes = 0;
    int n = 0;
    for (int i = 0; i < request->op->n_inputs; i++) {
        const struct td_operand *operand = &request->args.inputs[i];
        for (int j = 0; j < operand->count; j++, n++) {
            const bool on_device = n < TD_BATCH_TABLES && (resident >> n & 1) &&
                                   td_batcher_has_table(batcher, &operand->tensors[j]);
            bytes += on_device ? 0 : operand->tensors[j].bytes;
        }
    }
    return bytes;
}

static uint64_t bytes_out(const struct td_request *request)
{
    uint64_t bytes = 0;
    for (int i = 0; i < request->args.n_outputs; i++)
        bytes += request->args.outputs[i].bytes;
    return bytes;
}

static uint64_t device_ns(struct td_batcher *batcher, const struct td_request *request,
                          uint32_t resident, const struct td_cost *cost,
                          const struct td_batcher_counts *counts)
{
    const struct td_device_info *device = &counts->device;
    const uint64_t copied = bytes_in(batcher, request, resident) + bytes_out(request);
    const uint64_t moving =
        time_ns(cost->bytes_read + cost->bytes_written, device->device_bytes_per_us);
    const uint64_t computing = time_ns(cost->flops, device->float32_flops_per_us);
    const uint64_t ahead = (counts->in_flight > 0 ? counts->batch_ns : 0) +
                           (counts->waiting > 0 ? counts->wait_ns : 0);
    return device->launch_ns + time_ns(copied, device->copy_bytes_per_us) +
           (moving > computing ? moving : computing) + ahead;
}

/* If not, the CPU returns the error. */
static bool is_valid(const struct td_request *request)
{
    return !request->op->valid || request->op->valid(&request->args);
}

td_status td_devices_place(struct td_devices *devices, const struct td_request *request,
                           uint32_t resident, const struct td_cost *cost, uint64_t cpu_ns,
                           bool *on_device, struct td_error *err)
{
    const td_device_choice choice = request->options.device;
    struct td_batcher *batcher = td_devices_batcher(devices);
    struct td_batcher_counts counts;
    *on_device = false;
    if (choice == TD_DEVICE_GPU) {
        td_status status = TD_OK;
        if (batcher)
            status = td_batcher_check_kernel(batcher, request->op, &request->args, err);
        if (status == TD_OK)
            status = td_devices_check(devices, choice, err);
        *on_device = status == TD_OK && is_valid(request);
        return status;
    }
    if (choice == TD_DEVICE_CPU || !batcher ||
        td_batcher_check_kernel(batcher, request->op, &request->args, NULL) != TD_OK)
        return TD_OK;
    td_batcher_counts(batcher, &counts);
    *on_device = counts.available &&
                 device_ns(batcher, request, resident, cost, &counts) < cpu_ns && is_valid(request);
    return TD_OK;
}
