/* fake_plugin.c - a plugin for the tests of the loader: its functions do nothing. FAKE_... build
 * variants with one error each. */
#include "gpu/device.h"

#ifndef FAKE_ABI
#define FAKE_ABI TD_DEVICE_ABI
#endif
#ifndef FAKE_ARGS_SIZE
#define FAKE_ARGS_SIZE sizeof(struct td_op_args)
#endif

static td_status fake_open(const struct td_device_options *options, struct td_device **out,
                           struct td_error *err)
{
    (void)options;
    (void)err;
    *out = NULL;
    return TD_DEVICE_UNAVAILABLE;
}

static void fake_close(struct td_device *device)
{
    (void)device;
}

static void fake_info(struct td_device *device, struct td_device_info *out)
{
    (void)device;
    *out = (struct td_device_info){ .memory = 0 };
}

static td_status fake_alloc(struct td_device *device, size_t bytes, void **out,
                            struct td_error *err)
{
    (void)device;
    (void)bytes;
    (void)err;
    *out = NULL;
    return TD_DEVICE_UNAVAILABLE;
}

static void fake_free(struct td_device *device, void *memory)
{
    (void)device;
    (void)memory;
}

static td_status fake_stream_open(struct td_device *device, struct td_device_stream **out,
                                  struct td_error *err)
{
    (void)device;
    (void)err;
    *out = NULL;
    return TD_DEVICE_UNAVAILABLE;
}

static void fake_stream_close(struct td_device_stream *stream)
{
    (void)stream;
}

static td_status fake_copy(struct td_device_stream *stream, void *to, const void *from,
                           size_t bytes, struct td_error *err)
{
    (void)stream;
    (void)to;
    (void)from;
    (void)bytes;
    (void)err;
    return TD_DEVICE_UNAVAILABLE;
}

static bool fake_supports(const struct td_op *op, const struct td_op_args *args)
{
    (void)op;
    (void)args;
    return false;
}

static size_t fake_workspace_bytes(struct td_device *device, const struct td_device_work *work)
{
    (void)device;
    (void)work;
    return 0;
}

static td_status fake_poll(struct td_device_stream *stream, bool *done, struct td_error *err)
{
    (void)stream;
    (void)err;
    *done = false;
    return TD_DEVICE_UNAVAILABLE;
}

static td_status fake_wait(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                           struct td_error *err)
{
    (void)timeout_ns;
    return fake_poll(stream, done, err);
}

#ifndef FAKE_WITHOUT_RUN
static td_status fake_run(struct td_device_stream *stream, const struct td_device_work *work,
                          struct td_error *err)
{
    (void)stream;
    (void)work;
    (void)err;
    return TD_DEVICE_UNAVAILABLE;
}
#endif

extern const struct td_device_api
    fake_api; /* external, so that no variant warns that it is unused */
const struct td_device_api fake_api = {
    .abi = FAKE_ABI,
    .args_size = FAKE_ARGS_SIZE,
#ifndef FAKE_WITHOUT_KIND
    .kind = "fake",
#endif
    .open = fake_open,
    .close = fake_close,
    .info = fake_info,
    .alloc = fake_alloc,
    .free = fake_free,
    .host_alloc = fake_alloc,
    .host_free = fake_free,
    .stream_open = fake_stream_open,
    .stream_close = fake_stream_close,
    .copy_to_device = fake_copy,
    .copy_to_host = fake_copy,
    .supports = fake_supports,
    .workspace_bytes = fake_workspace_bytes,
#ifndef FAKE_WITHOUT_RUN
    .run = fake_run,
#endif
    .poll = fake_poll,
    .wait = fake_wait,
};

#ifndef FAKE_WITHOUT_SYMBOL
td_device_plugin_fn td_device_plugin;

const struct td_device_api *td_device_plugin(void)
{
#ifdef FAKE_WITHOUT_TABLE
    return NULL;
#else
    return &fake_api;
#endif
}
#endif
