/* reduce.h - combines the rows of each segment, for all segment ops.
 *
 * Threads    See segments.h. */
#ifndef TD_KERNELS_SEGMENTS_REDUCE_H
#define TD_KERNELS_SEGMENTS_REDUCE_H

#include "kernels/op.h"

typedef enum td_segment_reduction {
    TD_SEGMENT_SUM,
    TD_SEGMENT_MEAN,
    TD_SEGMENT_MAX,
    TD_SEGMENT_MIN,
    TD_SEGMENT_PROD,
} td_segment_reduction;

struct td_segment_call {
    td_segment_reduction reduction;
    bool
        sorted; /* the ids never decrease, and segments without rows have the value of sorted ops */
    bool negative;                      /* some ids are negative; unsorted ops ignore their rows */
    const struct td_tensor *data, *ids; /* one row of data for each id */
    struct td_tensor *out;              /* segments along the first dimension */
};

/* Returns the number of passes over unsorted ids. */
int64_t td_segments_passes(const struct td_segment_call *call);

/* Return the size in bytes of the scratch memory: for the call, and for each thread. */
uint64_t td_segments_workspace(const struct td_segment_call *call);
uint64_t td_segments_workspace_per_thread(const struct td_segment_call *call);

/* Fills call->out, which must not be empty. Sorted ids must be valid. Unsorted ids are checked as
 * they are read: if one is not below the number of segments, sets *outside to true and leaves the
 * output incomplete. */
TD_MUST_CHECK td_status td_segments_reduce(const struct td_segment_call *call, bool *outside,
                                           struct td_exec *exec, struct td_error *err);

#endif
