/* verify.h - compares mapped files with their checksums. Defines td_store_verify of store.h.
 *
 * Threads    Those of the scan; td_store_verify beside it. */
#ifndef TD_SERVER_STORE_VERIFY_H
#define TD_SERVER_STORE_VERIFY_H

#include "server/store/version.h"

/* MALFORMED_REQUEST if a file's header does not have its digest. */
TD_MUST_CHECK td_status td_store_verify_header(const struct td_store *store,
                                               const struct td_data_content *content,
                                               struct td_error *err);

/* Whether a scan is to end early: after td_store_stop, or as the options of td_store_open say. */
bool td_store_must_stop(const struct td_store *store);

/* For a mapped version before it is published: compares it, or leaves it to td_store_verify, or
 * neither, as the store's options say. DRAINING if td_store_must_stop. */
TD_MUST_CHECK td_status td_store_verify_new(struct td_store *store, struct td_version *version,
                                            struct td_error *err);

/* For a scan of the files: lists those whose bytes do not match their checksums, also where a
 * client has put a tensor in memory in place of the damaged one. */
void td_store_note_damaged(struct td_store *store);

#endif
