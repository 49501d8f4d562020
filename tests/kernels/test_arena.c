#include "kernels/arena.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdint.h>
#include <string.h>

/* An allocator that counts its buffers in use and fails after a number of allocations. */
struct counting {
    struct td_memory memory;
    int taken, out, allowed;
    size_t largest;
};

struct counted {
    struct td_buffer buffer;
    struct td_buffer *heap;
    struct counting *from;
};

static struct counting memory;
static struct td_arena arena;
static _Alignas(64) char first[1024];

static void release_counted(struct td_buffer *self)
{
    struct counted *counted = (struct counted *)self;
    struct td_buffer *heap = counted->heap;
    counted->from->out--;
    td_buffer_unref(heap); /* counted is inside of it */
}

static struct td_buffer *take(struct td_memory *self, size_t bytes, struct td_error *err)
{
    struct counting *counting = (struct counting *)self;
    if (counting->taken == counting->allowed) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no more");
        return NULL;
    }
    counting->taken++;
    counting->out++;
    counting->largest = bytes > counting->largest ? bytes : counting->largest;
    struct td_buffer *heap = td_memory_heap()->take(td_memory_heap(), bytes + 128, err);
    struct counted *counted = heap->data;
    counted->heap = heap;
    counted->from = counting;
    td_buffer_init(&counted->buffer, (char *)heap->data + 128, bytes, release_counted);
    return &counted->buffer;
}

static void open_arena(void)
{
    memory = (struct counting){ .memory = { .take = take }, .allowed = -1 };
    td_arena_init(&arena, first, sizeof(first), &memory.memory);
}

static void close_arena(void)
{
    td_arena_reset(&arena);
    ck_assert_int_eq(memory.out, 0);
}

static bool in_first_block(const void *pointer)
{
    return (const char *)pointer >= first && (const char *)pointer < first + sizeof(first);
}

TD_TEST(a_large_allocation_has_a_buffer_of_its_own)
{
    struct td_arena own;
    struct td_error err;
    td_arena_init(&own, NULL, 0, td_memory_heap());
    const char *small = td_arena_alloc(&own, 100, 1, &err);
    char *large = td_arena_alloc(&own, 100000, 1, &err);
    ck_assert_ptr_null(td_arena_owner(&own, small));
    ck_assert_ptr_null(td_arena_owner(&own, large + 1));
    struct td_buffer *owner = td_arena_owner(&own, large);
    ck_assert_ptr_nonnull(owner);
    td_buffer_ref(owner);
    large[99999] = 'x';
    td_arena_reset(&own);
    ck_assert_int_eq(((const char *)owner->data)[99999], 'x');
    td_buffer_unref(owner);
}

TD_TEST(small_allocations_come_from_the_first_block)
{
    struct td_error err;
    ck_assert(in_first_block(td_arena_alloc(&arena, 10, 4, &err)));
    ck_assert(in_first_block(td_arena_alloc(&arena, 100, 1, &err)));
    ck_assert_int_eq(memory.taken, 0);
}

TD_TEST(allocations_are_aligned_to_16_large_ones_to_64)
{
    struct td_error err;
    for (size_t size = 1; size < 200; size++) {
        uintptr_t place = (uintptr_t)td_arena_alloc(&arena, size, 1, &err);
        ck_assert_uint_eq(place % 16, 0);
        if (size >= 64)
            ck_assert_uint_eq(place % 64, 0);
    }
}

TD_TEST(the_first_block_may_begin_anywhere)
{
    struct td_error err;
    td_arena_init(&arena, first + 3, 200, &memory.memory);
    char *place = td_arena_alloc(&arena, 100, 1, &err);
    ck_assert(in_first_block(place));
    ck_assert_uint_eq((uintptr_t)place % 64, 0);
}

TD_TEST(an_allocation_that_fits_only_unaligned_gets_a_new_block)
{
    struct td_error err;
    ck_assert(in_first_block(td_arena_alloc(&arena, 8, 1, &err)));
    /* 1016 bytes are left, 960 from the next cache line on. */
    ck_assert(!in_first_block(td_arena_alloc(&arena, 1000, 1, &err)));
}

TD_TEST(allocations_do_not_overlap)
{
    enum { N = 300 };
    struct td_error err;
    unsigned char *place[N];
    for (int i = 0; i < N; i++) {
        place[i] = td_arena_alloc(&arena, (size_t)i, 1, &err);
        memset(place[i], i % 251, (size_t)i);
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++)
            EXPECT(place[i][j] == i % 251, "byte %d of %d", j, i);
}

