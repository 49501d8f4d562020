#include "gpu/reference/reference.h"
#include "tests/gates/clock.h"
#include "tests/support/op_call.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct td_device_api *api;
static struct td_device *device;
static struct td_device_stream *stream;
static struct td_error err;

#define LONG_TIMEOUT_NS ((int64_t)30 * 1000000000)

/* ---- opening and closing --------------------------------------------------------------------- */

static td_status try_open(const char *text)
{
    struct td_device_options options = { .text = text };
    api = td_device_reference();
    return api->open(&options, &device, &err);
}

static void open_with(const char *text)
{
    EXPECT_OK(try_open(text), &err);
    EXPECT_OK(api->stream_open(device, &stream, &err), &err);
}

static uint64_t memory_used(void)
{
    struct td_device_info info;
    api->info(device, &info);
    return info.memory_used;
}

static void close_without_leaks(void)
{
    api->stream_close(stream);
    ck_assert_uint_eq(memory_used(), 0);
    api->close(device);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 0);
}

static void *device_memory(const void *from, size_t bytes)
{
    void *memory;
    EXPECT_OK(api->alloc(device, bytes, &memory, &err), &err);
    if (from)
        EXPECT_OK(api->copy_to_device(stream, memory, from, bytes, &err), &err);
    return memory;
}

static void *host_memory(size_t bytes)
{
    void *memory;
    EXPECT_OK(api->host_alloc(device, bytes, &memory, &err), &err);
    return memory;
}

static void synchronize(struct td_device_stream *of)
{
    bool done = false;
    EXPECT_OK(api->wait(of, LONG_TIMEOUT_NS, &done, &err), &err);
    ck_assert(done);
}

static bool is_done(struct td_device_stream *of)
{
    bool done;
    EXPECT_OK(api->poll(of, &done, &err), &err);
    return done;
}

/* ---- a launch -------------------------------------------------------------------------------- */

struct launch {
    struct op_call call;
    struct td_device_work work;
    int64_t item_end[8];
};

/* Copies the call's inputs to the device; allocates its output and workspace there. */
static void prepare(struct launch *launch, const char *op, const char *attrs, const char *first,
                    const char *second)
{
    call_begin(&launch->call, op, attrs, tensor(first), tensor(second));
    call_infer(&launch->call, op);
    struct td_op_args *args = &launch->call.args;
    ck_assert_msg(launch->call.status == TD_OK, "%s", launch->call.err.message);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < args->inputs[i].count; j++) {
            struct td_tensor *t = &args->inputs[i].tensors[j];
            t->data = device_memory(t->data, t->bytes);
        }
    args->outputs[0].data = device_memory(NULL, args->outputs[0].bytes);
    launch->work = (struct td_device_work){
        .op = td_op_named(op, strlen(op)),
        .args = args,
        .n_items = 1,
        .reports = host_memory(8 * sizeof(struct td_device_report)),
    };
    size_t workspace = api->workspace_bytes(device, &launch->work);
    launch->work.workspace = workspace > 0 ? device_memory(NULL, workspace) : NULL;
}

static td_status submit(struct launch *launch)
{
    return api->run(stream, &launch->work, &err);
}

static void free_launch(struct launch *launch)
{
    struct td_op_args *args = &launch->call.args;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < args->inputs[i].count; j++)
            api->free(device, args->inputs[i].tensors[j].data);
    api->free(device, args->outputs[0].data);
    api->free(device, launch->work.workspace);
    api->host_free(device, launch->work.reports);
}

static void expect_output(struct launch *launch, const char *want, const char *says)
{
    struct td_tensor got = launch->call.args.outputs[0];
    got.data = td_arena_alloc(&test_arena, got.bytes, 1, &err);
    EXPECT_OK(
        api->copy_to_host(stream, got.data, launch->call.args.outputs[0].data, got.bytes, &err),
        &err);
    synchronize(stream);
    expect_tensor(&got, want, says);
}

static void prepare_gather(struct launch *launch)
{
    prepare(launch, "gather", "", "int32[3] 10 20 30", "int32[2] 2 0");
}

/* ---- results and reports --------------------------------------------------------------------- */

