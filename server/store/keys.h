/* keys.h - the keys of a table: a vector with a key for each row, and its index.
 *
 *     version ─► keys ─► tensor, index: a mapped file, or memory of the store
 *
 * Versions whose rows differ and whose keys do not share them, as before and after a scatter.
 *
 * Ownership  Begins with one reference; releases tensor and index with the last one.
 * Threads    Constant once made.
 * Errors     MEMORY_EXHAUSTED unless stated otherwise. */
#ifndef TD_SERVER_STORE_KEYS_H
#define TD_SERVER_STORE_KEYS_H

#include "kernels/key_index/key_index.h"
#include "server/store/files/data_dir.h"

struct td_store;

struct td_keys {
    struct td_buffer base;   /* first: release casts back */
    struct td_tensor tensor; /* has no owner; its key_index is `index` */
    struct td_key_index index;
    struct td_buffer *bytes; /* keep the tensor and the image of the index alive; */
    struct td_buffer *image; /* NULL if `bytes` does */
    uint64_t held, mapped;   /* bytes in memory, and mapped ones */
    int range;               /* of the fault guard; -1 if nothing is mapped */
    char file[TD_FILE_NAME]; /* that is mapped; "" for none */
};

/* UNSUPPORTED_DTYPE, SHAPE_MISMATCH unless the keys are a vector, CONFLICT unless it is as long as
 * the table has rows. */
TD_MUST_CHECK td_status td_keys_check(const struct td_tensor *keys, const char *table,
                                      const struct td_shape *rows, struct td_error *err);

/* Whether the vector has the same keys in the same order. */
bool td_keys_equal(const struct td_keys *keys, const struct td_tensor *vector);

/* Bytes in memory of such keys and their index; saturating. */
uint64_t td_keys_footprint(const struct td_tensor *keys);

/* Keys in the store's memory; their index is built. INVALID_ARGUMENT with the positions of equal
 * keys, errors of `exec` and `stop`. */
TD_MUST_CHECK td_status td_keys_make(struct td_store *store, const struct td_tensor *keys,
                                     struct td_exec *exec, const struct td_stop *stop,
                                     struct td_keys **out, struct td_error *err);

/* Keys of `file`: mapped, with the index of the file if it has one that fits; otherwise their index
 * is built in memory, with the errors of td_keys_make. */
TD_MUST_CHECK td_status td_keys_of_file(struct td_store *store, const struct td_data_tensor *found,
                                        const char *file, struct td_keys **out,
                                        struct td_error *err);

/* The two steps of td_keys_of_file, for a caller that may not fail in between. td_keys_map keeps
 * what it maps alive; false if the index of the file does not fit, or there is none. */
struct td_keys *td_keys_new(struct td_error *err); /* NULL without memory */
bool td_keys_map(struct td_keys *keys, const struct td_data_tensor *found, const char *file);

/* NULL is fine, and gives NULL. */
struct td_keys *td_keys_ref(struct td_keys *keys);
void td_keys_unref(struct td_keys *keys);

#endif
