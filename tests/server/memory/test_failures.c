/* Makes every system call and allocation of the buffer pool and of shared memory fail: what they
 * took is given back. */
#include "server/memory/buffer_pool.h"
#include "server/memory/fault_guard.h"
#include "server/memory/shared_memory.h"
#include "tests/server/faults.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/mman.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { PAGE = 4096 };
static const struct fault none = { 0 };
static struct td_error err;

/* What the process holds. */
struct held {
    int descriptors, mappings, guards;
};

static struct held held_now(void)
{
    return (struct held){ faults_descriptors(), faults_mappings(), td_guard_ranges() };
}

static void expect_held(struct held want, const char *when)
{
    const struct held now = held_now();
    EXPECT(now.descriptors == want.descriptors && now.mappings == want.mappings &&
               now.guards == want.guards,
           "%s: %d descriptors, %d mappings, %d guarded ranges; not %d, %d, %d", when,
           now.descriptors, now.mappings, now.guards, want.descriptors, want.mappings, want.guards);
}

/* ---- shared memory --------------------------------------------------------------------------- */

static char key[64];
static int object = -1;
static struct td_shm *shm;

static void open_object(void)
{
    snprintf(key, sizeof key, "/tensord-test-failures-%d", (int)getpid());
    object = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(object, 0);
    ck_assert_int_eq(ftruncate(object, 2 * PAGE), 0);
    shm = td_shm_new();
    ck_assert_ptr_nonnull(shm);
}

static void close_object(void)
{
    td_shm_free(shm);
    shm_unlink(key);
    close(object);
}

static td_status add_region(const char *name)
{
    return td_shm_register(shm, name, key, 0, PAGE, &err);
}

TD_TEST(a_region_that_cannot_be_registered_leaves_nothing_behind)
{
    const struct held before = held_now();
    faults_begin(&none);
    const td_status first = add_region("region");
    faults_end();
    ck_assert_int_eq(first, TD_OK);
    const int calls = faults_calls();
    const struct held registered = held_now();
    ck_assert_int_eq(registered.descriptors, before.descriptors + 1);
    ck_assert_int_eq(registered.mappings, before.mappings + 1);
    ck_assert_int_eq(registered.guards, before.guards + 1);
    td_shm_unregister(shm, "region");
    expect_held(before, "unregistered");
    for (int at = 1; at <= calls; at++) {
        bool memory;
        const struct fault fault = { .at = at, .reason = EMFILE };
        faults_begin(&fault);
        const td_status status = add_region("region");
        faults_end();
        EXPECT(status != TD_OK, "%s fails, but not the call", faults_function(at, &memory));
        expect_held(before, faults_function(at, &memory));
    }
    ck_assert_int_eq(add_region("region"), TD_OK);
}

TD_TEST(a_refused_region_leaves_nothing_behind)
{
    ck_assert_int_eq(add_region("region"), TD_OK);
    const struct held before = held_now();
    ck_assert_int_eq(add_region("region"), TD_INVALID_ARGUMENT);
    expect_held(before, "a name that is taken");
    ck_assert_int_eq(td_shm_register(shm, "large", key, 0, 3 * PAGE, &err), TD_INVALID_ARGUMENT);
    expect_held(before, "a region beyond its object");
}

TD_TEST(a_region_above_the_limit_leaves_nothing_behind)
{
    char name[16];
    for (int i = 0; i < TD_SHM_REGIONS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        EXPECT(add_region(name) == TD_OK, "%s: %s", name, err.message);
    }
    const struct held before = held_now();
    ck_assert_int_eq(add_region("one more"), TD_RESOURCE_LIMIT);
    expect_held(before, "too many regions");
}

