#include "server/devices/hang_guard.h"

#include "server/observe/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* The state is a number, even outside of calls and odd inside. Each call gets a new number, so that
 * give_up cannot mistake a call for a later one. */
#define GIVEN_UP UINT64_MAX

struct td_hang_guard {
    const struct td_device_api *device; /* vtable of the device, which the guard calls */
    struct td_device_api api;           /* vtable that callers use */
    int64_t limit_ns;
    atomic_uint_fast64_t state;
    /* Start and time limit of the call in progress. */
    _Atomic int64_t begun_ns, late_ns;
    /* Data left to a call that was given up. The pointer keeps the data reachable. */
    void *left;
};

/* The guard of this thread, because the functions of a vtable have no context of their own. */
static _Thread_local struct td_hang_guard *attached;

/* ---- entering and leaving -------------------------------------------------------------------- */

static struct td_hang_guard *enter(int64_t more_ns)
{
    struct td_hang_guard *guard = attached;
    const int64_t now_ns = td_now_ns();
    atomic_store(&guard->begun_ns, now_ns);
    atomic_store(&guard->late_ns, now_ns + guard->limit_ns + more_ns);
    (void)atomic_fetch_add(&guard->state, 1);
    return guard;
}

/* Ends a call. Does not return if the call has been given up: the thread stays, because the device
 * might keep pointers to its stack. */
static void leave(struct td_hang_guard *guard)
{
    uint64_t inside = atomic_load(&guard->state);
    if (inside != GIVEN_UP && atomic_compare_exchange_strong(&guard->state, &inside, inside + 1))
        return;
    for (;;)
        (void)pause();
}

bool td_hang_guard_give_up(struct td_hang_guard *guard, int64_t most_ns)
{
    uint64_t state = atomic_load(&guard->state);
    const int64_t now_ns = td_now_ns(), begun_ns = atomic_load(&guard->begun_ns);
    const bool late = now_ns > atomic_load(&guard->late_ns) || now_ns - begun_ns > most_ns;
    return state % 2 == 1 && state != GIVEN_UP && late &&
           atomic_compare_exchange_strong(&guard->state, &state, GIVEN_UP);
}

void td_hang_guard_keep(struct td_hang_guard *guard, void *left)
{
    guard->left = left;
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Results first go to variables of this thread. If a call returns after it was given up, the memory
 * in which the caller wanted the results might no longer exist. */
#define CALL(more_ns, function, ...)                                                               \
    struct td_hang_guard *guard = enter(more_ns);                                                  \
    struct td_error own = { .status = TD_OK };                                                     \
    const td_status status = guard->device->function(__VA_ARGS__, &own);                           \
    leave(guard);                                                                                  \
    if (status != TD_OK && err)                                                                    \
    *err = own

static void close_device(struct td_device *device)
{
    struct td_hang_guard *guard = enter(0);
    guard->device->close(device);
    leave(guard);
}

static void info(struct td_device *device, struct td_device_info *out)
{
    struct td_hang_guard *guard = enter(0);
    struct td_device_info own;
    guard->device->info(device, &own);
    leave(guard);
    *out = own;
}

static td_status alloc(struct td_device *device, size_t bytes, void **out, struct td_error *err)
{
    void *memory = NULL;
    CALL(0, alloc, device, bytes, &memory);
    *out = memory;
    return status;
}

static void free_memory(struct td_device *device, void *memory)
{
    struct td_hang_guard *guard = enter(0);
    guard->device->free(device, memory);
    leave(guard);
}

static td_status host_alloc(struct td_device *device, size_t bytes, void **out,
                            struct td_error *err)
{
    void *memory = NULL;
    CALL(0, host_alloc, device, bytes, &memory);
    *out = memory;
    return status;
}

static void host_free(struct td_device *device, void *memory)
{
    struct td_hang_guard *guard = enter(0);
    guard->device->host_free(device, memory);
    leave(guard);
}

static td_status stream_open(struct td_device *device, struct td_device_stream **out,
                             struct td_error *err)
{
    struct td_device_stream *stream = NULL;
    CALL(0, stream_open, device, &stream);
    *out = stream;
    return status;
}

static void stream_close(struct td_device_stream *stream)
{
    struct td_hang_guard *guard = enter(0);
    guard->device->stream_close(stream);
    leave(guard);
}

/* Extra time for a copy, because memory that is not pinned can be a file that is read during the
 * call. */
static int64_t copy_ns(size_t bytes)
{
    const double disk_bytes_per_ns = 0.1; /* 100 MB/s, the rate of the slowest disks */
    return (int64_t)(2 * (double)bytes / disk_bytes_per_ns);
}

static td_status copy_to_device(struct td_device_stream *stream, void *to, const void *from,
                                size_t bytes, struct td_error *err)
{
    CALL(copy_ns(bytes), copy_to_device, stream, to, from, bytes);
    return status;
}

static td_status copy_to_host(struct td_device_stream *stream, void *to, const void *from,
                              size_t bytes, struct td_error *err)
{
    CALL(copy_ns(bytes), copy_to_host, stream, to, from, bytes);
    return status;
}

static size_t workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    struct td_hang_guard *guard = enter(0);
    const size_t bytes = guard->device->workspace_bytes(device, work);
    leave(guard);
    return bytes;
}

static td_status run(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err)
{
    CALL(0, run, stream, work);
    return status;
}

static td_status poll(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    bool is_done = false;
    CALL(0, poll, stream, &is_done);
    *done = is_done;
    return status;
}

static td_status wait_for(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                          struct td_error *err)
{
    bool is_done = false;
    CALL(timeout_ns, wait, stream, timeout_ns, &is_done);
    *done = is_done;
    return status;
}

/* ---- guards ---------------------------------------------------------------------------------- */

struct td_hang_guard *td_hang_guard_new(const struct td_device_api *api, int64_t limit_ns)
{
    struct td_hang_guard *guard = calloc(1, sizeof *guard);
    if (!guard)
        return NULL;
    guard->device = api;
    guard->limit_ns = limit_ns;
    /* Includes `supports`, which does not wait and is called on any thread. */
    guard->api = *api;
    /* Called on a separate thread: session.h. */
    guard->api.open = NULL;
    guard->api.close = close_device;
    guard->api.info = info;
    guard->api.alloc = alloc;
    guard->api.free = free_memory;
    guard->api.host_alloc = host_alloc;
    guard->api.host_free = host_free;
    guard->api.stream_open = stream_open;
    guard->api.stream_close = stream_close;
    guard->api.copy_to_device = copy_to_device;
    guard->api.copy_to_host = copy_to_host;
    guard->api.workspace_bytes = workspace_bytes;
    guard->api.run = run;
    guard->api.poll = poll;
    guard->api.wait = wait_for;
    return guard;
}

void td_hang_guard_free(struct td_hang_guard *guard)
{
    free(guard);
}

const struct td_device_api *td_hang_guard_api(const struct td_hang_guard *guard)
{
    return &guard->api;
}

void td_hang_guard_attach(struct td_hang_guard *guard)
{
    attached = guard;
}
