/* version.h - one version of a resident tensor: its bytes, and what tells it from others.
 *
 *     version ─► bytes: a mapping, a body, a buffer
 *
 * It is the owner of the tensor that readers get, and is itself a buffer that each of them holds.
 *
 * Ownership  A version begins with one reference and lets go of its bytes with the last one. What
 *            may be shared between versions is the bytes, never the version.
 * Threads    Until it is current it is its writer's; from then on nothing in it changes but the
 *            atomics.
 * Errors     MEMORY_EXHAUSTED, but where it says otherwise. */
#ifndef TD_SERVER_STORE_VERSION_H
#define TD_SERVER_STORE_VERSION_H

#include "api/describe.h"
#include "server/store/data_dir.h"

#include <stdatomic.h>

struct td_store;

struct version {
    struct td_buffer base;   /* first: release casts back; the owner of the tensor handed out */
    struct td_tensor tensor; /* owner: &base */
    struct td_buffer *bytes; /* what keeps the tensor's data (and offsets) alive; no version */
    uint64_t number;
    uint64_t held, mapped; /* bytes in memory, and mapped ones */
    uint64_t leaving;      /* until it is current: bytes held by the one that it replaces */
    struct entry *entry;   /* until it is current: of its name, where that is a new one */
    int range;             /* of the fault guard; -1 where nothing is mapped */
    bool persisted;        /* `file` holds this very content */
    bool from_file;        /* and it is what is served */
    atomic_bool replaced;  /* it is not current any more */
    atomic_bool orphaned;  /* the file's name is another's by now, which cannot be read */
    char name[TD_TENSOR_NAME];
    char file[TD_FILE_NAME]; /* "" where no file is behind it */
    char etag[64];
};

/* One reference; without tensor and number. NULL (err filled) without memory. */
struct version *td_version_new(const char *name, struct td_error *err);

/* Makes version->tensor what `tensor` tells, its bytes kept by `bytes`, whose reference it takes. */
void td_version_set(struct version *version, const struct td_tensor *tensor,
                    struct td_buffer *bytes);

/* Bytes in memory that a mapped tensor takes: the offsets of strings. */
uint64_t td_version_mapped_held(const struct td_tensor *tensor);

/* Makes it one of the tensor of a file, whose owner it refs, within the guarded range. */
void td_version_map(struct version *version, const struct td_tensor *tensor, int range);

/* A copy in the store's memory, strings from offset 0 on. */
TD_MUST_CHECK td_status td_version_copy(struct td_store *store, struct version *version,
                                        const struct td_tensor *tensor, struct td_error *err);

/* The version that a tensor is of; NULL where it is of none. */
const struct version *td_version_of(const struct td_tensor *tensor);

/* Was all of it there to be read, until now? DEVICE_UNAVAILABLE; to be asked once what was read is
 * copied, and before anybody sees it. */
TD_MUST_CHECK td_status td_version_check(const struct version *version, struct td_error *err);

/* The ETag that a file gives, or, where `id` is NULL, the one of its number. */
void td_version_tag(const struct td_store *store, struct version *version,
                    const struct td_file_id *id, uint64_t stored_number);

/* Gives the version to the arena, which takes the caller's reference, also where it fails. */
TD_MUST_CHECK td_status td_version_keep(struct version *version, struct td_arena *arena,
                                        struct td_error *err);

/* What callers are told; it lives as long as the version. */
struct td_tensor_listing td_version_listing(struct version *version);

#endif
