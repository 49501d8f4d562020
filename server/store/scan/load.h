/* load.h - makes versions of the tensors of files.
 *
 * Threads    Those of the scan. */
#ifndef TD_SERVER_STORE_LOAD_H
#define TD_SERVER_STORE_LOAD_H

#include "server/store/version.h"

/* The version that a tensor of `file` becomes, with its name and bytes reserved and its checksums
 * compared as the store's options say; ends with td_store_publish or td_version_abandon. The name
 * is locked; `before` is what it replaces, NULL for none. RESOURCE_LIMIT, CONFLICT,
 * MEMORY_EXHAUSTED, DRAINING and errors of the file. */
TD_MUST_CHECK td_status td_load_version(struct td_store *store, const char *file,
                                        const struct td_file_id *id,
                                        const struct td_data_tensor *found,
                                        const struct td_version *before, struct td_version **out,
                                        struct td_error *err);

#endif
