/* results.h - results of a completed launch's items: outputs or errors.
 *
 * Ownership  An item's outputs are views of the staging memory, to which its arena keeps a
 *            reference. Small portions of a merged launch are copied into the arena, because
 *            otherwise a client that does not read its reply would hold the staging memory of all
 *            items.
 * Errors     INDEX_OUT_OF_BOUNDS if the device reported a bad index that the bounds policy did not
 *            replace; MEMORY_EXHAUSTED.
 * Threads    The batcher's thread. */
#ifndef TD_SERVER_DEVICES_RESULTS_H
#define TD_SERVER_DEVICES_RESULTS_H

#include "server/devices/launch.h"

struct td_results {
    const struct td_launch *launch;
    const struct td_device_report *reports;
    struct td_buffer *out;
};

/* Sets the outputs of item i of the launch. */
TD_MUST_CHECK td_status td_results_take(const struct td_results *results, int i,
                                        struct td_batch_item *item, struct td_error *err);

#endif
