#include "kernels/key_index/key_index.h"

#include "kernels/integers.h"
#include "kernels/key_index/equal_keys.h"
#include "kernels/key_index/hash.h"
#include "kernels/prefetch.h"

#include <stdatomic.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- The image --------------------------------------------------------------------------- */

#define SLOTS_NARROW 12
#define SLOTS_WIDE   6

/* The number of blocks for n keys is n / 9.9 (n / 4.95 for wide rows), rounded down, plus 1. */
#define KEYS_PER_BLOCKS 99
#define BLOCKS_NARROW   10
#define BLOCKS_WIDE     20

struct block {
    unsigned char tags[SLOTS_NARROW];
    /* Number of keys that overflowed from this block into later blocks, plus LOCKED while the index
     * is being built. */
    uint32_t passed;
    union {
        uint32_t narrow[SLOTS_NARROW];
        uint64_t wide[SLOTS_WIDE];
    } rows;
};

struct header {
    char magic[8];
    uint32_t byte_order; /* BYTE_ORDER_MARK as stored by this machine */
    uint32_t dtype;      /* dtype of the keys */
    uint64_t n_keys;
    uint64_t n_blocks;
    uint64_t seed;
    uint64_t longest; /* maximum number of blocks that a search reads */
    uint64_t reserved[2];
};

#define BLOCK_BYTES     64
#define BYTE_ORDER_MARK 0x01020304u

_Static_assert(sizeof(struct block) == BLOCK_BYTES, "a block is a cache line");
_Static_assert(sizeof(struct header) == BLOCK_BYTES, "blocks must be aligned like the image");

/* The digit is the version of both the format and the hash functions. */
static const char magic[8] = { 'T', 'D', 'K', 'E', 'Y', 'S', '1', 0 };

/* Maximum number of keys whose rows are stored in 32 bits. A test uses a smaller number. */
#ifndef TD_KEY_INDEX_NARROW_KEYS
#define TD_KEY_INDEX_NARROW_KEYS ((int64_t)UINT32_MAX)
#endif

static bool is_wide(int64_t n_keys)
{
    return n_keys > TD_KEY_INDEX_NARROW_KEYS;
}

/* Returns the number of blocks for n_keys keys, or 0 if it overflows. */
static uint64_t blocks_for(int64_t n_keys)
{
    const uint64_t n = (uint64_t)n_keys, per = is_wide(n_keys) ? BLOCKS_WIDE : BLOCKS_NARROW;
    return n > UINT64_MAX / per ? 0 : n * per / KEYS_PER_BLOCKS + 1;
}

size_t td_key_index_bytes(int64_t n_keys)
{
    const uint64_t blocks = blocks_for(n_keys);
    return blocks == 0 || blocks >= SIZE_MAX / BLOCK_BYTES - 1 ? 0 : (blocks + 1) * BLOCK_BYTES;
}

bool td_key_index_open(const void *image, size_t bytes, const struct td_tensor *keys,
                       struct td_key_index *out)
{
    struct header header;
    if (keys->shape.rank != 1 || !td_tensor_is_aligned(keys) ||
        bytes != td_key_index_bytes(keys->numel) || bytes == 0 ||
        (uintptr_t)image % sizeof(uint64_t) != 0)
        return false;
    memcpy(&header, image, sizeof(header));
    /* A search can read its home block twice, so it reads at most n_blocks + 1 blocks. */
    if (memcmp(header.magic, magic, sizeof(magic)) != 0 || header.byte_order != BYTE_ORDER_MARK ||
        header.dtype != (uint32_t)keys->dtype || header.n_keys != (uint64_t)keys->numel ||
        header.n_blocks != blocks_for(keys->numel) || header.longest > header.n_blocks + 1)
        return false;
    *out = (struct td_key_index){
        .keys = *keys,
        .blocks = (const unsigned char *)image + sizeof(header),
        .n_blocks = header.n_blocks,
        .seed = header.seed,
        .longest = header.longest,
        .wide = is_wide(keys->numel),
    };
    return true;
}

const void *td_key_index_image(const struct td_key_index *index)
{
    return index->blocks - sizeof(struct header);
}

/* ---- Slots of a block ---------------------------------------------------------------------- */

/* A set of slots, in which bit i stands for slot i. */
typedef unsigned slot_set;

