#include "gpu/reference/stream.h"

#include "gpu/reference/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Adds two times. The sum saturates at TD_REFERENCE_NEVER. */
static int64_t add_times(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? TD_REFERENCE_NEVER : sum;
}

static void sleep_until(int64_t when_ns)
{
    struct timespec when = { .tv_sec = when_ns / 1000000000, .tv_nsec = when_ns % 1000000000 };
    while (now_ns() < when_ns)
        /* Sleeps again after a signal. */
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

void td_reference_schedule(struct td_device_stream *stream, int64_t duration_ns)
{
    struct td_device *device = stream->device;
    int64_t now = now_ns();
    int64_t begin = device->idle_ns > now ? device->idle_ns : now;
    stream->idle_ns = device->idle_ns = add_times(begin, duration_ns);
}

/* ---- streams --------------------------------------------------------------------------------- */

td_status td_reference_stream_open(struct td_device *device, struct td_device_stream **out,
                                   struct td_error *err)
{
    *out = NULL;
    td_status status = td_reference_check(device, err);
    if (status != TD_OK)
        return status;
    struct td_device_stream *stream = malloc(sizeof(*stream));
    if (!stream)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "the host has no memory for a stream");
    *stream = (struct td_device_stream){ .next = device->streams, .device = device };
    device->streams = stream;
    *out = stream;
    return TD_OK;
}

void td_reference_stream_close(struct td_device_stream *stream)
{
    if (!stream)
        return;
    if (!stream->device->lost && stream->idle_ns != TD_REFERENCE_NEVER)
        sleep_until(stream->idle_ns);
    struct td_device_stream **at = &stream->device->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
}

td_status td_reference_poll(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    *done = false;
    td_status status = td_reference_check(stream->device, err);
    if (status == TD_OK)
        *done = stream->idle_ns != TD_REFERENCE_NEVER && stream->idle_ns <= now_ns();
    return status;
}

td_status td_reference_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                            struct td_error *err)
{
    if (!stream->device->lost && timeout_ns > 0) {
        int64_t until = add_times(now_ns(), timeout_ns);
        sleep_until(stream->idle_ns < until ? stream->idle_ns : until);
    }
    return td_reference_poll(stream, done, err);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static td_status check_copy(const struct td_device *device, const char *function,
                            const void *on_device, const void *on_host, size_t bytes,
                            struct td_error *err)
{
    td_status status = td_reference_check(device, err);
    char message[200];
    if (status != TD_OK || bytes == 0)
        return status;
    if (!td_reference_in_blocks(device->blocks, on_device, bytes))
        snprintf(message, sizeof(message),
                 "%s of %zu bytes: no allocation of device memory contains that many bytes at %p",
                 function, bytes, on_device);
    else if (td_reference_in_blocks(device->blocks, on_host, 1))
        snprintf(message, sizeof(message),
                 "%s of %zu bytes: %p is device memory; expected host memory", function, bytes,
                 on_host);
    else
        return TD_OK;
    return td_reference_misuse(err, message);
}

/* Does not copy if a launch that never completes was submitted earlier. */
static void copy(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                 int64_t mb_per_s)
{
    const struct td_device *device = stream->device;
    if (bytes > 0 && !td_reference_is_hung(device))
        memcpy(to, from, bytes);
    double ns = mb_per_s > 0 ? (double)bytes * 1000 / (double)mb_per_s : 0;
    td_reference_schedule(stream, (int64_t)ns);
}

td_status td_reference_copy_to_device(struct td_device_stream *stream, void *to, const void *from,
                                      size_t bytes, struct td_error *err)
{
    td_status status = check_copy(stream->device, "copy_to_device", to, from, bytes, err);
    if (status != TD_OK)
        return status;
    td_reference_count(TD_REFERENCE_COPIES_TO_DEVICE, 1);
    td_reference_count(TD_REFERENCE_BYTES_TO_DEVICE, bytes);
    if (++stream->device->copies == stream->device->options.lose_copy) {
        stream->device->lost = true; /* the next call reports the loss */
        return TD_OK;
    }
    copy(stream, to, from, bytes, stream->device->options.copy_mb_per_s);
    return TD_OK;
}

td_status td_reference_copy_to_host(struct td_device_stream *stream, void *to, const void *from,
                                    size_t bytes, struct td_error *err)
{
    td_status status = check_copy(stream->device, "copy_to_host", from, to, bytes, err);
    if (status != TD_OK)
        return status;
    td_reference_count(TD_REFERENCE_COPIES_TO_HOST, 1);
    td_reference_count(TD_REFERENCE_BYTES_TO_HOST, bytes);
    copy(stream, to, from, bytes, td_reference_back_mb_per_s(&stream->device->options));
    return TD_OK;
}
