/* launch.h - merges several calls of an op into one launch: its arguments and its memory layout.
 *
 *     items ─► merged and inferred ─► laid out ─► (memory is allocated) ─► filled, addresses bound
 *
 *     staging in   [reports | inputs ......]      device  [inputs .. | outputs | block | workspace]
 *     staging out  [outputs of item 0 | of item 1 | ...]
 *
 * A small launch can be direct: the device reads and writes the staging memory, and device memory
 * holds only the workspace. Resident tables are stored elsewhere on the device (table_cache.h) and
 * not copied with the inputs. This module allocates only from the arena.
 *
 * The steps of a program (steps.h) are launched one after another, and their results stay on the
 * device, in one block in which results that are not needed at the same time overlap. Calls of a
 * stored program whose rows are independent of each other are merged along their first dimension.
 *
 * Inputs     Inputs are numbered through the lists of all inputs. The inputs of a program are
 *            numbered as in td_program_plan.inputs.
 * Ownership  The arena holds everything that a launch points to. Borrows the items until the launch
 *            is filled.
 * Threads    One thread at a time. */
#ifndef TD_SERVER_DEVICES_LAUNCH_H
#define TD_SERVER_DEVICES_LAUNCH_H

#include "gpu/device.h"
#include "server/devices/copiers.h"
#include "server/devices/item.h"

struct td_launch {
    const struct td_op *op;
    struct td_op_args args; /* data pointers are host addresses until they are bound */
    /* The merged calls, or NULL if the launch is one call that is not merged. */
    const struct td_op_args **calls;
    /* [n_items]: end of each call's queries in the concatenated queries (kernels/merge.h), or NULL
     * if the calls are not concatenated. */
    const int64_t *item_end;
    int n_items, n_inputs, n_reports;
    int n_outputs;  /* number of outputs of one item */
    size_t *begins; /* [n_items][n_outputs]: byte offsets from the start of the outputs */
    struct td_batch_tables tables;
    /* [n_works]: what the device runs, in this order: the op, or each step or chain of a
     * program. */
    struct td_device_work *works;
    int *steps; /* [n_works]: the first step of each work of a program; otherwise NULL */
    int n_works;
    struct td_program_plan *plan; /* of a program; otherwise NULL */
    size_t *offsets;              /* byte offset of each input from the start of the inputs */
    /* [n_inputs * n_items]: ranges to copy when staging memory is filled */
    struct td_copy_range *copies;
    size_t report_bytes, in_bytes, out_bytes;
    /* True if the launch is computed in staging memory, without copies. Device memory then holds
     * only the workspace. */
    bool direct;
    /* Byte offsets on the device, relative to the first input. */
    size_t outputs, block, workspace, scratch_bytes;
};

/* td_launch_count_inputs returns the number of inputs of a call. td_launch_input returns input
 * i. */
int td_launch_count_inputs(const struct td_op *op, const struct td_op_args *args);
struct td_tensor *td_launch_input(const struct td_op_args *args, int i);

/* True if the call can be merged as far as its tables are concerned. The tables of a program that
 * is merged must be constants, because the rows of its inputs are copied one after another. */
bool td_launch_can_merge(const struct td_batch_item *item);

/* Describes the image of the keys' index, which is a separate table. Returns false if the keys have
 * no index. */
bool td_launch_index_of(const struct td_tensor *keys, struct td_tensor *image);

/* True if input i is a table. */
bool td_launch_is_table(const struct td_launch *launch, int i);

/* Makes a launch of one call, or of n calls that can be merged. Lays out everything except the
 * scratch memory. Fails with RESOURCE_LIMIT (too large for any memory), UNSUPPORTED_DTYPE or
 * MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_launch_make(struct td_launch *launch, const struct td_device_api *api,
                                       struct td_batch_item *const *items, int n,
                                       struct td_arena *arena, struct td_error *err);

/* Sets the n_reports reports that the device writes. */
void td_launch_set_reports(struct td_launch *launch, struct td_device_report *reports);

/* Returns the report about work w that concerns an item. */
const struct td_device_report *td_launch_report(const struct td_launch *launch, int w, int item,
                                                const struct td_device_report *reports);

/* Names the step of a program in the error of work w. Returns the status. */
td_status td_launch_blame(const struct td_launch *launch, int w, td_status status,
                          struct td_error *err);

/* Lays out inputs, outputs and a workspace in scratch memory. Sets scratch_bytes to SIZE_MAX if
 * they are too large for any memory. */
void td_launch_lay_out_scratch(struct td_launch *launch, size_t workspace_bytes);

/* Returns the total size in bytes of the launch's tables and their indices, each counted once.
 * Called before addresses are bound. */
uint64_t td_launch_table_bytes(const struct td_launch *launch);

/* Writes empty reports, followed by the items' inputs, to staging memory. The copiers copy large
 * inputs. */
void td_launch_fill(const struct td_launch *launch, struct td_batch_item *const *items,
                    struct td_copiers *copiers, char *staging);

/* Sets the addresses of table i and of its index. `index` is NULL unless the table has an index. */
TD_MUST_CHECK td_status td_launch_bind_table(struct td_launch *launch, int i, void *data,
                                             const void *index, struct td_arena *arena,
                                             struct td_error *err);

/* Sets the addresses of the outputs, of the inputs that are not tables, and of everything that is
 * in scratch memory. `inputs` and `outputs` are the addresses of the first input and of the first
 * output. */
void td_launch_bind(struct td_launch *launch, char *inputs, char *outputs, char *scratch);

#endif
