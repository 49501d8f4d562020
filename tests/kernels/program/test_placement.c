#include "kernels/program/placement.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <stdint.h>
#include <string.h>

#define RESULTS 6

static const struct {
    const char *says;
    int n;
    struct td_placement results[RESULTS];
    size_t total;
} cases[] = {
    { "no results need no memory", 0, { { 0 } }, 0 },
    { "a result is rounded up to 64 bytes", 1, { { .bytes = 1, .first = 0, .last = 1 } }, 64 },
    { "results in use at the same time lie side by side",
      2,
      { { .bytes = 64, .first = 0, .last = 1 }, { .bytes = 128, .first = 1, .last = 2 } },
      192 },
    { "a chain of steps needs its two largest neighbours",
      4,
      { { .bytes = 64, .first = 0, .last = 1 },
        { .bytes = 128, .first = 1, .last = 2 },
        { .bytes = 256, .first = 2, .last = 3 },
        { .bytes = 64, .first = 3, .last = 4 } },
      384 },
    { "a small result fits beside a large one that is no longer used",
      3,
      { { .bytes = 256, .first = 0, .last = 1 },
        { .bytes = 64, .first = 1, .last = 3 },
        { .bytes = 256, .first = 2, .last = 3 } },
      320 },
    { "results without bytes need none",
      2,
      { { .bytes = 0, .first = 0, .last = 1 }, { .bytes = 64, .first = 0, .last = 1 } },
      64 },
};

TD_TEST_EACH(results_are_placed, cases)
{
    struct td_placement results[RESULTS];
    int order[RESULTS];
    memcpy(results, cases[_i].results, sizeof(results));
    ck_assert_msg(td_place(results, cases[_i].n, order) == cases[_i].total, "%s", cases[_i].says);
}

TD_TEST(a_block_too_large_is_reported)
{
    struct td_placement results[] = { { .bytes = SIZE_MAX / 2, .first = 0, .last = 1 },
                                      { .bytes = SIZE_MAX / 2 + 65, .first = 0, .last = 1 } };
    int order[2];
    ck_assert(td_place(results, 2, order) == SIZE_MAX);
}

/* The bytes that are in use in a step. */
static size_t in_use(const struct td_placement *results, int n, int step)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        if (results[i].first <= step && step <= results[i].last)
            bytes += (results[i].bytes + 63) / 64 * 64;
    return bytes;
}

TD_TEST(results_in_use_never_overlap)
{
    enum { MOST = 60, STEPS = 30 };
    for (int seed = 0; seed < 200 * test_effort(); seed++) {
        struct td_placement results[MOST];
        int order[MOST];
        random_seed((uint64_t)seed);
        const int n = 1 + random_below(MOST);
        for (int i = 0; i < n; i++) {
            const int first = random_below(STEPS);
            results[i] = (struct td_placement){ .bytes = (size_t)random_below(1000),
                                                .first = first,
                                                .last = first + random_below(4) };
        }
        const size_t total = td_place(results, n, order);
        size_t most = 0;
        for (int step = 0; step < STEPS + 4; step++)
            most = in_use(results, n, step) > most ? in_use(results, n, step) : most;
        EXPECT(total >= most, "seed %d: %zu bytes for %zu", seed, total, most);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < i; k++) {
                const struct td_placement *a = &results[i], *b = &results[k];
                const bool in_time = a->first <= b->last && b->first <= a->last;
                const bool in_space =
                    a->place < b->place + b->bytes && b->place < a->place + a->bytes;
                EXPECT(!in_time || !in_space, "seed %d: %d overlaps %d", seed, i, k);
            }
    }
}
