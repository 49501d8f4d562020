/* key_index.h - finds the row of a key: a hash index of a vector of distinct keys.
 *
 *     key ─ hash ─► block of 64 bytes ─ equal tags ─► row numbers ─► keys[row] equal? ─► row
 *
 * The index is an image: one piece of memory without pointers, which can be written to a file and
 * mapped again. It holds no keys, so a query that is found has read two cache lines: its block and
 * the key. The image begins with a header of 64 bytes; then come blocks of 64 bytes each:
 *
 *     byte 0       tags, a byte each: 0 is an empty slot, others are 8 bits of the key's hash
 *     byte 12      uint32: how many keys went past this full block to a later one
 *     byte 16      row numbers, uint32 each; uint64 where the table has 2^32 rows or more
 *
 * A block has 12 slots (6 with wide rows), and there are so many blocks that 9.9 of them (4.95) are
 * used on average: 6.5 bytes a key. A key is in the block that its hash names, or in the first
 * later one that had room; a search ends at a block that no key went past.
 *
 * Keys     int64, uint64 or string, a vector. Of strings all bytes count.
 * Damage   An image may come from a file that somebody damages while it is read. Row numbers are
 *          compared with the number of keys and the key at that row with the query: so a damaged
 *          image gives -1 for some keys, never a row that has another key, and no search is longer
 *          than the image.
 * Seed     Of the hash. Random, from the caller, so that a client cannot choose keys that fall into
 *          one block. The image has it.
 * Threads  Reentrant. td_key_index_build splits the work with its td_exec.
 * Source   Blocks with tags and a counter of overflows: F14 (Bronson and Shi, "Open-sourcing F14
 *          for faster, more memory-efficient hash tables", 2019). Hash of integers: the finalizer
 *          of MurmurHash3 with the seed; of strings: XXH3 (libxxhash). */
#ifndef TD_KERNELS_KEY_INDEX_KEY_INDEX_H
#define TD_KERNELS_KEY_INDEX_KEY_INDEX_H

#include "kernels/exec.h"
#include "kernels/key_dtype.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_KEY_INDEX_ALIGN 64 /* of an image: then no search reads two cache lines for a block */

#define TD_ROW_NONE (-1) /* the row number of a key that is not there */

/* An open index. It borrows the image and the keys. */
struct td_key_index {
    struct td_tensor keys;
    const unsigned char *blocks;
    uint64_t n_blocks;
    uint64_t seed;
    uint64_t longest; /* blocks that a search reads, at most */
    bool wide;        /* row numbers are uint64 */
};

/* Size of the image of so many keys; 0 when it exceeds SIZE_MAX. */
size_t td_key_index_bytes(int64_t n_keys);

/* Makes the image of the keys, in td_key_index_bytes bytes at `image`, which begin on an address
 * divisible by 8 (TD_KEY_INDEX_ALIGN is faster). INVALID_ARGUMENT, with the positions, when two
 * keys are equal: of all such pairs the one whose second position is the smallest. Also the errors
 * of parallel_for. The image is undefined then. `input` is the name of the keys in the error. */
TD_MUST_CHECK td_status td_key_index_build(const struct td_tensor *keys, const char *input,
                                           uint64_t seed, void *image, struct td_exec *exec,
                                           struct td_error *err);

/* Opens an image. False when it is not one of such keys: of another size, dtype or number of keys.
 * Reads the header only. */
bool td_key_index_open(const void *image, size_t bytes, const struct td_tensor *keys,
                       struct td_key_index *out);

/* The image that an open index reads, of td_key_index_bytes bytes. */
const void *td_key_index_image(const struct td_key_index *index);

/* rows[k] = the row of queries[begin + k], or TD_ROW_NONE, for k in [0, n). The queries have the
 * dtype of the keys. Prefetches: many queries at a time are faster. */
void td_key_index_find(const struct td_key_index *index, const struct td_tensor *queries,
                       int64_t begin, int64_t n, int64_t *rows);

#endif
