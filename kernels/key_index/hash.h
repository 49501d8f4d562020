/* hash.h - hashes of keys, with a seed: 64 bits of which every part is as good as random.
 *
 * They are part of the format of key_index.h: one that gives other numbers is another format.
 *
 * Threads  Pure. */
#ifndef TD_KERNELS_KEY_INDEX_HASH_H
#define TD_KERNELS_KEY_INDEX_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Short strings are hashed several times as fast when the calls are inlined. */
#define XXH_INLINE_ALL
#include <xxhash.h>

/* One to one for each seed, so two integers never have the same hash. */
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
