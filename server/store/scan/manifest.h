/* manifest.h - the text of V/manifest.json: what the folder V holds, and the aliases that are to
 * name it.
 *
 *     {"files": {"m.safetensors": {"size": 1168, "sha256": "9f86d081…"}, "t.npy": {…}},
 *      "aliases": {"movies": "m:w@V"}}
 *
 * Ownership  All of it is in the arena.
 * Errors     MALFORMED_REQUEST, with the reason: another document, no file, a file name that leads
 *            out of the folder, that is not one of a tensor file or gives no valid name of a
 *            version, a size that is negative or above 2^63 - 1, a digest that is none, a name that
 *            is given twice. */
#ifndef TD_SERVER_STORE_MANIFEST_H
#define TD_SERVER_STORE_MANIFEST_H

#include "api/json/string_map.h"

#include <stdint.h>

enum { TD_SHA256_BYTES = 32 };

struct td_manifest_file {
    const char *name;      /* in the folder: "m.safetensors" */
    const char *versioned; /* as if it were in the data folder: "m@V.safetensors" */
    uint64_t size;
    unsigned char sha256[TD_SHA256_BYTES];
};

struct td_manifest {
    struct td_manifest_file *files;
    int n_files;
    struct td_string_map aliases;
};

/* `version` is the name of the folder, a valid version. */
TD_MUST_CHECK td_status td_manifest_read(const char *text, size_t bytes, const char *version,
                                         struct td_arena *arena, struct td_manifest *out,
                                         struct td_error *err);

#endif