static const struct {
    const char *says, *op, *attrs, *first, *second, *output;
    int64_t first_bad, n_bad;
} results[] = {
    { "valid indices", "gather", "", "int32[3] 10 20 30", "int32[2] 2 0", "int32[2] 30 10",
      INT64_MAX, 0 },
    { "an error leaves zeros", "gather", "", "int32[3] 10 20 30", "int64[3] 1 3 -1",
      "int32[3] 20 0 0", 1, 2 },
    { "zero", "gather", "bounds=zero", "int32[3] 10 20 30", "int16[3] 1 3 -1", "int32[3] 20 0 0", 1,
      2 },
    { "clip", "gather", "bounds=clip", "int32[3] 10 20 30", "int32[3] 1 9 -9", "int32[3] 20 30 10",
      1, 2 },
    { "wrap", "gather", "bounds=wrap", "int32[3] 10 20 30", "int32[3] 0 -1 3", "int32[3] 10 30 10",
      1, 2 },
    { "clip into an empty range leaves zeros", "gather", "bounds=clip axis=1", "int32[2,0]",
      "int32[1] 0", "int32[2,1] 0 0", 0, 1 },
    { "an axis in the middle: each index counts once", "gather", "axis=1", "int32[2,2] 1 2 3 4",
      "int32[2] 1 2", "int32[2,2] 2 0 4 0", 1, 1 },
    { "an axis from the end", "gather", "axis=-2", "int32[2,1] 1 2", "int32[2] 1 2",
      "int32[2,1] 2 0", 1, 1 },
    { "batch dimensions from the end", "gather", "batch_dims=-1", "int32[2,2] 1 2 3 4",
      "int32[2,1] 1 2", "int32[2,1] 2 0", 1, 1 },
    { "an output without elements", "gather", "", "int32[3,0]", "int32[2] 0 7", "int32[2,0]", 1,
      1 },
    { "batch_gather", "batch_gather", "", "int32[2,2] 1 2 3 4", "int32[2,1] 1 2", "int32[2,1] 2 0",
      1, 1 },
    { "components of tuples", "gather_nd", "", "int32[2,2] 1 2 3 4", "int32[3,2] 0 1 1 2 -1 5",
      "int32[3] 2 0 0", 3, 3 },
    { "tuples under clip", "gather_nd", "bounds=clip", "int32[2,2] 1 2 3 4", "int32[2,2] 0 1 1 2",
      "int32[2] 2 4", 3, 1 },
    { "tuples without components", "gather_nd", "", "int32[2] 1 2", "int32[2,0]",
      "int32[2,2] 1 2 1 2", INT64_MAX, 0 },
    { "dynamic_stitch", "dynamic_stitch", "", "int32[2] 2 0", "int32[2] 5 6", "int32[3] 6 0 5",
      INT64_MAX, 0 },
    { "einsum without a second input", "einsum", "equation=ij->ji", "int32[1,2] 1 2", "int32[0]",
      "int32[2,1] 1 2", INT64_MAX, 0 },
};

TD_TEST_EACH(results_are_those_of_the_cpu_kernel_and_bad_indices_are_reported, results)
{
    struct launch launch;
    open_with("");
    prepare(&launch, results[_i].op, results[_i].attrs, results[_i].first, results[_i].second);
    EXPECT_OK(submit(&launch), &err);
    expect_output(&launch, results[_i].output, results[_i].says);
    ck_assert_int_eq(launch.work.reports[0].first_bad, results[_i].first_bad);
    ck_assert_int_eq(launch.work.reports[0].n_bad, results[_i].n_bad);
    free_launch(&launch);
    close_without_leaks();
}

TD_TEST(each_item_has_its_own_report)
{
    struct launch launch;
    open_with("");
    prepare(&launch, "gather", "", "int32[3] 10 20 30", "int32[6] 0 7 1 2 -1 9");
    memcpy(launch.item_end, (int64_t[]){ 0, 2, 4, 6, 6 }, 5 * sizeof(int64_t));
    launch.work.n_items = 5;
    launch.work.item_end = launch.item_end;
    EXPECT_OK(submit(&launch), &err);
    synchronize(stream);
    static const struct td_device_report want[] = {
        { INT64_MAX, 0 }, { 1, 1 }, { INT64_MAX, 0 }, { 0, 2 }, { INT64_MAX, 0 },
    };
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(launch.work.reports[i].first_bad, want[i].first_bad);
        ck_assert_int_eq(launch.work.reports[i].n_bad, want[i].n_bad);
    }
    ck_assert_uint_eq(td_device_reference_counts().items, 5);
    free_launch(&launch);
    close_without_leaks();
}

