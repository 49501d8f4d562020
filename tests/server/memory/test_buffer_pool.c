#include "server/memory/buffer_pool.h"
#include "server/observe/clock.h"
#include "tests/gates/clock.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define TIB ((uint64_t)1 << 40)

static struct td_buffer_pool *pool; /* the fixture frees it */
static struct td_error err;

static struct td_buffer *take(size_t bytes)
{
    struct td_memory *memory = td_buffer_pool_memory(pool);
    struct td_buffer *buffer = memory->take(memory, bytes, &err);
    ck_assert_msg(buffer != NULL, "%zu bytes: %s", bytes, err.message);
    return buffer;
}

/* Fails unless `bytes` are refused; returns the error. */
static struct td_error refused(size_t bytes)
{
    struct td_memory *memory = td_buffer_pool_memory(pool);
    ck_assert_ptr_null(memory->take(memory, bytes, &err));
    return err;
}

static void take_and_release(size_t bytes)
{
    td_buffer_unref(take(bytes));
}

static void expect_usage(uint64_t in_use, uint64_t warm)
{
    const struct td_buffer_pool_usage usage = td_buffer_pool_usage(pool);
    ck_assert_uint_eq(usage.in_use, in_use);
    ck_assert_uint_eq(usage.warm, warm);
}

/* ---- spares ---------------------------------------------------------------------------------- */

static struct td_buffer *spare;

static bool release_spare(void *context, uint64_t bytes)
{
    (void)bytes;
    ++*(int *)context;
    td_buffer_unref(spare);
    spare = NULL;
    return false;
}

TD_TEST(spare_buffers_are_released_before_a_request_is_refused)
{
    int asked = 0;
    pool = td_buffer_pool_new(MIB, 0);
    td_buffer_pool_spares(pool, release_spare, &asked);
    spare = take(512 * KIB);
    struct td_buffer *half = take(512 * KIB);
    ck_assert_int_eq(asked, 0);
    struct td_buffer *other = take(256 * KIB);
    ck_assert_int_eq(asked, 1);
    ck_assert_int_eq(td_buffer_pool_admit(pool, 0, 512 * KIB, &err), TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(asked, 2);
    ck_assert_int_eq(refused(2 * MIB).status, TD_RESOURCE_LIMIT);
    ck_assert_int_eq(asked, 2); /* exceeds the limit: the callback is not called */
    td_buffer_unref(half);
    td_buffer_unref(other);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static const struct {
    size_t bytes, size;
} sizes[] = {
    { 0, 16 * KIB },
    { 1, 16 * KIB },
    { 16 * KIB, 16 * KIB },
    { 16 * KIB + 1, 20 * KIB }, /* every class is whole pages */
    { 20 * KIB + 1, 24 * KIB },
    { 28 * KIB, 28 * KIB },
    { 28 * KIB + 1, 32 * KIB },
    { 64 * KIB, 64 * KIB }, /* the arena's block: powers of two are classes */
    { 64 * KIB + 64, 80 * KIB },
    { 4 * MIB, 4 * MIB }, /* from this size with huge pages */
    { 4 * MIB + 1, 5 * MIB },
    { 700 * MIB, 768 * MIB },
};

TD_TEST_EACH(a_buffer_has_the_size_of_the_smallest_class_that_holds_it, sizes)
{
    pool = td_buffer_pool_new(TIB, 0);
    struct td_buffer *buffer = take(sizes[_i].bytes);
    ck_assert_uint_eq(buffer->size, sizes[_i].size);
    expect_usage(sizes[_i].size, 0);
    td_buffer_unref(buffer);
}

TD_TEST(at_most_a_quarter_of_a_buffer_is_unused)
{
    pool = td_buffer_pool_new(TIB, 0);
    for (size_t power = 16 * KIB; power <= 512 * MIB; power *= 2)
        for (size_t sixteenth = 16; sixteenth < 32; sixteenth++)
            for (size_t more = 0; more <= 2; more++) {
                const size_t bytes = power / 16 * sixteenth - 1 + more;
                struct td_buffer *buffer = take(bytes);
                ck_assert_uint_ge(buffer->size, bytes);
                if (bytes >= 16 * KIB)
                    ck_assert_uint_le((buffer->size - bytes) * 4, buffer->size);
                td_buffer_unref(buffer);
            }
}

TD_TEST_EACH(all_of_a_buffer_is_writable_and_begins_on_a_cache_line, sizes)
{
    pool = td_buffer_pool_new(TIB, TIB);
    struct td_buffer *buffer = take(sizes[_i].bytes);
    ck_assert_uint_eq((uintptr_t)buffer->data % 64, 0);
    memset(buffer->data, 0xab, buffer->size < 8 * MIB ? buffer->size : 4 * KIB);
    memset((char *)buffer->data + buffer->size - 4 * KIB, 0xcd, 4 * KIB);
    td_buffer_unref(buffer);
}

/* ---- warm buffers ---------------------------------------------------------------------------- */

TD_TEST(a_released_buffer_is_the_next_one_of_its_class)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_buffer *first = take(60 * KIB);
    void *data = first->data;
    strcpy(data, "still here");
    td_buffer_unref(first);
    expect_usage(0, 64 * KIB);
    struct td_buffer *again = take(57 * KIB); /* 56 KiB and less is the class below */
    ck_assert_ptr_eq(again->data, data);
    ck_assert_str_eq(again->data, "still here"); /* the same pages */
    expect_usage(64 * KIB, 0);
    struct td_buffer *other = take(60 * KIB);
    ck_assert_ptr_ne(other->data, data);
    td_buffer_unref(again);
    td_buffer_unref(other);
}

TD_TEST(the_buffer_released_last_is_taken_first)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_buffer *a = take(64 * KIB), *b = take(64 * KIB);
    void *a_data = a->data, *b_data = b->data;
    td_buffer_unref(b);
    td_buffer_unref(a);
    a = take(64 * KIB);
    b = take(64 * KIB);
    ck_assert_ptr_eq(a->data, a_data);
    ck_assert_ptr_eq(b->data, b_data);
    td_buffer_unref(a);
    td_buffer_unref(b);
}

