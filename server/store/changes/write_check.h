/* write_check.h - whether a PUT, a DELETE or an update of a tensor is allowed.
 *
 * This file defines td_store_check_change of store.h.
 *
 * Threads    Any. */
#ifndef TD_SERVER_STORE_WRITE_CHECK_H
#define TD_SERVER_STORE_WRITE_CHECK_H

#include "server/store/store.h"
#include "server/store/version.h"

/* Returns INVALID_ARGUMENT if the name is invalid, or if the write persists and the store has no
 * data folder. Returns CONFLICT if the name is an alias, unless the write removes the alias. Also
 * returns the errors of td_data_dir_check_change. */
TD_MUST_CHECK td_status td_store_check_write(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_error *err);

/* Compares the conditions of the write with `before`, the current version or NULL. Returns
 * PRECONDITION_FAILED, or CONFLICT if `before` has a name NAME@VERSION, because that version must
 * not change. A version that cannot be read can be replaced, which repairs it. */
TD_MUST_CHECK td_status td_store_check_before(const struct td_store_write *write,
                                              const struct td_version *before,
                                              struct td_error *err);

/* Like td_store_check_before, but for a write that creates a new tensor. Also returns CONFLICT for
 * a result that would replace a tensor in a file or a tensor with keys, and the errors of
 * td_store_check_retained and td_expiry_check. */
TD_MUST_CHECK td_status td_store_check_put(struct td_store *store,
                                           const struct td_store_write *write,
                                           const struct td_version *before, struct td_error *err);

#endif
