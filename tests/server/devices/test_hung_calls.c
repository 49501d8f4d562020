/* A call to the device that does not return: it blocks neither other calls nor the end, and when it
 * returns after all it finds everything that it was given as it was. */
#include "server/devices/hang_guard.h"
#include "tests/server/devices/batcher_setup.h"

#include <stdatomic.h>
#include <string.h>

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
static _Atomic(enum function) blocked; /* the next call of this function stops at the gate */
static struct gate gate;
static sem_t returned;                     /* such a call has returned after all */
static const struct td_device_api *device; /* does the work */
static sem_t frees;                        /* calls of free that have begun */

/* True if the call has stopped at the gate. */
static bool pass(enum function function)
{
    enum function expected = function;
    if (function == FREE)
        sem_post(&frees);
    const bool stops = atomic_compare_exchange_strong(&blocked, &expected, NONE);
    if (stops)
        gate_pass(&gate);
    return stops;
}

static void leave(bool stopped)
{
    if (stopped)
        sem_post(&returned);
}

/* Define blocking_NAME, which calls the device's function NAME after the gate. */
#define BLOCKING(type, name, function, parameters, ...)                                            \
    static type blocking_##name parameters                                                         \
    {                                                                                              \
        const bool stopped = pass(function);                                                       \
        const type result = device->name(__VA_ARGS__);                                             \
        leave(stopped);                                                                            \
        return result;                                                                             \
    }
#define BLOCKING_VOID(name, function, parameters, ...)                                             \
    static void blocking_##name parameters                                                         \
    {                                                                                              \
        const bool stopped = pass(function);                                                       \
        device->name(__VA_ARGS__);                                                                 \
        leave(stopped);                                                                            \
    }

BLOCKING(td_status, alloc, ALLOC,
         (struct td_device * on, size_t bytes, void **out, struct td_error *err), on, bytes, out,
         err)
BLOCKING_VOID(free, FREE, (struct td_device * on, void *memory), on, memory)
BLOCKING(td_status, host_alloc, HOST_ALLOC,
         (struct td_device * on, size_t bytes, void **out, struct td_error *err), on, bytes, out,
         err)
BLOCKING_VOID(host_free, HOST_FREE, (struct td_device * on, void *memory), on, memory)
BLOCKING(td_status, copy_to_device, TO_DEVICE,
         (struct td_device_stream * stream, void *to, const void *from, size_t bytes,
          struct td_error *err),
         stream, to, from, bytes, err)
BLOCKING(td_status, copy_to_host, TO_HOST,
         (struct td_device_stream * stream, void *to, const void *from, size_t bytes,
          struct td_error *err),
         stream, to, from, bytes, err)
BLOCKING(size_t, workspace_bytes, WORKSPACE,
         (struct td_device * on, const struct td_device_work *work), on, work)
BLOCKING(td_status, run, RUN,
         (struct td_device_stream * stream, const struct td_device_work *work,
          struct td_error *err),
         stream, work, err)
BLOCKING(td_status, wait, WAIT,
         (struct td_device_stream * stream, int64_t timeout_ns, bool *done, struct td_error *err),
         stream, timeout_ns, done, err)
BLOCKING_VOID(info, INFO, (struct td_device * on, struct td_device_info *out), on, out)

static struct td_device_api blocking;

static void begin(struct setup *setup, const char *text)
{
    device = td_device_reference();
    blocking = *device;
    blocking.alloc = blocking_alloc;
    blocking.free = blocking_free;
    blocking.host_alloc = blocking_host_alloc;
    blocking.host_free = blocking_host_free;
    blocking.copy_to_device = blocking_copy_to_device;
    blocking.copy_to_host = blocking_copy_to_host;
    blocking.workspace_bytes = blocking_workspace_bytes;
    blocking.run = blocking_run;
    blocking.wait = blocking_wait;
    blocking.info = blocking_info;
    atomic_store(&blocked, NONE);
    gate_init(&gate);
    sem_init(&returned, 0, 0);
    sem_init(&frees, 0, 0);
    setup->options.api = &blocking;
    setup_open(setup, text);
}

