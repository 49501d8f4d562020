/* device.h - the vtable and the types through which tensord uses a compute device.
 *
 *     server ── td_device_load ──► struct td_device_api ──► a plugin (tensord-gpu-cuda.so), or
 *               (loader/loader.h)                           the reference device, on the host
 *
 *     stream:  copy_to_device ─► run ─► copy_to_host ─► …   submitted, executed in this order
 *              poll, wait: report whether all submitted work is complete
 *
 * A device has its own memory and streams. Work on one stream executes in order of submission, and
 * work on different streams can overlap. Submission returns before the work is complete. The memory
 * and structs that were passed must stay unchanged until poll or wait reports that the stream is
 * idle, unless the function is documented to copy them.
 *
 * Work       One op, described by the arguments that td_op_infer accepted, or a chain of
 *            elementwise ops. Tensor data are device addresses or, if the tensors are small
 *            (direct_bytes), addresses of pinned host memory. The caller merges several calls into
 *            one launch, and `items` only lets the device report per call. The steps of a program
 *            are submitted one after another. Strings are not supported. The caller has checked the
 *            values that td_op.valid checks. Keys with an index (`key_index`) belong to a table:
 *            the index's `keys` and `blocks` are on the device, and its image is 256-byte aligned.
 * Results    The same as from the op's CPU kernel, bit for bit if the op moves data. The terms of a
 *            sum can be added in another order, and a zero sum can have the other sign. Rows whose
 *            scores differ only by rounding can be found in another order. A row whose index is out
 *            of range is zero. It is reported if the policy is `error`, or if the policy is clip or
 *            wrap and the range is empty. The row of a missing key is zero, and is reported if the
 *            policy is `error`. The caller decides whether a report is an error.
 * Ownership  The caller of an open function must close what it opened, and must close the streams
 *            and free the memory of a device before closing the device. Closing a lost device frees
 *            everything it owns.
 * Threads    Only one thread at a time may use a device and everything it owns. `close` of a lost
 *            device can run on another thread after all other threads have stopped using the
 *            device. Any thread can read and write host memory.
 * Errors     MEMORY_EXHAUSTED: out of device memory. Nothing was submitted, and the device remains
 *            usable. NOT_SUPPORTED: the device has no kernel for this work. DEVICE_UNAVAILABLE: the
 *            device is lost, with all submitted work. Every later call returns this error until the
 *            device is closed and opened again. INTERNAL: the caller violated this contract.
 * Version    A plugin is a shared object that exports td_device_plugin, of type
 *            td_device_plugin_fn. Any change to this interface, including the structs of kernels/
 *            that it passes, must increment TD_DEVICE_ABI. */
#ifndef TD_GPU_DEVICE_H
#define TD_GPU_DEVICE_H

#include "kernels/chain/calls.h"

#define TD_DEVICE_ABI         10
#define TD_DEVICE_PLUGIN_NAME "td_device_plugin"
#define TD_DEVICE_TEXT        128

struct td_device;
struct td_device_stream;

struct td_device_options {
    int ordinal;      /* number of the device among devices of its kind, starting at 0 */
    uint64_t memory;  /* maximum number of bytes to allocate; 0: most of the device's free memory */
    bool tf32;        /* allows float32 products to round their inputs to 10 mantissa bits */
    const char *text; /* options for this kind of device, "name=value,name=value", or "" */
};

struct td_device_info {
    char name[TD_DEVICE_TEXT]; /* e.g. "NVIDIA H100 80GB HBM3" */
    char kind[TD_DEVICE_TEXT]; /* "cuda" or "reference" */
    uint64_t memory;           /* maximum number of bytes to allocate */
    uint64_t memory_used;      /* allocated bytes, excluding memory_freeing */
    /* Freed bytes that become available when the submitted work completes. */
    uint64_t memory_freeing;
    /* Maximum total size in bytes of inputs and outputs for which work without a plan can use
     * host_alloc memory instead of device memory, which makes a small call a launch without copies.
     * Outputs must be 64-byte aligned. 0: never. */
    uint64_t direct_bytes;
    /* The device measures the following values when it is opened. The caller uses them to choose
     * between device and CPU. */
    /* Latency of a small copy, a launch and a copy back, including the wait. */
    uint64_t launch_ns;
    /* Time of another small launch on the same stream, before the copy back. */
    uint64_t next_launch_ns;
    /* Bandwidth from pinned host memory to the device. */
    uint64_t copy_bytes_per_us;
    /* Bandwidth from the device to pinned host memory. */
    uint64_t back_bytes_per_us;
    /* Bandwidth of one host thread that copies from host memory to pinned memory. */
    uint64_t fill_bytes_per_us;
    /* Device memory bandwidth, reads and writes. */
    uint64_t device_bytes_per_us;
    /* Speed of a large float32 matrix product. */
    uint64_t float32_flops_per_us;
};