TD_TEST(the_last_allocation_can_be_shortened)
{
    struct td_error err;
    char *before = td_arena_alloc(&arena, 64, 1, &err);
    char *last = td_arena_alloc(&arena, 512, 1, &err);
    td_arena_trim(&arena, before, 64, 0);
    td_arena_trim(&arena, last, 512, 64);
    const char *next = td_arena_alloc(&arena, 64, 1, &err);
    ck_assert(next >= last + 64 && next <= last + 128);
    ck_assert(in_first_block(td_arena_alloc(&arena, 512, 1, &err)));
}

TD_TEST(an_allocation_of_zero_bytes_is_a_valid_pointer)
{
    struct td_error err;
    char *a = td_arena_alloc(&arena, 0, 8, &err), *b = td_arena_alloc(&arena, 8, 0, &err);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_ne(a, b);
}

TD_TEST(a_product_that_overflows_is_refused)
{
    struct td_error err;
    ck_assert_ptr_null(td_arena_alloc(&arena, SIZE_MAX / 8 + 1, 8, &err));
    ck_assert_int_eq(err.status, TD_RESOURCE_LIMIT);
    ck_assert_int_eq(memory.taken, 0);
    ck_assert_ptr_null(td_arena_alloc(&arena, SIZE_MAX / 8 + 1, 8, TD_IGNORED));
}

TD_TEST(small_allocations_have_further_blocks_in_common)
{
    struct td_error err;
    for (int i = 0; i < 1000; i++) /* at least 32000 bytes */
        ck_assert_ptr_nonnull(td_arena_alloc(&arena, 32, 1, &err));
    ck_assert_int_eq(memory.taken, 1);
}

TD_TEST(a_large_request_has_a_buffer_of_its_size)
{
    struct td_error err;
    char *large = td_arena_alloc(&arena, 1 << 20, 1, &err);
    memset(large, 1, 1 << 20);
    ck_assert_uint_eq(memory.largest, 1 << 20);
    ck_assert_int_eq(memory.taken, 1); /* its list node is in the first block */
    ck_assert(
        in_first_block(td_arena_alloc(&arena, 8, 1, &err))); /* which is still the current block */
}

TD_TEST(an_arena_needs_no_first_block)
{
    struct td_error err;
    td_arena_init(&arena, NULL, 0, &memory.memory);
    memset(td_arena_alloc(&arena, 100, 1, &err), 1, 100);
    memset(td_arena_alloc(&arena, 100000, 1, &err), 1, 100000);
    ck_assert_int_eq(memory.taken, 2);
}

TD_TEST(reset_releases_all_and_starts_again)
{
    struct td_error err;
    void *begin = td_arena_alloc(&arena, 8, 1, &err);
    for (int i = 0; i < 5000; i++)
        ck_assert_ptr_nonnull(td_arena_alloc(&arena, (size_t)i, 7, &err));
    ck_assert_int_gt(memory.out, 3);
    td_arena_reset(&arena);
    ck_assert_int_eq(memory.out, 0);
    ck_assert_ptr_eq(td_arena_alloc(&arena, 8, 1, &err), begin);
    td_arena_reset(&arena);
    memset(first, 0, sizeof(first)); /* not poisoned any more */
}

TD_TEST(without_memory_there_is_an_error_and_no_leak)
{
    struct td_error err;
    memory.allowed = 0;
    ck_assert_ptr_null(td_arena_alloc(&arena, 1 << 20, 1, &err));
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
    ck_assert_ptr_nonnull(td_arena_alloc(&arena, 800, 1, &err));
    ck_assert_ptr_null(td_arena_alloc(&arena, 800, 1, &err));
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
}

TD_TEST(a_large_buffer_without_memory_for_its_list_node_is_released)
{
    struct td_error err;
    td_arena_init(&arena, NULL, 0, &memory.memory);
    memory.allowed = 1; /* memory for the buffer, none for the block of its list node */
    ck_assert_ptr_null(td_arena_alloc(&arena, 1 << 20, 1, &err));
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(memory.out, 0);
}

TD_TEST(reserved_bytes_are_allocated_without_memory)
{
    struct td_error err;
    for (int in_first = 0; in_first < 2; in_first++) {
        memory.allowed = -1;
        const size_t bytes = in_first ? 512 : TD_ARENA_RESERVE;
        ck_assert_int_eq(td_arena_reserve(&arena, bytes, &err), TD_OK);
        ck_assert_int_eq(memory.taken, in_first ? 0 : 1);
        memory.allowed = memory.taken;
        for (size_t had = 0; had < bytes; had += 128)
            ck_assert_ptr_nonnull(td_arena_alloc(&arena, 64, 1, &err));
        td_arena_reset(&arena);
        memory.taken = 0;
    }
    memory.allowed = 0;
    ck_assert_int_eq(td_arena_reserve(&arena, TD_ARENA_RESERVE, &err), TD_MEMORY_EXHAUSTED);
}

