#include "gpu/reference/reference.h"
#include "server/devices/table_cache.h"
#include "tests/server/folder.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

/* A reference device with two streams and room for so many tables of KIB bytes. */
enum { KIB = 1024 };

struct setup {
    const struct td_device_api *api;
    struct td_device *device;
    struct td_device_stream *streams[2];
    struct td_table_cache *cache;
};

static struct setup setup;

static void setup_open(uint64_t room)
{
    const struct td_device_options options = { .text = "", .memory = room * KIB };
    struct td_error err;
    td_device_reference_reset();
    setup.api = td_device_reference();
    ck_assert_int_eq(setup.api->open(&options, &setup.device, &err), TD_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(setup.api->stream_open(setup.device, &setup.streams[i], &err), TD_OK);
    setup.cache = td_table_cache_new(setup.api, setup.device);
    ck_assert_ptr_nonnull(setup.cache);
}

enum { MOST_TABLES = 8 };
static struct td_buffer *owners[MOST_TABLES]; /* of the tables; NULL once dropped */
static int n_owners;

static void drop(const struct td_tensor *table)
{
    for (int i = 0; i < n_owners; i++)
        if (owners[i] == table->owner)
            owners[i] = NULL;
    td_buffer_unref(table->owner);
}

/* What is left of the device and the tables; the device is NULL if the test has closed it. */
static void setup_close(void)
{
    if (setup.device) {
        td_table_cache_free(setup.cache);
        for (int i = 0; i < 2; i++)
            setup.api->stream_close(setup.streams[i]);
        setup.api->close(setup.device);
        ck_assert_uint_eq(td_device_reference_counts().leaked, 0);
        ck_assert_uint_eq(td_device_reference_counts().misuses, 0);
    }
    while (n_owners > 0)
        td_buffer_unref(owners[--n_owners]);
}

/* One version of a table, of `size` bytes that are all `fill`. If `drop` does not drop its owner,
 * the fixture does. */
static struct td_tensor version(size_t size, int fill)
{
    struct td_tensor table = { .dtype = TD_DTYPE_UINT8,
                               .shape = { .rank = 1, .dim = { (int64_t)size } },
                               .numel = (int64_t)size,
                               .bytes = size };
    table.owner = td_memory_heap()->take(td_memory_heap(), size, TD_IGNORED);
    ck_assert_int_lt(n_owners, MOST_TABLES);
    owners[n_owners++] = table.owner;
    table.data = table.owner->data;
    memset(table.data, fill, size);
    return table;
}

static struct td_device_table *use(const struct td_tensor *table, int stream)
{
    struct td_device_table *used;
    struct td_error err;
    bool submitted = false;
    EXPECT_OK(
        td_table_cache_use(setup.cache, table, setup.streams[stream], &used, &submitted, &err),
        &err);
    return used;
}

/* Uses a table once. */
static void touch(const struct td_tensor *table)
{
    struct td_device_table *used = use(table, 0);
    ck_assert_int_eq(memcmp(td_device_table_data(used), table->data, table->bytes), 0);
    td_table_cache_finish_uploads(setup.cache, setup.streams[0]);
    td_table_cache_unuse(setup.cache, used);
}

static bool has(const struct td_tensor *table)
{
    return td_table_cache_has(setup.cache, table);
}

/* No room for it as a table or as other memory. */
static void expect_no_room(const struct td_tensor *table)
{
    struct td_device_table *used;
    struct td_error err;
    void *memory;
    bool submitted = false;
    ck_assert_int_eq(
        td_table_cache_use(setup.cache, table, setup.streams[0], &used, &submitted, &err),
        TD_MEMORY_EXHAUSTED);
    ck_assert(!submitted);
    ck_assert_int_eq(td_table_cache_alloc(setup.cache, table->bytes, &memory, &err),
                     TD_MEMORY_EXHAUSTED);
}

TD_TEST(a_table_is_uploaded_once)
{
    setup_open(8);
    struct td_tensor table = version(KIB, 1);
    ck_assert(!has(&table));
    for (int i = 0; i < 3; i++)
        touch(&table);
    ck_assert(has(&table));
    ck_assert_uint_eq(td_device_reference_counts().copies_to_device, 1);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).bytes, KIB);
}