TD_TEST(without_a_free_guard_a_region_leaves_nothing_behind)
{
    static int guards[TD_GUARD_RANGES];
    const struct held before = held_now();
    int n = 0;
    while (n < TD_GUARD_RANGES && (guards[n] = td_guard_add(guards, PAGE)) >= 0)
        n++;
    ck_assert_int_eq(td_guard_ranges(), TD_GUARD_RANGES);
    ck_assert_int_eq(td_guard_add(guards, PAGE), -1);
    const struct held full = held_now();
    ck_assert_int_eq(add_region("region"), TD_RESOURCE_LIMIT);
    expect_held(full, "no guard is left");
    td_guard_remove(guards[--n]);
    ck_assert_int_eq(add_region("region"), TD_OK);
    ck_assert_int_eq(td_guard_ranges(), TD_GUARD_RANGES);
    td_shm_unregister(shm, "region");
    while (n > 0)
        td_guard_remove(guards[--n]);
    expect_held(before, "all removed");
}

/* ---- the buffer pool ------------------------------------------------------------------------- */

enum { LIMIT = 1 << 20 };

TD_TEST(a_buffer_that_cannot_be_mapped_is_not_counted)
{
    struct td_buffer_pool *pool = td_buffer_pool_new(LIMIT, LIMIT);
    struct td_memory *memory = td_buffer_pool_memory(pool);
    const struct held before = held_now();
    faults_begin(&none);
    struct td_buffer *buffer = memory->take(memory, LIMIT, &err);
    faults_end();
    ck_assert_ptr_nonnull(buffer);
    td_buffer_unref(buffer);
    const int calls = faults_calls();
    ck_assert_int_eq(faults_mappings(), before.mappings + 1); /* warm */
    td_buffer_pool_trim(pool, INT64_MAX);
    expect_held(before, "trimmed");
    for (int at = 1; at <= calls; at++) {
        bool is_memory;
        const struct fault fault = { .at = at, .reason = ENOMEM };
        const char *function = faults_function(at, &is_memory);
        faults_begin(&fault);
        buffer = memory->take(memory, LIMIT, &err);
        faults_end();
        EXPECT(!buffer && err.status == TD_MEMORY_EXHAUSTED, "%s", function);
        ck_assert_uint_eq(td_buffer_pool_usage(pool).in_use, 0);
        expect_held(before, function);
    }
    buffer = memory->take(memory, LIMIT, &err); /* all of it is free */
    ck_assert_ptr_nonnull(buffer);
    td_buffer_unref(buffer);
    td_buffer_pool_free(pool);
    expect_held(before, "freed");
}

TD_TEST(warm_buffers_that_are_evicted_are_unmapped)
{
    struct td_buffer_pool *pool = td_buffer_pool_new(LIMIT, LIMIT);
    struct td_memory *memory = td_buffer_pool_memory(pool);
    const struct held before = held_now();
    td_buffer_unref(memory->take(memory, LIMIT / 2, &err));
    td_buffer_unref(memory->take(memory, LIMIT / 4, &err));
    ck_assert_int_eq(faults_mappings(), before.mappings + 2);
    struct td_buffer *all = memory->take(memory, LIMIT, &err);
    ck_assert_ptr_nonnull(all);
    ck_assert_int_eq(faults_mappings(), before.mappings + 1);
    td_buffer_unref(all);
    td_buffer_pool_free(pool);
    expect_held(before, "freed");
}

TD_TEST(buffers_above_the_warm_limit_are_unmapped)
{
    struct td_buffer_pool *pool = td_buffer_pool_new(LIMIT, LIMIT / 4);
    struct td_memory *memory = td_buffer_pool_memory(pool);
    const struct held before = held_now();
    td_buffer_unref(memory->take(memory, LIMIT / 4 + 1, &err));
    expect_held(before, "one byte above the warm limit");
    td_buffer_unref(memory->take(memory, LIMIT / 4, &err));
    ck_assert_int_eq(faults_mappings(), before.mappings + 1);
    td_buffer_pool_free(pool);
    expect_held(before, "freed");
}

TD_FIXTURE(open_object, close_object);