TD_TEST(reports_of_tuples_count_components)
{
    struct launch launch;
    open_with("");
    prepare(&launch, "gather_nd", "", "int32[2,2] 1 2 3 4", "int32[3,2] 0 1 1 2 -1 5");
    launch.work.n_items = 2;
    launch.work.item_end = (int64_t[]){ 2, 6 };
    EXPECT_OK(submit(&launch), &err);
    synchronize(stream);
    ck_assert_int_eq(launch.work.reports[0].n_bad, 0);
    ck_assert_int_eq(launch.work.reports[1].first_bad, 1);
    ck_assert_int_eq(launch.work.reports[1].n_bad, 3);
    free_launch(&launch);
    close_without_leaks();
}

TD_TEST(work_without_reports_runs)
{
    struct launch launch;
    open_with("");
    prepare_gather(&launch);
    struct td_device_report *reports = launch.work.reports;
    launch.work.reports = NULL;
    EXPECT_OK(submit(&launch), &err);
    expect_output(&launch, "int32[2] 30 10", "without reports");
    launch.work.reports = reports;
    free_launch(&launch);
    close_without_leaks();
}

TD_TEST(the_workspace_is_requested_and_used)
{
    struct launch launch;
    open_with("");
    prepare(&launch, "dynamic_partition", "num_partitions=1", "int32[3] 1 2 3", "int32[3] 0 0 0");
    ck_assert_ptr_nonnull(launch.work.workspace);
    EXPECT_OK(submit(&launch), &err);
    expect_output(&launch, "int32[3] 1 2 3", "one partition");
    free_launch(&launch);
    close_without_leaks();
}

TD_TEST(strings_are_not_supported)
{
    struct launch launch;
    open_with("");
    prepare_gather(&launch);
    ck_assert(api->supports(launch.work.op, launch.work.args));
    launch.call.args.inputs[0].tensors->dtype = TD_DTYPE_STRING;
    ck_assert(!api->supports(launch.work.op, launch.work.args));
    ck_assert_int_eq(submit(&launch), TD_NOT_SUPPORTED);
    free_launch(&launch);
    close_without_leaks();
}

/* ---- memory ---------------------------------------------------------------------------------- */

TD_TEST(memory_is_aligned_counted_and_limited)
{
    struct td_device_options options = { .memory = 1024, .text = "" };
    struct td_device_info info;
    void *first, *second, *third;
    api = td_device_reference();
    EXPECT_OK(api->open(&options, &device, &err), &err);
    EXPECT_OK(api->alloc(device, 0, &first, &err), &err);
    EXPECT_OK(api->alloc(device, 257, &second, &err), &err);
    ck_assert_uint_eq((uintptr_t)first % 256, 0);
    ck_assert_uint_eq((uintptr_t)second % 256, 0);
    ck_assert_int_ne(((char *)second)[256], 0); /* fresh memory is not zeroed */
    api->info(device, &info);
    ck_assert_uint_eq(info.memory, 1024);
    ck_assert_uint_eq(info.memory_used, 768);
    ck_assert_int_eq(api->alloc(device, 257, &third, &err), TD_MEMORY_EXHAUSTED);
    EXPECT_MESSAGE(&err, "256 of its 1024 bytes left; 257 are needed");
    ck_assert_ptr_null(third);
    ck_assert_int_eq(api->alloc(device, SIZE_MAX, &third, &err), TD_MEMORY_EXHAUSTED);
    EXPECT_OK(api->alloc(device, 256, &third, &err), &err); /* a failed allocation has no effect */
    api->free(device, first);
    api->free(device, second);
    api->free(device, third);
    api->free(device, NULL);
    EXPECT_OK(api->host_alloc(device, 10000, &first, &err), &err); /* not device memory */
    ck_assert_uint_eq((uintptr_t)first % 64, 0);
    ck_assert_int_eq(api->host_alloc(device, SIZE_MAX, &second, &err), TD_MEMORY_EXHAUSTED);
    api->host_free(device, first);
    ck_assert_uint_eq(memory_used(), 0);
    api->close(device);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
}