/* Report about the queries of one item that select no row: indices out of range and unknown
 * keys. */
struct td_device_report {
    /* Position of the first bad query among the item's own queries, or INT64_MAX if there is none.
     * If queries are index tuples, the position counts components. */
    int64_t first_bad;
    int64_t n_bad; /* number of bad queries */
};

/* Describes the work of one run. */
struct td_device_work {
    const struct td_op *op;
    /* Tensor data are device addresses. Outputs are 64-byte aligned, and inputs can point into a
     * larger allocation. workspace_bytes ignores the addresses. args->plan is the plan that infer
     * made on the host. `run` copies what it needs from args before it returns. */
    const struct td_op_args *args;
    /* A chain of n_chain elementwise ops that starts with `op` and `args`, or NULL for a single op.
     * The results have the same bits as if each op ran alone on this device. A device that supports
     * each op of a chain also supports the chain. */
    const struct td_chain_call *chain;
    int n_chain;
    /* Number of items, at least 1. Items are consecutive ranges of the queries
     * (kernels/op_rows.h). */
    int n_items;
    /* Array of n_items entries, which `run` copies. Entry i is the end of item i's queries, as an
     * element number. NULL if n_items is 1 or the op's queries can never be bad. */
    const int64_t *item_end;
    /* n_items reports in host_alloc memory, which the device writes. NULL if the caller wants no
     * reports. */
    struct td_device_report *reports;
    void *workspace; /* device memory of workspace_bytes(work) bytes */
};

struct td_device_api {
    uint32_t abi; /* TD_DEVICE_ABI */
    /* sizeof(struct td_op_args), the largest struct that crosses the interface. */
    uint32_t args_size;
    const char *kind;

    /* Opens a device. Returns DEVICE_UNAVAILABLE if the device does not exist or cannot be used,
     * with the reason in the message, or INVALID_ARGUMENT for an error in options->text. */
    td_status (*open)(const struct td_device_options *options, struct td_device **out,
                      struct td_error *err);
    void (*close)(struct td_device *device); /* frees everything the device owns; accepts NULL */
    void (*info)(struct td_device *device, struct td_device_info *out);

    /* Device memory, 256-byte aligned. free may be called while streams use the memory, and takes
     * effect after their work. Neither alloc nor free waits for that work, so alloc can return
     * MEMORY_EXHAUSTED although enough memory is being freed. */
    td_status (*alloc)(struct td_device *device, size_t bytes, void **out, struct td_error *err);
    void (*free)(struct td_device *device, void *memory); /* accepts NULL */

    /* Pinned host memory, 64-byte aligned, which the device accesses directly. host_free follows
     * the same rules as free. */
    td_status (*host_alloc)(struct td_device *device, size_t bytes, void **out,
                            struct td_error *err);
    void (*host_free)(struct td_device *device, void *memory);

    td_status (*stream_open)(struct td_device *device, struct td_device_stream **out,
                             struct td_error *err);
    /* Waits for the stream's work. Accepts NULL. */
    void (*stream_close)(struct td_device_stream *stream);

    /* Copies from and to host_alloc memory overlap with other work. Copies from and to other host
     * memory can complete before the function returns. */
    td_status (*copy_to_device)(struct td_device_stream *stream, void *to, const void *from,
                                size_t bytes, struct td_error *err);
    td_status (*copy_to_host)(struct td_device_stream *stream, void *to, const void *from,
                              size_t bytes, struct td_error *err);

    /* True if the device has a kernel for the op with these dtypes and shapes. Reads no data. Any
     * thread can call this function at any time. */
    bool (*supports)(const struct td_op *op, const struct td_op_args *args);
    /* Returns the size in bytes of the workspace, or SIZE_MAX if the size cannot be computed or
     * exceeds any device's memory. */
    size_t (*workspace_bytes)(struct td_device *device, const struct td_device_work *work);
    td_status (*run)(struct td_device_stream *stream, const struct td_device_work *work,
                     struct td_error *err);

    /* Returns TD_OK and sets *done, or returns the error of the submitted work. */
    td_status (*poll)(struct td_device_stream *stream, bool *done, struct td_error *err);
    /* Like poll, but waits for at most timeout_ns. Can spin for the first 100 us. */
    td_status (*wait)(struct td_device_stream *stream, int64_t timeout_ns, bool *done,
                      struct td_error *err);
};

typedef const struct td_device_api *td_device_plugin_fn(void);

#endif
