/* describe.h - descriptions of ops and tensors: GET /v1/ops, GET /v1/ops/{op}, GET /v1/tensors.
 *
 * Ops are described with cJSON from their descriptors; no code here depends on a particular op. */
#ifndef TD_API_DESCRIBE_H
#define TD_API_DESCRIBE_H

#include "api/message/message.h"

TD_MUST_CHECK td_status td_describe_ops(struct td_arena *arena, struct td_reply *reply,
                                        struct td_error *err);
TD_MUST_CHECK td_status td_describe_op(const struct td_op *op, struct td_arena *arena,
                                       struct td_reply *reply, struct td_error *err);

/* Whether the bytes of a mapped tensor are those that were written. */
typedef enum {
    TD_INTEGRITY_NONE, /* the file has no checksums, or they are not compared */
    TD_INTEGRITY_PENDING,
    TD_INTEGRITY_VERIFIED,
    TD_INTEGRITY_DAMAGED /* refused, but listed */
} td_integrity;

/* The description of a resident tensor:
 * {"name","dtype","shape","bytes","version","etag","source","checksum","ttl_s","persisted"}. */
struct td_tensor_listing {
    const char *name;
    const struct td_tensor *tensor;
    const struct td_tensor *keys; /* of its rows; NULL if it has none */
    /* file in the data folder that it is mapped from; NULL if it is in memory */
    const char *source;
    uint64_t version;       /* larger than those of all earlier versions of the name */
    const char *etag;       /* in quotes, as in the header */
    bool persisted;         /* it exists again after a restart */
    td_integrity integrity; /* described only with a source */
    int64_t ttl_s;          /* seconds after which it expires; 0: it stays */
    /* after a PUT with `device`: where the tensor is, "gpu" or "cpu"; otherwise NULL */
    const char *device;
    /* After a change by key, or a PUT that drops the keys: number of rows, by the name of the
     * member. NULL: none. */
    struct td_row_count {
        const char *name;
        int64_t count;
    } rows[2];
};
/* With `more`, the last one is also "next": after it the list goes on. */
TD_MUST_CHECK td_status td_describe_tensors(const struct td_tensor_listing *list, int count,
                                            bool more, struct td_arena *arena,
                                            struct td_reply *reply, struct td_error *err);
TD_MUST_CHECK td_status td_describe_tensor(const struct td_tensor_listing *tensor,
                                           struct td_arena *arena, struct td_reply *reply,
                                           struct td_error *err);

/* The reply of an op whose outputs were stored (td_options.store); stored[i] describes outputs[i]:
 * {"output": listing}, {"outputs": [listing, ...]} or {"outputs": {"values": listing, ...}}, and
 * "bounds" as in other replies. It is JSON whatever Accept is, since it contains no tensors. It is
 * written into the caller's `text`, which has td_describe_stored_bound bytes and outlives the
 * reply, so it cannot fail. */
size_t td_describe_stored_bound(int n_outputs);
void td_describe_stored(const struct td_request *request, const struct td_tensor_listing *stored,
                        char *text, size_t size, struct td_reply *reply);

#endif