TD_TEST(closing_a_device_frees_and_counts_leaks)
{
    open_with("");
    device_memory(NULL, 1);
    device_memory(NULL, 2);
    host_memory(3);
    api->close(device);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 4); /* the stream is one */
    api->close(NULL);
}

TD_TEST(after_a_double_free_every_call_is_an_error)
{
    bool done;
    open_with("");
    void *memory = device_memory(NULL, 100), *other;
    api->free(device, memory);
    ck_assert_uint_eq(memory_used(), 0);
    api->free(device, memory);
    ck_assert_uint_eq(memory_used(), 0);
    ck_assert_int_eq(api->alloc(device, 1, &other, &err), TD_INTERNAL);
    EXPECT_MESSAGE(&err, "free was called with");
    ck_assert_int_eq(api->poll(stream, &done, &err), TD_INTERNAL);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 1);
    api->close(device);
}

TD_TEST(host_free_refuses_device_memory)
{
    void *other;
    open_with("");
    api->host_free(device, device_memory(NULL, 100));
    ck_assert_int_eq(api->host_alloc(device, 1, &other, &err), TD_INTERNAL);
    EXPECT_MESSAGE(&err, "host_free was called with");
    api->close(device);
}

/* ---- violations of the contract -------------------------------------------------------------- */

static char host_bytes[512];

static void table_on_the_host(struct launch *launch)
{
    launch->call.args.inputs[0].tensors->data = host_bytes;
}

static void indices_past_the_end(struct launch *launch)
{
    struct td_tensor *indices = launch->call.args.inputs[1].tensors;
    indices->data = (char *)indices->data + sizeof(int32_t);
}

static void output_on_the_host(struct launch *launch)
{
    launch->call.args.outputs[0].data = host_bytes;
}

static void misaligned_output(struct launch *launch)
{
    launch->call.args.outputs[0].data = (char *)device_memory(NULL, 512) + 32;
}

static void misaligned_table(struct launch *launch)
{
    launch->call.args.inputs[0].tensors->data = (char *)device_memory(NULL, 512) + 2;
}

static void reports_not_pinned(struct launch *launch)
{
    static struct td_device_report reports[8];
    launch->work.reports = reports;
}

static void no_items(struct launch *launch)
{
    launch->work.n_items = 0;
}

static void no_item_end(struct launch *launch)
{
    launch->work.n_items = 2;
}

static void items_that_end_early(struct launch *launch)
{
    launch->work.n_items = 2;
    launch->work.item_end = memcpy(launch->item_end, (int64_t[]){ 1, 1 }, 2 * sizeof(int64_t));
}

static void items_that_overlap(struct launch *launch)
{
    launch->work.n_items = 3;
    launch->work.item_end = memcpy(launch->item_end, (int64_t[]){ 2, 1, 2 }, 3 * sizeof(int64_t));
}

static const struct {
    void (*violate)(struct launch *launch);
    const char *says;
} misuses[] = {
    { table_on_the_host, "params[0], 12 bytes at " },
    { indices_past_the_end, "indices[0], 8 bytes at " },
    { output_on_the_host, "outputs[0], 8 bytes at " },
    { misaligned_output, "is not aligned to 64 bytes" },
    { misaligned_table, "is not aligned to 4 bytes" },
    { reports_not_pinned, "the reports are not in host_alloc memory" },
    { no_items, "work has no items" },
    { no_item_end, "item_end is NULL for several items of indices" },
    { items_that_end_early, "the last item_end is not the number of indices" },
    { items_that_overlap, "an item_end is below the previous item_end" },
};

TD_TEST_EACH(work_that_violates_the_contract_is_refused, misuses)
{
    struct launch launch;
    open_with("");
    prepare_gather(&launch);
    misuses[_i].violate(&launch);
    ck_assert_int_eq(submit(&launch), TD_INTERNAL);
    EXPECT_MESSAGE(&err, misuses[_i].says);
    ck_assert_uint_eq(td_device_reference_counts().launches, 0);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 1);
    api->close(device);
}

