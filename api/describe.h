/* describe.h - the op table as metadata: GET /v1/ops and GET /v1/ops/{op}, and the list of tensors.
 *
 * The ops are told with cJSON from the descriptors alone; nothing here knows an op by name. */
#ifndef TD_API_DESCRIBE_H
#define TD_API_DESCRIBE_H

#include "api/message/message.h"

TD_MUST_CHECK td_status td_describe_ops(struct td_arena *arena, struct td_reply *reply,
                                        struct td_error *err);
/* `plan` is the path that plans the op without data; NULL when there is none. */
TD_MUST_CHECK td_status td_describe_op(const struct td_op *op, const char *plan,
                                       struct td_arena *arena, struct td_reply *reply,
                                       struct td_error *err);

/* A resident tensor as clients are told of it: {"name","dtype","shape","bytes","version","etag",
 * "source","persisted"}. */
struct td_tensor_listing {
    const char *name;
    const struct td_tensor *tensor;
    const char *source; /* file in the data folder it is mapped from; NULL: it is in memory */
    uint64_t version;   /* larger than that of any earlier one of that name */
    const char *etag;   /* in quotes, as in the header */
    bool persisted;     /* a restart brings it back */
    const char *device; /* where a PUT that named one has put it: "gpu", "cpu"; NULL: not told */
};
TD_MUST_CHECK td_status td_describe_tensors(const struct td_tensor_listing *list, int count,
                                            struct td_arena *arena, struct td_reply *reply,
                                            struct td_error *err);
TD_MUST_CHECK td_status td_describe_tensor(const struct td_tensor_listing *tensor,
                                           struct td_arena *arena, struct td_reply *reply,
                                           struct td_error *err);

/* The answer of an op whose outputs were kept (td_options.store), stored[i] being what became of
 * outputs[i]: {"output": listing}, {"outputs": [listing, ...]} or {"outputs": {"values": listing,
 * ...}}, and "bounds" as in any answer.
 * JSON whatever Accept says: there are no tensors in it. */
TD_MUST_CHECK td_status td_describe_stored(const struct td_request *request,
                                           const struct td_tensor_listing *stored,
                                           struct td_arena *arena, struct td_reply *reply,
                                           struct td_error *err);

#endif
