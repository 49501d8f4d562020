/* key_index.h - finds the row of a key with a hash index over a vector of distinct keys.
 *
 *     key ─ hash ─► block of 64 bytes ─ equal tags ─► row numbers ─► keys[row] equal? ─► row
 *
 * The index is an image: one piece of memory without pointers, which can be written to a file and
 * mapped later. The image does not contain the keys, so a successful search reads two cache lines:
 * a block and the key. The image starts with a header of 64 bytes, followed by blocks of 64 bytes:
 *
 *     byte 0       tags, one byte each: 0 for an empty slot, otherwise 8 bits of the key's hash
 *     byte 12      uint32: number of keys that overflowed from this full block into later blocks
 *     byte 16      row numbers, uint32 each; uint64 if the table has at least 2^32 rows
 *
 * A block has 12 slots (6 with uint64 row numbers). There are enough blocks for an average of 9.9
 * (4.95) used slots, which takes 6.5 bytes per key. A key is in the block that its hash selects, or
 * in the first later block that had room for it. A search ends at a block from which no key
 * overflowed.
 *
 * Keys     A vector of int64, uint64 or string. For strings, all bytes count.
 * Damage   An image can come from a file that is damaged while it is read. A search checks that a
 *          row number is below the number of keys, and compares the key at that row with the query.
 *          A damaged image therefore gives -1 for some keys, but never a row that has another key,
 *          and no search is longer than the image.
 * Seed     The caller provides a random seed for the hash, so a client cannot choose keys that all
 *          fall into one block. The image contains the seed.
 * Threads  Reentrant. td_key_index_build splits the work with its td_exec.
 * Source   Blocks with tags and a counter of overflows: F14 (Bronson and Shi, "Open-sourcing F14
 *          for faster, more memory-efficient hash tables", 2019). Hash of integers: the finalizer
 *          of MurmurHash3 with the seed; hash of strings: XXH3 (libxxhash). */
#ifndef TD_KERNELS_KEY_INDEX_KEY_INDEX_H
#define TD_KERNELS_KEY_INDEX_KEY_INDEX_H

#include "kernels/exec.h"
#include "kernels/key_dtype.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* If an image has this alignment, a search reads only one cache line per block. */
#define TD_KEY_INDEX_ALIGN 64

#define TD_ROW_NONE (-1) /* row number of a key that does not exist */

/* An open index, which borrows the image and the keys. */
struct td_key_index {
    struct td_tensor keys;
    const unsigned char *blocks;
    uint64_t n_blocks;
    uint64_t seed;
    uint64_t longest; /* maximum number of blocks that a search reads */
    bool wide;        /* row numbers are uint64 */
};

/* Returns the size in bytes of an image of n_keys keys, or 0 if it exceeds SIZE_MAX. */
size_t td_key_index_bytes(int64_t n_keys);

/* Writes the image of the keys into the td_key_index_bytes bytes at `image`, whose address must be
 * divisible by 8 (TD_KEY_INDEX_ALIGN is faster). If keys repeat, returns INVALID_ARGUMENT with the
 * positions of the pair whose second position is smallest. Also returns errors of parallel_for. An
 * error leaves the image undefined. `input` is the name of the keys in the error. */
TD_MUST_CHECK td_status td_key_index_build(const struct td_tensor *keys, const char *input,
                                           uint64_t seed, void *image, struct td_exec *exec,
                                           struct td_error *err);

/* Opens an image by reading its header. Returns false if its size, dtype or number of keys does not
 * match `keys`. */
bool td_key_index_open(const void *image, size_t bytes, const struct td_tensor *keys,
                       struct td_key_index *out);

/* Returns the image that an open index reads, which has td_key_index_bytes bytes. */
const void *td_key_index_image(const struct td_key_index *index);

/* Sets rows[k] to the row of queries[begin + k], or to TD_ROW_NONE, for k in [0, n). The queries
 * must have the dtype of the keys. Calls with many queries are faster, because the function
 * prefetches. */
void td_key_index_find(const struct td_key_index *index, const struct td_tensor *queries,
                       int64_t begin, int64_t n, int64_t *rows);

#endif