TD_TEST(items_split_no_tuple)
{
    struct launch launch;
    open_with("");
    prepare(&launch, "gather_nd", "", "int32[2,2] 1 2 3 4", "int32[2,2] 0 1 1 0");
    launch.work.n_items = 2;
    launch.work.item_end = (int64_t[]){ 1, 4 };
    ck_assert_int_eq(submit(&launch), TD_INTERNAL);
    api->close(device);
}

TD_TEST(a_missing_workspace_is_refused)
{
    struct launch launch;
    open_with("");
    prepare(&launch, "dynamic_partition", "num_partitions=1", "int32[3] 1 2 3", "int32[3] 0 0 0");
    launch.work.workspace = NULL;
    ck_assert_int_eq(submit(&launch), TD_INTERNAL);
    EXPECT_MESSAGE(&err, "the workspace is not");
    api->close(device);
}

TD_TEST(an_input_may_point_into_a_larger_allocation)
{
    struct launch launch;
    open_with("");
    prepare_gather(&launch);
    struct td_tensor *params = launch.call.args.inputs[0].tensors;
    char *block = device_memory(NULL, 64);
    EXPECT_OK(api->copy_to_device(stream, block + 4, (int32_t[]){ 1, 2, 3 }, 12, &err), &err);
    api->free(device, params->data);
    params->data = block + 4;
    EXPECT_OK(submit(&launch), &err);
    expect_output(&launch, "int32[2] 3 1", "inside an allocation");
    params->data = block;
    free_launch(&launch);
    close_without_leaks();
}

TD_TEST(copies_check_which_side_is_device_memory)
{
    open_with("");
    char *memory = device_memory(NULL, 100), other[101] = "abc";
    ck_assert_int_eq(api->copy_to_device(stream, memory, other, 101, &err), TD_INTERNAL);
    EXPECT_MESSAGE(&err, "copy_to_device of 101 bytes");
    ck_assert_int_eq(api->copy_to_device(stream, memory + 1, other, 100, &err), TD_INTERNAL);
    ck_assert_int_eq(api->copy_to_device(stream, other, other, 1, &err), TD_INTERNAL);
    ck_assert_int_eq(api->copy_to_device(stream, memory, memory + 8, 1, &err), TD_INTERNAL);
    EXPECT_MESSAGE(&err, "is device memory; expected host memory");
    ck_assert_int_eq(api->copy_to_host(stream, other, other, 1, &err), TD_INTERNAL);
    ck_assert_int_eq(api->copy_to_host(stream, memory, memory + 8, 1, &err), TD_INTERNAL);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 6);
    ck_assert_uint_eq(td_device_reference_counts().copies_to_device, 0);
    EXPECT_OK(api->copy_to_device(stream, memory + 99, other, 1, &err), &err);
    EXPECT_OK(api->copy_to_device(stream, NULL, NULL, 0, &err), &err); /* 0 bytes: any address */
    EXPECT_OK(api->copy_to_host(stream, other + 1, memory + 99, 1, &err), &err);
    synchronize(stream);
    ck_assert_str_eq(other, "aac");
    struct td_device_reference_counts counts = td_device_reference_counts();
    ck_assert_uint_eq(counts.copies_to_device, 2);
    ck_assert_uint_eq(counts.bytes_to_device, 1);
    ck_assert_uint_eq(counts.copies_to_host, 1);
    ck_assert_uint_eq(counts.bytes_to_host, 1);
    api->close(device);
}

/* ---- time ------------------------------------------------------------------------------------ */

#define US ((int64_t)1000)

/* A second thread that waits for a stream, or closes it. */
struct waiting {
    struct td_device_stream *stream;
    bool closes;
    atomic_bool ended;
    pthread_t thread;
};

static void *run_waiting(void *context)
{
    struct waiting *self = context;
    struct td_error own;
    bool done = false;
    if (self->closes)
        api->stream_close(self->stream);
    else
        EXPECT(api->wait(self->stream, LONG_TIMEOUT_NS, &done, &own) == TD_OK && done, "%s",
               own.message);
    atomic_store(&self->ended, true);
    return NULL;
}

static void wait_begin(struct waiting *self, struct td_device_stream *of, bool closes)
{
    *self = (struct waiting){ .stream = of, .closes = closes };
    ck_assert_int_eq(pthread_create(&self->thread, NULL, run_waiting, self), 0);
}

