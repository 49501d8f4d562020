/* version.h - one version of a resident tensor: its bytes and its identity.
 *
 *     version ─► bytes: a mapping, a body, a buffer
 *
 * A version is the buffer that owns the tensors handed to readers. Each reader holds a reference to
 * the version.
 *
 * Ownership  A version starts with one reference, and releases its bytes when the last reference is
 *            dropped. Versions can share bytes, but `bytes` is never itself a version.
 * Threads    Only the writer uses a version before it is published. Afterwards only the atomic
 *            members and the range of the damage change.
 * Errors     MEMORY_EXHAUSTED unless stated otherwise. */
#ifndef TD_SERVER_STORE_VERSION_H
#define TD_SERVER_STORE_VERSION_H

#include "api/describe.h"
#include "server/store/compiled.h"
#include "server/store/files/data_dir.h"
#include "server/store/keys.h"

#include <stdatomic.h>

struct td_store;

struct td_version {
    /* Owner of the tensors handed to readers. Must be the first member, because release_version
     * casts back. */
    struct td_buffer base;
    /* Tensor of the rows. Its owner is &base. */
    struct td_tensor tensor;
    /* Keeps the data and the offsets of `tensor` alive. Never a version. */
    struct td_buffer *bytes;
    /* Keys of the rows, or NULL. */
    struct td_keys *keys;
    /* Vector of the keys, as handed to readers. Its owner is &base. */
    struct td_tensor key_vector;
    uint64_t number;
    /* Size in bytes of the memory, including the keys. */
    uint64_t held;
    /* Size in bytes of the mapped data, excluding the keys. */
    uint64_t rows_mapped;
    /* Number of bytes that are also counted for the version that this version replaces. Used until
     * the version is current. */
    uint64_t outgoing;
    /* Reserved entry if the name is new. Used until the version is current. */
    struct td_entry *entry;
    /* Range of the fault guard, or -1 if nothing is mapped. */
    int range;
    /* True if `file` holds this content. */
    bool persisted;
    /* True if `tensor` is also mapped from `file`. */
    bool from_file;
    /* Time of expiry, or TD_NEVER. */
    int64_t expires_ns;
    /* True if the version is no longer current. */
    atomic_bool replaced;
    /* True if another file now has the name `file` and cannot be read. */
    atomic_bool orphaned;
    /* Index in the metrics plus one, or 0 if no index is assigned yet. */
    atomic_int place;
    /* struct td_statistics of the rows and of the keys, or NULL until a reader has computed
     * them. */
    _Atomic(struct td_buffer *) statistics, statistics_of_keys;
    /* The compiled form of a program. */
    struct td_compiled compiled;
    /* Checksums of the mapped file. */
    struct td_checksums checksums;
    _Atomic(td_integrity) integrity;
    /* Range of the damaged bytes of the file. Set before `integrity` becomes
     * TD_INTEGRITY_DAMAGED. */
    uint64_t damage_begin, damage_end;
    char name[TD_TENSOR_NAME];
    /* Name of the file that holds the version, or "". */
    char file[TD_FILE_NAME];
    char etag[64];
};

/* Returns a version with one reference but no tensor or number. Returns NULL, and fills err, if no
 * memory is available. */
struct td_version *td_version_new(const char *name, struct td_error *err);

/* Sets version->tensor to `tensor`, whose bytes `bytes` keeps alive. Takes over the reference to
 * `bytes`. */
void td_version_set(struct td_version *version, const struct td_tensor *tensor,
                    struct td_buffer *bytes);

/* Sets the keys of the version and takes over the reference to them. NULL removes the keys. */
void td_version_set_keys(struct td_version *version, struct td_keys *keys);

/* Returns the size in bytes of the version's keys in memory, or 0 without keys. version->held
 * includes this size. */
uint64_t td_version_keys_held(const struct td_version *version);

/* Returns the size in bytes of the version's mapped data, including its keys. */
uint64_t td_version_mapped(const struct td_version *version);

/* Buffer that keeps one of a version's two tensors alive: the rows or the keys. The rows can be
 * mapped while the keys are in memory, and vice versa. td_version_part returns the buffer for a
 * tensor that is the rows, the keys, or a part of them. */
struct td_part {
    struct td_buffer *bytes;
    uint64_t mapped; /* bytes */
    /* Range of the fault guard, or -1 if nothing is mapped. */
    int range;
};
struct td_part td_version_part(const struct td_version *version, const struct td_tensor *tensor);

/* Returns the number of bytes in memory that a mapped tensor needs, which is the size of its string
 * offsets. */
uint64_t td_version_mapped_held(const struct td_tensor *tensor);

/* Sets version->tensor to the mapped tensor of a file, and takes a reference to the tensor's owner.
 * Set the keys of the version first. */
void td_version_map(struct td_version *version, const struct td_data_tensor *mapped);

/* Sets version->tensor to a copy in the store's memory. The offsets of copied strings start at 0.
 * Also returns the errors of `stop`. */
TD_MUST_CHECK td_status td_version_copy(struct td_store *store, struct td_version *version,
                                        const struct td_tensor *tensor, const struct td_stop *stop,
                                        struct td_error *err);

/* Sets version->tensor to the rows of `before`, in the same bytes. `held` is the number of bytes in
 * memory, including the version's keys. The file of `before` does not contain the new version. */
void td_version_share(struct td_version *version, const struct td_version *before, uint64_t held);

/* Returns the version that owns the tensor, or NULL if no version owns it. */
const struct td_version *td_version_of(const struct td_tensor *tensor);

/* True if the version's file, or the file of its keys, has been truncated or is marked in the fault
 * guard. */
bool td_version_is_cut(const struct td_version *version);

/* True if only the stored index of the version's keys is unusable, so it can be built again. */
bool td_version_index_is_cut(const struct td_version *version);

/* True if the version's mapping cannot be used but mapping the file again might help. False for
 * damage, because the damage is in the file. */
bool td_version_is_lost(const struct td_version *version);

/* Returns DEVICE_UNAVAILABLE if the version's file, or the file of its keys, has been truncated or
 * is damaged. Call this function after copying the bytes and before publishing the copy. */
TD_MUST_CHECK td_status td_version_check(const struct td_version *version, struct td_error *err);

/* Moves the caller's reference to the arena, even on failure. */
TD_MUST_CHECK td_status td_version_keep(struct td_version *version, struct td_arena *arena,
                                        struct td_error *err);

/* Returns a listing that lives as long as the version. */
struct td_tensor_listing td_version_listing(struct td_version *version);

#endif
