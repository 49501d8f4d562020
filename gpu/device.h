/* device.h - the interface of a device that computes beside the CPU: one vtable and its types.
 *
 *     server ── td_device_load ──► struct td_device_api ──► a plugin (tensord-gpu-cuda.so), or
 *               (loader/loader.h)                           the reference device, on the host
 *
 *     stream:  copy_to_device ─► run ─► copy_to_host ─► …   submitted, executed in this order
 *              poll, wait: is all submitted work complete?
 *
 * A device has its own memory and streams. Work on one stream executes in order of submission, work
 * on several streams may overlap. Submission is asynchronous: it returns before the work is
 * complete. The memory and structs that were passed must stay unchanged until poll or wait reports
 * the stream idle, except where a function is documented to copy them.
 *
 * Work       One op, described by the arguments that td_op_infer accepted, with device addresses as
 *            data, or addresses of pinned host memory if there are few bytes (direct_bytes).
 *            Merging several calls into one launch is up to the caller; `items` only lets the
 *            device report per call. Strings are not supported. The caller has checked the values
 *            that td_op.valid checks. Keys with an index (`key_index`) are those of a table: its
 *            `keys` and `blocks` are on the device, the image is 256-byte aligned.
 * Results    Those of the op's own kernel, bit for bit where it moves data; sums may be added
 *            in another order, and be a zero of the other sign. A row with an index out of range is
 *            zero, and reported, where the policy is `error` and where clip and wrap have an empty
 *            range; so is that of a missing key where the policy is `error`. The caller decides
 *            whether that is an error.
 * Ownership  The caller of an open function closes what it opened. Streams and memory are closed
 *            and freed before their device, except that closing a lost device frees all that it
 *            owns.
 * Threads    One thread at a time for a device and all that it owns; `close` of a lost device
 *            may run on another thread once no other thread uses the device. Host memory may be
 *            read and written from any thread.
 * Errors     MEMORY_EXHAUSTED: out of device memory; nothing was submitted, and the device remains
 *            usable. NOT_SUPPORTED: the device has no kernel for this work. DEVICE_UNAVAILABLE: the
 *            device is lost, with all submitted work; every later call returns it until the device
 *            is closed and opened again. INTERNAL: the caller violated this contract.
 * Version    A plugin is a shared object that exports td_device_plugin, of type
 *            td_device_plugin_fn. Any change to what crosses this interface, structs of
 *            kernels/ included, increments TD_DEVICE_ABI. */
#ifndef TD_GPU_DEVICE_H
#define TD_GPU_DEVICE_H

#include "kernels/op.h"

#define TD_DEVICE_ABI         7
#define TD_DEVICE_PLUGIN_NAME "td_device_plugin"
#define TD_DEVICE_TEXT        128

struct td_device;
struct td_device_stream;

struct td_device_options {
    int ordinal;      /* among the devices of this kind; 0 is the first */
    uint64_t memory;  /* limit of allocated bytes; 0: most of the device's free memory */
    bool tf32;        /* float32 products may round their inputs to 10 mantissa bits */
    const char *text; /* "name=value,name=value": options of this kind of device; "" for none */
};

struct td_device_info {
    char name[TD_DEVICE_TEXT]; /* "NVIDIA H100 80GB HBM3" */
    char kind[TD_DEVICE_TEXT]; /* "cuda", "reference" */
    uint64_t memory;           /* limit of allocated bytes */
    uint64_t memory_used;      /* allocated bytes, without: */
    uint64_t memory_freeing;   /* freed bytes that come back when submitted work is complete */
    /* Work without a plan may have its inputs and outputs in memory of host_alloc, outputs 64-byte
     * aligned, if these take at most so many bytes together: a small call is then a launch without
     * copies. 0: never. */
    uint64_t direct_bytes;
    /* Measured when the device is opened, for the choice between device and CPU. */
    uint64_t launch_ns; /* latency of a copy, launch and copy back, all small, with a wait */
    uint64_t copy_bytes_per_us; /* from pinned host memory to the device */
    uint64_t back_bytes_per_us; /* and back */
    uint64_t fill_bytes_per_us; /* from host memory into pinned memory, by one thread of the host */
    uint64_t device_bytes_per_us;  /* device memory bandwidth, reads and writes */
    uint64_t float32_flops_per_us; /* of a large matrix product */
};