TD_TEST(an_empty_table_has_an_address)
{
    setup_open(8);
    struct td_tensor table = version(0, 0);
    struct td_device_table *used = use(&table, 0);
    ck_assert_ptr_nonnull(td_device_table_data(used));
    td_table_cache_unuse(setup.cache, used);
}

TD_TEST(other_streams_wait_until_the_upload_has_finished)
{
    setup_open(8);
    struct td_tensor table = version(KIB, 1);
    ck_assert(!td_table_cache_uploading(setup.cache, &table, setup.streams[1]));
    struct td_device_table *used = use(&table, 0);
    ck_assert(!td_table_cache_uploading(setup.cache, &table, setup.streams[0]));
    ck_assert(td_table_cache_uploading(setup.cache, &table, setup.streams[1]));
    ck_assert(!has(&table));
    td_table_cache_finish_uploads(setup.cache, setup.streams[1]); /* another stream */
    ck_assert(td_table_cache_uploading(setup.cache, &table, setup.streams[1]));
    td_table_cache_finish_uploads(setup.cache, setup.streams[0]);
    ck_assert(!td_table_cache_uploading(setup.cache, &table, setup.streams[1]));
    ck_assert(has(&table));
    td_table_cache_unuse(setup.cache, used);
}

TD_TEST(the_least_recently_used_table_is_evicted_first)
{
    struct td_tensor tables[4];
    setup_open(3);
    for (int i = 0; i < 4; i++)
        tables[i] = version(KIB, i);
    for (int i = 0; i < 3; i++)
        touch(&tables[i]);
    touch(&tables[0]);
    touch(&tables[3]); /* takes the place of 1 */
    ck_assert(has(&tables[0]));
    ck_assert(!has(&tables[1]));
    ck_assert(has(&tables[2]));
    ck_assert(has(&tables[3]));
    ck_assert_uint_eq(td_table_cache_count(setup.cache).evicted, 1);
}

TD_TEST(kept_tables_are_evicted_last)
{
    struct td_tensor tables[3];
    setup_open(2);
    for (int i = 0; i < 3; i++)
        tables[i] = version(KIB, i);
    struct td_device_table *kept = use(&tables[0], 0);
    td_device_table_keep(kept);
    td_table_cache_unuse(setup.cache, kept);
    touch(&tables[1]);
    touch(&tables[2]);
    ck_assert(has(&tables[0]));
    ck_assert(!has(&tables[1]));
    struct td_tensor large = version(2 * KIB, 7);
    touch(&large);
    ck_assert(!has(&tables[0]));
}

TD_TEST(a_table_in_use_is_never_evicted)
{
    setup_open(2);
    struct td_tensor table = version(KIB, 1), large = version(2 * KIB, 2);
    struct td_device_table *used = use(&table, 0), *other;
    struct td_error err;
    void *memory;
    bool submitted = false;
    ck_assert_int_eq(
        td_table_cache_use(setup.cache, &large, setup.streams[1], &other, &submitted, &err),
        TD_MEMORY_EXHAUSTED);
    ck_assert(!submitted);
    ck_assert_int_eq(td_table_cache_alloc(setup.cache, 2 * KIB, &memory, &err),
                     TD_MEMORY_EXHAUSTED);
    td_table_cache_unuse(setup.cache, used);
    ck_assert_int_eq(td_table_cache_alloc(setup.cache, 2 * KIB, &memory, &err), TD_OK);
    ck_assert(!has(&table));
    setup.api->free(setup.device, memory);
}

TD_TEST(an_allocation_that_can_never_fit_evicts_no_table)
{
    struct td_tensor tables[2], larger = version(4 * KIB, 2), large = version(3 * KIB, 3);
    setup_open(3);
    for (int i = 0; i < 2; i++) {
        tables[i] = version(KIB, i);
        touch(&tables[i]);
    }
    expect_no_room(&larger); /* not even on a device without tables */
    struct td_device_table *used = use(&tables[0], 0);
    expect_no_room(&large); /* not beside the one in use */
    for (int i = 0; i < 2; i++)
        ck_assert(has(&tables[i]));
    ck_assert_uint_eq(td_table_cache_count(setup.cache).evicted, 0);
    td_table_cache_unuse(setup.cache, used);
    touch(&large);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).evicted, 2);
}

