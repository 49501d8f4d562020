#include "kernels/program/inputs.h"
#include "server/devices/placement.h"
#include "tests/server/devices/batcher_setup.h"
#include "tests/support/sample_program.h"

#include <stdio.h>
#include <stdlib.h>

/* Two inputs of 8 MB, and an output of 16 bytes; indices of 0.8 MB, and rows of 1.6 MB of a table
 * of 8 MB. */
enum { ROWS = 500000, N = 100000 };
enum work { SUM, LOOKUP };

static const struct td_log quiet = { .level = TD_LOG_ERROR, .fd = -1 };

static const struct placement {
    const char *says;
    const char *device; /* options of the reference device */
    enum work work;
    bool there;     /* the table is on the device */
    int cpu_ms;     /* that the call takes the CPU */
    bool on_device; /* is the device estimated to be faster? */
} placements[] = {
    { "a device whose copies take no time is faster", "", SUM, false, 1, true },
    { "a launch takes its time", "launch_us=5000", SUM, false, 4, false },
    { "a launch takes its time", "launch_us=5000", SUM, false, 6, true },
    { "inputs are copied over the bus: 16 ms", "copy_mb_per_s=1000", SUM, false, 15, false },
    { "inputs are copied over the bus: 16 ms", "copy_mb_per_s=1000", SUM, false, 17, true },
    { "before that into pinned memory, by two threads: 8 ms", "fill_mb_per_s=1000", SUM, false, 7,
      false },
    { "before that into pinned memory, by two threads: 8 ms", "fill_mb_per_s=1000", SUM, false, 9,
      true },
    { "one after the other: 24 ms", "copy_mb_per_s=1000,fill_mb_per_s=1000", SUM, false, 23,
      false },
    { "one after the other: 24 ms", "copy_mb_per_s=1000,fill_mb_per_s=1000", SUM, false, 25, true },
    { "up to 1 MiB by one thread: 8 ms", "fill_mb_per_s=100", LOOKUP, true, 7, false },
    { "up to 1 MiB by one thread: 8 ms", "fill_mb_per_s=100", LOOKUP, true, 9, true },
    { "outputs are copied back: 16 ms", "back_mb_per_s=100", LOOKUP, true, 15, false },
    { "outputs are copied back: 16 ms", "back_mb_per_s=100", LOOKUP, true, 17, true },
    { "a table that is not there is copied while pinned memory is filled: 80 ms and 8 ms",
      "copy_mb_per_s=100,back_mb_per_s=1000000,fill_mb_per_s=100", LOOKUP, false, 95, false },
    { "a table that is not there is copied while pinned memory is filled: 80 ms and 8 ms",
      "copy_mb_per_s=100,back_mb_per_s=1000000,fill_mb_per_s=100", LOOKUP, false, 97, true },
};

static struct td_devices *open_devices(const char *device, struct td_buffer_pool *buffers)
{
    static char gpu[200];
    const struct td_config config = { .gpu = gpu,
                                      .workers = 4, /* a quarter of which copy */
                                      .gpu_staging = 64 << 20,
                                      .gpu_hang_ms = 10000,
                                      .gpu_retry_ms = 1000,
                                      .batch_limit = 1 };
    snprintf(gpu, sizeof gpu, "reference:%s", device);
    struct td_devices *devices = td_devices_open(&config, buffers, &quiet);
    ck_assert_ptr_nonnull(devices);
    return devices;
}

