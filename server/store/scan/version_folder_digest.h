/* version_folder_digest.h - SHA-256 of a manifest.json, and of the files of its version folder.
 *
 * Threads    Reentrant. */
#ifndef TD_SERVER_STORE_VERSION_FOLDER_DIGEST_H
#define TD_SERVER_STORE_VERSION_FOLDER_DIGEST_H

#include "server/store/aliases/alias_file.h"
#include "server/store/files/data_dir.h"
#include "server/store/scan/manifest.h"

struct td_store;

/* Writes the SHA-256 of a manifest, in hexadecimal digits. */
void td_folder_digest(const char *text, size_t bytes, char digest[TD_MANIFEST_DIGEST]);

/* Returns MALFORMED_REQUEST if the SHA-256 of the mapped bytes is not `wanted_digest`,
 * DEVICE_UNAVAILABLE if they cannot be read, or DRAINING if the server stops. */
TD_MUST_CHECK td_status td_folder_check_digest(const struct td_store *store,
                                               const unsigned char wanted_digest[TD_SHA256_BYTES],
                                               const struct td_mapped_bytes *bytes,
                                               struct td_error *err);

#endif
