/* Concurrent readers and writers: no reader sees a partial change, and no memory leaks. */
#include "tests/server/counting.h"
#include "tests/server/folder.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { READERS = 3, WRITERS = 2, N = 2048, CHANGES = 300, READS = 100 };

static struct td_store *store;
static struct counting counting;
static atomic_bool stop;
static atomic_int torn, backwards, reads, deleted;

/* An invariant that readers check: elements i and i + N/2 are always equal. */
static void fill(int32_t *values, int32_t value)
{
    for (int i = 0; i < N / 2; i++)
        values[i] = values[i + N / 2] = value + i;
}

static void check_tensor(const char *name, uint64_t *version)
{
    struct td_arena arena;
    char first[4096];
    struct td_tensor_listing t;
    struct td_error err;
    td_arena_init(&arena, first, sizeof first, td_memory_heap());
    if (td_store_get(store, name, strlen(name), &arena, &t, &err) == TD_OK) {
        const int32_t *values = t.tensor->data;
        bool equal = t.tensor->numel == N;
        for (int i = 0; i < N / 2 && equal; i++)
            equal = values[i] == values[i + N / 2];
        atomic_fetch_add(&torn, !equal);
        atomic_fetch_add(&backwards, t.version < *version);
        atomic_fetch_add(&reads, 1);
        *version = t.version;
    }
    td_arena_reset(&arena);
}

static void *read_in_loop(void *argument)
{
    uint64_t versions[2] = { 0 };
    (void)argument;
    while (!atomic_load(&stop)) {
        check_tensor("a", &versions[0]);
        check_tensor("b", &versions[1]);
    }
    return NULL;
}

static void *list_in_loop(void *argument)
{
    (void)argument;
    while (!atomic_load(&stop)) {
        struct td_arena arena;
        struct td_tensor_listing *list;
        struct td_error err;
        int count;
        td_arena_init(&arena, NULL, 0, td_memory_heap());
        if (td_store_list(store, &arena, &list, &count, &err) == TD_OK)
            for (int i = 1; i < count; i++)
                atomic_fetch_add(&backwards, strcmp(list[i - 1].name, list[i].name) >= 0);
        td_arena_reset(&arena);
        td_store_trim(store, INT64_MAX);
        td_store_rescan(store);
        sched_yield();
    }
    return NULL;
}

static void put_once(const char *name, int32_t value, bool persist, struct td_arena *arena)
{
    const struct td_store_write write = { .name = name, .persist = persist };
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    struct td_tensor t = {
        .dtype = TD_DTYPE_INT32, .shape = { 1, { N } }, .numel = N, .bytes = N * sizeof(int32_t)
    };
    /* Every other writer passes its own buffer. */
    struct td_buffer *body = counting.memory.take(&counting.memory, t.bytes, &err);
    t.data = body->data;
    t.owner = value % 2 ? body : NULL;
    fill(t.data, value);
    EXPECT(td_store_put(store, &write, &t, arena, &listing, &created, &err) == TD_OK, "%s",
           err.message);
    td_buffer_unref(body);
}

static void update_once(const char *name, unsigned *random, struct td_arena *arena)
{
    enum { PAIRS = 8 };
    const struct td_store_write write = { .name = name };
    struct td_tensor_listing listing;
    struct td_error err;
    struct td_store_update *update;
    uint64_t offsets[2 * PAIRS];
    const td_status status = td_store_update_begin(store, &write, arena, NULL, &update, &err);
    if (status == TD_TENSOR_NOT_FOUND)
        return; /* another writer deleted it */
    EXPECT(status == TD_OK, "%s", err.message);
    int32_t *values = update->tensor.data;
    for (int i = 0; i < PAIRS; i++) {
        const int at = rand_r(random) % (N / 2);
        values[at] = values[at + N / 2] = rand_r(random);
        offsets[2 * i] = (uint64_t)at * sizeof *values;
        offsets[2 * i + 1] = (uint64_t)(at + N / 2) * sizeof *values;
    }
    EXPECT(td_store_update_commit(update, offsets, 2 * PAIRS, sizeof *values, arena, &listing,
                                  &err) == TD_OK,
           "%s", err.message);
}

static void *write_in_loop(void *argument)
{
    unsigned random = (unsigned)(size_t)argument;
    const bool persists = random >= 100; /* with a data folder */
    for (int i = 0; i < CHANGES || atomic_load(&reads) <= READS; i++) {
        struct td_arena arena;
        const char *name = rand_r(&random) % 2 ? "a" : "b";
        struct td_store_write write = { .name = name };
        td_arena_init(&arena, NULL, 0, td_memory_heap());
        switch (rand_r(&random) % 8) {
        case 0:
            if (td_store_delete(store, &write, &(bool){ false }, TD_IGNORED) == TD_OK)
                atomic_fetch_add(&deleted, 1);
            break;
        case 1:
        case 2:
            put_once(name, i, persists && rand_r(&random) % 2, &arena);
            break;
        default:
            update_once(name, &random, &arena);
        }
        td_arena_reset(&arena);
    }
    return NULL;
}

static const struct {
    bool folder;
    uint64_t quota;
} setups[] = { { false, QUOTA }, { false, 5 * N * sizeof(int32_t) }, { true, QUOTA } };

TD_TEST_EACH(no_reader_sees_half_a_change, setups)
{
    pthread_t readers[READERS], writers[WRITERS], lister;
    counting_init(&counting);
    store = td_store_open(&(struct td_store_options){ .dir = setups[_i].folder ? folder : "",
                                                      .quota = setups[_i].quota,
                                                      .memory = &counting.memory,
                                                      .log = &store_log });
    put_once("a", 0, false, &test_arena);
    put_once("b", 1, false, &test_arena);
    atomic_store(&stop, false);
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_in_loop, NULL), 0);
    ck_assert_int_eq(pthread_create(&lister, NULL, list_in_loop, NULL), 0);
    for (int i = 0; i < WRITERS; i++) {
        const size_t seed = (size_t)i + (setups[_i].folder ? 100 : 1);
        ck_assert_int_eq(pthread_create(&writers[i], NULL, write_in_loop, (void *)seed), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(lister, NULL);
    ck_assert_int_eq(torn, 0);
    ck_assert_int_eq(backwards, 0);
    ck_assert_int_gt(reads, READS);
    ck_assert_int_gt(deleted, 0);
    td_arena_reset(&test_arena);
    td_store_free(store);
    ck_assert_int_eq(counting.alive, 0);
}

static void *put_if_unseen(void *argument)
{
    const struct td_store_write write = { .name = "once", .condition.if_none_match = "*" };
    const struct td_tensor *t = argument;
    struct td_tensor_listing listing;
    struct td_arena arena;
    struct td_error err;
    bool created = false;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    const td_status status = td_store_put(store, &write, t, &arena, &listing, &created, &err);
    td_arena_reset(&arena);
    return (void *)(size_t)(status == TD_OK);
}

TD_TEST(of_concurrent_creators_one_succeeds)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    struct td_tensor t = tensor("int8[3] 1 2 3");
    for (int round = 0; round < 20; round++) {
        size_t winners = 0;
        store = open_at("");
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, put_if_unseen, &t), 0);
        for (int i = 0; i < THREADS; i++) {
            void *won;
            pthread_join(threads[i], &won);
            winners += (size_t)won;
        }
        ck_assert_uint_eq(winners, 1);
        td_store_free(store);
    }
}

TD_FIXTURE(folder_open, folder_close);
