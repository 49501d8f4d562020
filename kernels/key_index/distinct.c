#include "kernels/key_index/distinct.h"

#include "kernels/integers.h"
#include "kernels/key_index/hash.h"

#include <string.h>

static uint64_t hash_of(const struct td_tensor *keys, int64_t i, uint64_t seed)
{
    if (keys->dtype == TD_DTYPE_STRING)
        return td_hash_bytes((const char *)keys->data + keys->offsets[i],
                             keys->offsets[i + 1] - keys->offsets[i], seed);
    return td_hash_integer(((const uint64_t *)keys->data)[i], seed);
}

static bool equal(const struct td_tensor *keys, int64_t i, int64_t j)
{
    if (keys->dtype != TD_DTYPE_STRING)
        return ((const uint64_t *)keys->data)[i] == ((const uint64_t *)keys->data)[j];
    const uint64_t length = keys->offsets[i + 1] - keys->offsets[i];
    return length == keys->offsets[j + 1] - keys->offsets[j] &&
           memcmp((const char *)keys->data + keys->offsets[i],
                  (const char *)keys->data + keys->offsets[j], length) == 0;
}

/* Returns the number of slots for n keys. At least half of the slots are free, so searches are
 * short. The result cannot overflow, because the n keys are in memory. */
static uint64_t slots_for(int64_t n)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)n)
        slots *= 2;
    return slots;
}

uint64_t td_distinct_keys_workspace(int64_t n)
{
    return (slots_for(n) + 2 * (uint64_t)n) * sizeof(int64_t);
}

struct table {
    const struct td_tensor *keys;
    uint64_t seed, mask;
    int64_t *slots; /* number of a distinct key, or FREE */
    int64_t *first, *last;
    int64_t n; /* number of distinct keys */
};

#define FREE ((int64_t)-1)

/* Adds a key. If the memory of the keys changes during the call, a key can be added twice. Even
 * then, a free slot remains. */
static void add(struct table *table, int64_t i)
{
    uint64_t at = hash_of(table->keys, i, table->seed) & table->mask;
    while (table->slots[at] != FREE && !equal(table->keys, table->first[table->slots[at]], i))
        at = (at + 1) & table->mask;
    if (table->slots[at] == FREE) {
        table->slots[at] = table->n;
        table->first[table->n++] = i;
    }
    table->last[table->slots[at]] = i;
}

/* Number of keys between two checks of the deadline: about a millisecond of work. */
#define CHECKED 16384

td_status td_distinct_keys_find(const struct td_tensor *keys, struct td_exec *exec,
                                struct td_distinct_keys *out, struct td_error *err)
{
    const uint64_t n = (uint64_t)keys->numel, slots = slots_for(keys->numel);
    int64_t *memory = td_arena_alloc(exec->arena, slots + 2 * n, sizeof(*memory), err);
    if (!memory)
        return err->status;
    struct table table = { .keys = keys,
                           .seed = exec->hash_seed,
                           .mask = slots - 1,
                           .slots = memory,
                           .first = memory + slots,
                           .last = memory + slots + n };
    memset(table.slots, 0xff, slots * sizeof(table.slots[0]));
    td_status status = TD_OK;
    for (int64_t begin = 0; begin < keys->numel && status == TD_OK; begin += CHECKED) {
        const int64_t end = td_smaller(begin + CHECKED, keys->numel);
        for (int64_t i = begin; i < end; i++)
            add(&table, i);
        status = td_exec_check(exec, err);
    }
    *out = (struct td_distinct_keys){ table.first, table.last, table.n };
    return status;
}
