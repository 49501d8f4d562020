/* test_plugin.c - the CUDA plugin when work is not complete yet, when any allocation fails, and
 * when a kernel corrupts the context: it behaves as gpu/device.h specifies, and leaks nothing. */
#include "gpu/loader/loader.h"
#include "kernels/op_check.h"
#include "tests/gpu/emulation/emulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 1000 };

static const struct td_device_api *api;
static struct td_error err;
static long passed, failed;

static bool check(bool holds, const char *says)
{
    if (holds)
        passed++;
    else
        failed++;
    if (!holds)
        printf("FAILED: %s\n", says);
    return holds;
}

/* ---- Fixture ----------------------------------------------------------------------------- */

/* A device with a stream and memory for a lookup that rotates the rows of a table by one. */
struct fixture {
    struct td_device *device;
    struct td_device_stream *stream;
    void *table, *indices, *rows; /* on the device */
    void *input, *output;         /* pinned memory: the table and the indices; the rows */
};

static struct fixture fixture; /* of the test; closed after it */

static td_status open_fixture(struct fixture *of)
{
    const struct td_device_options options = { .text = "" };
    const size_t bytes = ROWS * sizeof(int32_t);
    void **const on_device[] = { &of->table, &of->indices, &of->rows };
    *of = (struct fixture){ .device = NULL };
    td_status status = api->open(&options, &of->device, &err);
    if (status == TD_OK)
        status = api->stream_open(of->device, &of->stream, &err);
    for (int i = 0; i < 3 && status == TD_OK; i++)
        status = api->alloc(of->device, bytes, on_device[i], &err);
    if (status == TD_OK)
        status = api->host_alloc(of->device, 2 * bytes, &of->input, &err);
    if (status == TD_OK)
        status = api->host_alloc(of->device, bytes, &of->output, &err);
    return status;
}

static void close_fixture(struct fixture *of)
{
    if (!of->device)
        return;
    api->stream_close(of->stream);
    api->free(of->device, of->rows); /* close frees the others */
    api->close(of->device);
    of->device = NULL;
}

/* Submits the launch of a lookup, without copies. */
static td_status launch(struct fixture *of, int n_items, const int64_t *item_end,
                        struct td_device_report *reports, void *workspace)
{
    const struct td_op *gather = td_op_named("gather", strlen("gather"));
    struct td_shape shape = { .rank = 1, .dim = { ROWS } };
    struct td_tensor table, indices;
    struct td_op_args args = { .inputs = { { &table, 1 }, { &indices, 1 } } };
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_op_set_defaults(gather, &args);
    td_status status = td_tensor_describe(&table, "params", TD_DTYPE_INT32, &shape, &err);
    if (status == TD_OK)
        status = td_tensor_describe(&indices, "indices", TD_DTYPE_INT32, &shape, &err);
    if (status == TD_OK)
        status = td_op_infer(gather, &args, &arena, &err);
    if (status != TD_OK)
        goto done;
    table.data = of->table;
    indices.data = of->indices;
    args.outputs[0].data = of->rows;
    struct td_device_work work = { .op = gather,
                                   .args = &args,
                                   .n_items = n_items,
                                   .item_end = item_end,
                                   .reports = reports,
                                   .workspace = workspace };
    status = api->run(of->stream, &work, &err);
done:
    td_arena_reset(&arena);
    return status;
}

static td_status look_up(struct fixture *of)
{
    const size_t bytes = ROWS * sizeof(int32_t);
    int32_t *input = of->input;
    for (int i = 0; i < ROWS; i++) {
        input[i] = 7 * i;
        input[ROWS + i] = (i + ROWS - 1) % ROWS;
    }
    td_status status = api->copy_to_device(of->stream, of->table, input, bytes, &err);
    if (status == TD_OK)
        status = api->copy_to_device(of->stream, of->indices, input + ROWS, bytes, &err);
    if (status == TD_OK)
        status = launch(of, 1, NULL, NULL, NULL);
    if (status == TD_OK)
        status = api->copy_to_host(of->stream, of->output, of->rows, bytes, &err);
    return status;
}

static td_status synchronize(struct fixture *of)
{
    bool done = false;
    td_status status = api->wait(of->stream, INT64_C(60000000000), &done, &err);
    return status == TD_OK && !done ? TD_INTERNAL : status;
}