static inline slot_set slots_of_block(bool wide)
{
    return (1u << (wide ? SLOTS_WIDE : SLOTS_NARROW)) - 1;
}

/* Returns the slots whose tag is `tag`. */
static inline slot_set slots_with(const struct block *block, unsigned char tag, bool wide)
{
#ifdef __SSE2__
    int last;
    /* Excludes the bytes after the tags, because other threads write to them. */
    memcpy(&last, block->tags + 8, sizeof last);
    const __m128i tags = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)block),
                                            _mm_cvtsi32_si128(last));
    const __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag));
    return (slot_set)_mm_movemask_epi8(equal) & slots_of_block(wide);
#else
    slot_set slots = 0;
    for (int i = 0; i < SLOTS_NARROW; i++)
        slots |= (slot_set)(block->tags[i] == tag) << i;
    return slots & slots_of_block(wide);
#endif
}

/* Removes the first slot from the set, which must not be empty, and returns its number. */
static inline int next_slot(slot_set *slots)
{
    const int slot = __builtin_ctz(*slots);
    *slots &= *slots - 1;
    return slot;
}

/* Reads a row number exactly once, because the memory can change. */
static inline uint64_t row_at(const struct block *block, int slot, bool wide)
{
    return wide ? __atomic_load_n(&block->rows.wide[slot], __ATOMIC_RELAXED)
                : __atomic_load_n(&block->rows.narrow[slot], __ATOMIC_RELAXED);
}

/* ---- Hash ---------------------------------------------------------------------------------- */

/* Returns the home block of a key, from the highest bits of its hash. */
static inline uint64_t home_of(uint64_t hash, uint64_t n_blocks)
{
    return (uint64_t)(((unsigned __int128)hash * n_blocks) >> 64);
}

/* Returns the second block for a key whose home block is full, selected by the other half of the
 * hash. If keys moved to the neighbour of their home block, the neighbours of full blocks would
 * soon be full as well. */
static inline uint64_t second_of(uint64_t hash, uint64_t n_blocks)
{
    return home_of((hash << 32 | hash >> 32) * 0x9E3779B97F4A7C15u, n_blocks);
}

/* Returns the block that follows `at` in step `step` of a search. From the second step on, this is
 * the neighbour of `at`. */
static inline uint64_t next_block(uint64_t at, uint64_t step, uint64_t hash, uint64_t n_blocks)
{
    if (step == 0)
        return second_of(hash, n_blocks);
    return at + 1 == n_blocks ? 0 : at + 1;
}

/* Returns a tag from 1 to 255, taken from the low bits of the hash, which have little influence on
 * the choice of block. */
static inline unsigned char tag_of(uint64_t hash)
{
    const unsigned char tag = (unsigned char)hash;
    return tag ? tag : 1;
}

static inline uint64_t hash_at(const struct td_tensor *keys, int64_t i, uint64_t seed, bool strings)
{
    if (strings)
        return td_hash_bytes((const char *)keys->data + keys->offsets[i],
                             keys->offsets[i + 1] - keys->offsets[i], seed);
    return td_hash_integer(((const uint64_t *)keys->data)[i], seed);
}

static inline bool equal(const struct td_tensor *a, uint64_t i, const struct td_tensor *b,
                         int64_t j, bool strings)
{
    if (!strings)
        return ((const uint64_t *)a->data)[i] == ((const uint64_t *)b->data)[j];
    const uint64_t length = a->offsets[i + 1] - a->offsets[i];
    return length == b->offsets[j + 1] - b->offsets[j] &&
           memcmp((const char *)a->data + a->offsets[i], (const char *)b->data + b->offsets[j],
                  length) == 0;
}

/* ---- Search -------------------------------------------------------------------------------- */

/* Number of queries that go through the stages of a search together. It is large enough to keep the
 * memory busy, but small enough that the prefetched data stays in the L1 cache. */
#define TOGETHER 64

static inline const struct block *block_of(const struct td_key_index *index, uint64_t at)
{
    return (const struct block *)(const void *)index->blocks + at;
}

