#include "gpu/reference/reference.h"
#include "server/devices/staging.h"
#include "server/memory/buffer_pool.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* A reference device with a budget and staging memory. */
struct setup {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_buffer_pool *pool;
    struct td_staging *staging;
};

static struct setup setup;

static void setup_open(uint64_t budget, uint64_t limit)
{
    const struct td_device_options options = { .text = "" };
    struct td_error err;
    td_device_reference_reset();
    setup.api = td_device_reference();
    ck_assert_int_eq(setup.api->open(&options, &setup.device, &err), TD_OK);
    setup.pool = td_buffer_pool_new(budget, 0);
    setup.staging = td_staging_new(setup.api, setup.device, setup.pool, limit);
    ck_assert_ptr_nonnull(setup.staging);
}

static void setup_close(void)
{
    if (!setup.device)
        return;
    td_staging_free(setup.staging);
    setup.api->close(setup.device);
    ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
    ck_assert_uint_eq(td_device_reference_counts().misuses, 0);
    ck_assert_uint_eq(td_buffer_pool_usage(setup.pool).in_use, 0);
    td_buffer_pool_free(setup.pool);
}

static struct td_buffer *take(size_t bytes)
{
    struct td_error err;
    struct td_buffer *buffer = td_staging_take(setup.staging, bytes, &err);
    ck_assert_msg(buffer != NULL, "%zu bytes: %s", bytes, err.message);
    ck_assert_uint_ge(buffer->size, bytes);
    return buffer;
}

static void expect_refused(size_t bytes)
{
    struct td_error err;
    ck_assert_ptr_null(td_staging_take(setup.staging, bytes, &err));
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
}

TD_TEST(a_released_buffer_is_reused)
{
    setup_open(64 * MIB, 16 * MIB);
    struct td_buffer *first = take(100 * KIB);
    const void *data = first->data;
    ck_assert(!td_staging_all_returned(setup.staging));
    td_buffer_unref(first);
    ck_assert(td_staging_all_returned(setup.staging));
    const uint64_t bytes = td_staging_bytes(setup.staging);
    struct td_buffer *second = take(90 * KIB);
    ck_assert_ptr_eq(second->data, data);
    ck_assert_uint_eq(td_staging_bytes(setup.staging), bytes);
    td_buffer_unref(second);
}

TD_TEST(staging_is_scarce_when_more_than_half_is_in_use)
{
    setup_open(64 * MIB, 16 * MIB);
    struct td_buffer *other = td_memory_heap()->take(td_memory_heap(), 64, TD_IGNORED);
    struct td_buffer *a = take(4 * MIB), *b = take(4 * MIB);
    ck_assert(!td_staging_is_scarce(a));
    struct td_buffer *c = take(16 * KIB);
    ck_assert(td_staging_is_scarce(a));
    ck_assert(td_staging_is_scarce(c));
    ck_assert(!td_staging_is_scarce(other));
    td_buffer_unref(b);
    ck_assert(!td_staging_is_scarce(a)); /* a free buffer is not in use */
    b = take(4 * MIB);
    ck_assert(td_staging_is_scarce(b));
    td_buffer_unref(a);
    td_buffer_unref(b);
    td_buffer_unref(c);
    td_buffer_unref(other);
}

TD_TEST(a_buffer_more_than_twice_too_large_is_not_reused)
{
    setup_open(64 * MIB, 16 * MIB);
    struct td_buffer *large = take(4 * MIB);
    const void *data = large->data;
    td_buffer_unref(large);
    struct td_buffer *small = take(100);
    ck_assert_ptr_ne(small->data, data);
    struct td_buffer *half = take(2 * MIB);
    ck_assert_ptr_eq(half->data, data);
    td_buffer_unref(small);
    td_buffer_unref(half);
}

TD_TEST(zero_bytes_give_a_buffer_too)
{
    setup_open(64 * MIB, 16 * MIB);
    struct td_buffer *buffer = take(0);
    ck_assert_ptr_nonnull(buffer->data);
    td_buffer_unref(buffer);
}

TD_TEST(free_buffers_are_released_to_make_room_for_other_sizes)
{
    setup_open(64 * MIB, 4 * MIB);
    struct td_buffer *buffers[4];
    for (int i = 0; i < 4; i++)
        buffers[i] = take(MIB);
    for (int i = 0; i < 4; i++)
        td_buffer_unref(buffers[i]);
    td_buffer_unref(take(4 * MIB));
    ck_assert_uint_eq(td_staging_bytes(setup.staging), 4 * MIB);
    td_buffer_unref(take(MIB));
    ck_assert_uint_le(td_staging_bytes(setup.staging), 4 * MIB);
}

TD_TEST(buffers_in_use_stay_within_the_limit)
{
    setup_open(64 * MIB, 4 * MIB);
    struct td_buffer *held = take(3 * MIB);
    expect_refused(2 * MIB);
    expect_refused(5 * MIB);
    expect_refused(SIZE_MAX);
    struct td_buffer *rest = take(MIB);
    td_buffer_unref(held);
    td_buffer_unref(rest);
}

