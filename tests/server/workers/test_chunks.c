#include "server/workers/chunks.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>

enum { MOST = 1000 };

TD_TEST(each_item_belongs_to_one_chunk)
{
    static const int64_t counts[] = { 1, 2, 7, 64, 65, 999, MOST };
    static const int64_t grains[] = { 1, 3, 64, MOST, INT64_MAX };
    static const int threads[] = { 1, 2, 3, 16, 200 };
    for (size_t i = 0; i < COUNT_OF(counts) * COUNT_OF(grains) * COUNT_OF(threads); i++) {
        const int64_t count = counts[i % COUNT_OF(counts)];
        const int64_t grain = grains[i / COUNT_OF(counts) % COUNT_OF(grains)];
        const int n_threads = threads[i / COUNT_OF(counts) / COUNT_OF(grains)];
        struct td_chunks chunks;
        int64_t begin, end, n = 0;
        char taken[MOST] = { 0 };
        td_chunks_init(&chunks, count, grain, n_threads);
        for (int thread = 0; td_chunks_claim(&chunks, thread % n_threads, &begin, &end); thread++) {
            ck_assert_int_eq(begin % grain, 0);
            ck_assert(end - begin == grain || end == count);
            for (int64_t k = begin; k < end; k++, n++)
                ck_assert_int_eq(taken[k]++, 0);
        }
        ck_assert_int_eq(n, count);
        ck_assert(!td_chunks_left(&chunks));
    }
}

static int64_t claim(struct td_chunks *chunks, int thread)
{
    int64_t begin, end;
    return td_chunks_claim(chunks, thread, &begin, &end) ? begin : -1;
}

TD_TEST(a_thread_claims_consecutive_chunks_and_then_helps_others)
{
    struct td_chunks chunks;
    td_chunks_init(&chunks, 60, 10, 2);
    ck_assert_int_eq(claim(&chunks, 0), 0);
    ck_assert_int_eq(claim(&chunks, 1), 30);
    ck_assert_int_eq(claim(&chunks, 0), 10);
    ck_assert_int_eq(claim(&chunks, 0), 20);
    ck_assert_int_eq(claim(&chunks, 0), 40);
    ck_assert_int_eq(claim(&chunks, 1), 50);
    ck_assert_int_eq(claim(&chunks, 1), -1);
    ck_assert_int_eq(claim(&chunks, 0), -1);
}

enum { THREADS = 4, ITEMS = 100000 };

struct claimer {
    struct td_chunks *chunks;
    char *taken; /* [ITEMS] */
    int thread;
    bool drops;
};

static void *claim_all(void *argument)
{
    const struct claimer *claimer = argument;
    int64_t begin, end;
    for (int n = 0; td_chunks_claim(claimer->chunks, claimer->thread, &begin, &end); n++) {
        for (int64_t k = begin; k < end; k++)
            claimer->taken[k]++;
        if (claimer->drops && n == 100)
            td_chunks_drop(claimer->chunks);
    }
    return NULL;
}

/* Without a drop, all items are taken once; with a drop, none is taken twice. */
TD_TEST_LOOP(threads_never_claim_the_same_item, 0, 2)
{
    static char all_taken[2][ITEMS];
    char *taken = all_taken[_i];
    struct td_chunks chunks;
    struct claimer claimers[THREADS];
    pthread_t threads[THREADS];
    int64_t n_taken = 0;
    td_chunks_init(&chunks, ITEMS, 7, THREADS - 1);
    for (int i = 0; i < THREADS; i++) {
        claimers[i] = (struct claimer){ &chunks, taken, i, _i == 1 && i == 0 };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, claim_all, &claimers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int64_t k = 0; k < ITEMS; k++) {
        ck_assert_int_le(taken[k], 1);
        n_taken += taken[k];
    }
    ck_assert(!td_chunks_left(&chunks));
    if (_i == 0)
        ck_assert_int_eq(n_taken, ITEMS);
}

TD_TEST(chunks_without_a_thread_are_dropped)
{
    struct td_chunks chunks;
    td_chunks_init(&chunks, INT64_MAX, 10, 4);
    ck_assert_int_eq(claim(&chunks, 0), 0);
    ck_assert(td_chunks_left(&chunks));
    td_chunks_drop(&chunks);
    ck_assert(!td_chunks_left(&chunks));
    ck_assert_int_eq(claim(&chunks, 0), -1);
}

TD_TEST(the_largest_count_does_not_overflow)
{
    struct td_chunks chunks;
    int64_t begin, end, last = 0;
    td_chunks_init(&chunks, INT64_MAX, INT64_MAX / 3, 3);
    for (int n = 0; n < 4; n++) {
        ck_assert(td_chunks_claim(&chunks, 0, &begin, &end));
        ck_assert_int_eq(begin, last);
        last = end;
    }
    ck_assert_int_eq(last, INT64_MAX);
    ck_assert(!td_chunks_claim(&chunks, 0, &begin, &end));
}
