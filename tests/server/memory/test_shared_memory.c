#include "server/memory/fault_guard.h"
#include "server/memory/shared_memory.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- a client's object, and the registry ----------------------------------------------------- */

enum { PAGE = 4096 };

static char key[64]; /* with its slash */
static int object = -1;
static struct td_shm *shm;

static void open_all(void)
{
    snprintf(key, sizeof key, "/tensord-test-%d", (int)getpid());
    object = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(object, 0);
    ck_assert_int_eq(ftruncate(object, 3 * PAGE), 0);
    td_guard_install();
    shm = td_shm_new();
    ck_assert_ptr_nonnull(shm);
    test_arena_open();
}

static void close_all(void)
{
    test_arena_close();
    td_shm_free(shm);
    shm_unlink(key);
    close(object);
}

static void write_at(off_t offset, const char *text)
{
    ck_assert_int_eq(pwrite(object, text, strlen(text), offset), (ssize_t)strlen(text));
}

static td_status add(const char *name, uint64_t offset, uint64_t bytes, struct td_error *err)
{
    return td_shm_register(shm, name, key, offset, bytes, err);
}

static td_status find(const char *name, uint64_t offset, uint64_t bytes, void **out,
                      struct td_error *err)
{
    struct td_regions *regions = td_shm_regions(shm);
    *out = NULL;
    return regions->find(regions, name, strlen(name), offset, bytes, &test_arena, out, err);
}

/* ---- registering ------------------------------------------------------------------ */

static const struct {
    const char *description;
    const char *slashes; /* before the name */
    uint64_t offset, bytes;
    const char *refusal; /* "" for none */
} extents[] = {
    { "all of it", "/", 0, 3 * PAGE, "" },
    { "a part that begins within a page", "/", 100, PAGE, "" },
    { "its last byte", "/", 3 * PAGE - 1, 1, "" },
    { "a key without a slash", "", 0, 16, "" },
    { "a key with more of them", "///", 0, 16, "" },
    { "nothing", "/", 0, 0, "byte_size is 0" },
    { "one byte too many", "/", 0, 3 * PAGE + 1, "beyond the 12288 bytes" },
    { "one byte too far", "/", 1, 3 * PAGE, "beyond the 12288 bytes" },
    { "an end beyond 64 bits", "/", UINT64_MAX, 2, "beyond the 12288 bytes" },
    { "a size of 64 bits", "/", 2, UINT64_MAX, "beyond the 12288 bytes" },
};

TD_TEST_EACH(a_region_must_be_within_its_object, extents)
{
    struct td_error err = { 0 };
    char spelled[80];
    snprintf(spelled, sizeof spelled, "%s%s", extents[_i].slashes, key + 1);
    const td_status status =
        td_shm_register(shm, "region", spelled, extents[_i].offset, extents[_i].bytes, &err);
    if (extents[_i].refusal[0]) {
        ck_assert_msg(status == TD_INVALID_ARGUMENT, "%s", extents[_i].description);
        ck_assert_msg(strstr(err.message, extents[_i].refusal) != NULL, "%s: %s",
                      extents[_i].description, err.message);
    } else {
        ck_assert_msg(status == TD_OK, "%s: %s", extents[_i].description, err.message);
    }
}

static const char *const bad_keys[] = { "",    "/",        "///",           ".",
                                        "..",  "/..",      "../etc/passwd", "/a/../b",
                                        "a/b", "/sub/key", "a..b" };

TD_TEST_EACH(a_key_is_one_name, bad_keys)
{
    struct td_error err = { 0 };
    ck_assert_int_eq(td_shm_register(shm, "region", bad_keys[_i], 0, 1, &err), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "not a valid shared memory name");
    ck_assert_str_eq(err.attribute, "key");
}

/* Whether there is such an object is looked at only if the key is short enough. */
TD_TEST(a_key_of_256_bytes_is_too_long)
{
    for (size_t length = 255; length <= 256; length++) {
        struct td_error err = { 0 };
        char long_key[257];
        memset(long_key, 'k', sizeof long_key);
        long_key[length] = '\0';
        ck_assert_int_eq(td_shm_register(shm, "region", long_key, 0, 1, &err), TD_INVALID_ARGUMENT);
        EXPECT((strstr(err.message, "longer than 255 bytes") != NULL) == (length == 256), "%zu: %s",
               length, err.message);
    }
}

TD_TEST(a_name_of_1024_bytes_is_too_long)
{
    struct td_error err = { 0 };
    char name[1025];
    memset(name, 'n', sizeof name);
    name[1024] = '\0';
    ck_assert_int_eq(add(name, 0, 16, &err), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "1023 bytes");
    name[1023] = '\0';
    void *out;
    ck_assert_int_eq(add(name, 0, 16, &err), TD_OK);
    ck_assert_int_eq(find(name, 0, 16, &out, &err), TD_OK);
}