TD_TEST(a_kept_buffer_lives_until_reset)
{
    struct td_error err;
    struct td_buffer *buffer = take(&memory.memory, 100, &err);
    ck_assert(td_arena_keep(&arena, td_buffer_ref(buffer), &err));
    td_buffer_unref(buffer);
    ck_assert_int_eq(memory.out, 1);
    td_arena_reset(&arena);
    ck_assert_int_eq(memory.out, 0);
}

TD_TEST(a_kept_buffer_can_be_dropped_before_reset)
{
    struct td_error err;
    struct td_buffer *buffers[3];
    for (int i = 0; i < 3; i++) {
        buffers[i] = take(&memory.memory, 100, &err);
        ck_assert(td_arena_keep(&arena, buffers[i], &err));
    }
    const char *text = td_arena_text(&arena, "still there", 11, &err);
    td_arena_drop(&arena, buffers[1]);
    ck_assert_int_eq(memory.out, 2);
    td_arena_drop(&arena, buffers[1]); /* a buffer that the arena does not hold: no effect */
    td_arena_drop(&arena, buffers[2]);
    ck_assert_int_eq(memory.out, 1);
    ck_assert_str_eq(text, "still there");
    td_arena_reset(&arena);
    ck_assert_int_eq(memory.out, 0);
}

TD_TEST(a_buffer_that_cannot_be_kept_is_dropped)
{
    struct td_error err;
    td_arena_init(&arena, NULL, 0, &memory.memory);
    struct td_buffer *buffer = take(&memory.memory, 100, &err);
    memory.allowed = memory.taken;
    ck_assert(!td_arena_keep(&arena, buffer, &err));
    ck_assert_int_eq(err.status, TD_MEMORY_EXHAUSTED);
    ck_assert_int_eq(memory.out, 0);
}

TD_TEST(many_buffers_are_kept)
{
    struct td_error err;
    for (int i = 0; i < 5000; i++) /* their list nodes fill more than one block */
        ck_assert(td_arena_keep(&arena, take(&memory.memory, 1, &err), &err));
    td_arena_reset(&arena);
    ck_assert_int_eq(memory.out, 0);
}

TD_TEST(a_text_is_copied_and_ends_in_nul)
{
    struct td_error err;
    char *copy = td_arena_text(&arena, "axis=1", 4, &err);
    ck_assert_str_eq(copy, "axis");
    ck_assert_str_eq(td_arena_text(&arena, "", 0, &err), "");
    memory.allowed = 0;
    ck_assert_ptr_null(td_arena_text(&arena, first, sizeof(first), &err));
}

#if defined(__SANITIZE_ADDRESS__)
#define ASAN_SEES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN_SEES
#endif
#endif

#ifdef ASAN_SEES
#include <sanitizer/asan_interface.h>

TD_TEST(the_sanitizer_detects_an_overrun)
{
    struct td_error err;
    for (size_t size = 1; size < 100; size++) {
        char *place = td_arena_alloc(&arena, size, 1, &err);
        ck_assert_ptr_null(__asan_region_is_poisoned(place, size));
        ck_assert_int_eq(__asan_address_is_poisoned(place + size), 1);
        td_arena_reset(&arena);
        ck_assert_int_eq(__asan_address_is_poisoned(place + size), 0);
    }
}

/* A pool of one block, which is reused after its release. */
static _Alignas(64) char pool[1 << 16];

static void keep_block(struct td_buffer *self)
{
    (void)self;
}

static struct td_buffer *take_block(struct td_memory *self, size_t bytes, struct td_error *err)
{
    static struct td_buffer block;
    (void)self;
    (void)err;
    ck_assert_uint_le(bytes, sizeof(pool));
    td_buffer_init(&block, pool, sizeof(pool), keep_block);
    return &block;
}

TD_TEST(blocks_go_back_to_the_pool_unpoisoned)
{
    struct td_memory blocks = { .take = take_block };
    struct td_error err;
    td_arena_init(&arena, NULL, 0, &blocks);
    td_arena_alloc(&arena, 8, 1, &err);
    ck_assert_ptr_nonnull(__asan_region_is_poisoned(pool, sizeof(pool)));
    td_arena_reset(&arena);
    ck_assert_ptr_null(__asan_region_is_poisoned(pool, sizeof(pool)));
}
#endif

TD_FIXTURE(open_arena, close_arena);
