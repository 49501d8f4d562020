/* quota.h - the quota of the tensors in memory (--tensor-quota).
 *
 * files/data_dir_quota.c applies the quota of the files.
 *
 * Threads    Any. The functions take the lock of the store. */
#ifndef TD_SERVER_STORE_QUOTA_H
#define TD_SERVER_STORE_QUOTA_H

#include "kernels/status.h"

struct td_store;

/* Counts `bytes` against the quota for a version that replaces `replaced` bytes (0 if it replaces
 * nothing). The replaced bytes do not count in addition. Until the version is published or
 * abandoned, the larger of the two sizes counts for other writers. Sets *outgoing to the bytes that
 * must not count twice. Store *outgoing in the version, or pass it to td_store_unreserve. Returns
 * RESOURCE_LIMIT if the bytes do not fit. */
TD_MUST_CHECK td_status td_store_reserve(struct td_store *store, uint64_t replaced, uint64_t bytes,
                                         uint64_t *outgoing, struct td_error *err);
void td_store_unreserve(struct td_store *store, uint64_t bytes, uint64_t outgoing);

#endif