/* Searches for one query from the start, without prefetching. */
static int64_t search(const struct td_key_index *index, const struct td_tensor *queries, int64_t i,
                      uint64_t hash, bool wide, bool strings)
{
    uint64_t at = home_of(hash, index->n_blocks);
    for (uint64_t step = 0; step < index->longest; step++) {
        const struct block *block = block_of(index, at);
        for (slot_set slots = slots_with(block, tag_of(hash), wide); slots;) {
            const uint64_t row = row_at(block, next_slot(&slots), wide);
            if (row < (uint64_t)index->keys.numel && equal(&index->keys, row, queries, i, strings))
                return (int64_t)row;
        }
        if (block->passed == 0)
            break;
        at = next_block(at, step, hash, index->n_blocks);
    }
    return TD_ROW_NONE;
}

/* Results of looking for a query in one block. */
enum { ROW, NOT_HERE, NOWHERE };

/* Looks for a tag in a block. ROW: *row is the first row in the block with this tag. NOT_HERE: no
 * row in this block has the tag, but some keys overflowed into later blocks. Avoids branches,
 * because they would be unpredictable. */
static inline int look(const struct td_key_index *index, const struct block *block,
                       unsigned char tag, bool wide, int64_t *row)
{
    const slot_set slots = slots_with(block, tag, wide);
    const uint64_t at = row_at(block, __builtin_ctz(slots | (slots == 0)), wide);
    *row = at < (uint64_t)index->keys.numel ? (int64_t)at : 0;
    return slots ? ROW : block->passed ? NOT_HERE : NOWHERE;
}

static inline const void *key_at(const struct td_tensor *keys, int64_t row, bool strings)
{
    return strings ? (const void *)&keys->offsets[row]
                   : (const void *)((const uint64_t *)keys->data + row);
}

/* Queries that are searched together, and lists of queries that need more work. */
struct batch {
    const struct td_key_index *index;
    const struct td_tensor *queries;
    int64_t begin; /* number of the first query */
    int64_t *rows;
    int n, n_found, n_elsewhere, n_slow;
    uint64_t hashes[TOGETHER];
    unsigned char found[TOGETHER];     /* queries with a candidate row */
    unsigned char elsewhere[TOGETHER]; /* queries that are not in their home block */
    /* Queries that are in neither block, or whose candidate row has a different key. */
    unsigned char slow[TOGETHER];
};

#define STAGE static inline __attribute__((always_inline)) void

/* The stages of a search. Each stage accesses memory that the previous stage has prefetched. */
STAGE hash_queries(struct batch *batch, bool strings)
{
    const struct td_key_index *index = batch->index;
    for (int k = 0; k < batch->n; k++) {
        const uint64_t hash = hash_at(batch->queries, batch->begin + k, index->seed, strings);
        td_prefetch(block_of(index, home_of(hash, index->n_blocks)));
        batch->hashes[k] = hash;
    }
}

STAGE look_at_homes(struct batch *batch, bool wide, bool strings)
{
    const struct td_key_index *index = batch->index;
    for (int k = 0; k < batch->n; k++) {
        const uint64_t hash = batch->hashes[k];
        const struct block *home = block_of(index, home_of(hash, index->n_blocks));
        int64_t row;
        const int what = look(index, home, tag_of(hash), wide, &row);
        const void *next = what == ROW ? key_at(&index->keys, row, strings) : home;
        if (what == NOT_HERE)
            next = block_of(index, second_of(hash, index->n_blocks));
        td_prefetch(next);
        batch->rows[k] = what == ROW ? row : TD_ROW_NONE;
        batch->found[batch->n_found] = batch->elsewhere[batch->n_elsewhere] = (unsigned char)k;
        batch->n_found += what == ROW;
        batch->n_elsewhere += what == NOT_HERE;
    }
}

STAGE look_elsewhere(struct batch *batch, bool wide, bool strings)
{
    const struct td_key_index *index = batch->index;
    for (int j = 0; j < batch->n_elsewhere; j++) {
        const int k = batch->elsewhere[j];
        const uint64_t hash = batch->hashes[k];
        int64_t row;
        const int what = look(index, block_of(index, second_of(hash, index->n_blocks)),
                              tag_of(hash), wide, &row);
        if (what == ROW)
            td_prefetch(key_at(&index->keys, row, strings));
        batch->rows[k] = what == ROW ? row : TD_ROW_NONE;
        batch->found[batch->n_found] = batch->slow[batch->n_slow] = (unsigned char)k;
        batch->n_found += what == ROW;
        batch->n_slow += what == NOT_HERE;
    }
}

