/* hash.h - 64-bit hashes of keys, with a seed. All bits of a hash are uniformly distributed.
 *
 * The hashes are part of the format of key_index.h, so a function that returns different hashes
 * requires a new format version.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_KEY_INDEX_HASH_H
#define TD_KERNELS_KEY_INDEX_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Inlined calls hash short strings several times as fast. */
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Returns a hash that is one-to-one for each seed, so two different integers never have the same
 * hash. */
static inline uint64_t td_hash_integer(uint64_t value, uint64_t seed)
{
    uint64_t hash = value ^ seed;
    hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCDu;
    hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53u;
    return hash ^ hash >> 33;
}

static inline uint64_t td_hash_bytes(const void *bytes, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, length, seed);
}

#endif