/* Advances the stopped clock: the wait ends after so much more time, not before. */
static void wait_lasts(struct waiting *self, int64_t ns)
{
    test_clock_advance(ns - 1);
    ck_assert(!atomic_load(&self->ended));
    test_clock_advance(1);
    ck_assert_int_eq(pthread_join(self->thread, NULL), 0);
}

TD_TEST(a_stream_without_work_is_done)
{
    bool done;
    open_with("launch_us=1000000");
    ck_assert(is_done(stream));
    EXPECT_OK(api->wait(stream, 0, &done, &err), &err);
    ck_assert(done);
    close_without_leaks();
}

TD_TEST(a_launch_is_not_done_before_its_time)
{
    struct launch launch;
    struct waiting waiting;
    open_with("launch_us=30000");
    prepare_gather(&launch);
    test_clock_stop();
    EXPECT_OK(submit(&launch), &err);
    test_clock_advance(30000 * US - 1);
    ck_assert(!is_done(stream));
    wait_begin(&waiting, stream, false);
    wait_lasts(&waiting, 1);
    ck_assert(is_done(stream));
    free_launch(&launch);
    close_without_leaks();
}

TD_TEST(a_wait_ends_after_its_timeout)
{
    struct launch launch;
    bool done = true;
    open_with("launch_us=1000000000");
    prepare_gather(&launch);
    EXPECT_OK(submit(&launch), &err);
    EXPECT_OK(api->wait(stream, 1, &done, &err), &err);
    ck_assert(!done);
    test_clock_advance(1000000000 * US);
    free_launch(&launch);
    close_without_leaks();
}

TD_TEST(streams_do_not_overlap)
{
    struct launch launch;
    struct td_device_stream *second;
    open_with("launch_us=20000");
    EXPECT_OK(api->stream_open(device, &second, &err), &err);
    prepare_gather(&launch);
    test_clock_stop();
    EXPECT_OK(api->run(second, &launch.work, &err), &err);
    EXPECT_OK(submit(&launch), &err);
    test_clock_advance(20000 * US);
    ck_assert(is_done(second));
    test_clock_advance(20000 * US - 1);
    ck_assert(!is_done(stream));
    test_clock_advance(1);
    ck_assert(is_done(stream));
    free_launch(&launch);
    api->stream_close(second);
    close_without_leaks();
}

TD_TEST(copies_take_time_for_their_bytes)
{
    enum { BYTES = 1000000 };
    open_with("copy_mb_per_s=50");
    char *host = host_memory(BYTES), *memory = device_memory(NULL, BYTES);
    memset(host, 1, BYTES);
    test_clock_stop();
    EXPECT_OK(api->copy_to_device(stream, memory, host, BYTES, &err), &err);
    EXPECT_OK(api->copy_to_host(stream, host, memory, BYTES, &err), &err);
    test_clock_advance(40000 * US - 1);
    ck_assert(!is_done(stream));
    test_clock_advance(1);
    ck_assert(is_done(stream));
    api->free(device, memory);
    api->host_free(device, host);
    close_without_leaks();
}

TD_TEST(closing_a_stream_waits_for_its_work)
{
    struct launch launch;
    struct waiting closing;
    open_with("launch_us=20000");
    prepare_gather(&launch);
    test_clock_stop();
    EXPECT_OK(submit(&launch), &err);
    wait_begin(&closing, stream, true);
    wait_lasts(&closing, 20000 * US);
    api->stream_close(NULL);
    free_launch(&launch);
    api->close(device);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
}