TD_TEST(a_buffer_in_use_is_not_taken_again)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_buffer *buffer = take(64 * KIB);
    td_buffer_ref(buffer);
    td_buffer_unref(buffer); /* one reference is left */
    expect_usage(64 * KIB, 0);
    struct td_buffer *other = take(64 * KIB);
    ck_assert_ptr_ne(other->data, buffer->data);
    td_buffer_unref(other);
    td_buffer_unref(buffer);
    expect_usage(0, 128 * KIB);
}

TD_TEST(warm_buffers_never_exceed_the_warm_limit)
{
    pool = td_buffer_pool_new(MIB, 256 * KIB);
    take_and_release(512 * KIB);
    expect_usage(0, 0);
    take_and_release(256 * KIB); /* exactly the limit */
    expect_usage(0, 256 * KIB);
    take_and_release(4 * KIB);
    expect_usage(0, 256 * KIB);
}

TD_TEST(a_warm_limit_of_zero_keeps_nothing)
{
    pool = td_buffer_pool_new(MIB, 0);
    take_and_release(1);
    expect_usage(0, 0);
}

TD_TEST(warm_buffers_are_evicted_for_a_buffer)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_buffer *a = take(512 * KIB), *b = take(256 * KIB);
    td_buffer_unref(a);
    td_buffer_unref(b);
    expect_usage(0, 768 * KIB);
    struct td_buffer *c =
        take(384 * KIB); /* 128 KiB too many: the 512 KiB are evicted, the 256 KiB stay */
    expect_usage(384 * KIB, 256 * KIB);
    struct td_buffer *d = take(640 * KIB);
    expect_usage(MIB, 0);
    td_buffer_unref(c);
    td_buffer_unref(d);
}

TD_TEST(warm_buffers_are_evicted_for_a_charge)
{
    pool = td_buffer_pool_new(MIB, MIB);
    take_and_release(512 * KIB);
    ck_assert_int_eq(td_buffer_pool_charge(pool, 512 * KIB, &err), TD_OK);
    expect_usage(512 * KIB, 512 * KIB);
    ck_assert_int_eq(td_buffer_pool_charge(pool, 1, &err), TD_OK);
    expect_usage(512 * KIB + 1, 0);
    td_buffer_pool_discharge(pool, 512 * KIB + 1);
}