TD_TEST(free_and_used_buffers_count_against_the_budget)
{
    struct td_error err;
    setup_open(8 * MIB, 64 * MIB);
    td_buffer_unref(take(2 * MIB));
    ck_assert_uint_eq(td_buffer_pool_usage(setup.pool).in_use, 2 * MIB); /* free, but pinned */
    ck_assert_int_eq(td_buffer_pool_charge(setup.pool, 3 * MIB, &err), TD_OK);
    /* The free buffer is released to make room in the budget, as for the limit. */
    struct td_buffer *held = take(5 * MIB);
    expect_refused(MIB);
    td_buffer_unref(held);
    td_buffer_pool_discharge(setup.pool, 3 * MIB);
}

TD_TEST(trim_releases_free_buffers)
{
    setup_open(64 * MIB, 16 * MIB);
    struct td_buffer *held = take(MIB), *free_ones[2];
    for (int i = 0; i < 2; i++)
        free_ones[i] = take((size_t)(i + 1) * MIB);
    for (int i = 0; i < 2; i++)
        td_buffer_unref(free_ones[i]);
    ck_assert_uint_eq(td_staging_bytes(setup.staging), 4 * MIB);
    td_staging_trim(setup.staging);
    ck_assert_uint_eq(td_staging_bytes(setup.staging), MIB);
    ck_assert_uint_eq(td_buffer_pool_usage(setup.pool).in_use, MIB);
    memset(held->data, 1, MIB);
    td_buffer_unref(take(2 * MIB)); /* as much as before is available */
    td_buffer_unref(held);
    td_staging_trim(setup.staging);
    td_staging_trim(setup.staging);
    ck_assert_uint_eq(td_staging_bytes(setup.staging), 0);
}

static void *unref_later(void *buffer)
{
    td_buffer_unref(buffer);
    return NULL;
}

TD_TEST(any_thread_may_release_a_buffer)
{
    enum { THREADS = 8 };
    setup_open(64 * MIB, 16 * MIB);
    for (int round = 0; round < 20; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            struct td_buffer *buffer = take((size_t)(i + 1) * 10000);
            ck_assert_int_eq(pthread_create(&threads[i], NULL, unref_later, buffer), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    ck_assert(td_staging_all_returned(setup.staging));
}

TD_TEST(buffers_of_a_lost_device_may_be_released_late)
{
    setup_open(64 * MIB, 16 * MIB);
    struct td_buffer *early = take(MIB), *late = take(MIB), *last = take(MIB);
    td_buffer_unref(early);
    td_staging_abandon(setup.staging);
    ck_assert_uint_eq(td_buffer_pool_usage(setup.pool).in_use, 0);
    td_buffer_pool_free(setup.pool);
    ((char *)late->data)[0] = 1;
    td_buffer_unref(late);
    ((char *)last->data)[0] = 1;
    td_buffer_unref(last);
    setup.api->close(setup.device); /* frees the memory, none of which was released */
    ck_assert_uint_eq(td_device_reference_counts().leaked, 3);
    td_device_reference_reset();
    setup.device = NULL;
}

static td_status host_alloc_nothing(struct td_device *device, size_t bytes, void **out,
                                    struct td_error *err)
{
    (void)device, (void)bytes, (void)out;
    return td_error_set(err, TD_MEMORY_EXHAUSTED, "no pinned memory");
}

TD_TEST(memory_that_the_device_refuses_does_not_count)
{
    setup_open(MIB, MIB);
    struct td_device_api refusing = *setup.api;
    refusing.host_alloc = host_alloc_nothing;
    struct td_staging *staging = td_staging_new(&refusing, setup.device, setup.pool, MIB);
    struct td_error err;
    ck_assert_ptr_null(td_staging_take(staging, 100 * KIB, &err));
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
    ck_assert_uint_eq(td_buffer_pool_usage(setup.pool).in_use, 0);
    ck_assert_uint_eq(td_staging_bytes(staging), 0);
    ck_assert(td_staging_all_returned(staging));
    td_staging_free(staging);
}

/* All of the limit can be used by two buffers, and not one byte more. */
TD_TEST(the_limit_holds_for_both_buffers_of_a_launch)
{
    struct td_error err;
    setup_open(4 * MIB, MIB);
    ck_assert_int_eq(td_staging_check(setup.staging, MIB / 2, MIB / 2, &err), TD_OK);
    ck_assert_int_eq(td_staging_check(setup.staging, MIB / 2, MIB / 2 + 1, &err),
                     TD_RESOURCE_LIMIT);
    struct td_buffer *a = take(MIB / 2), *b = take(MIB / 2);
    expect_refused(1);
    td_buffer_unref(a);
    td_buffer_unref(b);
}

TD_FIXTURE(NULL, setup_close);