STAGE compare_keys(struct batch *batch, bool wide, bool strings)
{
    const struct td_tensor *keys = &batch->index->keys;
    for (int j = 0; strings && j < batch->n_found; j++)
        td_prefetch((const char *)keys->data + keys->offsets[batch->rows[batch->found[j]]]);
    for (int j = 0; j < batch->n_found; j++) {
        const int k = batch->found[j];
        batch->slow[batch->n_slow] = (unsigned char)k;
        batch->n_slow +=
            !equal(keys, (uint64_t)batch->rows[k], batch->queries, batch->begin + k, strings);
    }
    for (int j = 0; j < batch->n_slow; j++) {
        const int k = batch->slow[j];
        batch->rows[k] =
            search(batch->index, batch->queries, batch->begin + k, batch->hashes[k], wide, strings);
    }
}

STAGE find_batch(struct batch *batch, bool wide, bool strings)
{
    hash_queries(batch, strings);
    look_at_homes(batch, wide, strings);
    look_elsewhere(batch, wide, strings);
    compare_keys(batch, wide, strings);
}

#undef STAGE

void td_key_index_find(const struct td_key_index *index, const struct td_tensor *queries,
                       int64_t begin, int64_t n, int64_t *rows)
{
    const bool strings = index->keys.dtype == TD_DTYPE_STRING;
    struct batch batch = { .index = index, .queries = queries };
    /* There must be at least one key, because the stages compare each query with some key even if a
     * block is damaged. */
    if (index->keys.numel == 0) {
        for (int64_t k = 0; k < n; k++)
            rows[k] = TD_ROW_NONE;
        return;
    }
    for (int64_t done = 0; done < n; done += TOGETHER) {
        batch.begin = begin + done;
        batch.rows = rows + done;
        batch.n = (int)td_smaller(n - done, TOGETHER);
        batch.n_found = batch.n_elsewhere = batch.n_slow = 0;
        if (strings)
            find_batch(&batch, index->wide, true);
        else if (index->wide)
            find_batch(&batch, true, false);
        else
            find_batch(&batch, false, false);
    }
}

/* ---- Build --------------------------------------------------------------------------------- */

#define LOCKED ((uint32_t)1 << 31)

/* Number of rows and blocks in one range of parallel_for: about a millisecond of work. */
#define ROWS_IN_RANGE   ((int64_t)16 * 1024)
#define BLOCKS_IN_RANGE ((int64_t)16 * 1024)

struct build {
    const struct td_tensor *keys;
    struct block *blocks;
    uint64_t n_blocks;
    uint64_t seed;
    bool wide, strings;
    _Atomic uint64_t longest;
    struct td_equal_keys equal;
};

/* Locks a block. The lock is a bit of `passed` in the block. The count of keys that overflowed
 * stops at 2^31 - 1. */
static void lock(struct block *block)
{
    while (__atomic_fetch_or(&block->passed, LOCKED, __ATOMIC_ACQUIRE) & LOCKED)
        ;
}

static void unlock(struct block *block, bool passed)
{
    const uint32_t count = __atomic_load_n(&block->passed, __ATOMIC_RELAXED) & ~LOCKED;
    __atomic_store_n(&block->passed, count + (passed && count < LOCKED - 1), __ATOMIC_RELEASE);
}

static void set_row(struct block *block, int slot, uint64_t row, bool wide)
{
    if (wide)
        block->rows.wide[slot] = row;
    else
        block->rows.narrow[slot] = (uint32_t)row;
}

/* True if the block has a key equal to the row's key. The slot keeps the first row among equal
 * keys, so the pair of the first two rows is recorded whatever the order of insertion. */
static bool has_equal(struct build *build, struct block *block, uint64_t row, unsigned char tag)
{
    for (slot_set slots = slots_with(block, tag, build->wide); slots;) {
        const int slot = next_slot(&slots);
        const uint64_t other = row_at(block, slot, build->wide);
        if (!equal(build->keys, other, build->keys, (int64_t)row, build->strings))
            continue;
        td_equal_keys_note(&build->equal, td_smaller((int64_t)other, (int64_t)row),
                           td_larger((int64_t)other, (int64_t)row));
        if (row < other)
            set_row(block, slot, row, build->wide);
        return true;
    }
    return false;
}

/* Puts the row into the block if the block has room. Returns true if the row does not need another
 * block. */
