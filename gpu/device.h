/* device.h - what tensord asks of a device that computes beside the processor.
 *
 *     server ── td_device_load ──► vtable ──► a plugin (tensord-gpu-cuda.so), or the reference
 *                                             device, which is the same thing on the host
 *
 *     stream:  copy in ─► run ─► copy out ─► … in this order, while the caller goes on
 *              poll, wait: is all of it done?
 *
 * A device has memory of its own, and streams: what is submitted to one stream happens in order,
 * what is submitted to several may overlap. Submitting returns before the work is done; memory and
 * structs that it names stay as they are until poll or wait has said that the stream is idle, except
 * where a function says that it copies.
 *
 * Work       One op, described by the arguments that td_op_infer accepted, with device addresses for
 *            data. How several calls are made one is the caller's business; `items` only lets
 *            the device tell them apart in what it reports. Strings have no place here.
 * Results    Those of the op's own kernel, bit for bit where it moves data; sums may be added
 *            in another order, and be a zero of another sign. A row whose index is out of range
 *            is left zero by a device where the policy is `error`, and where clip and wrap have
 *            nothing to choose from, and reported; the caller decides what that means.
 * Ownership  Who opens closes. Streams and memory are closed and freed before their device, but for a
 *            lost device: closing it takes everything with it.
 * Threads    One thread at a time for a device and all that belongs to it; `close` of a lost device
 *            may be called from another thread once nobody uses it any more. Host memory may be read
 *            and written from anywhere.
 * Errors     MEMORY_EXHAUSTED: no room on the device; nothing was submitted, and everything else goes
 *            on. NOT_SUPPORTED: this device has no kernel for it. DEVICE_UNAVAILABLE: the device is
 *            lost; so is all that was submitted, and every later call says the same until it is
 *            closed and opened again. INTERNAL: the caller broke the contract.
 * Version    A plugin is a shared object with a function `td_device_plugin` of type
 *            td_device_plugin_fn. Whoever changes anything that crosses here, structs of
 *            kernels/ included, counts TD_DEVICE_ABI up. */
#ifndef TD_GPU_DEVICE_H
#define TD_GPU_DEVICE_H

#include "kernels/op.h"

#define TD_DEVICE_ABI         2
#define TD_DEVICE_PLUGIN_NAME "td_device_plugin"
#define TD_DEVICE_TEXT        128

struct td_device;
struct td_device_stream;

struct td_device_options {
    int number;       /* which of several; 0 is the first */
    uint64_t memory;  /* bytes that may be allocated; 0: most of what there is */
    bool tf32;        /* float32 products may be rounded to 10 bits before they are multiplied */
    const char *text; /* "name=value,name=value": the device's own; "" for none */
};

struct td_device_info {
    char name[TD_DEVICE_TEXT]; /* "NVIDIA H100 80GB HBM3" */
    char kind[TD_DEVICE_TEXT]; /* "cuda", "reference" */
    uint64_t memory;           /* bytes that may be allocated, */
    uint64_t memory_used;      /* and that are */
    /* Measured at opening; for the choice between the device and the processor. */
    uint64_t launch_ns;            /* one small piece of work, from submitting to done */
    uint64_t copy_bytes_per_us;    /* between pinned host memory and the device, one way */
    uint64_t device_bytes_per_us;  /* of its own memory, read and written */
    uint64_t float32_flops_per_us; /* of a large matrix product */
};

/* What became of the indices of one item. */
struct td_device_report {
    int64_t
        first_bad; /* position among the item's own indices of the first that is out of range; for
                          tuples, of its component; INT64_MAX: none */
    int64_t n_bad; /* how many are, and were replaced where the policy says so */
};

