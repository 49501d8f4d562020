#include "kernels/buffer.h"
#include "kernels/status.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

static atomic_int released;

static void count_release(struct td_buffer *self)
{
    (void)self;
    atomic_fetch_add(&released, 1);
}

TD_TEST(the_last_reference_releases)
{
    char bytes[4];
    struct td_buffer buffer;
    td_buffer_init(&buffer, bytes, sizeof(bytes), count_release);
    ck_assert_ptr_eq(buffer.data, bytes);
    ck_assert_uint_eq(buffer.size, 4);
    ck_assert_ptr_eq(td_buffer_ref(&buffer), &buffer);
    td_buffer_unref(&buffer);
    ck_assert_int_eq(atomic_load(&released), 0);
    td_buffer_unref(&buffer);
    ck_assert_int_eq(atomic_load(&released), 1);
}

TD_TEST(null_can_be_unreferenced)
{
    td_buffer_unref(NULL);
}

static void *ref_and_unref(void *buffer)
{
    for (int i = 0; i < 10000; i++)
        td_buffer_unref(td_buffer_ref(buffer));
    td_buffer_unref(buffer);
    return NULL;
}

TD_TEST(references_are_counted_from_any_thread)
{
    enum { THREADS = 4 };
    struct td_buffer buffer;
    pthread_t thread[THREADS];
    td_buffer_init(&buffer, NULL, 0, count_release);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, ref_and_unref, td_buffer_ref(&buffer)),
                         0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&released), 0);
    td_buffer_unref(&buffer);
    ck_assert_int_eq(atomic_load(&released), 1);
}

static const size_t sizes[] = { 0, 1, 63, 64, 65, 4096, 1 << 20 };

TD_TEST_LOOP(heap_buffers_begin_on_a_cache_line, 0, (int)(sizeof(sizes) / sizeof(sizes[0])))
{
    struct td_memory *heap = td_memory_heap();
    struct td_error err;
    struct td_buffer *buffer = heap->take(heap, sizes[_i], &err);
    ck_assert_ptr_nonnull(buffer);
    ck_assert_uint_ge(buffer->size, sizes[_i]);
    ck_assert_uint_eq((uintptr_t)buffer->data % 64, 0);
    memset(buffer->data, 1, sizes[_i]);
    td_buffer_unref(buffer);
}

TD_TEST(the_heap_refuses_more_than_there_is)
{
    struct td_memory *heap = td_memory_heap();
    struct td_error err;
    ck_assert_ptr_null(heap->take(heap, SIZE_MAX, &err));
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
    ck_assert_ptr_null(heap->take(heap, SIZE_MAX, TD_IGNORED));
}

static void reset_released(void)
{
    atomic_store(&released, 0);
}

TD_FIXTURE(reset_released, NULL);