TD_TEST(trim_unmaps_buffers_that_stayed_warm_too_long)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_buffer *old = take(64 * KIB), *young = take(64 * KIB);
    struct td_buffer *old_and_large = take(256 * KIB);
    void *young_data = young->data;
    test_clock_stop();
    const int64_t before = td_now_ns();
    td_buffer_unref(old);
    td_buffer_unref(old_and_large);
    const int64_t between = before + 1;
    test_clock_advance(2);
    td_buffer_unref(young);
    td_buffer_pool_trim(pool, before);
    expect_usage(0, 384 * KIB);
    td_buffer_pool_trim(pool, between);
    expect_usage(0, 64 * KIB);
    young = take(64 * KIB);
    ck_assert_ptr_eq(young->data, young_data);
    td_buffer_pool_trim(pool, INT64_MAX); /* what is in use is not warm */
    expect_usage(64 * KIB, 0);
    memset(young->data, 1, young->size);
    td_buffer_unref(young);
}

/* ---- the budget ------------------------------------------------------------------------------ */

TD_TEST(exactly_the_limit_can_be_used)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_buffer *all = take(MIB);
    ck_assert_int_eq(refused(1).status, TD_MEMORY_EXHAUSTED);
    td_buffer_unref(all);
    take_and_release(1);
}

TD_TEST_LOOP(a_request_above_the_limit_is_a_resource_limit, 0, 5)
{
    static const size_t too_large[] = { MIB + 1, 2 * MIB, TIB, SIZE_MAX / 2, SIZE_MAX };
    pool = td_buffer_pool_new(MIB, MIB);
    err = refused(too_large[_i]);
    ck_assert_int_eq(err.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "workspace_bytes");
    ck_assert_uint_ge(err.needed, too_large[_i]);
    ck_assert_uint_eq(err.limit, MIB);
    expect_usage(0, 0);
}

TD_TEST(a_request_that_does_not_fit_now_is_memory_exhausted)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_buffer *others = take(768 * KIB);
    err = refused(512 * KIB);
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
    expect_usage(768 * KIB, 0);
    td_buffer_unref(others);
    take_and_release(512 * KIB);
}

TD_TEST(a_refusal_accepts_a_null_error)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_memory *memory = td_buffer_pool_memory(pool);
    struct td_buffer *all = take(MIB);
    ck_assert_ptr_null(memory->take(memory, 1, TD_IGNORED));
    ck_assert_ptr_null(memory->take(memory, 2 * MIB, TD_IGNORED));
    ck_assert_ptr_null(memory->take(memory, SIZE_MAX, TD_IGNORED));
    ck_assert_int_eq(td_buffer_pool_charge(pool, 1, TD_IGNORED), TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(td_buffer_pool_admit(pool, 0, 2 * MIB, TD_IGNORED), TD_RESOURCE_LIMIT);
    td_buffer_unref(all);
}

