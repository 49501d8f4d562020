#include "server/store/files/checksums.h"

#include <sys/mman.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

uint64_t td_checksum_digests(uint64_t bytes)
{
    return 1 + bytes / TD_CHECKSUM_BLOCK + (bytes % TD_CHECKSUM_BLOCK != 0);
}

/* ---- comparing ------------------------------------------------------------------------------ */

uint64_t td_checksums_blocks(const struct td_checksums *checksums)
{
    return checksums->digests ? td_checksum_digests(checksums->bytes) - 1 : 0;
}

void td_checksums_range(const struct td_checksums *checksums, uint64_t block, uint64_t *begin,
                        uint64_t *end)
{
    const uint64_t first = block * TD_CHECKSUM_BLOCK, rest = checksums->bytes - first;
    *begin = checksums->offset + first;
    *end = *begin + (rest < TD_CHECKSUM_BLOCK ? rest : TD_CHECKSUM_BLOCK);
}

static bool matches(const struct td_checksums *checksums, uint64_t number, const char *data,
                    uint64_t bytes)
{
    const XXH64_hash_t digest = XXH3_64bits(data, bytes);
    return memcmp(&digest, checksums->digests + number * TD_DIGEST_BYTES, sizeof digest) == 0;
}

uint64_t td_digest_ends(const void *data, size_t size)
{
    enum { PAGE = 4096 };
    const size_t first = size < PAGE ? size : PAGE, last = size - (size - 1) / PAGE * PAGE;
    const uint64_t digests[] = { XXH3_64bits(data, first),
                                 XXH3_64bits((const char *)data + size - last, last) };
    return XXH3_64bits(digests, sizeof digests);
}

uint64_t td_checksums_digest(const struct td_checksums *checksums)
{
    return XXH3_64bits(checksums->digests, td_checksum_digests(checksums->bytes) * TD_DIGEST_BYTES);
}

bool td_checksums_match(const struct td_checksums *checksums, uint64_t block)
{
    uint64_t begin, end;
    td_checksums_range(checksums, block, &begin, &end);
    return matches(checksums, 1 + block, checksums->data + (begin - checksums->offset),
                   end - begin);
}

bool td_checksums_match_header(const struct td_checksums *checksums)
{
    return matches(checksums, 0, checksums->data - checksums->offset, checksums->offset);
}

void td_checksums_prefetch(const struct td_checksums *checksums, uint64_t block)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t begin, end;
    if (block >= td_checksums_blocks(checksums))
        return;
    td_checksums_range(checksums, block, &begin, &end);
    const uintptr_t file = (uintptr_t)checksums->data - checksums->offset;
    const uintptr_t first = (file + begin) & ~(page - 1);
    (void)madvise((void *)first, file + end - first, MADV_WILLNEED); /* a hint */
}

/* ---- making --------------------------------------------------------------------------------- */

static void store_digest(struct td_checksum_writer *writer, XXH64_hash_t digest)
{
    memcpy(writer->digests + writer->count++ * TD_DIGEST_BYTES, &digest, sizeof digest);
}

bool td_checksum_begin(struct td_checksum_writer *writer, const void *header, size_t header_bytes,
                       uint64_t bytes)
{
    *writer = (struct td_checksum_writer){ 0 };
    writer->digests = malloc((size_t)td_checksum_digests(bytes) * TD_DIGEST_BYTES);
    writer->state = XXH3_createState();
    if (!writer->digests || !writer->state || XXH3_64bits_reset(writer->state) != XXH_OK) {
        td_checksum_end(writer);
        return false;
    }
    store_digest(writer, XXH3_64bits(header, header_bytes));
    return true;
}

void td_checksum_end(struct td_checksum_writer *writer)
{
    XXH3_freeState(writer->state);
    free(writer->digests);
    *writer = (struct td_checksum_writer){ 0 };
}

size_t td_checksum_room(const struct td_checksum_writer *writer)
{
    return TD_CHECKSUM_BLOCK - writer->filled;
}

static void finish_block(struct td_checksum_writer *writer)
{
    store_digest(writer, XXH3_64bits_digest(writer->state));
    (void)XXH3_64bits_reset(writer->state);
    writer->filled = 0;
}

void td_checksum_add(struct td_checksum_writer *writer, const void *part, size_t bytes)
{
    if (writer->filled == 0 && bytes == TD_CHECKSUM_BLOCK) { /* faster than in parts */
        store_digest(writer, XXH3_64bits(part, bytes));
        return;
    }
    (void)XXH3_64bits_update(writer->state, part, bytes);
    writer->filled += bytes;
    if (writer->filled == TD_CHECKSUM_BLOCK)
        finish_block(writer);
}

void td_checksum_finish(struct td_checksum_writer *writer)
{
    if (writer->filled > 0)
        finish_block(writer);
}
