/* expiry.h - tensors with a time to live.
 *
 * A tensor that an op stored with ttl_s is removed after that time. The tensor cannot be a version
 * NAME@VERSION. This file defines td_store_expire of store.h.
 *
 * Threads    Any. */
#ifndef TD_SERVER_STORE_EXPIRY_H
#define TD_SERVER_STORE_EXPIRY_H

#include "server/store/store.h"
#include "server/store/version.h"

/* Returns INVALID_ARGUMENT if the write has a time to live and its name is NAME@VERSION. */
TD_MUST_CHECK td_status td_expiry_check(const struct td_store_write *write, struct td_error *err);

/* Starts the time to live of a version that is about to be published. */
void td_expiry_start(struct td_version *version, int64_t ttl_s);

/* Transfers the remaining time to live of `before` to the version that replaces it, unless the
 * change has written a file. */
void td_expiry_keep(struct td_version *version, const struct td_version *before);

#endif
