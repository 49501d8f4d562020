/* describe.h - writes descriptions of ops and tensors: GET /v1/ops, GET /v1/ops/{op}, GET
 * /v1/tensors.
 *
 * Descriptions of ops are built with cJSON from the ops' descriptors, so no code here depends on a
 * particular op. */
#ifndef TD_API_DESCRIBE_H
#define TD_API_DESCRIBE_H

#include "api/message/message.h"

TD_MUST_CHECK td_status td_describe_ops(struct td_arena *arena, struct td_reply *reply,
                                        struct td_error *err);
TD_MUST_CHECK td_status td_describe_op(const struct td_op *op, struct td_arena *arena,
                                       struct td_reply *reply, struct td_error *err);

/* Result of comparing the data of a mapped tensor with the checksums in its file. */
typedef enum {
    TD_INTEGRITY_NONE, /* no checksums, or checksums are not compared */
    TD_INTEGRITY_PENDING,
    TD_INTEGRITY_VERIFIED,
    TD_INTEGRITY_DAMAGED /* damaged: listed, but reads are refused */
} td_integrity;

/* Description of a resident tensor:
 * {"name","dtype","shape","bytes","version","etag","source","checksum","ttl_s","persisted"}. */
struct td_tensor_listing {
    const char *name;
    const struct td_tensor *tensor;
    const struct td_tensor *keys; /* keys of the tensor's rows, or NULL */
    /* File in the data folder from which the tensor is mapped, or NULL if the tensor is in
     * memory. */
    const char *source;
    uint64_t version;       /* version number; grows with every version of the name */
    const char *etag;       /* ETag with quotes, as in the header */
    bool persisted;         /* true if the tensor survives a restart */
    td_integrity integrity; /* left out of the description if there is no source */
    /* Seconds until the tensor expires, or 0 if it does not expire. */
    int64_t ttl_s;
    /* The device that holds the tensor, "gpu" or "cpu", in the reply to a PUT with `device`;
     * otherwise NULL. */
    const char *device;
    /* Row counts by member name, in the reply to a change by key or to a PUT that drops the keys. A
     * NULL name ends the list. */
    struct td_row_count {
        const char *name;
        int64_t count;
    } rows[2];
};
/* Describes a list of tensors. If `more` is true, more tensors follow, and "next" is the name of
 * the last tensor in the list. */
TD_MUST_CHECK td_status td_describe_tensors(const struct td_tensor_listing *list, int count,
                                            bool more, struct td_arena *arena,
                                            struct td_reply *reply, struct td_error *err);
TD_MUST_CHECK td_status td_describe_tensor(const struct td_tensor_listing *tensor,
                                           struct td_arena *arena, struct td_reply *reply,
                                           struct td_error *err);

/* Writes the reply of an op whose outputs were stored (td_common_members.store). stored[i]
 * describes outputs[i]. The reply has {"output": listing}, {"outputs": [listing, ...]} or
 * {"outputs": {"values": listing, ...}}, and "bounds" as in other replies. It is always JSON,
 * whatever Accept says, because it contains no tensors. Cannot fail, because it writes into the
 * caller's `text`, which must have td_describe_stored_bound bytes and outlive the reply. */
size_t td_describe_stored_bound(int n_outputs);
void td_describe_stored(const struct td_request *request, const struct td_tensor_listing *stored,
                        char *text, size_t size, struct td_reply *reply);

#endif