/* An absent object, another kind of file, and a path out of the folder. */
TD_TEST(every_key_that_cannot_be_opened_gets_the_same_error)
{
    char path[128], link[128], folder[128], name[3][96];
    struct td_error err = { 0 };
    snprintf(name[0], sizeof name[0], "%s-absent", key);
    snprintf(name[1], sizeof name[1], "%s-link", key);
    snprintf(name[2], sizeof name[2], "%s-folder", key);
    snprintf(path, sizeof path, "/dev/shm%s", key);
    snprintf(link, sizeof link, "/dev/shm%s", name[1]);
    snprintf(folder, sizeof folder, "/dev/shm%s", name[2]);
    ck_assert_int_eq(symlink(path, link), 0);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    td_status statuses[3];
    char messages[3][512];
    for (int i = 0; i < 3; i++) {
        statuses[i] = td_shm_register(shm, "region", name[i], 0, 1, &err);
        snprintf(messages[i], sizeof messages[i], "%s", strstr(err.message, "cannot be opened"));
    }
    unlink(link);
    rmdir(folder);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(statuses[i], TD_INVALID_ARGUMENT);
        ck_assert_str_eq(messages[i], "cannot be opened as shared memory");
    }
}

TD_TEST(a_name_is_registered_once)
{
    struct td_error err = { 0 };
    ck_assert_int_eq(add("region", 0, 16, &err), TD_OK);
    ck_assert_int_eq(add("region", 0, 16, &err), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "already registered");
    td_shm_unregister(shm, "region");
    ck_assert_int_eq(add("region", 16, 16, &err), TD_OK);
}

TD_TEST(the_number_of_regions_is_limited)
{
    struct td_error err = { 0 };
    struct td_oip_region *list;
    int count;
    char name[32];
    for (int i = 0; i < TD_SHM_REGIONS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        ck_assert_int_eq(add(name, 0, 16, &err), TD_OK);
    }
    ck_assert_int_eq(add("one more", 0, 16, &err), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "shared_memory_regions");
    td_shm_unregister(shm, NULL);
    ck_assert_int_eq(td_shm_list(shm, NULL, &test_arena, &list, &count, &err), TD_OK);
    ck_assert_int_eq(count, 0);
    ck_assert_int_eq(add("one more", 0, 16, &err), TD_OK);
}

/* ---- listing ---------------------------------------------------------------------- */

TD_TEST(regions_are_listed_by_name)
{
    struct td_error err = { 0 };
    struct td_oip_region *list;
    int count;
    ck_assert_int_eq(add("b", 0, 16, &err), TD_OK);
    ck_assert_int_eq(add("a b", 8, 24, &err), TD_OK);
    ck_assert_int_eq(add("ab", 0, 1, &err), TD_OK);
    ck_assert_int_eq(td_shm_list(shm, NULL, &test_arena, &list, &count, &err), TD_OK);
    ck_assert_int_eq(count, 3);
    ck_assert_str_eq(list[0].name, "a b");
    ck_assert_str_eq(list[0].key, key);
    ck_assert_uint_eq(list[0].offset, 8);
    ck_assert_uint_eq(list[0].bytes, 24);
    ck_assert_str_eq(list[1].name, "ab");
    ck_assert_str_eq(list[2].name, "b");
    ck_assert_int_eq(td_shm_list(shm, "b", &test_arena, &list, &count, &err), TD_OK);
    ck_assert_int_eq(count, 1);
    ck_assert_str_eq(list[0].name, "b");
    ck_assert_int_eq(td_shm_list(shm, "a", &test_arena, &list, &count, &err), TD_NOT_FOUND);
}

TD_TEST(a_name_may_hold_any_byte_and_is_not_found_by_a_prefix)
{
    struct td_regions *regions = td_shm_regions(shm);
    struct td_error err = { 0 };
    void *out;
    ck_assert_int_eq(add("region", 0, 16, &err), TD_OK);
    ck_assert_int_eq(regions->find(regions, "region\0and more", 15, 0, 1, &test_arena, &out, &err),
                     TD_NOT_FOUND);
    ck_assert_int_eq(regions->find(regions, "reg", 3, 0, 1, &test_arena, &out, &err), TD_NOT_FOUND);
}

/* ---- use ------------------------------------------------------------------------------------- */

TD_TEST(the_clients_writes_are_read_in_place)
{
    struct td_error err = { 0 };
    void *out;
    ck_assert_int_eq(add("region", 100, 2 * PAGE, &err), TD_OK);
    write_at(100 + 7, "later");
    ck_assert_int_eq(find("region", 7, 5, &out, &err), TD_OK);
    ck_assert(memcmp(out, "later", 5) == 0);
    memcpy(out, "LATER", 5);
    char back[5];
    ck_assert_int_eq(pread(object, back, 5, 107), 5);
    ck_assert(memcmp(back, "LATER", 5) == 0);
}

