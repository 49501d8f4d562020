#include "server/store/etag.h"

#include "server/store/state.h"
#include "server/store/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t mix(uint64_t mixed, uint64_t part)
{
    mixed = (mixed ^ part) * 0x9e3779b97f4a7c15;
    return mixed ^ mixed >> 32;
}

/* Returns a number that identifies a file without checksums. It is derived from sizes and
 * modification times, which a copy can keep, and from the first and last pages, because all files
 * of an image can have the same time. It does not depend on the inode, which differs between
 * replicas and should not be revealed to clients. */
static uint64_t mix_file(const struct td_file_id *id, uint64_t stored_number)
{
    const uint64_t parts[] = {
        id->size,      (uint64_t)id->modified_ns,      id->ends,      stored_number,
        id->keys_size, (uint64_t)id->keys_modified_ns, id->keys_ends,
    };
    uint64_t mixed = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mixed = mix(mixed, parts[i]);
    return mixed;
}

void td_etag_from_number(const struct td_store *store, struct td_version *version)
{
    snprintf(version->etag, sizeof version->etag, "\"%016" PRIx64 "-%" PRIx64 "\"", store->seed,
             version->number);
}

void td_etag_from_file(struct td_version *version, const struct td_file_id *id,
                       const struct td_data_tensor *stored)
{
    uint64_t digest = stored->checksums.digests ? td_checksums_digest(&stored->checksums)
                                                : mix_file(id, stored->version);
    /* Include the name, because an alias can flip between two tensors of one file, or of copies of
     * the file. */
    for (const char *at = version->name; *at; at++)
        digest = mix(digest, (unsigned char)*at);
    snprintf(version->etag, sizeof version->etag, "\"f%016" PRIx64 "\"", digest);
}

/* Suffixes that are inserted in a version's tag, before the closing quote. */
static const char *const suffixes[TD_ETAG_FORMATS] = {
    [TD_FORMAT_JSON] = "",
    [TD_FORMAT_SAFETENSORS] = "-safetensors",
    [TD_FORMAT_NPY] = "-npy",
};

void td_etag_of_format(const char *etag, td_format format, char text[TD_ETAG_SIZE])
{
    snprintf(text, TD_ETAG_SIZE, "%.*s%s\"", (int)strlen(etag) - 1, etag, suffixes[format]);
}
