/* test_plugin.c - the CUDA plugin where CUDA is slow, and where it fails: work that is not done yet,
 * no memory at whichever moment, a kernel that breaks the context. What it answers is said in gpu/device.h; nothing is left behind. */
#include "gpu/loader/loader.h"
#include "tests/gpu/emulation/emulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- A small world ----------------------------------------------------------------------- */

/* A device with a stream and memory, to look rows up in a table on: each row is the one before. */
struct world {
    struct td_device *device;
    struct td_device_stream *stream;
    void *table, *indices, *rows; /* on the device */
    void *there, *back;           /* on the host: the table and the indices; the rows */
};

static td_status open_world(struct world *world)
{
    const struct td_device_options options = { .text = "" };
    const size_t bytes = ROWS * sizeof(int32_t);
    void **const on_device[] = { &world->table, &world->indices, &world->rows };
    *world = (struct world){ .device = NULL };
    td_status status = api->open(&options, &world->device, &err);
    if (status == TD_OK)
        status = api->stream_open(world->device, &world->stream, &err);
    for (int i = 0; i < 3 && status == TD_OK; i++)
        status = api->alloc(world->device, bytes, on_device[i], &err);
    if (status == TD_OK)
        status = api->host_alloc(world->device, 2 * bytes, &world->there, &err);
    if (status == TD_OK)
        status = api->host_alloc(world->device, bytes, &world->back, &err);
    return status;
}

static void close_world(struct world *world)
{
    if (!world->device)
        return;
    api->stream_close(world->stream);
    api->free(world->device, world->rows); /* the others are left to close */
    api->close(world->device);
}

/* The launch of a lookup, without its copies. */
static td_status launch(struct world *world, int n_items, const int64_t *item_end,
                        struct td_device_report *reports, void *workspace)
{
    const struct td_op *gather = td_op_find("gather", strlen("gather"));
    struct td_shape shape = { .rank = 1, .dim = { ROWS } };
    struct td_tensor table, indices;
    struct td_op_args args = { .inputs = { { &table, 1 }, { &indices, 1 } } };
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_op_defaults(gather, &args);
    td_status status = td_tensor_describe(&table, "params", TD_DTYPE_INT32, &shape, &err);
    if (status == TD_OK)
        status = td_tensor_describe(&indices, "indices", TD_DTYPE_INT32, &shape, &err);
    if (status == TD_OK)
        status = td_op_infer(gather, &args, &arena, &err);
    if (status != TD_OK)
        goto done;
    table.data = world->table;
    indices.data = world->indices;
    args.outputs[0].data = world->rows;
    struct td_device_work work = { gather, &args, n_items, item_end, reports, workspace };
    status = api->run(world->stream, &work, &err);
done:
    td_arena_reset(&arena);
    return status;
}

static td_status look_up(struct world *world)
{
    const size_t bytes = ROWS * sizeof(int32_t);
    int32_t *there = world->there;
    for (int i = 0; i < ROWS; i++) {
        there[i] = 7 * i;
        there[ROWS + i] = (i + ROWS - 1) % ROWS;
    }
    td_status status = api->copy_to_device(world->stream, world->table, there, bytes, &err);
    if (status == TD_OK)
        status = api->copy_to_device(world->stream, world->indices, there + ROWS, bytes, &err);
    if (status == TD_OK)
        status = launch(world, 1, NULL, NULL, NULL);
    if (status == TD_OK)
        status = api->copy_to_host(world->stream, world->back, world->rows, bytes, &err);
    return status;
}

static td_status wait_for(struct world *world)
{
    bool done = false;
    td_status status = api->wait(world->stream, INT64_C(60000000000), &done, &err);
    return status == TD_OK && !done ? TD_INTERNAL : status;
}

static bool is_right(const struct world *world)
{
    const int32_t *back = world->back;
    for (int i = 0; i < ROWS; i++)
        if (back[i] != 7 * ((i + ROWS - 1) % ROWS))
            return false;
    return true;
}

/* ---- What is promised -------------------------------------------------------------------- */

static void submitting_returns_before_the_work_is_done(void)
{
    struct world world;
    if (!check(open_world(&world) == TD_OK && look_up(&world) == TD_OK, "a lookup is submitted"))
        return;
    check(td_emulation_pending() > 0, "submitting returns before the work is done");
    check(wait_for(&world) == TD_OK && is_right(&world), "then it is done");
    check(td_emulation_pending() == 0, "and nothing is left to be done");
    close_world(&world);
    check(td_emulation_left() == 0, "a closed device leaves nothing behind");
}