/* A device whose memory comes back when its work is complete. */
static struct {
    struct td_device *device;
    void *memory[4];
    int n;
} freeing;

static void free_later(struct td_device *device, void *memory)
{
    freeing.device = device;
    freeing.memory[freeing.n++] = memory;
}

static void complete_work(void)
{
    while (freeing.n > 0)
        td_device_reference()->free(freeing.device, freeing.memory[--freeing.n]);
}

static void info_with_freeing(struct td_device *device, struct td_device_info *out)
{
    td_device_reference()->info(device, out);
    out->memory_freeing = (uint64_t)freeing.n * KIB;
    out->memory_used -= out->memory_freeing;
}

TD_TEST(what_work_still_uses_is_awaited_and_not_evicted_twice)
{
    struct td_tensor tables[3];
    struct td_error err;
    void *memory;
    struct td_device_api later = *td_device_reference();
    later.free = free_later;
    later.info = info_with_freeing;
    setup_open(3);
    td_table_cache_free(setup.cache);
    setup.cache = td_table_cache_new(&later, setup.device);
    for (int i = 0; i < 3; i++) {
        tables[i] = version(KIB, i);
        touch(&tables[i]);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(td_table_cache_alloc(setup.cache, KIB, &memory, &err),
                         TD_MEMORY_EXHAUSTED);
    ck_assert(!has(&tables[0]) && has(&tables[1]) && has(&tables[2]));
    complete_work();
    ck_assert_int_eq(td_table_cache_alloc(setup.cache, KIB, &memory, &err), TD_OK);
    setup.api->free(setup.device, memory);
    td_table_cache_free(setup.cache);
    complete_work();
    setup.cache = NULL;
}

TD_TEST(a_version_without_other_references_is_dropped)
{
    setup_open(8);
    struct td_tensor old = version(KIB, 1), current = version(KIB, 2);
    touch(&old);
    touch(&current);
    td_table_cache_drop_stale(setup.cache);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).tables, 2);
    struct td_device_table *used = use(&old, 0);
    drop(&old); /* replaced */
    td_table_cache_drop_stale(setup.cache);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).tables, 2); /* a batch reads it */
    td_table_cache_unuse(setup.cache, used);
    td_table_cache_drop_stale(setup.cache);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).tables, 1);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).bytes, KIB);
    ck_assert(has(&current));
}

/* The tensor that the store makes of a table put under `name`, referenced until the test ends. */
static struct td_tensor stored(struct td_store *store, const char *name, int fill)
{
    const struct td_store_write write = { .name = name };
    struct td_tensor table = version(KIB, fill);
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    ck_assert_msg(td_store_put(store, &write, &table, &test_arena, &listing, &created, &err) ==
                      TD_OK,
                  "%s", err.message);
    drop(&table);
    return *listing.tensor;
}

TD_TEST(a_replaced_version_is_dropped_at_the_next_upload)
{
    struct td_store *store = open_at("");
    setup_open(8);
    const struct td_tensor old = stored(store, "table", 1), other = stored(store, "other", 2);
    touch(&old);
    touch(&other);
    const struct td_tensor current = stored(store, "table", 3);
    ck_assert(has(&old)); /* the store does not notify devices */
    touch(&current);
    ck_assert(!has(&old)); /* although this test still references it */
    ck_assert(has(&other));
    ck_assert(has(&current));
    ck_assert_uint_eq(td_table_cache_count(setup.cache).evicted, 0); /* there was room */
    td_store_free(store);
}

TD_TEST(a_deleted_version_is_dropped_too)
{
    const struct td_store_write write = { .name = "table" };
    struct td_error err;
    struct td_store *store = open_at("");
    setup_open(8);
    const struct td_tensor table = stored(store, "table", 1);
    touch(&table);
    td_table_cache_drop_stale(setup.cache);
    ck_assert(has(&table));
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
    td_table_cache_drop_stale(setup.cache);
    ck_assert(!has(&table)); /* although this test still references it */
    td_store_free(store);
}

