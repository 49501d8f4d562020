/* A call to the device that does not return: it blocks neither other calls nor the end, and when it returns
 * after all it finds everything that it was given as it was. */
#include "tests/server/devices/batcher_setup.h"

#include <stdatomic.h>
#include <string.h>

enum { HOUR_MS = 3600000 };

/* ---- a device one of whose functions does not return ----------------------------------------- */

enum function {
    NONE,
    ALLOC,
    FREE,
    HOST_ALLOC,
    HOST_FREE,
    TO_DEVICE,
    TO_HOST,
    WORKSPACE,
    RUN,
    WAIT,
    INFO
};
static _Atomic(enum function) blocked;
static atomic_bool is_blocking;            /* a call has reached the blocked function */
static const struct td_device_api *device; /* does the work */

static void pass(enum function function)
{
    while (atomic_load(&blocked) == function) {
        atomic_store(&is_blocking, true);
        usleep(500);
    }
}

static td_status blocking_alloc(struct td_device *on, size_t bytes, void **out,
                                struct td_error *err)
{
    pass(ALLOC);
    return device->alloc(on, bytes, out, err);
}

static void blocking_free(struct td_device *on, void *memory)
{
    pass(FREE);
    device->free(on, memory);
}

static td_status blocking_host_alloc(struct td_device *on, size_t bytes, void **out,
                                     struct td_error *err)
{
    pass(HOST_ALLOC);
    return device->host_alloc(on, bytes, out, err);
}

static void blocking_host_free(struct td_device *on, void *memory)
{
    pass(HOST_FREE);
    device->host_free(on, memory);
}

static td_status blocking_to_device(struct td_device_stream *stream, void *to, const void *from,
                                    size_t bytes, struct td_error *err)
{
    pass(TO_DEVICE);
    return device->copy_to_device(stream, to, from, bytes, err);
}

static td_status blocking_to_host(struct td_device_stream *stream, void *to, const void *from,
                                  size_t bytes, struct td_error *err)
{
    pass(TO_HOST);
    return device->copy_to_host(stream, to, from, bytes, err);
}

static size_t blocking_workspace(struct td_device *on, const struct td_device_work *work)
{
    pass(WORKSPACE);
    return device->workspace_bytes(on, work);
}

static td_status blocking_run(struct td_device_stream *stream, const struct td_device_work *work,
                              struct td_error *err)
{
    pass(RUN);
    return device->run(stream, work, err);
}

static td_status blocking_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                               struct td_error *err)
{
    pass(WAIT);
    return device->wait(stream, timeout_ns, done, err);
}

static void blocking_info(struct td_device *on, struct td_device_info *out)
{
    pass(INFO);
    device->info(on, out);
}

static struct td_device_api blocking;

static void begin(struct setup *setup)
{
    device = td_device_reference();
    blocking = *device;
    blocking.alloc = blocking_alloc;
    blocking.free = blocking_free;
    blocking.host_alloc = blocking_host_alloc;
    blocking.host_free = blocking_host_free;
    blocking.copy_to_device = blocking_to_device;
    blocking.copy_to_host = blocking_to_host;
    blocking.workspace_bytes = blocking_workspace;
    blocking.run = blocking_run;
    blocking.wait = blocking_wait;
    blocking.info = blocking_info;
    atomic_store(&blocked, NONE);
    setup->options.api = &blocking;
    setup_open(setup, "");
}

/* The memory of the device that was left behind still counts as in use. */
static void end(struct setup *setup)
{
    td_batcher_free(setup->batcher);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 0);
    td_buffer_pool_free(setup->buffers);
}

static void expect_lookup(struct setup *setup, const struct td_tensor *table)
{
    struct batch_call call;
    batch_call_row(&call, table, 3);
    submit(setup, &call);
    expect_rows(&call);
    batch_call_end(&call);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const struct {
    const char *description;
    enum function function;
} calls[] = {
    { "alloc", ALLOC },         { "free", FREE },         { "host_alloc", HOST_ALLOC },
    { "host_free", HOST_FREE }, { "copy to", TO_DEVICE }, { "copy from", TO_HOST },
    { "workspace", WORKSPACE }, { "run", RUN },           { "wait", WAIT },
    { "info", INFO },
};

TD_TEST_EACH(a_call_that_does_not_return_means_a_lost_device, calls)
{
    struct setup setup = { .options.hang_ms = 60 };
    struct batch_call hung, waiting;
    begin(&setup);
    struct td_tensor table = table_of(10, 0), a = table_of(4, 1), b = table_of(4, 2);
    expect_lookup(&setup, &table);
    const int64_t begun_ns = td_now_ns();
    atomic_store(&blocked, calls[_i].function);
    td_batcher_trim(setup.batcher); /* frees, so that the next batch allocates */
    usleep(10000);
    batch_call_einsum(&hung, "ij,jk->ik", a, b, 0);
    batch_call_row(&waiting, &table, 1);
    submit(&setup, &hung);
    submit(&setup, &waiting);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    expect_status(&waiting, TD_DEVICE_UNAVAILABLE);
    ck_assert_int_ge(td_now_ns() - begun_ns, 1000 * MS);
    ck_assert_ptr_nonnull(strstr(hung.err.message, "has not returned after 1000 ms"));
    batch_call_end(&hung);
    batch_call_end(&waiting);
    td_buffer_unref(a.owner);
    td_buffer_unref(b.owner);
    atomic_store(&blocked, NONE);
    usleep(20000); /* it returns after all, with what it was given */
    EVENTUALLY(counts_of(&setup).available);
    expect_lookup(&setup, &table);
    end(&setup);
    td_buffer_unref(table.owner);
}

TD_TEST(draining_does_not_wait_for_a_call_that_does_not_return)
{
    struct setup setup = { .options.hang_ms = HOUR_MS };
    struct batch_call hung;
    begin(&setup);
    struct td_tensor table = table_of(10, 0);
    atomic_store(&is_blocking, false);
    atomic_store(&blocked, RUN);
    batch_call_row(&hung, &table, 1);
    submit(&setup, &hung);
    EVENTUALLY(atomic_load(&is_blocking));
    td_batcher_drain(setup.batcher);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    batch_call_end(&hung);
    end(&setup);
    td_buffer_unref(table.owner);
}

TD_TEST(the_end_does_not_wait_for_a_call_that_does_not_return)
{
    struct setup setup = { .options.hang_ms = HOUR_MS };
    begin(&setup);
    struct td_tensor table = table_of(10, 0);
    expect_lookup(&setup, &table);
    atomic_store(&blocked,
                 FREE); /* of the table and of memory for batches, when the device is closed */
    end(&setup);
    td_buffer_unref(table.owner);
}

TD_TEST(the_reference_device_has_such_a_free)
{
    struct setup setup = { .options.hang_ms = 60 };
    setup_open(&setup, "hang_free=1");
    struct td_tensor table = table_of(10, 0);
    expect_lookup(&setup, &table);
    td_batcher_trim(setup.batcher);
    EVENTUALLY(counts_of(&setup).opens == 2);
    expect_lookup(&setup, &table);
    end(&setup);
    td_buffer_unref(table.owner);
}