static bool is_rotated(const struct fixture *of)
{
    const int32_t *output = of->output;
    for (int i = 0; i < ROWS; i++)
        if (output[i] != 7 * ((i + ROWS - 1) % ROWS))
            return false;
    return true;
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void submitting_returns_before_the_work_is_complete(void)
{
    if (!check(open_fixture(&fixture) == TD_OK && look_up(&fixture) == TD_OK,
               "a lookup is submitted"))
        return;
    check(td_emulation_pending() > 0, "submitting returns before the work is complete");
    check(synchronize(&fixture) == TD_OK && is_rotated(&fixture), "the work completes");
    check(td_emulation_pending() == 0, "no work is pending then");
}

/* Item 0 of launch n has n + 1 indices, item 1 all others. All indices are bad. */
static void launches_in_flight_keep_their_own_items(void)
{
    enum { LAUNCHES = 6, ITEMS = 4000 };
    static int64_t end[ITEMS];
    void *reports, *workspace;
    const size_t workspace_bytes = (ITEMS * sizeof(end[0]) + 255) / 256 * 256;
    if (!check(
            open_fixture(&fixture) == TD_OK &&
                api->host_alloc(fixture.device, LAUNCHES * ITEMS * sizeof(struct td_device_report),
                                &reports, &err) == TD_OK &&
                api->alloc(fixture.device, LAUNCHES * workspace_bytes, &workspace, &err) == TD_OK,
            "a device is opened"))
        return;
    memset(fixture.input, -1, ROWS * sizeof(int32_t));
    td_status status = api->copy_to_device(fixture.stream, fixture.indices, fixture.input,
                                           ROWS * sizeof(int32_t), &err);
    for (int n = 0; n < LAUNCHES && status == TD_OK; n++) {
        for (int k = 0; k < ITEMS; k++)
            end[k] = k == 0 ? n + 1 : ROWS;
        status = launch(&fixture, ITEMS, end, (struct td_device_report *)reports + n * ITEMS,
                        (char *)workspace + (size_t)n * workspace_bytes);
    }
    check(status == TD_OK && synchronize(&fixture) == TD_OK, "lookups of many items complete");
    for (int n = 0; n < LAUNCHES; n++) {
        const struct td_device_report *of = (struct td_device_report *)reports + n * ITEMS;
        check(of[0].n_bad == n + 1 && of[1].n_bad == ROWS - n - 1 && of[2].n_bad == 0,
              "each reports its own items");
    }
}

/* All indices are bad. */
static void a_batch_of_256_items_is_one_kernel_without_a_copy(void)
{
    enum { ITEMS = 256 };
    static int64_t end[ITEMS];
    void *memory;
    if (!check(open_fixture(&fixture) == TD_OK &&
                   api->host_alloc(fixture.device, ITEMS * sizeof(struct td_device_report), &memory,
                                   &err) == TD_OK,
               "a device is opened"))
        return;
    const struct td_device_report *reports = memory;
    for (int k = 0; k < ITEMS; k++)
        end[k] = k < ITEMS - 1 ? 3 * k + 1 : ROWS;
    memset(fixture.input, -1, ROWS * sizeof(int32_t));
    check(api->copy_to_device(fixture.stream, fixture.indices, fixture.input,
                              ROWS * sizeof(int32_t), &err) == TD_OK &&
              synchronize(&fixture) == TD_OK,
          "indices are copied to it");
    check(launch(&fixture, ITEMS, end, memory, NULL) == TD_OK && td_emulation_pending() == 1,
          "a lookup of 256 items needs no workspace, and submits its kernel only");
    check(synchronize(&fixture) == TD_OK && reports[0].n_bad == 1 && reports[100].n_bad == 3 &&
              reports[255].n_bad == ROWS - 3 * 254 - 1,
          "which reports each item");
}

static void a_small_lookup_in_pinned_memory_is_one_kernel_without_a_copy(void)
{
    struct td_device_info info;
    if (!check(open_fixture(&fixture) == TD_OK, "a device is opened"))
        return;
    int32_t *input = fixture.input;
    struct fixture direct = fixture;
    api->info(fixture.device, &info);
    check(info.direct_bytes >= 3 * ROWS * sizeof(int32_t), "it computes in pinned memory");
    for (int i = 0; i < ROWS; i++) {
        input[i] = 7 * i;
        input[ROWS + i] = (i + ROWS - 1) % ROWS;
    }
    direct.table = input;
    direct.indices = input + ROWS;
    direct.rows = fixture.output;
    check(launch(&direct, 1, NULL, NULL, NULL) == TD_OK && td_emulation_pending() == 1,
          "a lookup in pinned memory submits its kernel only");
    check(synchronize(&fixture) == TD_OK && is_rotated(&fixture), "which writes the rows there");
}

#define LARGE ((size_t)9000001)

static void a_device_may_be_lost_before_a_large_copy(void)
{
    void *device_memory;
    char *memory = calloc(LARGE, 1);
    if (!check(memory && open_fixture(&fixture) == TD_OK &&
                   api->alloc(fixture.device, LARGE, &device_memory, &err) == TD_OK,
               "a device is opened"))
        return;
    td_emulation_lose(1);
    check(look_up(&fixture) == TD_OK &&
              api->copy_to_device(fixture.stream, device_memory, memory, LARGE, &err) == TD_OK,
          "a lookup and a large copy are submitted");
    check(synchronize(&fixture) == TD_DEVICE_UNAVAILABLE, "the lookup loses the device");
    close_fixture(&fixture);
    free(memory);
}

/* A call that waits for it ends the process. */
static void nothing_waits_for_a_kernel_that_hangs(void)
{
    const size_t bytes = ROWS * sizeof(int32_t);
    struct td_device_stream *other;
    void *device_memory, *host_memory;
    bool done = true;
    if (!check(open_fixture(&fixture) == TD_OK &&
                   api->stream_open(fixture.device, &other, &err) == TD_OK,
               "a device is opened, with two streams"))
        return;
    td_emulation_hang(1);
    check(look_up(&fixture) == TD_OK, "a kernel is submitted that hangs");
    check(api->wait(fixture.stream, 1000000, &done, &err) == TD_OK && !done,
          "wait returns at its timeout");
    for (int i = 0; i < 3; i++) {
        check(api->alloc(fixture.device, bytes, &device_memory, &err) == TD_OK &&
                  api->host_alloc(fixture.device, bytes, &host_memory, &err) == TD_OK,
              "memory is allocated meanwhile");
        memset(host_memory, i, bytes);
        check(api->copy_to_device(other, device_memory, host_memory, bytes, &err) == TD_OK,
              "another stream gets work");
        api->free(fixture.device, device_memory);
        api->host_free(fixture.device, host_memory);
    }
    api->free(fixture.device, fixture.table); /* which the kernel reads */
    done = false;
    check(api->wait(other, INT64_C(60000000000), &done, &err) == TD_OK && done,
          "the other stream completes its work");
    td_emulation_hang(0);
    check(synchronize(&fixture) == TD_OK && is_rotated(&fixture),
          "the kernel goes on, with the memory that was freed");
    api->stream_close(other);
}

/* Of more items than the stream's first staging memory has room for. */
static void large_launches_beside_a_kernel_that_hangs_do_not_wait(void)
{
    enum { ITEMS = 20000, LAUNCHES = 3 };
    static int64_t end[ITEMS];
    struct fixture other;
    void *reports, *workspace;
    bool done = false;
    if (!check(open_fixture(&fixture) == TD_OK, "a device is opened"))
        return;
    other = fixture;
    const size_t bytes = ITEMS * (sizeof(struct td_device_report) + 2 * sizeof(end[0])) + 512;
    if (!check(api->stream_open(fixture.device, &other.stream, &err) == TD_OK &&
                   api->host_alloc(fixture.device, bytes, &reports, &err) == TD_OK &&
                   api->alloc(fixture.device, bytes, &workspace, &err) == TD_OK,
               "with two streams"))
        return;
    for (int k = 0; k < ITEMS; k++)
        end[k] = k < ROWS ? k + 1 : ROWS;
    memset(fixture.input, -1, ROWS * sizeof(int32_t));
    check(api->copy_to_device(fixture.stream, fixture.indices, fixture.input,
                              ROWS * sizeof(int32_t), &err) == TD_OK &&
              synchronize(&fixture) == TD_OK,
          "indices are all bad");
    td_emulation_hang(1);
    check(launch(&fixture, 1, NULL, NULL, NULL) == TD_OK, "a kernel is submitted that hangs");
    for (int i = 0; i < LAUNCHES; i++)
        check(launch(&other, ITEMS, end, reports, workspace) == TD_OK,
              "and launches of many items on the other stream");
    check(api->wait(other.stream, INT64_C(60000000000), &done, &err) == TD_OK && done,
          "which complete their work");
    for (int k = 0; k < ITEMS; k++)
        if (!check(((struct td_device_report *)reports)[k].n_bad == (k < ROWS), "and report it"))
            break;
    td_emulation_hang(0);
    check(synchronize(&fixture) == TD_OK, "the kernel goes on");
    api->stream_close(other.stream);
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

enum { SLICE_NS = 100000 };

/* Waits for one slice, as the batcher does. Returns how often the stream was queried. */
static size_t wait_for_a_slice(struct fixture *of)
{
    const size_t before = td_emulation_queries();
    bool done = false;
    check(api->wait(of->stream, SLICE_NS, &done, &err) == TD_OK && !done,
          "wait returns at its timeout");
    return td_emulation_queries() - before;
}

/* A wait sleeps for an eighth of the time since its work was first queried: once that is a slice it
 * queries at the beginning and the end of a slice alone, on a busy machine too. */
static void waiting_for_long_work_leaves_the_processor(void)
{
    enum { SLICES = 100 };
    if (!check(open_fixture(&fixture) == TD_OK, "a device is opened"))
        return;
    for (int i = 0; i < 2; i++) {
        td_emulation_hang(1);
        check(look_up(&fixture) == TD_OK, "work is submitted");
        (void)wait_for_a_slice(&fixture);
        for (const int64_t begin = now_ns(); now_ns() < begin + 8 * SLICE_NS;)
            (void)wait_for_a_slice(&fixture);
        for (int k = 0; k < SLICES; k++)
            if (!check(wait_for_a_slice(&fixture) <= 2, "short slices of a long wait are slept"))
                break;
        td_emulation_hang(0);
        check(synchronize(&fixture) == TD_OK, "the work completes");
    }
}

static void memory_is_freed_after_the_work_that_uses_it(void)
{
    enum { LAUNCHES = 20 };
    if (!check(open_fixture(&fixture) == TD_OK, "a device is opened"))
        return;
    for (int i = 0; i < LAUNCHES; i++) {
        check(look_up(&fixture) == TD_OK, "a lookup is submitted");
        api->free(fixture.device, fixture.table);
        api->free(fixture.device, fixture.indices);
        api->host_free(fixture.device, fixture.input);
        check(api->alloc(fixture.device, ROWS * sizeof(int32_t), &fixture.table, &err) == TD_OK &&
                  api->alloc(fixture.device, ROWS * sizeof(int32_t), &fixture.indices, &err) ==
                      TD_OK &&
                  api->host_alloc(fixture.device, 2 * ROWS * sizeof(int32_t), &fixture.input,
                                  &err) == TD_OK,
              "and its memory allocated anew");
        memset(fixture.input, 0, 2 * ROWS * sizeof(int32_t));
        if (i % 3 == 0)
            check(synchronize(&fixture) == TD_OK && is_rotated(&fixture), "the work completes");
    }
    check(synchronize(&fixture) == TD_OK, "all work completes");
}

/* The batcher asks for it at every batch. */
static void the_info_asks_no_stream_while_nothing_is_freed(void)
{
    struct td_device_info info;
    if (!check(open_fixture(&fixture) == TD_OK && look_up(&fixture) == TD_OK,
               "a lookup is submitted"))
        return;
    const size_t before = td_emulation_queries();
    api->info(fixture.device, &info);
    check(td_emulation_queries() == before && info.memory_freeing == 0,
          "the info asks no stream while nothing is being freed");
    api->free(fixture.device, fixture.rows);
    fixture.rows = NULL;
    api->info(fixture.device, &info);
    check(td_emulation_queries() > before, "but then");
    check(synchronize(&fixture) == TD_OK, "the work completes");
}

static void pinned_memory_is_used_again(void)
{
    const size_t bytes = 1 << 20;
    void *first, *second, *third;
    bool done;
    td_status status = open_fixture(&fixture);
    if (status == TD_OK)
        status = api->host_alloc(fixture.device, bytes, &first, &err);
    if (status == TD_OK)
        status = look_up(&fixture);
    if (!check(status == TD_OK, "a lookup is submitted"))
        return;
    td_emulation_hang(1); /* so that it is not complete when the memory is allocated again */
    check(look_up(&fixture) == TD_OK, "another one is submitted");
    api->host_free(fixture.device, first);
    check(api->host_alloc(fixture.device, bytes, &second, &err) == TD_OK && second != first,
          "memory that was freed is not used again before the work of the streams is complete");
    td_emulation_hang(0);
    check(synchronize(&fixture) == TD_OK, "the work completes");
    for (int i = 0; i < 200; i++) /* each of which runs some of the work */
        check(api->poll(fixture.stream, &done, &err) == TD_OK && done, "nothing is left of it");
    check(api->host_alloc(fixture.device, bytes * 3 / 4, &third, &err) == TD_OK && third == first,
          "but then");
}

/* While no stream is idle it cannot be freed. */
static void pinned_memory_that_waits_to_be_freed_is_bounded(void)
{
    enum { MOST = 10 };
    const size_t bytes = (size_t)16 << 20;
    void *memory;
    td_status status = TD_OK;
    int n = 0;
    if (!check(open_fixture(&fixture) == TD_OK, "a device is opened"))
        return;
    td_emulation_hang(1);
    check(look_up(&fixture) == TD_OK, "a kernel is submitted that hangs");
    for (; n < MOST; n++) {
        status = api->host_alloc(fixture.device, bytes + (size_t)n, &memory, &err);
        if (status != TD_OK)
            break;
        api->host_free(fixture.device, memory);
    }
    check(status == TD_MEMORY_EXHAUSTED && strstr(err.message, "being freed"),
          "no more than 64 MiB are retired, or as much as was in use");
    check(n >= 4, "but so much");
    td_emulation_hang(0);
    check(synchronize(&fixture) == TD_OK && is_rotated(&fixture), "the work completes");
    check(api->host_alloc(fixture.device, (MOST + 1) * bytes, &memory, &err) == TD_OK,
          "then there is memory again");
}

static void memory_that_is_being_freed_can_be_allocated(void)
{
    const size_t most = (size_t)500
                        << 20; /* which the emulation does not have twice beside a stream */
    void *memory;
    if (!check(open_fixture(&fixture) == TD_OK, "a device is opened"))
        return;
    for (int i = 0; i < 5; i++) {
        if (!check(api->alloc(fixture.device, most, &memory, &err) == TD_OK,
                   "all memory is allocated"))
            break;
        check(look_up(&fixture) == TD_OK && synchronize(&fixture) == TD_OK, "work completes");
        api->free(fixture.device, memory);
    }
}

static void an_option_sets_what_a_miss_fetches(void)
{
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = { { "", 32 },
                  { "fetch_bytes=64", 64 },
                  { "fetch_bytes=0", 64 }, /* as before */
                  { "fetch_bytes=128", 128 } };
    struct td_device *device = NULL;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct td_device_options options = { .text = cases[i].text };
        check(api->open(&options, &device, &err) == TD_OK &&
                  td_emulation_fetch_bytes() == cases[i].bytes,
              "rows of 32 bytes are fetched alone, unless the option says otherwise");
        api->close(device);
    }
    const struct td_device_options other = { .text = "fetch_bytes=33" };
    check(api->open(&other, &device, &err) == TD_INVALID_ARGUMENT &&
              strstr(err.message, "fetch_bytes=0, 32, 64 or 128"),
          "no other value is taken");
}

static void the_pool_has_a_limit_and_an_idle_device_gives_its_memory_back(void)
{
    const struct td_device_options options = { .memory = (uint64_t)64 << 20, .text = "" };
    struct td_device *device = NULL;
    struct td_device_info info;
    void *memory;
    if (!check(api->open(&options, &device, &err) == TD_OK, "a device is opened"))
        return;
    check(td_emulation_pool_limit() > options.memory &&
              td_emulation_pool_limit() < options.memory + ((size_t)512 << 20),
          "its pool takes no more than the limit, and half of what is reserved");
    for (int i = 0; i < 2; i++) {
        check(api->alloc(device, 1000, &memory, &err) == TD_OK, "memory is allocated");
        const long before = td_emulation_pool_trims();
        api->info(device, &info);
        check(td_emulation_pool_trims() == before, "which keeps what the pool has");
        api->free(device, memory);
        api->info(device, &info);
        api->info(device, &info);
        check(td_emulation_pool_trims() == before + 1, "without any it is given back, once");
    }
    api->close(device);
}

static void any_allocation_may_fail(void)
{
    for (long nth = 1; nth < 1000; nth++) {
        td_emulation_fail_alloc(nth);
        td_status status = open_fixture(&fixture);
        if (status == TD_OK)
            status = look_up(&fixture);
        if (status == TD_OK)
            status = synchronize(&fixture);
        td_emulation_fail_alloc(0);
        check(status == TD_OK ||
                  status == (fixture.device ? TD_MEMORY_EXHAUSTED : TD_DEVICE_UNAVAILABLE),
              "out of memory, open is DEVICE_UNAVAILABLE, any later call MEMORY_EXHAUSTED");
        check(status == TD_OK || (err.status == status && err.message[0] != '\0'),
              "with a message");
        bool succeeded = status == TD_OK;
        close_fixture(&fixture);
        if (!check(td_emulation_resources() == 0, "whichever allocation fails, nothing is leaked"))
            return;
        if (succeeded) {
            check(nth > 10, "opening a device allocates more than ten times");
            return;
        }
    }
    check(false, "it succeeds with enough memory");
}

static void a_device_remains_usable_after_a_failed_allocation(void)
{
    void *more;
    if (!check(open_fixture(&fixture) == TD_OK, "a device is opened"))
        return;
    td_emulation_fail_alloc(1);
    check(api->alloc(fixture.device, 100, &more, &err) == TD_MEMORY_EXHAUSTED,
          "alloc is MEMORY_EXHAUSTED");
    check(look_up(&fixture) == TD_OK && synchronize(&fixture) == TD_OK && is_rotated(&fixture),
          "work that allocates nothing completes");
    td_emulation_fail_alloc(0);
    check(api->alloc(fixture.device, 100, &more, &err) == TD_OK,
          "allocations succeed again once device_memory is memory");
}

static void a_lost_device_reports_it_until_it_is_opened_again(void)
{
    void *more;
    bool done;
    if (!check(open_fixture(&fixture) == TD_OK, "a device is opened"))
        return;
    td_emulation_lose(2);
    check(look_up(&fixture) == TD_OK && synchronize(&fixture) == TD_OK,
          "the first kernel succeeds");
    check(look_up(&fixture) == TD_OK, "the second is submitted");
    check(synchronize(&fixture) == TD_DEVICE_UNAVAILABLE,
          "it corrupts the context: the device is lost");
    check(strstr(err.message, "Emulated GPU is lost: ") && strstr(err.message, "illegal"),
          "the message names the GPU and the error");
    check(look_up(&fixture) == TD_DEVICE_UNAVAILABLE &&
              api->poll(fixture.stream, &done, &err) == TD_DEVICE_UNAVAILABLE &&
              api->alloc(fixture.device, 100, &more, &err) == TD_DEVICE_UNAVAILABLE &&
              api->host_alloc(fixture.device, 100, &more, &err) == TD_DEVICE_UNAVAILABLE,
          "every later call returns the same error");
    close_fixture(&fixture);
    check(td_emulation_resources() == 0, "closing a lost device frees everything");
    check(open_fixture(&fixture) == TD_OK && look_up(&fixture) == TD_OK &&
              synchronize(&fixture) == TD_OK && is_rotated(&fixture),
          "opened again, it works");
}

/* As one is that is left, because a call on it does not return, while replies are sent from its
 * memory. */
static void a_lost_device_leaves_what_another_one_has(void)
{
    struct fixture left, lost;
    struct td_device *third = NULL;
    const struct td_device_options options = { .text = "" };
    if (!check(open_fixture(&left) == TD_OK && look_up(&left) == TD_OK &&
                   synchronize(&left) == TD_OK && open_fixture(&lost) == TD_OK,
               "two devices are open"))
        return;
    td_emulation_lose(1);
    check(look_up(&lost) == TD_OK && synchronize(&lost) == TD_DEVICE_UNAVAILABLE,
          "a kernel that corrupts the context loses the device");
    td_emulation_lose(0);
    const size_t before = td_emulation_resources();
    close_fixture(&lost);
    check(td_emulation_resources() == before && is_rotated(&left),
          "closing it leaves the pinned memory of the other one");
    check(api->open(&options, &third, &err) == TD_DEVICE_UNAVAILABLE && err.message[0],
          "until that is closed, none opens, with a message");
    close_fixture(&left);
    check(td_emulation_resources() == 0, "the last one that is closed resets the GPU");
    check(open_fixture(&left) == TD_OK && look_up(&left) == TD_OK && synchronize(&left) == TD_OK &&
              is_rotated(&left),
          "then a device opens and works");
    close_fixture(&left);
}

static void a_device_may_be_lost_while_it_is_opened(void)
{
    for (long nth = 1; nth < 20; nth += 6) {
        td_emulation_lose(nth);
        check(open_fixture(&fixture) == TD_DEVICE_UNAVAILABLE && !fixture.device,
              "open fails if a benchmark corrupts the context");
        td_emulation_lose(0);
        check(td_emulation_resources() == 0, "and leaks nothing");
    }
}

static void every_reason_why_no_device_opens_has_a_message(void)
{
    static const struct {
        int failure;
        const char *says[4];
    } cases[] = {
        { TD_EMULATION_NO_DRIVER, { "no NVIDIA driver", "built with CUDA ", "needs ", "newer" } },
        { TD_EMULATION_OLD_DRIVER,
          { "driver is too old", "supports CUDA 12.4", "built with CUDA ", "newer" } },
        { TD_EMULATION_NO_DEVICE, { "finds no GPU", "nvidia-smi", "for CUDA ", "reports none" } },
        { TD_EMULATION_NO_CONTEXT, { "Emulated GPU", "no memory left", "open it", "" } },
        { TD_EMULATION_NO_KERNELS,
          { "no kernels", "Emulated GPU", "compute capability 7.0", "no kernel image" } },
        { TD_EMULATION_BROKEN_KERNELS,
          { "no kernels", "Emulated GPU", "image is invalid", "TD_CUDA_ARCHITECTURES=70" } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        td_emulation_fail_open(cases[i].failure);
        check(open_fixture(&fixture) == TD_DEVICE_UNAVAILABLE && !fixture.device &&
                  err.status == TD_DEVICE_UNAVAILABLE,
              "open is DEVICE_UNAVAILABLE");
        for (size_t k = 0; k < 4; k++)
            if (!check(strstr(err.message, cases[i].says[k]) != NULL, "with its own message"))
                printf("  \"%s\" is not in \"%s\"\n", cases[i].says[k], err.message);
        td_emulation_fail_open(0);
        check(td_emulation_resources() == 0, "and leaks nothing");
    }
    check(open_fixture(&fixture) == TD_OK,
          "without the reason, the device opens in the same process");
}

#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    TEST(submitting_returns_before_the_work_is_complete),
    TEST(launches_in_flight_keep_their_own_items),
    TEST(a_batch_of_256_items_is_one_kernel_without_a_copy),
    TEST(a_small_lookup_in_pinned_memory_is_one_kernel_without_a_copy),
    TEST(a_device_may_be_lost_before_a_large_copy),
    TEST(nothing_waits_for_a_kernel_that_hangs),
    TEST(large_launches_beside_a_kernel_that_hangs_do_not_wait),
    TEST(waiting_for_long_work_leaves_the_processor),
    TEST(memory_is_freed_after_the_work_that_uses_it),
    TEST(the_info_asks_no_stream_while_nothing_is_freed),
    TEST(pinned_memory_is_used_again),
    TEST(pinned_memory_that_waits_to_be_freed_is_bounded),
    TEST(memory_that_is_being_freed_can_be_allocated),
    TEST(an_option_sets_what_a_miss_fetches),
    TEST(the_pool_has_a_limit_and_an_idle_device_gives_its_memory_back),
    TEST(any_allocation_may_fail),
    TEST(a_device_remains_usable_after_a_failed_allocation),
    TEST(a_lost_device_reports_it_until_it_is_opened_again),
    TEST(a_lost_device_leaves_what_another_one_has),
    TEST(a_device_may_be_lost_while_it_is_opened),
    TEST(every_reason_why_no_device_opens_has_a_message),
};

int main(void)
{
    struct td_device_library library;
    if (td_device_load(TD_TEST_PLUGIN, &library, &err) != TD_OK) {
        printf("FAILED: %s\n", err.message);
        return 1;
    }
    api = library.api;
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tests[i].run();
        close_fixture(&fixture);
        if (!check(td_emulation_resources() == 0, "nothing is leaked"))
            printf("  after %s\n", tests[i].name);
    }
    td_device_unload(&library);
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
