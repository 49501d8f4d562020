#include "server/devices/hang_guard.h"

#include "server/observe/clock.h"

#include <unistd.h>

/* The state is a number: even outside calls, odd inside. Each call gets a new number, so give_up
 * cannot mistake one call for a later call. */
#define GIVEN_UP UINT64_MAX

/* Guard of this thread. It is thread-local, because the functions of a vtable have no context of
 * their own. */
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

/* Ends a call. Never returns if the call was given up, because the thread must stay alive while the
 * device might keep pointers to its stack. */
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

/* ---- the calls ------------------------------------------------------------------------------- */

/* Returns extra time for a copy, because memory that is not pinned can be a file that is read
 * during the call. */
static int64_t copy_ns(size_t bytes)
{
    const double disk_bytes_per_ns = 0.1; /* 100 MB/s, the rate of the slowest disks */
    return (int64_t)(2 * (double)bytes / disk_bytes_per_ns);
}

/* Define guarded_NAME, which calls the device's function NAME with a limit of limit_ns plus
 * more_ns. */
#define GUARDED(type, name, more_ns, parameters, ...)                                              \
    static type guarded_##name parameters                                                          \
    {                                                                                              \
        struct td_hang_guard *guard = enter(more_ns);                                              \
        const type result = guard->device->name(__VA_ARGS__);                                      \
        leave(guard);                                                                              \
        return result;                                                                             \
    }
#define GUARDED_VOID(name, parameters, ...)                                                        \
    static void guarded_##name parameters                                                          \
    {                                                                                              \
        struct td_hang_guard *guard = enter(0);                                                    \
        guard->device->name(__VA_ARGS__);                                                          \
        leave(guard);                                                                              \
    }

GUARDED_VOID(close, (struct td_device * device), device)
GUARDED_VOID(info, (struct td_device * device, struct td_device_info *out), device, out)
GUARDED(td_status, alloc, 0,
        (struct td_device * device, size_t bytes, void **out, struct td_error *err), device, bytes,
        out, err)
GUARDED_VOID(free, (struct td_device * device, void *memory), device, memory)
GUARDED(td_status, host_alloc, 0,
        (struct td_device * device, size_t bytes, void **out, struct td_error *err), device, bytes,
        out, err)
GUARDED_VOID(host_free, (struct td_device * device, void *memory), device, memory)
GUARDED(td_status, stream_open, 0,
        (struct td_device * device, struct td_device_stream **out, struct td_error *err), device,
        out, err)
GUARDED_VOID(stream_close, (struct td_device_stream * stream), stream)
GUARDED(td_status, copy_to_device, copy_ns(bytes),
        (struct td_device_stream * stream, void *to, const void *from, size_t bytes,
         struct td_error *err),
        stream, to, from, bytes, err)
GUARDED(td_status, copy_to_host, copy_ns(bytes),
        (struct td_device_stream * stream, void *to, const void *from, size_t bytes,
         struct td_error *err),
        stream, to, from, bytes, err)
GUARDED(size_t, workspace_bytes, 0, (struct td_device * device, const struct td_device_work *work),
        device, work)
GUARDED(td_status, run, 0,
        (struct td_device_stream * stream, const struct td_device_work *work, struct td_error *err),
        stream, work, err)
GUARDED(td_status, poll, 0, (struct td_device_stream * stream, bool *done, struct td_error *err),
        stream, done, err)
GUARDED(td_status, wait, timeout_ns,
        (struct td_device_stream * stream, int64_t timeout_ns, bool *done, struct td_error *err),
        stream, timeout_ns, done, err)

void td_hang_guard_attach(struct td_hang_guard *guard, const struct td_device_api *device,
                          int64_t limit_ns)
{
    attached = guard;
    guard->device = device;
    guard->limit_ns = limit_ns;
    guard->api = (struct td_device_api){
        .abi = device->abi,
        .args_size = device->args_size,
        .kind = device->kind,
        .open = NULL, /* called on a separate thread (session.h) */
        .close = guarded_close,
        .info = guarded_info,
        .alloc = guarded_alloc,
        .free = guarded_free,
        .host_alloc = guarded_host_alloc,
        .host_free = guarded_host_free,
        .stream_open = guarded_stream_open,
        .stream_close = guarded_stream_close,
        .copy_to_device = guarded_copy_to_device,
        .copy_to_host = guarded_copy_to_host,
        .supports = device->supports,
        .workspace_bytes = guarded_workspace_bytes,
        .run = guarded_run,
        .poll = guarded_poll,
        .wait = guarded_wait,
    };
}