/* Item 0 of launch n has n + 1 indices, item 1 the others, and the rest none. All are bad. */
static void launches_in_flight_keep_their_own_items(void)
{
    enum { LAUNCHES = 6, ITEMS = 4000 };
    static int64_t end[ITEMS];
    struct world world;
    void *reports, *workspace;
    const size_t workspace_bytes = (ITEMS * sizeof(end[0]) + 255) / 256 * 256;
    if (!check(open_world(&world) == TD_OK &&
                   api->host_alloc(world.device, LAUNCHES * ITEMS * sizeof(struct td_device_report),
                                   &reports, &err) == TD_OK &&
                   api->alloc(world.device, LAUNCHES * workspace_bytes, &workspace, &err) == TD_OK,
               "a device is opened"))
        return;
    memset(world.there, -1, ROWS * sizeof(int32_t));
    td_status status =
        api->copy_to_device(world.stream, world.indices, world.there, ROWS * sizeof(int32_t), &err);
    for (int n = 0; n < LAUNCHES && status == TD_OK; n++) {
        for (int k = 0; k < ITEMS; k++)
            end[k] = k == 0 ? n + 1 : ROWS;
        status = launch(&world, ITEMS, end, (struct td_device_report *)reports + n * ITEMS,
                        (char *)workspace + (size_t)n * workspace_bytes);
    }
    check(status == TD_OK && wait_for(&world) == TD_OK, "lookups of many items are made");
    for (int n = 0; n < LAUNCHES; n++) {
        const struct td_device_report *of = (struct td_device_report *)reports + n * ITEMS;
        check(of[0].n_bad == n + 1 && of[1].n_bad == ROWS - n - 1 && of[2].n_bad == 0,
              "and each tells of its own items");
    }
    close_world(&world);
}

/* Is that what the device has? */
static bool comes_back(struct world *world, const void *there, const char *expected, size_t bytes)
{
    char *back = malloc(bytes);
    bool same = back && api->copy_to_host(world->stream, back, there, bytes, &err) == TD_OK &&
                wait_for(world) == TD_OK && memcmp(back, expected, bytes) == 0;
    free(back);
    return same;
}

/* Several pieces of the relay, and a part of one. */
#define LARGE ((size_t)9000001)

static void large_copies_are_not_waited_for(void)
{
    struct world world;
    void *there;
    char *memory = malloc(LARGE);
    if (!check(memory && open_world(&world) == TD_OK &&
                   api->alloc(world.device, LARGE, &there, &err) == TD_OK,
               "a device is opened"))
        return;
    memset(memory, 1, LARGE);
    check(api->copy_to_device(world.stream, there, memory, LARGE, &err) == TD_OK,
          "a copy is submitted");
    check(td_emulation_pending() > 0, "which is not done yet");
    for (size_t i = 0; i < LARGE; i++) /* against the contract: to see when it is read */
        memory[i] = (char)(i * 131 + i / 251);
    check(wait_for(&world) == TD_OK && comes_back(&world, there, memory, LARGE),
          "memory that is not pinned is read after copy_to_device has returned");
    td_status status = TD_OK;
    for (int n = 0; n < 70 && status == TD_OK; n++) /* more than are relayed at once */
        status = api->copy_to_device(world.stream, (char *)there + n, memory, LARGE / 8, &err);
    check(status == TD_OK && wait_for(&world) == TD_OK &&
              comes_back(&world, (char *)there + 69, memory, LARGE / 8),
          "many of them are done in order");
    close_world(&world);
    check(td_emulation_left() == 0, "nothing is left behind");
    check(open_world(&world) == TD_OK && api->alloc(world.device, LARGE, &there, &err) == TD_OK,
          "a device is opened");
    td_emulation_fail_alloc(1);
    check(api->copy_to_device(world.stream, there, memory, LARGE, &err) == TD_OK &&
              comes_back(&world, there, memory, LARGE),
          "without pinned memory large copies are made all the same");
    td_emulation_fail_alloc(0);
    close_world(&world);
    free(memory);
}

/* The copy may read its memory for as long as the device is not closed, and no longer. */
static void a_device_may_be_lost_before_a_large_copy(void)
{
    struct world world;
    void *there;
    char *memory = calloc(LARGE, 1);
    if (!check(memory && open_world(&world) == TD_OK &&
                   api->alloc(world.device, LARGE, &there, &err) == TD_OK,
               "a device is opened"))
        return;
    td_emulation_lose(1);
    check(look_up(&world) == TD_OK &&
              api->copy_to_device(world.stream, there, memory, LARGE, &err) == TD_OK,
          "a lookup and a large copy are submitted");
    check(wait_for(&world) == TD_DEVICE_UNAVAILABLE, "the lookup loses the device");
    close_world(&world);
    free(memory);
    check(td_emulation_left() == 0, "nothing is left behind");
}