TD_TEST(the_info_agrees_with_the_options)
{
    struct td_device_info info;
    open_with("launch_us=7,copy_mb_per_s=5");
    api->info(device, &info);
    ck_assert_str_eq(info.kind, "reference");
    ck_assert_uint_eq(info.launch_ns, 7000);
    ck_assert_uint_eq(info.copy_bytes_per_us, 5);
    ck_assert_uint_eq(info.back_bytes_per_us, 5);
    ck_assert_uint_eq(info.memory, 1 << 30);
    close_without_leaks();
    open_with("copy_mb_per_s=5,back_mb_per_s=6,fill_mb_per_s=7");
    api->info(device, &info);
    ck_assert_uint_eq(info.copy_bytes_per_us, 5);
    ck_assert_uint_eq(info.back_bytes_per_us, 6);
    ck_assert_uint_eq(info.fill_bytes_per_us, 7);
    close_without_leaks();
    open_with("");
    api->info(device, &info);
    ck_assert_uint_gt(info.launch_ns, 0);
    ck_assert_uint_gt(info.copy_bytes_per_us, 0);
    ck_assert_uint_gt(info.back_bytes_per_us, 0);
    ck_assert_uint_gt(info.fill_bytes_per_us, 0);
    ck_assert_uint_gt(info.device_bytes_per_us, 0);
    ck_assert_uint_gt(info.float32_flops_per_us, 0);
    close_without_leaks();
}

/* ---- faults ---------------------------------------------------------------------------------- */

TD_TEST(allocations_fail_from_the_nth_on)
{
    void *memory;
    open_with("fail_alloc=2");
    void *first = device_memory(NULL, 1);
    ck_assert_int_eq(api->alloc(device, 1, &memory, &err), TD_MEMORY_EXHAUSTED);
    EXPECT_MESSAGE(&err, "fail_alloc");
    ck_assert_int_eq(api->alloc(device, 1, &memory, &err), TD_MEMORY_EXHAUSTED);
    api->free(device, first);
    ck_assert_int_eq(api->alloc(device, 1, &memory, &err), TD_MEMORY_EXHAUSTED);
    api->host_free(device, host_memory(1)); /* device memory only */
    close_without_leaks();
}

