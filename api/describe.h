/* describe.h - the op table as metadata: GET /v1/ops and GET /v1/ops/{op}, and the list of tensors.
 *
 * Built with cJSON from the descriptors alone; nothing here knows an op by name. */
#ifndef TD_API_DESCRIBE_H
#define TD_API_DESCRIBE_H

#include "api/message.h"

TD_MUST_CHECK td_status td_describe_ops(struct td_arena *arena, struct td_reply *reply,
                                        struct td_error *err);
/* `plan` is the path that plans the op without data; NULL when there is none. */
TD_MUST_CHECK td_status td_describe_op(const struct td_op *op, const char *plan,
                                       struct td_arena *arena, struct td_reply *reply,
                                       struct td_error *err);

/* {"name","dtype","shape","bytes","source"} of resident tensors; source is the file's name. */
struct td_tensor_listing {
    const char *name;
    const struct td_tensor *tensor;
    const char *source;
};
TD_MUST_CHECK td_status td_describe_tensors(const struct td_tensor_listing *list, int count,
                                            struct td_arena *arena, struct td_reply *reply,
                                            struct td_error *err);
TD_MUST_CHECK td_status td_describe_tensor(const struct td_tensor_listing *tensor,
                                           struct td_arena *arena, struct td_reply *reply,
                                           struct td_error *err);

#endif
