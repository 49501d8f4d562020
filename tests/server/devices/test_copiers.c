#include "server/devices/copiers.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 20000000 }; /* bytes: forty slices, some milliseconds */

static char *filled(size_t bytes, uint64_t seed)
{
    char *memory = malloc(bytes + 1);
    ck_assert_ptr_nonnull(memory);
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        const uint64_t number = random_from(&seed);
        memcpy(memory + i, &number, bytes - i < sizeof number ? bytes - i : sizeof number);
    }
    return memory;
}

/* ---- with 0, 1 and 3 threads ----------------------------------------------------------------- */

static const int threads[] = { 0, 1, 3 };

TD_TEST_LOOP(all_bytes_arrive, 0, 3)
{
    static const size_t sizes[] = { 0, 1, 524287, 524288, 524289, 1048577, 5000000 };
    struct td_copiers *copiers = td_copiers_new(threads[_i]);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char *from = filled(sizes[k], 1), *to = filled(sizes[k], 2);
        struct td_copy_job job;
        const char after = to[sizes[k]] = 77;
        td_copiers_start(copiers, &job, to, from, sizes[k]);
        while (!td_copiers_wait(copiers, &job, 1000000))
            ;
        ck_assert(td_copiers_is_done(copiers, &job));
        ck_assert_int_eq(memcmp(to, from, sizes[k]), 0);
        memset(to, 0, sizes[k]);
        td_copiers_copy(copiers, to, from, sizes[k]);
        ck_assert_int_eq(memcmp(to, from, sizes[k]), 0);
        ck_assert_int_eq(to[sizes[k]], after);
        free(from);
        free(to);
    }
    td_copiers_free(copiers);
}

/* Of which many are in one slice, others in several, and some are empty. */
TD_TEST_LOOP(ranges_are_copied_as_one_job, 0, 3)
{
    static const size_t sizes[] = { 0, 7, 1, 2000000, 0, 524288, 3, 100000, 100000, 0 };
    enum { N = sizeof sizes / sizeof *sizes };
    struct td_copiers *copiers = td_copiers_new(threads[_i]);
    struct td_copy_range ranges[N];
    for (int shorter = 0; shorter < 2;
         shorter++) { /* less than a slice in all: by the caller alone */
        for (int i = 0; i < N; i++) {
            const size_t bytes = sizes[i] / (shorter ? 10 : 1);
            ranges[i] =
                (struct td_copy_range){ filled(bytes, 99), filled(bytes, (uint64_t)i), bytes };
        }
        td_copiers_copy_ranges(copiers, ranges, N);
        for (int i = 0; i < N; i++) {
            ck_assert_int_eq(memcmp(ranges[i].to, ranges[i].from, ranges[i].bytes), 0);
            free(ranges[i].to);
            free((void *)(uintptr_t)ranges[i].from);
        }
    }
    td_copiers_copy_ranges(copiers, NULL, 0);
    td_copiers_free(copiers);
}

TD_TEST(the_threads_help_a_caller)
{
    struct td_copiers *copiers = td_copiers_new(3);
    char *from = filled(MANY, 1), *to = filled(MANY, 2);
    ck_assert_uint_eq(td_copiers_helped(copiers), 0);
    while (td_copiers_helped(copiers) == 0) /* the caller may have done all before they run */
        td_copiers_copy(copiers, to, from, MANY);
    td_copiers_free(copiers);
    free(from);
    free(to);
}

TD_TEST_LOOP(several_jobs_are_copied_side_by_side, 0, 3)
{
    enum { N = 8, BYTES = 3000000 };
    struct td_copiers *copiers = td_copiers_new(threads[_i]);
    struct td_copy_job jobs[N];
    char *from[N], *to[N];
    for (int i = 0; i < N; i++) {
        from[i] = filled(BYTES, (uint64_t)i);
        to[i] = filled(BYTES, 99);
        td_copiers_start(copiers, &jobs[i], to[i], from[i], BYTES);
    }
    for (int i = N - 1; i >= 0; i--)
        while (!td_copiers_wait(copiers, &jobs[i], 1000000))
            ;
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(memcmp(to[i], from[i], BYTES), 0);
        free(from[i]);
        free(to[i]);
    }
    td_copiers_free(copiers);
}

TD_TEST_LOOP(nothing_is_written_after_a_job_is_cancelled, 0, 3)
{
    struct td_copiers *copiers = td_copiers_new(threads[_i]);
    struct td_copy_job job;
    char *from = filled(MANY, 1), *to = filled(MANY, 2), *seen = malloc(MANY);
    ck_assert_ptr_nonnull(seen);
    td_copiers_start(copiers, &job, to, from, MANY);
    td_copiers_cancel(copiers, &job);
    memcpy(seen, to, MANY);
    ck_assert(td_copiers_is_done(copiers, &job));
    td_copiers_copy(copiers, to, from, 0); /* what the threads do next */
    ck_assert_int_eq(memcmp(seen, to, MANY), 0);
    td_copiers_free(copiers);
    ck_assert_int_eq(memcmp(seen, to, MANY), 0);
    free(from);
    free(to);
    free(seen);
}

TD_TEST(a_job_that_was_never_begun_is_done)
{
    struct td_copiers *copiers = td_copiers_new(1);
    struct td_copy_job job = { 0 };
    ck_assert(td_copiers_is_done(copiers, &job));
    td_copiers_cancel(copiers, &job);
    td_copiers_free(copiers);
    td_copiers_free(NULL);
}