TD_TEST_EACH(a_call_goes_where_it_is_estimated_to_end_first, placements)
{
    const struct placement *placement = &placements[_i];
    struct td_buffer_pool *buffers = td_buffer_pool_new(256 * MIB, 0);
    struct setup setup = { 0 };
    struct batch_call call;
    struct td_error err;
    bool on_device;
    struct td_devices *devices = open_devices(placement->device, buffers);
    setup.batcher = td_devices_batcher(devices);
    ck_assert_int_eq(td_devices_copying_threads(devices), 2);
    struct td_tensor a = table_of(ROWS, 0), b = table_of(ROWS, 1);
    if (placement->work == SUM) {
        batch_call_einsum(&call, "ij,ij->j", a, b, 0);
    } else {
        int64_t *indices = calloc(N, sizeof *indices);
        batch_call_rows(&call, &a, TD_BOUNDS_ERROR, indices, N);
        free(indices);
    }
    if (placement->there)
        upload(&setup, &a, TD_OK);
    EVENTUALLY(counts_of(&setup).in_flight == 0);
    const struct td_request request = { .op = call.item.op,
                                        .args = call.args,
                                        .common.device = TD_DEVICE_AUTO };
    const struct td_cost cost = { 0 };
    ck_assert_int_eq(td_devices_place(devices, &request, &call.item.resident, &cost,
                                      (uint64_t)placement->cpu_ms * 1000000, &on_device, &err),
                     TD_OK);
    EXPECT(on_device == placement->on_device, "%s; the CPU takes %d ms", placement->says,
           placement->cpu_ms);
    batch_call_end(&call);
    td_devices_close(devices);
    td_buffer_pool_free(buffers);
    td_buffer_unref(a.owner);
    td_buffer_unref(b.owner);
}

static bool is_valid;

static bool check_values(const struct td_op_args *args)
{
    (void)args;
    return is_valid;
}

/* A device computes with offsets and segments that it has not checked. */
TD_TEST_LOOP(a_call_whose_values_are_not_valid_stays_on_the_cpu, 0, 4)
{
    struct td_buffer_pool *buffers = td_buffer_pool_new(256 * MIB, 0);
    struct td_devices *devices = open_devices("", buffers);
    struct td_tensor table = table_of(10, 0);
    struct td_op op = td_op_gather;
    struct batch_call call;
    struct td_error err;
    bool on_device;
    is_valid = _i % 2;
    op.valid = check_values;
    batch_call_row(&call, &table, 1);
    const struct td_request request = { .op = &op,
                                        .args = call.args,
                                        .common.device = _i < 2 ? TD_DEVICE_AUTO : TD_DEVICE_GPU };
    const struct td_cost cost = { 0 };
    ck_assert_int_eq(td_devices_place(devices, &request, &call.item.resident, &cost, UINT64_MAX,
                                      &on_device, &err),
                     TD_OK);
    ck_assert_int_eq(on_device, is_valid);
    batch_call_end(&call);
    td_devices_close(devices);
    td_buffer_pool_free(buffers);
    td_buffer_unref(table.owner);
}

/* Each launch takes 1 ms, and the steps of a program are one launch after another. */
TD_TEST_LOOP(each_launch_of_a_program_takes_its_time, 0, 2)
{
    struct td_buffer_pool *buffers = td_buffer_pool_new(256 * MIB, 0);
    struct td_devices *devices = open_devices("launch_us=1000", buffers);
    const struct td_batch_tables none = { 0 };
    const struct td_cost cost = { 0 };
    struct sample sample;
    struct op_call call;
    struct td_error err;
    bool on_device;
    sample_begin(&sample);
    const int x = sample_input(&sample, tensor("float32[2,3] 1 2 3 4 5 6"));
    const int sum = sample_step(&sample, "cumsum", "", OPERANDS(x), 1);
    const int flat = sample_step(&sample, "reshape", "shape=-1", OPERANDS(sum), 1);
    const int total = sample_step(&sample, "reduce_sum", "", OPERANDS(flat), 1);
    const int root = sample_step(&sample, "sqrt", "", OPERANDS(total), 1);
    sample_output(&sample, sample_step(&sample, "negative", "", OPERANDS(root), 1));
    EXPECT_OK(sample_infer(&sample, &call), &call.err);
    struct td_program_plan *plan = (struct td_program_plan *)(uintptr_t)call.args.plan;
    EXPECT_OK(td_program_find_inputs(plan, &test_arena, &err), &err);
    const struct td_request request = { .op = &sample.program.op,
                                        .args = call.args,
                                        .common.device = TD_DEVICE_AUTO };
    /* cumsum, reduce_sum, and a chain: 3 ms */
    ck_assert_int_eq(td_devices_place(devices, &request, &none, &cost, _i == 0 ? 2900000 : 3100000,
                                      &on_device, &err),
                     TD_OK);
    ck_assert_int_eq(on_device, _i == 1);
    td_devices_close(devices);
    td_buffer_pool_free(buffers);
}
