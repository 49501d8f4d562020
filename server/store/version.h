/* version.h - one version of a resident tensor: its bytes and its identity.
 *
 *     version ─► bytes: a mapping, a body, a buffer
 *
 * A version is the buffer that owns the tensor which readers get; each of them holds a reference.
 *
 * Ownership  A version begins with one reference and releases its bytes with the last one. Versions
 *            may share bytes, but never a version.
 * Threads    Only the writer uses it until it is published; then only the atomics change.
 * Errors     MEMORY_EXHAUSTED unless stated otherwise. */
#ifndef TD_SERVER_STORE_VERSION_H
#define TD_SERVER_STORE_VERSION_H

#include "api/describe.h"
#include "server/store/files/data_dir.h"
#include "server/store/keys.h"

#include <stdatomic.h>

struct td_store;

struct td_version {
    struct td_buffer base; /* first: release casts back; the owner of the tensor that readers get */
    struct td_tensor tensor;     /* owner: &base */
    struct td_buffer *bytes;     /* keeps the tensor's data (and offsets) alive; not a version */
    struct td_keys *keys;        /* of its rows; NULL for none */
    struct td_tensor key_vector; /* the keys as readers get them; owner: &base */
    uint64_t number;
    uint64_t held;        /* bytes in memory, with those of its keys */
    uint64_t rows_mapped; /* mapped bytes without those of its keys */
    uint64_t
        outgoing; /* until it is current: bytes also counted for the version that it replaces */
    struct td_entry *entry; /* until it is current: its entry if the name is new */
    int range;              /* of the fault guard; -1 if nothing is mapped */
    bool persisted;         /* `file` holds this content */
    bool from_file;         /* and `tensor` is mapped from it */
    int64_t expires_ns;     /* TD_NEVER: it stays */
    atomic_bool replaced;   /* no longer current */
    atomic_bool orphaned;   /* another file has taken the file's name and cannot be read */
    atomic_int place;       /* in the metrics, plus one; 0: it has none yet */
    /* struct td_statistics of the rows and of the keys; NULL until a reader has computed them */
    _Atomic(struct td_buffer *) statistics, statistics_of_keys;
    struct td_checksums checksums; /* of the mapped file */
    _Atomic(td_integrity) integrity;
    uint64_t damage_begin, damage_end; /* bytes of the file; set before DAMAGED */
    char name[TD_TENSOR_NAME];
    char file[TD_FILE_NAME]; /* "" if no file holds it */
    char etag[64];
};

/* One reference; tensor and number are not set. NULL (err filled) without memory. */
struct td_version *td_version_new(const char *name, struct td_error *err);

/* Sets version->tensor to `tensor`, whose bytes `bytes` keeps alive. Takes the reference to
 * `bytes`. */
void td_version_set(struct td_version *version, const struct td_tensor *tensor,
                    struct td_buffer *bytes);

/* Takes the reference; NULL for none. */
void td_version_set_keys(struct td_version *version, struct td_keys *keys);

/* Bytes in memory of its keys; 0 for none. They are part of `held`. */
uint64_t td_version_keys_held(const struct td_version *version);

/* Mapped bytes, with those of its keys. */
uint64_t td_version_mapped(const struct td_version *version);

/* What keeps the data of one of its two tensors, its rows or its keys, alive; part of either counts
 * as that one. Either may be mapped while the other is in memory. */
struct td_part {
    struct td_buffer *bytes;
    uint64_t mapped; /* bytes */
    int range;       /* of the fault guard; -1 if nothing is mapped */
};
struct td_part td_version_part(const struct td_version *version, const struct td_tensor *tensor);

/* Bytes in memory of a mapped tensor: the offsets of strings. */
uint64_t td_version_mapped_held(const struct td_tensor *tensor);

/* Sets it to the mapped tensor of a file, and refs the tensor's owner. Its keys are set before. */
void td_version_map(struct td_version *version, const struct td_data_tensor *mapped);

/* Sets it to a copy in the store's memory, strings with offsets from 0. Also the errors of
 * `stop`. */
TD_MUST_CHECK td_status td_version_copy(struct td_store *store, struct td_version *version,
                                        const struct td_tensor *tensor, const struct td_stop *stop,
                                        struct td_error *err);

/* Sets it to the rows of `before`, in the same bytes; `held`: bytes in memory with those of its
 * keys. The file of `before` does not hold it. */
void td_version_share(struct td_version *version, const struct td_version *before, uint64_t held);

/* The version that owns the tensor, or NULL. */
const struct td_version *td_version_of(const struct td_tensor *tensor);

/* True if its file, or that of its keys, has been cut or is marked in the fault guard. */
bool td_version_is_cut(const struct td_version *version);

/* True if its mapping is of no use, though its file may be again. Damage is in the file. */
bool td_version_is_lost(const struct td_version *version);

/* DEVICE_UNAVAILABLE if its file has been truncated or is damaged. To be called after the bytes are
 * copied and before the copy is published. */
TD_MUST_CHECK td_status td_version_check(const struct td_version *version, struct td_error *err);

/* Sets the ETag: derived from the number, or from the tensor's file. That is the same in each
 * process that serves the file or a copy: from the tensor's name, and the checksums of the file, or
 * else its size, its time of modification and the pages at its ends. */
void td_version_set_etag(const struct td_store *store, struct td_version *version);
void td_version_set_file_etag(struct td_version *version, const struct td_file_id *id,
                              const struct td_data_tensor *stored);

/* Moves the caller's reference to the arena, even if it fails. */
TD_MUST_CHECK td_status td_version_keep(struct td_version *version, struct td_arena *arena,
                                        struct td_error *err);

/* Lives as long as the version. */
struct td_tensor_listing td_version_listing(struct td_version *version);

#endif
