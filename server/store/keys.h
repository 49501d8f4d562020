/* keys.h - the keys of a table: a vector with one key per row, and the index of this vector.
 *
 *     version ─► keys ─► tensor and index, in a mapped file or in the store's memory
 *
 * Versions with different rows and the same keys share the keys, for example the versions before
 * and after a scatter.
 *
 * Ownership  Keys start with one reference, and release the tensor and the index when the last
 *            reference is dropped.
 * Threads    Keys never change after they are made, except for `unstored` and `index_lost`.
 * Errors     MEMORY_EXHAUSTED unless stated otherwise. */
#ifndef TD_SERVER_STORE_KEYS_H
#define TD_SERVER_STORE_KEYS_H

#include "kernels/key_index/key_index.h"
#include "server/store/files/data_dir.h"

#include <stdatomic.h>

struct td_store;

struct td_keys {
    /* Must be the first member, because release casts back. */
    struct td_buffer base;
    /* Vector of the keys. It has no owner, and its key_index is the member `index`. */
    struct td_tensor tensor;
    struct td_key_index index;
    /* `bytes` keeps the tensor alive, and `image` keeps the index's image alive. `image` is NULL if
     * `bytes` keeps both alive. */
    struct td_buffer *bytes;
    struct td_buffer *image;
    /* Size in bytes of the memory, and of the mapped data. */
    uint64_t held, mapped;
    /* Range of the fault guard, or -1 if nothing is mapped. */
    int range;
    /* Range of the fault guard for an index that is mapped from a file of its own, or -1. */
    int index_range;
    /* True if a lookup has found that this index was truncated. */
    atomic_bool index_lost;
    /* Digest of the keys before their index was built, if the index must still be stored beside the
     * file. Otherwise 0. The store's lock `scanning` guards it. */
    uint64_t unstored;
    /* Name of the mapped file, or "" if nothing is mapped. */
    char file[TD_FILE_NAME];
};

/* Returns UNSUPPORTED_DTYPE if keys cannot have this dtype, SHAPE_MISMATCH unless the keys are a
 * vector, or CONFLICT unless the table has as many rows as there are keys. */
TD_MUST_CHECK td_status td_keys_check(const struct td_tensor *keys, const char *table,
                                      const struct td_shape *rows, struct td_error *err);

/* True if `vector` has the same keys in the same order. */
bool td_keys_equal(const struct td_keys *keys, const struct td_tensor *vector);

/* Returns the size in bytes of the memory for a vector of keys and its index, or UINT64_MAX if the
 * sum overflows. */
uint64_t td_keys_footprint(const struct td_tensor *keys);

/* Copies keys into the store's memory and builds their index. Returns INVALID_ARGUMENT with the
 * positions of two equal keys, or the errors of `exec` and `stop`. */
TD_MUST_CHECK td_status td_keys_make(struct td_store *store, const struct td_tensor *keys,
                                     struct td_exec *exec, const struct td_stop *stop,
                                     struct td_keys **out, struct td_error *err);

/* Makes the keys that `file` contains. Maps the keys, or copies them if they cannot be mapped. Uses
 * the index in the file, or the index stored beside the file, if it matches the keys. Otherwise,
 * builds an index in memory, and stores it beside a file of keys. Returns the errors of
 * td_keys_make. */
TD_MUST_CHECK td_status td_keys_of_file(struct td_store *store, const struct td_data_tensor *found,
                                        const char *file, struct td_keys **out,
                                        struct td_error *err);

/* Tries again to store the index if td_keys_of_file built it but could not store it. */
void td_keys_store_index(struct td_store *store, struct td_keys *keys);

/* Together, these functions do what td_keys_of_file does, for a caller that must not fail between
 * the two steps. td_keys_new returns NULL if no memory is available. td_keys_map maps the keys and
 * keeps the mapping alive. It returns false if the file has no index that matches the keys. */
struct td_keys *td_keys_new(struct td_error *err);
bool td_keys_map(struct td_keys *keys, const struct td_data_tensor *found, const char *file);

/* Both functions accept NULL. td_keys_ref(NULL) returns NULL. */
struct td_keys *td_keys_ref(struct td_keys *keys);
void td_keys_unref(struct td_keys *keys);

#endif
