/* launch.h - several calls of an op as one launch: its arguments, and where everything lies.
 *
 *     items ─► merged and inferred ─► laid out ─► (memory is taken) ─► filled, addresses bound
 *
 *     staging in   [reports | inputs ......]      device  [inputs ...... | outputs | workspace]
 *     staging out  [outputs of item 0 | of item 1 | ...]
 *
 * Resident tables lie elsewhere on the device (tables.h) and are not copied with the inputs. Nothing
 * is taken here but from the arena.
 *
 * Inputs     are numbered through the lists of all inputs.
 * Ownership  What a launch points to lies in the arena. Borrows the items until it is filled.
 * Threads    One at a time. */
#ifndef TD_SERVER_DEVICES_LAUNCH_H
#define TD_SERVER_DEVICES_LAUNCH_H

#include "gpu/device.h"
#include "server/devices/item.h"

struct td_launch {
    const struct td_op *op;
    struct td_op_args args;  /* data are those of the host until they are bound */
    const int64_t *item_end; /* NULL but for calls joined one after the other */
    int n_items, n_inputs, n_reports;
    int n_outputs;   /* of an item */
    size_t *begins;  /* [n_items][n_outputs]: bytes from the start of the outputs */
    uint32_t tables; /* bit i: input i is a table */
    size_t *offsets; /* of each input from the start of the inputs */
    size_t report_bytes, in_bytes, out_bytes;
    size_t outputs, workspace, scratch_bytes; /* on the device, from the start of the inputs */
};

/* How many inputs a call has, and the i-th of them. */
int td_launch_count_inputs(const struct td_op *op, const struct td_op_args *args);
struct td_tensor *td_launch_input(const struct td_op_args *args, int i);

/* Is input i among these tables? */
bool td_launch_is_table(uint32_t tables, int i);

/* As td_batcher_check_kernel. */
TD_MUST_CHECK td_status td_launch_check_kernel(const struct td_device_api *api,
                                               const struct td_op *op,
                                               const struct td_op_args *args, struct td_error *err);

/* Of n calls that merge, or of one; laid out but for the scratch memory. RESOURCE_LIMIT where it is
 * too large for any memory, UNSUPPORTED_DTYPE, MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_launch_make(struct td_launch *launch, const struct td_device_api *api,
                                       struct td_batch_item *const *items, int n,
                                       struct td_arena *arena, struct td_error *err);

/* The launch as the device gets it, but for the workspace. */
struct td_device_work td_launch_work(const struct td_launch *launch,
                                     struct td_device_report *reports);

/* Places inputs, outputs and a workspace in scratch memory; scratch_bytes is SIZE_MAX where they are
 * too large for any. */
void td_launch_lay_out_scratch(struct td_launch *launch, size_t workspace_bytes);

/* Bytes of its tables, one that is there twice counted once. Before addresses are bound. */
uint64_t td_launch_table_bytes(const struct td_launch *launch);

/* Writes what the items bring to staging memory, reports first, which say nothing yet. */
void td_launch_fill(const struct td_launch *launch, struct td_batch_item *const *items,
                    char *staging);

/* Inputs and outputs get their addresses in scratch memory. Tables have theirs set by the caller. */
void td_launch_bind(struct td_launch *launch, char *scratch);

#endif
