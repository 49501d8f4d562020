/* load.h - makes versions from the tensors in files.
 *
 * Threads    Same as for scan.h. */
#ifndef TD_SERVER_STORE_LOAD_H
#define TD_SERVER_STORE_LOAD_H

#include "server/store/version.h"

/* Makes a version from a tensor of `file`. Reserves the version's name and bytes, and verifies its
 * checksums if the store's options require it. The caller ends with td_store_publish or
 * td_version_abandon. The name must be locked. `before` is the version that will be replaced, or
 * NULL. Returns RESOURCE_LIMIT, CONFLICT, MEMORY_EXHAUSTED, DRAINING, or an error about the
 * file. */
TD_MUST_CHECK td_status td_load_version(struct td_store *store, const char *file,
                                        const struct td_file_id *id,
                                        const struct td_data_tensor *found,
                                        const struct td_version *before, struct td_version **out,
                                        struct td_error *err);

#endif