/* The queries of one item without a row: indices out of range, keys that no key equals. */
struct td_device_report {
    int64_t first_bad; /* position of the first among the item's own queries; for index tuples, of
                          the component; INT64_MAX: none */
    int64_t n_bad;     /* their number */
};

/* The work of one run. */
struct td_device_work {
    const struct td_op *op;
    /* Data are device addresses: outputs are 256-byte aligned, inputs may point into a larger
     * allocation. workspace_bytes reads no addresses. args->plan is the one that infer made on the
     * host. Copied as far as needed before run returns. */
    const struct td_op_args *args;
    int n_items; /* 1 or more: consecutive ranges of the queries (kernels/op_rows.h) */
    /* Item i ends before this element of the queries. n_items entries, copied. NULL if n_items is
     * 1, and for ops whose queries are never an error: then no item has bad ones. */
    const int64_t *item_end;
    /* n_items reports in memory of host_alloc, written by the device. NULL: none wanted. */
    struct td_device_report *reports;
    void *workspace; /* device memory, workspace_bytes(work) */
};

struct td_device_api {
    uint32_t abi;       /* TD_DEVICE_ABI */
    uint32_t args_size; /* sizeof(struct td_op_args), the largest struct that crosses */
    const char *kind;

    /* DEVICE_UNAVAILABLE: no such device, and why; INVALID_ARGUMENT: an error in options->text. */
    td_status (*open)(const struct td_device_options *options, struct td_device **out,
                      struct td_error *err);
    void (*close)(struct td_device *device); /* frees all that it owns; NULL is fine */
    void (*info)(struct td_device *device, struct td_device_info *out);

    /* Device memory, 256-byte aligned. free may be called while streams use the memory: it takes
     * effect after their work, for which neither of the two waits. MEMORY_EXHAUSTED also while
     * memory that would do is being freed. */
    td_status (*alloc)(struct td_device *device, size_t bytes, void **out, struct td_error *err);
    void (*free)(struct td_device *device, void *memory); /* NULL is fine */

    /* Pinned host memory, which the device reads and writes directly; 64-byte aligned. Freed as
     * device memory is. */
    td_status (*host_alloc)(struct td_device *device, size_t bytes, void **out,
                            struct td_error *err);
    void (*host_free)(struct td_device *device, void *memory);

    td_status (*stream_open)(struct td_device *device, struct td_device_stream **out,
                             struct td_error *err);
    void (*stream_close)(struct td_device_stream *stream); /* waits for its work; NULL is fine */

    /* Copies from and to memory of host_alloc overlap with other work; other host memory may be
     * copied before the function returns. */
    td_status (*copy_to_device)(struct td_device_stream *stream, void *to, const void *from,
                                size_t bytes, struct td_error *err);
    td_status (*copy_to_host)(struct td_device_stream *stream, void *to, const void *from,
                              size_t bytes, struct td_error *err);

    /* Is there a kernel for the op with these dtypes and shapes? Reads no data. Any thread, at any
     * time. */
    bool (*supports)(const struct td_op *op, const struct td_op_args *args);
    /* SIZE_MAX: cannot be computed, or more than any device has. */
    size_t (*workspace_bytes)(struct td_device *device, const struct td_device_work *work);
    td_status (*run)(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err);

    /* TD_OK and *done, or the error of the submitted work. */
    td_status (*poll)(struct td_device_stream *stream, bool *done, struct td_error *err);
    /* Like poll, after at most timeout_ns; may spin in the first 100 us that submitted work is
     * waited for. */
    td_status (*wait)(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                      struct td_error *err);
};

typedef const struct td_device_api *td_device_plugin_fn(void);

#endif
