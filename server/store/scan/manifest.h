/* manifest.h - reads V/manifest.json, which lists the files of the folder V and the aliases to set.
 *
 *     {"files": {"m.safetensors": {"size": 1168, "sha256": "9f86d081…"}, "t.npy": {…}},
 *      "aliases": {"movies": "m:w@V"}}
 *
 * Ownership  The arena holds the whole manifest.
 * Errors     MALFORMED_REQUEST, with the reason, for a manifest that
 *            - is not a document of this form, or lists no files;
 *            - has a file name that leads out of the folder, is not the name of a tensor file, or
 *              gives no valid name of a version;
 *            - has a size that is negative or above 2^63 - 1, an invalid digest, or a name that
 *              occurs twice. */
#ifndef TD_SERVER_STORE_MANIFEST_H
#define TD_SERVER_STORE_MANIFEST_H

#include "api/json/string_map.h"

#include <stdint.h>

enum { TD_SHA256_BYTES = 32 };

#define TD_MANIFEST_FILE "manifest.json"
enum { TD_MANIFEST_BYTES = 64 << 20 }; /* maximum size */

struct td_manifest_file {
    /* Name in the folder: "m.safetensors". */
    const char *name;
    /* Name that the file would have in the data folder: "m@V.safetensors". */
    const char *versioned;
    uint64_t size;
    unsigned char sha256[TD_SHA256_BYTES];
};

struct td_manifest {
    struct td_manifest_file *files;
    int n_files;
    struct td_string_map aliases;
};

/* Reads a manifest. `version` is the name of the folder, and must be a valid version. */
TD_MUST_CHECK td_status td_manifest_read(const char *text, size_t bytes, const char *version,
                                         struct td_arena *arena, struct td_manifest *out,
                                         struct td_error *err);

#endif
