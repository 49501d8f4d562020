/* launch.h - several calls of an op as one launch: its arguments and its memory layout.
 *
 *     items ─► merged and inferred ─► laid out ─► (memory is allocated) ─► filled, addresses bound
 *
 *     staging in   [reports | inputs ......]      device  [inputs ...... | outputs | workspace]
 *     staging out  [outputs of item 0 | of item 1 | ...]
 *
 * A small launch may be direct: then the device reads and writes the staging memory, and has the
 * workspace alone. Resident tables are stored elsewhere on the device (tables.h) and not copied
 * with the inputs. This module allocates from the arena only.
 *
 * Inputs     are numbered through the lists of all inputs.
 * Ownership  All that a launch points to is in the arena. Borrows the items until it is filled.
 * Threads    One at a time. */
#ifndef TD_SERVER_DEVICES_LAUNCH_H
#define TD_SERVER_DEVICES_LAUNCH_H

#include "gpu/device.h"
#include "server/devices/copiers.h"
#include "server/devices/item.h"

struct td_launch {
    const struct td_op *op;
    struct td_op_args args;          /* data point to host memory until they are bound */
    const struct td_op_args **calls; /* that are merged; NULL: one that is not */
    const int64_t *item_end;         /* NULL unless the calls are concatenated */
    int n_items, n_inputs, n_reports;
    int n_outputs;   /* of an item */
    size_t *begins;  /* [n_items][n_outputs]: byte offsets from the start of the outputs */
    uint32_t tables; /* bit i: input i is a table */
    size_t *offsets; /* byte offset of each input from the start of the inputs */
    struct td_copy_range *copies; /* [n_inputs * n_items]: what filling copies */
    size_t report_bytes, in_bytes, out_bytes;
    /* computed in staging memory, without copies: of these only the workspace is on the device */
    bool direct;
    size_t outputs, workspace, scratch_bytes; /* byte offsets on the device, from the first input */
};

/* The number of inputs of a call, and input i. */
int td_launch_count_inputs(const struct td_op *op, const struct td_op_args *args);
struct td_tensor *td_launch_input(const struct td_op_args *args, int i);

/* Is input i one of these tables? */
bool td_launch_is_table(uint32_t tables, int i);

/* Describes the image of the index of keys, which is a table of its own; false if they have
 * none. */
bool td_launch_index_of(const struct td_tensor *keys, struct td_tensor *image);

/* As td_batcher_check_kernel. */
TD_MUST_CHECK td_status td_launch_check_kernel(const struct td_device_api *api,
                                               const struct td_op *op,
                                               const struct td_op_args *args, struct td_error *err);

/* Makes a launch of n calls that merge, or of one, and lays out all but the scratch memory. Errors:
 * RESOURCE_LIMIT (too large for any memory), UNSUPPORTED_DTYPE, MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_launch_make(struct td_launch *launch, const struct td_device_api *api,
                                       struct td_batch_item *const *items, int n,
                                       struct td_arena *arena, struct td_error *err);

/* The launch as passed to the device, without the workspace. */
struct td_device_work td_launch_work(const struct td_launch *launch,
                                     struct td_device_report *reports);

/* Lays out inputs, outputs and a workspace in scratch memory; scratch_bytes is SIZE_MAX if they are
 * too large for any memory. */
void td_launch_lay_out_scratch(struct td_launch *launch, size_t workspace_bytes);

/* Bytes of its tables and their indices, each counted once. Called before addresses are bound. */
uint64_t td_launch_table_bytes(const struct td_launch *launch);

/* Writes empty reports, then the inputs of the items, to staging memory; large ones with the
 * copiers. */
void td_launch_fill(const struct td_launch *launch, struct td_batch_item *const *items,
                    struct td_copiers *copiers, char *staging);

/* Sets the addresses of table i and of its index, which is NULL unless the table has one. */
TD_MUST_CHECK td_status td_launch_bind_table(struct td_launch *launch, int i, void *data,
                                             const void *index, struct td_arena *arena,
                                             struct td_error *err);

/* Sets the addresses of the inputs that are no tables, and of the outputs, from those of the
 * first. */
void td_launch_bind(struct td_launch *launch, char *inputs, char *outputs);

#endif
