#include "server/devices/placement.h"

#include "server/devices/copiers.h"
#include "server/devices/launch.h"
#include "server/devices/steps.h"

/* Returns the time to process an amount at a measured rate, at most MOST_NS, or 0 if the rate is
 * unknown. */
static uint64_t time_ns(uint64_t amount, uint64_t per_us)
{
    /* a few values of this size can be added without overflow */
    static const double MOST_NS = 1e18;
    const double ns = per_us ? (double)amount * 1e3 / (double)per_us : 0;
    return (uint64_t)(ns < MOST_NS ? ns : MOST_NS);
}

/* Number of bytes that a call copies. */
struct copied {
    uint64_t inputs; /* inputs of the call itself */
    uint64_t tables; /* resident tables that are not on the device yet */
    uint64_t outputs;
};

static struct copied copied_by(struct td_batcher *batcher, const struct td_request *request,
                               const struct td_batch_tables *resident)
{
    struct copied copied = { 0 };
    const int n = td_launch_count_inputs(request->op, &request->args);
    for (int i = 0; i < n; i++) {
        const struct td_tensor *input = td_launch_input(&request->args, i);
        if (!td_batch_tables_has(resident, i))
            copied.inputs += input->bytes;
        else if (!td_batcher_has_table(batcher, input))
            copied.tables += input->bytes;
    }
    for (int i = 0; i < request->args.n_outputs; i++)
        copied.outputs += request->args.outputs[i].bytes;
    return copied;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the time of all copies. Inputs are copied into pinned memory, then to the device. For a
 * table, both copies run at the same time, in pieces. A reply is sent directly from pinned
 * memory. */
static uint64_t copies_ns(const struct copied *copied, const struct td_device_info *device,
                          int threads)
{
    const uint64_t shared = device->fill_bytes_per_us * (uint64_t)threads;
    const uint64_t fill = copied->inputs > TD_COPIERS_SHARE ? shared : device->fill_bytes_per_us;
    return time_ns(copied->inputs, fill) + time_ns(copied->inputs, device->copy_bytes_per_us) +
           larger(time_ns(copied->tables, shared),
                  time_ns(copied->tables, device->copy_bytes_per_us)) +
           time_ns(copied->outputs, device->back_bytes_per_us);
}

/* Returns the number of launches of a call, at least 1. */
static uint64_t launches_of(const struct td_request *request)
{
    const int n = td_program_of(request->op) ? td_steps_count(request->args.plan) : 1;
    return n > 0 ? (uint64_t)n : 1;
}

static uint64_t device_ns(struct td_devices *devices, const struct td_request *request,
                          const struct td_batch_tables *resident, const struct td_cost *cost,
                          const struct td_batcher_counts *counts)
{
    const struct td_device_info *device = &counts->device;
    const struct copied copied = copied_by(td_devices_batcher(devices), request, resident);
    const uint64_t moving =
        time_ns(cost->bytes_read + cost->bytes_written, device->device_bytes_per_us);
    const uint64_t computing = time_ns(cost->flops, device->float32_flops_per_us);
    const uint64_t ahead = (counts->in_flight > 0 ? counts->batch_ns : 0) +
                           (counts->waiting > 0 ? counts->wait_ns : 0);
    const uint64_t launches = launches_of(request);
    return device->launch_ns + (launches - 1) * device->next_launch_ns +
           copies_ns(&copied, device, td_devices_copying_threads(devices)) +
           larger(moving, computing) + ahead;
}

/* True if the values of the index inputs are valid (td_op.valid). If they are not, the CPU returns
 * the error. */
static bool is_valid(const struct td_request *request)
{
    return !request->op->valid || request->op->valid(&request->args);
}

td_status td_devices_place(struct td_devices *devices, const struct td_request *request,
                           const struct td_batch_tables *resident, const struct td_cost *cost,
                           uint64_t cpu_ns, bool *on_device, struct td_error *err)
{
    const td_device_choice choice = request->common.device;
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
        td_batcher_check_kernel(batcher, request->op, &request->args, TD_IGNORED) != TD_OK)
        return TD_OK;
    td_batcher_counts(batcher, &counts);
    *on_device = counts.available &&
                 device_ns(devices, request, resident, cost, &counts) < cpu_ns && is_valid(request);
    return TD_OK;
}