TD_TEST(charges_count_like_buffers)
{
    pool = td_buffer_pool_new(MIB, MIB);
    ck_assert_int_eq(td_buffer_pool_charge(pool, 1000, &err),
                     TD_OK); /* charges count exact bytes, not size classes */
    expect_usage(1000, 0);
    ck_assert_int_eq(refused(MIB).status, TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(td_buffer_pool_charge(pool, MIB - 1000, &err), TD_OK);
    ck_assert_int_eq(td_buffer_pool_charge(pool, 1, &err), TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(td_buffer_pool_charge(pool, 0, &err), TD_OK);
    td_buffer_pool_discharge(pool, MIB);
    expect_usage(0, 0);
    take_and_release(MIB);
}

static const struct {
    const char *description;
    uint64_t in_use, bytes;
    td_status status;
} admissions[] = {
    { "the whole limit, nothing in use", 0, MIB, TD_OK },
    { "all that is free", MIB - 10, 10, TD_OK },
    { "nothing, the limit in use", MIB, 0, TD_OK },
    { "one byte more than is free", MIB - 10, 11, TD_MEMORY_EXHAUSTED },
    { "one byte more than the limit", 0, MIB + 1, TD_RESOURCE_LIMIT },
    { "a sum that would overflow", MIB, UINT64_MAX, TD_RESOURCE_LIMIT },
};

TD_TEST_EACH(admit_and_charge_agree, admissions)
{
    pool = td_buffer_pool_new(MIB, MIB);
    ck_assert_int_eq(td_buffer_pool_charge(pool, admissions[_i].in_use, &err), TD_OK);
    ck_assert_msg(td_buffer_pool_admit(pool, 0, admissions[_i].bytes, &err) ==
                      admissions[_i].status,
                  "%s", admissions[_i].description);
    expect_usage(admissions[_i].in_use, 0); /* admission takes nothing */
    ck_assert_msg(td_buffer_pool_charge(pool, admissions[_i].bytes, &err) == admissions[_i].status,
                  "%s", admissions[_i].description);
    td_buffer_pool_discharge(pool, td_buffer_pool_usage(pool).in_use);
}

TD_TEST(warm_buffers_do_not_count_in_admission)
{
    pool = td_buffer_pool_new(MIB, MIB);
    take_and_release(512 * KIB);
    ck_assert_int_eq(td_buffer_pool_admit(pool, 0, MIB, &err), TD_OK);
}

TD_TEST(an_error_does_not_count_the_callers_own_memory_as_in_use)
{
    pool = td_buffer_pool_new(MIB, MIB);
    struct td_buffer *held = take(MIB / 4);
    ck_assert_int_eq(td_buffer_pool_admit(pool, MIB / 4, 3 * MIB / 4, &err), TD_OK);
    ck_assert_int_eq(td_buffer_pool_admit(pool, MIB / 4, 3 * MIB / 4 + 1, &err), TD_RESOURCE_LIMIT);
    ck_assert_uint_eq(err.needed, MIB + 1);
    ck_assert_uint_eq(err.limit, MIB);
    ck_assert_int_eq(td_buffer_pool_admit(pool, 0, 3 * MIB / 4 + 1, &err), TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(td_buffer_pool_admit(pool, MIB / 4, UINT64_MAX, &err), TD_RESOURCE_LIMIT);
    ck_assert_uint_eq(err.needed, UINT64_MAX);
    td_buffer_unref(held);
}

TD_TEST(free_takes_null)
{
    td_buffer_pool_free(NULL);
}

/* ---- many threads ---------------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 1000, HELD = 4 };

struct client {
    unsigned number, seed;
    int refusals;
    pthread_barrier_t *halfway;
};

static void stamp(struct td_buffer *buffer, unsigned char mark)
{
    memset(buffer->data, mark, 64);
    memset((char *)buffer->data + buffer->size - 64, mark, 64);
}

static void expect_stamp(const struct td_buffer *buffer, unsigned char mark)
{
    const unsigned char *bytes = buffer->data;
    for (size_t i = 0; i < 64; i++)
        ck_assert(bytes[i] == mark && bytes[buffer->size - 1 - i] == mark);
}

static void *client(void *argument)
{
    struct client *self = argument;
    struct td_memory *memory = td_buffer_pool_memory(pool);
    struct td_buffer *held[HELD] = { NULL };
    struct td_error error;
    for (int turn = 0; turn < ROUNDS; turn++) {
        if (turn == ROUNDS / 2)
            pthread_barrier_wait(self->halfway);
        const unsigned slot = (unsigned)rand_r(&self->seed) % HELD;
        const unsigned char mark = (unsigned char)(self->number * HELD + slot + 1);
        if (held[slot])
            expect_stamp(held[slot], mark);
        td_buffer_unref(held[slot]);
        const size_t bytes = (size_t)(rand_r(&self->seed) % (128 * 1024));
        held[slot] = memory->take(memory, bytes, &error);
        if (held[slot])
            stamp(held[slot], mark);
        else
            self->refusals++;
        if (td_buffer_pool_charge(pool, bytes, &error) == TD_OK)
            td_buffer_pool_discharge(pool, bytes);
        const struct td_buffer_pool_usage usage = td_buffer_pool_usage(pool);
        ck_assert_uint_le(usage.in_use + usage.warm, usage.limit);
        if (turn % 100 == 0)
            td_buffer_pool_trim(pool, td_now_ns() - 1000000);
    }
    for (int slot = 0; slot < HELD; slot++)
        td_buffer_unref(held[slot]);
    return NULL;
}

TD_TEST(under_load_buffers_never_overlap_and_stay_within_the_limit)
{
    pool = td_buffer_pool_new(MIB, 512 * KIB); /* less than all threads request at once */
    struct client hammers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t halfway; /* at which each thread holds something, or was refused it */
    int refusals = 0;
    pthread_barrier_init(&halfway, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        hammers[i] = (struct client){ .number = i, .seed = i + 1, .halfway = &halfway };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, client, &hammers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        refusals += hammers[i].refusals;
    }
    ck_assert_int_gt(refusals, 0);
    const struct td_buffer_pool_usage usage = td_buffer_pool_usage(pool);
    ck_assert_uint_eq(usage.in_use, 0);
    ck_assert_uint_le(usage.warm, 512 * KIB);
}

static void pool_free(void)
{
    td_buffer_pool_free(pool);
    pool = NULL;
}

TD_FIXTURE(NULL, pool_free);
