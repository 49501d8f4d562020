/* checksums.h - checksums of the data of a NAME.tensord file, in blocks.
 *
 * The file's tensor "checksums" (U8 [1 + blocks, 8]) has a digest of the header, with its length
 * and padding, and one of each block of the data before the tensor; its metadata "checksum" is
 * TD_CHECKSUM_NAME. So a flipped bit anywhere in the file is noticed, a flipped bit of a digest as
 * damage of its block.
 *
 * A block is 1 MiB: small enough to tell which part of a table is damaged and to be checked within
 * 0.1 ms (from the page cache), large enough that the digests take a 100000th of the file.
 *
 * Ownership  Borrows the mapping.
 * Threads    Reentrant; a writer belongs to one thread.
 * Source     XXH3, 64 bits, seed 0, as stored in a uint64 in little-endian: libxxhash. */
#ifndef TD_SERVER_STORE_CHECKSUMS_H
#define TD_SERVER_STORE_CHECKSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_CHECKSUM_NAME "xxh3-64/1048576"
enum { TD_CHECKSUM_BLOCK = 1 << 20, TD_DIGEST_BYTES = 8 };

/* The number of digests for so many bytes of data: that of the header, and one per block. */
uint64_t td_checksum_digests(uint64_t bytes);

/* The digests of a mapped file. */
struct td_checksums {
    const unsigned char *digests; /* NULL if the file has none */
    const char *data;
    uint64_t bytes;  /* of data */
    uint64_t offset; /* of the data in the file */
};

uint64_t td_checksums_blocks(const struct td_checksums *checksums);

/* The range of a block, in bytes of the file. */
void td_checksums_range(const struct td_checksums *checksums, uint64_t block, uint64_t *begin,
                        uint64_t *end);

/* A digest of the first and the last page of a file: two pages that a start reads anyway. A table
 * that was computed again usually differs in them, even if its file has the size and the time of
 * the one before; a change between them is not seen. */
uint64_t td_digest_ends(const void *data, size_t size);

/* A digest of all digests: of every byte of the file before them. */
uint64_t td_checksums_digest(const struct td_checksums *checksums);

/* Begins to read a block from the disk; nothing if there is no such block. */
void td_checksums_prefetch(const struct td_checksums *checksums, uint64_t block);

/* Whether a block, or the header before the data, has its digest. */
bool td_checksums_match(const struct td_checksums *checksums, uint64_t block);
bool td_checksums_match_header(const struct td_checksums *checksums);

/* Makes the digests of data that is given in parts. */
struct td_checksum_writer {
    unsigned char *digests; /* as in the file; NULL without memory */
    uint64_t count;         /* of digests */
    uint64_t filled;        /* bytes of the block that is not finished */
    void *state;
};

/* For a file with this header and so many bytes of data; end frees what begin allocated. False
 * without memory. */
bool td_checksum_begin(struct td_checksum_writer *writer, const void *header, size_t header_bytes,
                       uint64_t bytes);
void td_checksum_end(struct td_checksum_writer *writer);

/* How many bytes at most may be added next: up to the end of the block. */
size_t td_checksum_room(const struct td_checksum_writer *writer);
void td_checksum_add(struct td_checksum_writer *writer, const void *part, size_t bytes);

/* The digest of the last block, if it is not full. */
void td_checksum_finish(struct td_checksum_writer *writer);

#endif
