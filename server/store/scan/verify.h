/* verify.h - verifies mapped files against their checksums.
 *
 * This file defines td_store_verify, td_store_has_unverified and td_store_stop of store.h.
 *
 * Threads    Same as for scan.h. td_store_verify can run at the same time as a scan. */
#ifndef TD_SERVER_STORE_VERIFY_H
#define TD_SERVER_STORE_VERIFY_H

#include "server/store/version.h"

/* Returns MALFORMED_REQUEST if the header of a file does not match its digest. */
TD_MUST_CHECK td_status td_store_verify_header(const struct td_store *store,
                                               const struct td_data_content *content,
                                               struct td_error *err);

/* True if a scan must end early because td_store_stop was called, or because stop_requested of
 * td_store_options returns true. */
bool td_store_must_stop(const struct td_store *store);

/* Depending on the store's options, verifies the checksums of a mapped version before it is
 * published, leaves the verification to td_store_verify, or does nothing. Returns DRAINING if
 * td_store_must_stop returns true. */
TD_MUST_CHECK td_status td_store_verify_new(struct td_store *store, struct td_version *version,
                                            struct td_error *err);

/* Adds the files whose bytes do not match their checksums to the list of problems, even if a client
 * has put a tensor in memory in place of the damaged tensor. Called by a scan. */
void td_store_note_damaged(struct td_store *store);

#endif
