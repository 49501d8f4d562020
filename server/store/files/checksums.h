/* checksums.h - checksums of the data of a NAME.tensord file, in blocks.
 *
 * The tensor "checksums" of the file (U8 [1 + blocks, 8]) holds a digest of the header, including
 * its length and padding, and a digest of each block of the data before that tensor. The metadata
 * "checksum" is TD_CHECKSUM_NAME. A flipped bit anywhere in the file is therefore detected. A
 * flipped bit in a digest counts as damage to its block.
 *
 * A block has 1 MiB. This size is small enough to show which part of a table is damaged and to be
 * checked within 0.1 ms (from the page cache), but large enough that the digests take only 1/100000
 * of the file.
 *
 * Ownership  Borrows the mapping.
 * Threads    Reentrant; a writer belongs to one thread.
 * Source     XXH3 with 64 bits and seed 0, stored as a little-endian uint64 (libxxhash). */
#ifndef TD_SERVER_STORE_CHECKSUMS_H
#define TD_SERVER_STORE_CHECKSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_CHECKSUM_NAME "xxh3-64/1048576"
enum { TD_CHECKSUM_BLOCK = 1 << 20, TD_DIGEST_BYTES = 8 };

/* Returns the number of digests for `bytes` bytes of data: one for the header, and one per
 * block. */
uint64_t td_checksum_digests(uint64_t bytes);

/* The digests of a mapped file. */
struct td_checksums {
    const unsigned char *digests; /* NULL if the file has no digests */
    const char *data;
    uint64_t bytes;  /* number of bytes of data */
    uint64_t offset; /* offset of the data in the file */
};

uint64_t td_checksums_blocks(const struct td_checksums *checksums);

/* Sets *begin and *end to the range of a block, in bytes of the file. */
void td_checksums_range(const struct td_checksums *checksums, uint64_t block, uint64_t *begin,
                        uint64_t *end);

/* Returns a digest of the first and the last page of a file, which the server reads at startup
 * anyway. If a table was computed again, these pages usually differ, even if its file has the same
 * size and time as the previous file. Changes that affect only other pages are not detected. */
uint64_t td_digest_ends(const void *data, size_t size);

/* Returns a digest of all digests, which therefore covers every byte of the file before them. */
uint64_t td_checksums_digest(const struct td_checksums *checksums);

/* Starts reading a block from the disk. Does nothing if the block does not exist. */
void td_checksums_prefetch(const struct td_checksums *checksums, uint64_t block);

/* True if a block, or the header before the data, matches its digest. */
bool td_checksums_match(const struct td_checksums *checksums, uint64_t block);
bool td_checksums_match_header(const struct td_checksums *checksums);

/* Computes the digests of data that arrives in parts. */
struct td_checksum_writer {
    /* Digests as stored in the file. */
    unsigned char *digests;
    uint64_t count; /* number of digests */
    /* Number of bytes in the unfinished block. */
    uint64_t filled;
    void *state;
};

/* Starts the digests of a file with this header and `bytes` bytes of data. Returns false if no
 * memory is available. td_checksum_end frees what td_checksum_begin allocated. */
bool td_checksum_begin(struct td_checksum_writer *writer, const void *header, size_t header_bytes,
                       uint64_t bytes);
void td_checksum_end(struct td_checksum_writer *writer);

/* Returns the maximum number of bytes that can be added next, which is the rest of the block. */
size_t td_checksum_room(const struct td_checksum_writer *writer);
void td_checksum_add(struct td_checksum_writer *writer, const void *part, size_t bytes);

/* Computes the digest of the last block if that block is not full. */
void td_checksum_finish(struct td_checksum_writer *writer);

#endif