static const struct {
    uint64_t offset, bytes;
    bool good;
} ranges[] = {
    { 0, 100, true },  { 99, 1, true },   { 100, 0, true },         { 0, 101, false },
    { 100, 1, false }, { 101, 0, false }, { UINT64_MAX, 2, false }, { 2, UINT64_MAX, false },
};

TD_TEST_EACH(a_range_must_be_within_its_region, ranges)
{
    struct td_error err = { 0 };
    void *out;
    ck_assert_int_eq(add("region", 0, 100, &err), TD_OK);
    ck_assert_int_eq(find("region", ranges[_i].offset, ranges[_i].bytes, &out, &err),
                     ranges[_i].good ? TD_OK : TD_INVALID_ARGUMENT);
}

TD_TEST(an_unregistered_region_lives_until_its_last_user_releases_it)
{
    struct td_error err = { 0 };
    void *out, *after;
    ck_assert_int_eq(add("region", 0, PAGE, &err), TD_OK);
    ck_assert_int_eq(find("region", 0, PAGE, &out, &err), TD_OK);
    td_shm_unregister(shm, "region");
    ck_assert_int_eq(find("region", 0, PAGE, &after, &err), TD_NOT_FOUND);
    write_at(0, "still here");
    ck_assert(memcmp(out, "still here", 10) == 0);
}

TD_TEST(unregistering_an_unknown_region_succeeds)
{
    td_shm_unregister(shm, "nothing");
    td_shm_unregister(shm, NULL);
}

/* ---- truncated objects ---------------------------------------------------------------- */

TD_TEST(a_truncated_region_is_refused_even_when_it_grows_again)
{
    struct td_error err = { 0 };
    void *out;
    ck_assert_int_eq(add("region", 0, 2 * PAGE, &err), TD_OK);
    ck_assert_int_eq(ftruncate(object, 2 * PAGE - 1), 0);
    ck_assert_int_eq(find("region", 0, 16, &out, &err), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "truncated");
    ck_assert_int_eq(ftruncate(object, 3 * PAGE), 0);
    ck_assert_int_eq(find("region", 0, 16, &out, &err), TD_INVALID_ARGUMENT);
    td_shm_unregister(shm, "region");
    ck_assert_int_eq(add("region", 0, 2 * PAGE, &err), TD_OK);
    ck_assert_int_eq(find("region", 0, 16, &out, &err), TD_OK);
}

/* The object is as large as before, but a reader saw zeros, and would see them again. */
TD_TEST(a_region_that_was_read_while_it_was_truncated_is_refused)
{
    struct td_error err = { 0 };
    void *out;
    ck_assert_int_eq(add("region", 0, 2 * PAGE, &err), TD_OK);
    ck_assert_int_eq(find("region", 0, 2 * PAGE, &out, &err), TD_OK);
    ck_assert_int_eq(ftruncate(object, 0), 0);
    ck_assert_int_eq(((const volatile char *)out)[PAGE], 0);
    ck_assert_int_eq(ftruncate(object, 3 * PAGE), 0);
    ck_assert_int_eq(find("region", 0, 16, &out, &err), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "truncated");
    td_shm_unregister(shm, "region");
    ck_assert_int_eq(add("region", 0, 2 * PAGE, &err), TD_OK);
    ck_assert_int_eq(find("region", 0, 16, &out, &err), TD_OK);
}

/* ---- threads --------------------------------------------------------------------------------- */

static atomic_bool stop;

static void *register_and_unregister(void *context)
{
    struct td_error err;
    (void)context;
    while (!atomic_load(&stop)) {
        if (td_shm_register(shm, "region", key, 0, 2 * PAGE, &err) == TD_OK)
            td_shm_unregister(shm, "region");
    }
    return NULL;
}

TD_TEST(regions_are_registered_and_unregistered_while_in_use)
{
    enum { FOUND = 500 };
    pthread_t threads[2];
    int found = 0;
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, register_and_unregister, NULL), 0);
    while (found < FOUND) {
        struct td_arena arena;
        struct td_error err;
        char block[1024];
        void *out;
        struct td_regions *regions = td_shm_regions(shm);
        td_arena_init(&arena, block, sizeof block, td_memory_heap());
        if (regions->find(regions, "region", 6, 0, 2 * PAGE, &arena, &out, &err) == TD_OK) {
            found++;
            ck_assert_int_eq(*(volatile char *)out, 0);
        }
        td_arena_reset(&arena);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

TD_FIXTURE(open_all, close_all);