static void any_allocation_may_fail(void)
{
    for (long nth = 1; nth < 1000; nth++) {
        struct world world;
        td_emulation_fail_alloc(nth);
        td_status status = open_world(&world);
        if (status == TD_OK)
            status = look_up(&world);
        if (status == TD_OK)
            status = wait_for(&world);
        td_emulation_fail_alloc(0);
        check(status == TD_OK ||
                  status == (world.device ? TD_MEMORY_EXHAUSTED : TD_DEVICE_UNAVAILABLE),
              "without memory opening is DEVICE_UNAVAILABLE, anything later MEMORY_EXHAUSTED");
        check(status == TD_OK || (err.status == status && err.message[0] != '\0'), "and says so");
        bool enough = status == TD_OK;
        close_world(&world);
        if (!check(td_emulation_left() == 0, "whatever allocation fails, nothing is left behind"))
            return;
        if (enough) {
            check(nth > 10, "opening a device allocates more than ten times");
            return;
        }
    }
    check(false, "with enough memory it works");
}

static void a_device_goes_on_after_an_allocation_failed(void)
{
    struct world world;
    void *more;
    if (!check(open_world(&world) == TD_OK, "a device is opened"))
        return;
    td_emulation_fail_alloc(1);
    check(api->alloc(world.device, 100, &more, &err) == TD_MEMORY_EXHAUSTED, "there is no memory");
    check(look_up(&world) == TD_OK && wait_for(&world) == TD_OK && is_right(&world),
          "what needs none goes on");
    td_emulation_fail_alloc(0);
    check(api->alloc(world.device, 100, &more, &err) == TD_OK,
          "and so does all, with memory again");
    close_world(&world);
    check(td_emulation_left() == 0, "nothing is left behind");
}

static void a_lost_device_says_so_until_it_is_opened_again(void)
{
    struct world world;
    void *more;
    bool done;
    if (!check(open_world(&world) == TD_OK, "a device is opened"))
        return;
    td_emulation_lose(2);
    check(look_up(&world) == TD_OK && wait_for(&world) == TD_OK, "the first kernel is fine");
    check(look_up(&world) == TD_OK, "the second is submitted");
    check(wait_for(&world) == TD_DEVICE_UNAVAILABLE, "it breaks the context: the device is lost");
    check(strstr(err.message, "Emulated GPU is lost: ") && strstr(err.message, "illegal"),
          "which GPU, and by what");
    check(look_up(&world) == TD_DEVICE_UNAVAILABLE &&
              api->poll(world.stream, &done, &err) == TD_DEVICE_UNAVAILABLE &&
              api->alloc(world.device, 100, &more, &err) == TD_DEVICE_UNAVAILABLE &&
              api->host_alloc(world.device, 100, &more, &err) == TD_DEVICE_UNAVAILABLE,
          "every later call says the same");
    close_world(&world);
    check(td_emulation_left() == 0, "closing it takes everything with it");
    check(open_world(&world) == TD_OK && look_up(&world) == TD_OK && wait_for(&world) == TD_OK &&
              is_right(&world),
          "opened again, it works");
    close_world(&world);
    check(td_emulation_left() == 0, "and leaves nothing behind");
}

static void a_device_may_be_lost_while_it_is_opened(void)
{
    for (long nth = 1; nth < 20; nth += 6) {
        struct world world;
        td_emulation_lose(nth);
        check(open_world(&world) == TD_DEVICE_UNAVAILABLE && !world.device,
              "a context that breaks in a trial is no device");
        td_emulation_lose(0);
        check(td_emulation_left() == 0, "and leaves nothing behind");
    }
}

int main(void)
{
    struct td_device_library library;
    if (td_device_load(TD_TEST_PLUGIN, &library, &err) != TD_OK) {
        printf("FAILED: %s\n", err.message);
        return 1;
    }
    api = library.api;
    submitting_returns_before_the_work_is_done();
    launches_in_flight_keep_their_own_items();
    large_copies_are_not_waited_for();
    a_device_may_be_lost_before_a_large_copy();
    any_allocation_may_fail();
    a_device_goes_on_after_an_allocation_failed();
    a_lost_device_says_so_until_it_is_opened_again();
    a_device_may_be_lost_while_it_is_opened();
    td_device_unload(&library);
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
