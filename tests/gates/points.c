/* points.c - where the test daemon has gates. The linker puts these functions in place of the
 * daemon's (--wrap in CMakeLists.txt), so the daemon itself has no code for tests.
 *
 *     decode, admit, compute, encode   a stage of a request, on an I/O thread or a worker; the line
 *                                      sent has the request's id, method and path
 *     device                           work of the reference device: none completes while closed
 *     hang                             a thread that waits for ever, as in a call of the reference
 *                                      device that does not return
 *     sync, link, rename, unlink       a change in the data folder; the line has the file's name
 *     check                            a running call asks, between two of its parts, whether it
 *                                      shall stop; the line is the same as of a stage
 *     sweep                            the main thread, before it looks at a part of the
 *                                      connections; the line has the number of parts
 *     watch                            a socket was added to the epoll of the handshakes, and the
 *                                      call holds the file
 *     exit                             a thread ends the process while others still run */
#include "gpu/reference/stream.h"
#include "server/calls/call.h"
#include "server/clients/connections.h"
#include "tests/gates/gates.h"

#include <sys/epoll.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* ---- stages ---------------------------------------------------------------------------------- */

static void stage(const char *name, const struct td_call *call)
{
    char what[400];
    snprintf(what, sizeof what, "%s %s %s", call->request_id, call->method ? call->method : "?",
             call->path ? call->path : "?");
    td_gate(name, what);
}

td_status __real_td_call_decode(struct td_call *call);
td_status __wrap_td_call_decode(struct td_call *call);
td_status __wrap_td_call_decode(struct td_call *call)
{
    stage("decode", call);
    return __real_td_call_decode(call);
}

td_status __real_td_call_admit(struct td_call *call, struct td_admission *admission);
td_status __wrap_td_call_admit(struct td_call *call, struct td_admission *admission);
td_status __wrap_td_call_admit(struct td_call *call, struct td_admission *admission)
{
    stage("admit", call);
    return __real_td_call_admit(call, admission);
}

td_status __real_td_call_compute(struct td_call *call, struct td_worker *worker);
td_status __wrap_td_call_compute(struct td_call *call, struct td_worker *worker);
td_status __wrap_td_call_compute(struct td_call *call, struct td_worker *worker)
{
    stage("compute", call);
    return __real_td_call_compute(call, worker);
}

td_status __real_td_call_encode(struct td_call *call);
td_status __wrap_td_call_encode(struct td_call *call);
td_status __wrap_td_call_encode(struct td_call *call)
{
    stage("encode", call);
    return __real_td_call_encode(call);
}

/* ---- the reference device -------------------------------------------------------------------- */

static struct td_polled_gate device = { -1 }; /* asked by the one thread that has the device */

td_status __real_td_reference_poll(struct td_device_stream *stream, bool *done,
                                   struct td_error *err);
td_status __wrap_td_reference_poll(struct td_device_stream *stream, bool *done,
                                   struct td_error *err);
td_status __wrap_td_reference_poll(struct td_device_stream *stream, bool *done,
                                   struct td_error *err)
{
    const td_status status = __real_td_reference_poll(stream, done, err);
    *done = *done && td_gate_is_open(&device, "device", 0);
    return status;
}

td_status __real_td_reference_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                                   struct td_error *err);
td_status __wrap_td_reference_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                                   struct td_error *err);
td_status __wrap_td_reference_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                                   struct td_error *err)
{
    const td_status status = __real_td_reference_wait(stream, timeout_ns, done, err);
    *done = *done && td_gate_is_open(&device, "device", timeout_ns);
    return status;
}

int __real_pause(void);
int __wrap_pause(void);
int __wrap_pause(void)
{
    td_gate("hang", NULL);
    return __real_pause();
}

/* ---- files ----------------------------------------------------------------------------------- */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    td_gate("sync", NULL);
    return __real_fsync(fd);
}

int __real_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);
int __wrap_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);
int __wrap_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    td_gate("link", to);
    return __real_linkat(from_folder, from, to_folder, to, flags);
}

int __real_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    td_gate("rename", to);
    return __real_renameat(from_folder, from, to_folder, to);
}

int __real_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags)
{
    td_gate("unlink", name);
    return __real_unlinkat(folder, name, flags);
}

/* ---- running calls and open connections ------------------------------------------------------ */

td_status __real_td_call_stopped(void *context, struct td_error *err);
td_status __wrap_td_call_stopped(void *context, struct td_error *err);
td_status __wrap_td_call_stopped(void *context, struct td_error *err)
{
    stage("check", context);
    return __real_td_call_stopped(context, err);
}

void __real_td_connections_sweep(struct td_connections *connections,
                                 const struct td_progress_limits *limits, int64_t now_ns,
                                 int parts);
void __wrap_td_connections_sweep(struct td_connections *connections,
                                 const struct td_progress_limits *limits, int64_t now_ns,
                                 int parts);
void __wrap_td_connections_sweep(struct td_connections *connections,
                                 const struct td_progress_limits *limits, int64_t now_ns, int parts)
{
    char what[16];
    snprintf(what, sizeof what, "%d", parts);
    td_gate("sweep", what);
    __real_td_connections_sweep(connections, limits, now_ns, parts);
}

/* The kernel holds the file until the call returns, which may be after another thread has got an
 * event of it and has ended its connection. The library adds its sockets edge-triggered. */
int __real_epoll_ctl(int epoll, int change, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int change, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int change, int fd, struct epoll_event *event)
{
    if (change != EPOLL_CTL_ADD || (event->events & EPOLLET))
        return __real_epoll_ctl(epoll, change, fd, event);
    const int held = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    const int status = __real_epoll_ctl(epoll, change, fd, event);
    td_gate("watch", NULL);
    if (held >= 0)
        close(held);
    return status;
}

/* ---- the end of the process ------------------------------------------------------------------ */

void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status)
{
    td_gate("exit", NULL);
    __real__exit(status);
}