TD_TEST(two_tables_of_one_owner_are_dropped_with_it)
{
    setup_open(8);
    struct td_tensor whole = version(2 * KIB, 1), half = whole;
    half.bytes = KIB;
    half.numel = half.shape.dim[0] = KIB;
    touch(&whole);
    touch(&half);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).tables, 2);
    td_table_cache_drop_stale(setup.cache);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).tables, 2);
    drop(&whole);
    td_table_cache_drop_stale(setup.cache);
    ck_assert_uint_eq(td_table_cache_count(setup.cache).tables, 0);
}

TD_TEST(stale_tables_are_dropped_before_others_are_evicted)
{
    setup_open(2);
    struct td_tensor first = version(KIB, 1), gone = version(KIB, 2), next = version(KIB, 3);
    touch(&first);
    touch(&gone);
    drop(&gone);
    touch(&next);
    ck_assert(has(&first));
    ck_assert_uint_eq(td_table_cache_count(setup.cache).evicted, 0);
}

TD_TEST_LOOP(abandoning_tables_releases_their_versions, 0, 2)
{
    setup_open(8);
    struct td_tensor there = version(KIB, 1), on_its_way = version(KIB, 2);
    touch(&there);
    (void)use(&on_its_way, 1);
    td_table_cache_abandon(setup.cache, _i == 1);
    ck_assert_uint_eq(atomic_load(&there.owner->refs), 1);
    /* A device that could not be closed may still read it. */
    ck_assert_uint_eq(atomic_load(&on_its_way.owner->refs), _i == 1 ? 1 : 2);
    if (_i == 0)
        td_buffer_unref(on_its_way.owner); /* the reference of the device */
    setup.api->close(setup.device);
    td_device_reference_reset();
    setup.device = NULL;
}

/* The reference device, lost at the first copy: a call to it might not return. */
static int n_freed;

static td_status lose(struct td_device_stream *stream, void *to, const void *from, size_t bytes,
                      struct td_error *err)
{
    (void)stream;
    (void)to;
    (void)from;
    (void)bytes;
    return td_error_set(err, TD_DEVICE_UNAVAILABLE, "the device is lost");
}

static void count_free(struct td_device *device, void *memory)
{
    n_freed++;
    td_device_reference()->free(device, memory);
}

TD_TEST(a_lost_device_is_not_asked_to_free_memory)
{
    setup_open(8);
    struct td_device_api losing = *td_device_reference();
    losing.copy_to_device = lose;
    losing.free = count_free;
    struct td_table_cache *cache = td_table_cache_new(&losing, setup.device);
    struct td_tensor table = version(KIB, 1);
    struct td_device_table *used;
    struct td_error err;
    bool submitted = false;
    n_freed = 0;
    ck_assert_int_eq(td_table_cache_use(cache, &table, setup.streams[0], &used, &submitted, &err),
                     TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(n_freed, 0);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 1);
    td_table_cache_free(cache);
    td_table_cache_free(setup.cache);
    setup.api->close(setup.device);
    td_device_reference_reset();
    setup.device = NULL;
}

static td_status copy_without_memory(struct td_device_stream *stream, void *to, const void *from,
                                     size_t bytes, struct td_error *err)
{
    (void)stream, (void)to, (void)from, (void)bytes;
    return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for a copy");
}

TD_TEST(a_table_that_cannot_be_copied_leaves_nothing_behind)
{
    struct td_device_info before, after;
    setup_open(8);
    struct td_device_api full = *td_device_reference();
    full.copy_to_device = copy_without_memory;
    struct td_table_cache *cache = td_table_cache_new(&full, setup.device);
    struct td_tensor table = version(KIB, 1);
    struct td_device_table *used;
    struct td_error err;
    bool submitted = false;
    setup.api->info(setup.device, &before);
    ck_assert_int_eq(td_table_cache_use(cache, &table, setup.streams[0], &used, &submitted, &err),
                     TD_MEMORY_EXHAUSTED);
    setup.api->info(setup.device, &after);
    ck_assert_uint_eq(after.memory_used, before.memory_used);
    ck_assert_uint_eq(td_table_cache_count(cache).bytes, 0);
    ck_assert_uint_eq(atomic_load(&table.owner->refs), 1);
    ck_assert(!submitted);
    td_table_cache_free(cache);
}

TD_FIXTURE(NULL, setup_close);
