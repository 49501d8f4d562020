/* statistics.h - writes a tensor's statistics as a document: GET /v1/tensors/{name}/statistics. */
#ifndef TD_API_STATISTICS_H
#define TD_API_STATISTICS_H

#include "api/describe.h"
#include "kernels/statistics/statistics.h"

/* Returns the maximum size of the document in bytes. */
size_t td_describe_statistics_bound(const struct td_tensor_listing *tensor);

TD_MUST_CHECK td_status td_describe_statistics(const struct td_tensor_listing *tensor,
                                               const struct td_statistics *statistics,
                                               struct td_arena *arena, struct td_reply *reply,
                                               struct td_error *err);

#endif