TD_TEST(a_lost_device_reports_it_until_it_is_opened_again)
{
    struct launch launch;
    struct td_device_stream *other;
    struct td_device_info info;
    void *memory;
    bool done = true;
    open_with("lose_at=2,launch_us=1000");
    prepare_gather(&launch);
    EXPECT_OK(submit(&launch), &err);
    EXPECT_OK(submit(&launch), &err); /* loses the device, reported later */
    ck_assert_int_eq(api->poll(stream, &done, &err), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "lost at launch 2");
    ck_assert(!done);
    ck_assert_int_eq(api->wait(stream, LONG_TIMEOUT_NS, &done, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(submit(&launch), TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(
        api->copy_to_device(stream, launch.call.args.outputs[0].data, host_bytes, 1, &err),
        TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(
        api->copy_to_host(stream, host_bytes, launch.call.args.outputs[0].data, 1, &err),
        TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(api->alloc(device, 1, &memory, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(api->host_alloc(device, 1, &memory, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(api->stream_open(device, &other, &err), TD_DEVICE_UNAVAILABLE);
    api->info(device, &info); /* still works */
    api->free(device, launch.work.workspace);
    api->stream_close(stream);
    api->close(device);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0); /* freed by close, not leaked */

    open_with("lose_at=2,launch_us=1000");
    prepare_gather(&launch);
    for (int i = 0; i < 5; i++)
        EXPECT_OK(submit(&launch), &err);
    expect_output(&launch, "int32[2] 30 10", "after reopening");
    free_launch(&launch);
    close_without_leaks();
    ck_assert_uint_eq(td_device_reference_counts().opens, 2);
}

TD_TEST(a_launch_that_never_completes_writes_nothing_and_can_be_closed)
{
    struct launch launch;
    struct td_device_stream *second;
    bool done = true;
    open_with("hang_at=2");
    EXPECT_OK(api->stream_open(device, &second, &err), &err);
    prepare_gather(&launch);
    EXPECT_OK(submit(&launch), &err);
    synchronize(stream);
    launch.work.reports[0].n_bad = 77;
    strcpy(host_bytes, "unchanged");
    EXPECT_OK(submit(&launch), &err);
    EXPECT_OK(api->copy_to_host(second, host_bytes, launch.call.args.outputs[0].data, 8, &err),
              &err);
    EXPECT_OK(submit(&launch), &err); /* after it */
    ck_assert(!is_done(stream));
    ck_assert(!is_done(second)); /* streams do not overlap */
    EXPECT_OK(api->wait(stream, 1000000, &done, &err), &err);
    ck_assert(!done);
    ck_assert_int_eq(launch.work.reports[0].n_bad, 77);
    ck_assert_str_eq(host_bytes, "unchanged");
    api->stream_close(second); /* does not wait */
    api->close(device);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
}

TD_TEST(the_nth_open_fails)
{
    ck_assert_int_eq(try_open("fail_open=1"), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "attempt 1 to open the reference device fails");
    ck_assert_ptr_null(device);
    ck_assert_uint_eq(td_device_reference_counts().opens, 0);
    open_with("fail_open=1");
    close_without_leaks();
    td_device_reference_reset();
    ck_assert_int_eq(try_open("fail_open=1"), TD_DEVICE_UNAVAILABLE);
}

static const struct {
    const char *says, *text;
    int faulty; /* so many of the first devices have the fault */
} recoveries[] = {
    { "the second has none", "fail_alloc=1", 1 },
    { "the third has none", "fail_alloc=1,recover=3", 2 },
    { "the first has none", "fail_alloc=1,recover=1", 0 },
    { "all have it", "fail_alloc=1,recover=0", 4 },
};

TD_TEST_EACH(a_device_recovers, recoveries)
{
    for (int i = 0; i < 4; i++) {
        void *memory;
        open_with(recoveries[_i].text);
        td_status status = api->alloc(device, 1, &memory, &err);
        ck_assert_msg(status == (i < recoveries[_i].faulty ? TD_MEMORY_EXHAUSTED : TD_OK),
                      "%s, opening %d", recoveries[_i].says, i);
        api->free(device, memory);
        close_without_leaks();
    }
}

TD_TEST(a_failed_open_does_not_count_for_recover)
{
    void *memory;
    const char *text = "fail_alloc=1,fail_open=1";
    ck_assert_int_eq(try_open(text), TD_DEVICE_UNAVAILABLE);
    open_with(text);
    ck_assert_int_eq(api->alloc(device, 1, &memory, &err), TD_MEMORY_EXHAUSTED);
    close_without_leaks();
}

TD_TEST(only_device_0_exists)
{
    struct td_device_options options = { .ordinal = 1, .text = "" };
    api = td_device_reference();
    ck_assert_int_eq(api->open(&options, &device, &err), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "the only one is 0");
}

/* ---- options --------------------------------------------------------------------------------- */

static const struct {
    const char *text, *says, *attribute;
} invalid_options[] = {
    { "launch=1",
      "no option \"launch\"; expected launch_us, copy_mb_per_s, back_mb_per_s, fill_mb_per_s, "
      "fail_alloc,",
      "" },
    { "launch_us", "launch_us is \"\"; expected a number from 0 to 1000000000", "launch_us" },
    { "launch_us=", "launch_us is \"\"", "launch_us" },
    { "launch_us=1x", "launch_us is \"1x\"", "launch_us" },
    { "launch_us= 1", "launch_us is \" 1\"", "launch_us" },
    { "launch_us=-1", "launch_us is \"-1\"", "launch_us" },
    { "lose_at=1000000001", "lose_at is \"1000000001\"", "lose_at" },
    { "lose_at=99999999999999999999", "lose_at is ", "lose_at" },
    { "lose_at=1=2", "lose_at is \"1=2\"", "lose_at" },
    { "=1", "no option \"\"", "" },
    { ",lose_at=1", "no option \"\"", "" },
    { "lose_at=1,,hang_at=1", "no option \"\"", "" },
    { "lose_at=1,", "end with a comma", "" },
    { "lose_at=1,hang_at=2,lose_at=1", "lose_at is given twice", "lose_at" },
    { "LOSE_AT=1", "no option \"LOSE_AT\"", "" },
    { " lose_at=1", "no option \" lose_at\"", "" },
};

TD_TEST_EACH(invalid_options_are_refused, invalid_options)
{
    ck_assert_int_eq(try_open(invalid_options[_i].text), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, invalid_options[_i].says);
    ck_assert_str_eq(err.attribute, invalid_options[_i].attribute);
    ck_assert_ptr_null(device);
}

TD_TEST(all_options_can_be_combined)
{
    open_with("launch_us=1,copy_mb_per_s=1000000000,fail_alloc=9,lose_at=9,hang_at=8,fail_open=7,"
              "recover=6");
    close_without_leaks();
    EXPECT_OK(try_open(NULL), &err);
    api->close(device);
}