static bool insert_into(struct build *build, struct block *block, uint64_t row, unsigned char tag)
{
    lock(block);
    bool done = has_equal(build, block, row, tag);
    if (!done) {
        slot_set empty = slots_with(block, 0, build->wide);
        if (empty) {
            const int slot = next_slot(&empty);
            block->tags[slot] = tag;
            set_row(block, slot, row, build->wide);
            done = true;
        }
    }
    unlock(block, !done);
    return done;
}

static void note_longest(struct build *build, uint64_t blocks)
{
    uint64_t longest = atomic_load_explicit(&build->longest, memory_order_relaxed);
    while (blocks > longest &&
           !atomic_compare_exchange_weak_explicit(&build->longest, &longest, blocks,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Puts a row whose home block is full into a later block. There are always more slots than rows. */
static void insert_elsewhere(struct build *build, uint64_t row, uint64_t hash)
{
    uint64_t at = second_of(hash, build->n_blocks), step = 1;
    for (; !insert_into(build, &build->blocks[at], row, tag_of(hash)); step++)
        at = next_block(at, step, hash, build->n_blocks);
    note_longest(build, step + 1);
}

/* Number of keys that are inserted together. With more keys, blocks prefetched for writing are
 * evicted before they are written. (10 million int64 keys on Zen 4: 34 ns per key with 16, 38 with
 * 12, 50 with 64.) */
#define INSERTED_TOGETHER 16

static void insert_together(struct build *build, int64_t begin, int64_t n)
{
    struct block *blocks = build->blocks;
    uint64_t hashes[INSERTED_TOGETHER];
    unsigned char elsewhere[INSERTED_TOGETHER];
    int n_elsewhere = 0;
    for (int k = 0; k < (int)n; k++) {
        hashes[k] = hash_at(build->keys, begin + k, build->seed, build->strings);
        __builtin_prefetch(&blocks[home_of(hashes[k], build->n_blocks)], 1);
    }
    for (int k = 0; k < (int)n; k++) {
        struct block *home = &blocks[home_of(hashes[k], build->n_blocks)];
        if (!insert_into(build, home, (uint64_t)(begin + k), tag_of(hashes[k]))) {
            __builtin_prefetch(&blocks[second_of(hashes[k], build->n_blocks)], 1);
            elsewhere[n_elsewhere++] = (unsigned char)k;
        }
    }
    for (int j = 0; j < n_elsewhere; j++)
        insert_elsewhere(build, (uint64_t)(begin + elsewhere[j]), hashes[elsewhere[j]]);
}

static void insert_rows(void *context, int64_t begin, int64_t end)
{
    struct build *build = context;
    for (int64_t at = begin; at < end; at += INSERTED_TOGETHER)
        insert_together(build, at, td_smaller(end - at, INSERTED_TOGETHER));
}

static void clear_blocks(void *context, int64_t begin, int64_t end)
{
    const struct build *build = context;
    memset(build->blocks + begin, 0, (size_t)(end - begin) * sizeof(build->blocks[0]));
}

td_status td_key_index_build(const struct td_tensor *keys, const char *input, uint64_t seed,
                             void *image, struct td_exec *exec, struct td_error *err)
{
    struct header header = {
        .byte_order = BYTE_ORDER_MARK,
        .dtype = (uint32_t)keys->dtype,
        .n_keys = (uint64_t)keys->numel,
        .n_blocks = blocks_for(keys->numel),
        .seed = seed,
    };
    struct build build = {
        .keys = keys,
        .blocks = (struct block *)image + 1,
        .n_blocks = header.n_blocks,
        .seed = seed,
        .wide = is_wide(keys->numel),
        .strings = keys->dtype == TD_DTYPE_STRING,
        .longest = 1,
        .equal = TD_NO_EQUAL_KEYS,
    };
    td_status status =
        td_exec_for(exec, (int64_t)build.n_blocks, BLOCKS_IN_RANGE, clear_blocks, &build, err);
    if (status == TD_OK)
        status = td_exec_for(exec, keys->numel, ROWS_IN_RANGE, insert_rows, &build, err);
    if (status != TD_OK)
        return status;
    status = td_equal_keys_refuse(&build.equal, keys, input, err);
    if (status != TD_OK)
        return status;
    memcpy(header.magic, magic, sizeof(magic));
    header.longest = build.longest;
    memcpy(image, &header, sizeof(header));
    return TD_OK;
}