/* The memory of the device that was left behind still counts as in use. */
static void end(struct setup *setup)
{
    td_batcher_free(setup->batcher);
    td_copiers_free(setup->copiers);
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

static atomic_int guard_looks; /* of the supervisor at the call of the device */

bool __real_td_hang_guard_give_up(struct td_hang_guard *guard, int64_t most_ns);
bool __wrap_td_hang_guard_give_up(struct td_hang_guard *guard, int64_t most_ns);
bool __wrap_td_hang_guard_give_up(struct td_hang_guard *guard, int64_t most_ns)
{
    const bool given_up = __real_td_hang_guard_give_up(guard, most_ns);
    atomic_fetch_add(&guard_looks, 1);
    return given_up;
}

TD_TEST_EACH(a_call_that_does_not_return_means_a_lost_device, calls)
{
    const enum function function = calls[_i].function;
    const bool is_free = function == FREE || function == HOST_FREE;
    struct setup setup = { .options.hang_ms = 60 };
    struct batch_call hung, waiting;
    begin(&setup, "");
    test_clock_stop(); /* nothing takes longer than 60 ms */
    struct td_tensor table = table_of(10, 0), a = table_of(4, 1), b = table_of(4, 2);
    expect_lookup(&setup, &table);
    if (is_free)
        atomic_store(&blocked, function);
    td_batcher_trim(setup.batcher); /* frees, so that the next batch allocates */
    if (is_free) {
        gate_await(&gate);
    } else {
        EVENTUALLY(counts_of(&setup).staging_bytes == 0);
        atomic_store(&blocked, function);
    }
    batch_call_einsum(&hung, "ij,jk->ik", a, b, 0);
    batch_call_row(&waiting, &table, 1);
    submit(&setup, &hung);
    submit(&setup, &waiting);
    if (!is_free)
        gate_await(&gate);
    test_clock_advance(1000 * MS);
    const int before = atomic_load(&guard_looks);
    EVENTUALLY(atomic_load(&guard_looks) >= before + 2);
    ck_assert_int_eq(atomic_load(&hung.n_done) + atomic_load(&waiting.n_done), 0);
    test_clock_advance(100 * MS); /* a copy or a wait may take a little longer */
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    expect_status(&waiting, TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&hung.err, "has not returned after 1000 ms");
    batch_call_end(&hung);
    batch_call_end(&waiting);
    td_buffer_unref(a.owner);
    td_buffer_unref(b.owner);
    gate_open(&gate);
    await(&returned); /* after all, with what it was given */
    reopen(&setup);
    expect_lookup(&setup, &table);
    end(&setup);
    td_buffer_unref(table.owner);
}

TD_TEST(draining_does_not_wait_for_a_call_that_does_not_return)
{
    struct setup setup = { 0 };
    struct batch_call hung;
    begin(&setup, "");
    struct td_tensor table = table_of(10, 0);
    atomic_store(&blocked, RUN);
    batch_call_row(&hung, &table, 1);
    submit(&setup, &hung);
    gate_await(&gate);
    td_batcher_drain(setup.batcher);
    test_clock_advance(1001 * MS);
    expect_status(&hung, TD_DEVICE_UNAVAILABLE);
    batch_call_end(&hung);
    end(&setup);
    td_buffer_unref(table.owner);
}

TD_TEST(the_end_does_not_wait_for_a_call_that_does_not_return)
{
    struct setup setup = { 0 };
    begin(&setup, "");
    struct td_tensor table = table_of(10, 0);
    expect_lookup(&setup, &table);
    /* Of the table and of memory for batches, when the device is closed. */
    atomic_store(&blocked, FREE);
    end(&setup);
    td_buffer_unref(table.owner);
}

TD_TEST(the_reference_device_has_such_a_free)
{
    struct setup setup = { 0 };
    begin(&setup, "hang_free=1");
    struct td_tensor table = table_of(10, 0);
    expect_lookup(&setup, &table);
    td_batcher_trim(setup.batcher);
    await(&frees);
    test_clock_advance((HOUR_MS + 1) * MS);
    /* The thread that opens the device again refuses the upload, so by then it is known when it
     * does. */
    upload(&setup, &table, TD_DEVICE_UNAVAILABLE);
    ck_assert(!counts_of(&setup).available);
    reopen(&setup);
    ck_assert_uint_eq(counts_of(&setup).opens, 2);
    expect_lookup(&setup, &table);
    end(&setup);
    td_buffer_unref(table.owner);
}