/* One launch. */
struct td_device_work {
    const struct td_op *op;
    const struct td_op_args *args; /* data are device addresses, 256-byte aligned or a place in a
                                      table (workspace_bytes: not known yet, and not looked at);
                                      args->plan is what infer made on the host. Copied as far as it is
                                      needed after run has returned. */
    int n_items;                   /* 1 or more: consecutive parts of the input `indices`; */
    const int64_t *item_end; /* item i ends before this element of it. n_items of them, copied.
                                      NULL where n_items is 1, and where the op
                                replaces no index: then all items are reported as good */
    struct td_device_report *reports; /* n_items, in memory of host_alloc; written by the device.
                                         NULL: nobody asks */
    void *workspace;                  /* on the device; workspace_bytes(work) of it */
};

struct td_device_api {
    uint32_t abi;       /* TD_DEVICE_ABI */
    uint32_t args_size; /* sizeof(struct td_op_args), the largest struct that crosses */
    const char *kind;

    /* DEVICE_UNAVAILABLE says why there is none, INVALID_ARGUMENT what is wrong with options->text. */
    td_status (*open)(const struct td_device_options *options, struct td_device **out,
                      struct td_error *err);
    void (*close)(struct td_device *device); /* frees all that is left; NULL is fine */
    void (*info)(struct td_device *device, struct td_device_info *out);

    /* On the device, 256-byte aligned. Freed while a stream still uses it: after the stream's work. */
    td_status (*alloc)(struct td_device *device, size_t bytes, void **out, struct td_error *err);
    void (*free)(struct td_device *device, void *memory); /* NULL is fine */

    /* On the host, where the device reads and writes without a copy in between; 64-byte aligned. */
    td_status (*host_alloc)(struct td_device *device, size_t bytes, void **out,
                            struct td_error *err);
    void (*host_free)(struct td_device *device, void *memory);

    td_status (*stream_open)(struct td_device *device, struct td_device_stream **out,
                             struct td_error *err);
    void (*stream_close)(struct td_device_stream *stream); /* waits; NULL is fine */

    /* Host memory of host_alloc overlaps with other work; any other may be copied before the function
     * returns. */
    td_status (*copy_in)(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                         struct td_error *err);
    td_status (*copy_out)(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                          struct td_error *err);

    /* Is there a kernel for the op with these dtypes and shapes? Data are not looked at. Any thread, at
     * any time. */
    bool (*supports)(const struct td_op *op, const struct td_op_args *args);
    /* SIZE_MAX: this cannot be told now, or is more than any device has. */
    size_t (*workspace_bytes)(struct td_device *device, const struct td_device_work *work);
    td_status (*run)(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err);

    /* TD_OK with *done; anything else is what went wrong with what was submitted. */
    td_status (*poll)(struct td_device_stream *stream, bool *done, struct td_error *err);
    /* The same, after at most timeout_ns; may spin for some 20 us first. */
    td_status (*wait)(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                      struct td_error *err);
};

typedef const struct td_device_api *td_device_plugin_fn(void);

/* What tensord was told to use: "cuda", "reference", or a path to a plugin. */
struct td_device_library {
    const struct td_device_api *api;
    void *handle; /* of the shared object; NULL for the reference device */
};

/* "cuda" is tensord-gpu-cuda.so, looked for beside the program, in ../lib/tensord beside that, and
 * where the system looks. DEVICE_UNAVAILABLE: not there, not a plugin, another ABI; says which, and
 * what was expected. Nothing of a plugin is unloaded while a device of it is open. */
TD_MUST_CHECK td_status td_device_load(const char *name, struct td_device_library *out,
                                       struct td_error *err);
void td_device_unload(struct td_device_library *library); /* NULL api is fine */

/* Is `text` what its devices can be told (td_device_options.text)? Opens none, which may take seconds
 * and much of the device's memory, so only the reference device can tell: a plugin's text is good as
 * far as one knows. INVALID_ARGUMENT. */
TD_MUST_CHECK td_status td_device_check_text(const struct td_device_library *library,
                                             const char *text, struct td_error *err);

#endif
