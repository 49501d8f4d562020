/* Checksums of files: a damaged file is noticed, named in the error and the log, and not served
 * until it is replaced. */
#include "server/memory/fault_guard.h"
#include "tests/server/one_store.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, BYTES = 5 * BLOCK / 2, BLOCKS = 3 };

static struct td_error err; /* of the last call */

/* ---- files ----------------------------------------------------------------------------------- */

static unsigned char *content; /* of t.tensord */
static size_t size, data_begin;

static td_status put(const char *name, const struct td_tensor *t, bool persist)
{
    return put_tensor(store, name, t, persist, &err);
}

static void read_content(void)
{
    uint64_t length;
    FILE *file = fopen(path_of("t.tensord"), "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    size = (size_t)ftell(file);
    rewind(file);
    free(content);
    content = malloc(size);
    ck_assert_uint_eq(fread(content, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    memcpy(&length, content, sizeof length);
    data_begin = sizeof length + (size_t)length;
}

/* Persists t in a store of its own, and reads the file. */
static void persist_t(const struct td_tensor *t)
{
    struct td_store *own = open_folder();
    EXPECT_OK(put_tensor(own, "t", t, true, &err), &err);
    td_store_free(own);
    read_content();
}

static struct td_tensor large_tensor(void)
{
    static uint8_t data[BYTES];
    for (int i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 7 + i / 1000);
    return (struct td_tensor){ .dtype = TD_DTYPE_UINT8,
                               .shape = { 1, { BYTES } },
                               .numel = BYTES,
                               .data = data,
                               .bytes = BYTES };
}

/* Replaces t.tensord as another program would: by a new file. */
static void put_content(void)
{
    char path[512];
    put_file("new", content, size);
    snprintf(path, sizeof path, "%s", path_of("new"));
    ck_assert_int_eq(rename(path, path_of("t.tensord")), 0);
}

static void put_damaged(size_t place, int mask)
{
    content[place] ^= (unsigned char)mask;
    put_content();
    content[place] ^= (unsigned char)mask;
}

/* ---- what is served -------------------------------------------------------------------------- */

static td_status get(const char *name, struct td_tensor_listing *out)
{
    return td_store_get(store, name, strlen(name), &test_arena, out, &err);
}

static td_integrity integrity_of(const char *name)
{
    struct td_tensor_listing *list;
    int count;
    ck_assert_int_eq(td_store_list(store, &test_arena, &list, &count, &err), TD_OK);
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].integrity;
    ck_abort_msg("%s is not listed", name);
}

static void verify_all(void)
{
    while (td_store_verify(store))
        ;
    ck_assert(!td_store_has_unverified(store));
}

/* The error names the tensor, its file and the bytes of the block. */
static void expect_damaged(int block)
{
    struct td_tensor_listing listing;
    char range[64];
    const size_t first = data_begin + (size_t)block * BLOCK,
                 end = block == BLOCKS - 1 ? data_begin + BYTES : first + BLOCK;
    ck_assert_int_eq(get("t", &listing), TD_DEVICE_UNAVAILABLE);
    snprintf(range, sizeof range, "its bytes %zu to %zu do not match", first, end - 1);
    ck_assert_msg(strstr(err.message, "the file t.tensord of 't' is damaged") &&
                      strstr(err.message, range),
                  "%s", err.message);
    ck_assert_int_eq(integrity_of("t"), TD_INTEGRITY_DAMAGED);
}

static void expect_damage_logged(int block)
{
    char line[160];
    snprintf(line, sizeof line, " error tensor_damaged tensor=t file=t.tensord first_byte=%zu ",
             data_begin + (size_t)block * BLOCK);
    const char *log = logged();
    ck_assert_msg(strstr(log, line) != NULL, "%s", log);
}

static void expect_served(td_integrity integrity)
{
    const struct td_tensor t = large_tensor();
    const struct td_tensor_listing *listing = found(store, "t");
    ck_assert_int_eq(listing->integrity, integrity);
    ck_assert_uint_eq(listing->tensor->bytes, BYTES);
    ck_assert(memcmp(listing->tensor->data, t.data, BYTES) == 0);
}

/* ---- damage ---------------------------------------------------------------------------------- */

enum part { LENGTH, JSON, PADDING, DATA, DIGESTS };

static const struct {
    const char *description;
    enum part part;
    int place; /* in the part; from its end if negative */
    int mask;
    int block; /* that is damaged; -1: the header */
} damages[] = {
    { "the length of the header", LENGTH, 0, 64, -1 },
    { "the length of the header, far above the file's", LENGTH, 7, 1, -1 },
    { "the dtype", JSON, 3, 1, -1 },
    { "a bracket", JSON, 0, 2, -1 },
    { "a blank that becomes a tab", PADDING, -1, 0x29, -1 },
    { "the first byte of the data", DATA, 0, 1, 0 },
    { "the last byte of the first block", DATA, BLOCK - 1, 128, 0 },
    { "the first byte of the second block", DATA, BLOCK, 16, 1 },
    { "the last byte of the data", DATA, BYTES - 1, 1, 2 },
    { "the digest of the header", DIGESTS, 0, 1, -1 },
    { "the digest of the first block", DIGESTS, 8, 4, 0 },
    { "the digest of the last block", DIGESTS, -1, 32, 2 },
};

static size_t place_of(int damage)
{
    const size_t begins[] = {
        [LENGTH] = 0, [JSON] = 8, [PADDING] = 8, [DATA] = data_begin, [DIGESTS] = data_begin + BYTES
    };
    const enum part part = damages[damage].part;
    const int place = damages[damage].place;
    return place >= 0 ? begins[part] + (size_t)place : part == PADDING ? data_begin - 1 : size - 1;
}

static void prepare(int damage)
{
    const struct td_tensor t = large_tensor();
    persist_t(&t);
    put_damaged(place_of(damage), damages[damage].mask);
    (void)logged();
}

/* The header cannot be trusted, so only the name is known. */
static void expect_malformed(int damage)
{
    struct td_tensor_listing listing;
    expect_names(store, "");
    ck_assert_msg(strstr(logged(), " warn table_skipped file=t.tensord ") != NULL, "%s",
                  damages[damage].description);
    ck_assert_int_eq(get("t", &listing), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "the file t.tensord of 't' is not served: ");
    ck_assert_int_eq(get("u", &listing), TD_TENSOR_NOT_FOUND);
}

TD_TEST_EACH(damage_is_found_before_a_tensor_is_served, damages)
{
    prepare(_i);
    folder_verify = TD_VERIFY_START;
    store = open_folder();
    if (damages[_i].block < 0) {
        expect_malformed(_i);
    } else {
        expect_damage_logged(damages[_i].block);
        expect_damaged(damages[_i].block);
    }
    ck_assert(!td_store_verify(store));
}

TD_TEST_EACH(damage_is_found_in_the_background, damages)
{
    prepare(_i);
    folder_verify = TD_VERIFY_BACKGROUND;
    store = open_folder();
    if (damages[_i].block < 0) {
        expect_malformed(_i);
        ck_assert(!td_store_verify(store));
    } else {
        ck_assert_str_eq(logged(), "");
        ck_assert_int_eq(found(store, "t")->integrity, TD_INTEGRITY_PENDING);
        verify_all();
        expect_damage_logged(damages[_i].block);
        expect_damaged(damages[_i].block);
    }
}

TD_TEST_LOOP(a_rescan_finds_damage_of_a_file_that_changed, 0, 2)
{
    const struct td_tensor t = large_tensor();
    folder_verify = _i % 2 ? TD_VERIFY_BACKGROUND : TD_VERIFY_START;
    persist_t(&t);
    store = open_folder();
    put_damaged(data_begin + BLOCK, 1);
    td_store_rescan(store);
    verify_all();
    expect_damaged(1);
    for (int i = 0; i < 2; i++) { /* it stays refused, and is not compared again */
        (void)logged();
        td_store_rescan(store);
        ck_assert(!td_store_verify(store));
        ck_assert_str_eq(logged(), "");
        expect_damaged(1);
        ck_assert_ptr_nonnull(strstr(problems_of(store), "t.tensord: t: its bytes "));
    }
    put_content();
    td_store_rescan(store);
    ck_assert_str_eq(problems_of(store), "");
    verify_all();
    expect_served(TD_INTEGRITY_VERIFIED);
}

TD_TEST_EACH(without_verification_a_damaged_file_can_be_read, damages)
{
    prepare(_i);
    if (damages[_i].part != DATA && damages[_i].part != DIGESTS)
        return; /* it may have no meaning */
    folder_verify = TD_VERIFY_OFF;
    store = open_folder();
    ck_assert_int_eq(found(store, "t")->integrity, TD_INTEGRITY_NONE);
    ck_assert(!td_store_verify(store));
}

/* ---- after damage ---------------------------------------------------------------------------- */

static struct td_store *open_damaged(void)
{
    const struct td_tensor t = large_tensor();
    persist_t(&t);
    put_damaged(data_begin, 1);
    store = open_folder();
    expect_damaged(0);
    ck_assert_ptr_nonnull(strstr(problems_of(store), "t.tensord: t: its bytes "));
    return store;
}

TD_TEST_LOOP(a_damaged_tensor_can_be_replaced, 0, 2)
{
    store = open_damaged();
    const struct td_tensor t = large_tensor(), small = tensor("int32[2] 1 2");
    if (_i == 0) {
        ck_assert_int_eq(put("t", &t, true), TD_OK);
        ck_assert_str_eq(problems_of(store), "");
        expect_served(TD_INTEGRITY_VERIFIED);
    } else {
        ck_assert_int_eq(put("t", &small, false), TD_OK);
        expect_tensor(found(store, "t")->tensor, "int32[2] 1 2", "t");
        td_store_rescan(store);
        expect_tensor(found(store, "t")->tensor, "int32[2] 1 2", "t");
        ck_assert_ptr_nonnull(strstr(problems_of(store), "t.tensord: t: its bytes "));
        td_store_rescan(store);
        ck_assert_ptr_nonnull(strstr(problems_of(store), "t.tensord: t: its bytes "));
        ck_assert_int_eq(put("t", &small, true), TD_OK); /* after a restart it would be 503 */
        td_store_rescan(store);
        ck_assert_str_eq(problems_of(store), "");
    }
}

TD_TEST(a_damaged_tensor_can_be_deleted)
{
    store = open_damaged();
    const struct td_store_write write = { .name = "t" };
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
    expect_names(store, "");
    ck_assert_str_eq(problems_of(store), "");
    ck_assert_int_ne(access(path_of("t.tensord"), F_OK), 0);
}

static const char *const ends[] = { "persist", "memory", "DELETE", "file", "no file" };

TD_TEST_EACH(a_tensor_with_a_damaged_header_is_refused_until_it_is_replaced, ends)
{
    const struct td_tensor t = large_tensor(), small = tensor("int32[2] 1 2");
    const struct td_store_write write = { .name = "t" };
    const char *end = ends[_i];
    struct td_tensor_listing listing;
    persist_t(&t);
    put_damaged(9, 1);
    store = open_folder();
    td_store_rescan(store);
    ck_assert_int_eq(get("t", &listing), TD_DEVICE_UNAVAILABLE);
    if (strcmp(end, "persist") == 0 || strcmp(end, "memory") == 0)
        ck_assert_int_eq(put("t", &small, end[0] == 'p'), TD_OK);
    else if (strcmp(end, "DELETE") == 0)
        ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
    else if (strcmp(end, "no file") == 0)
        ck_assert_int_eq(unlink(path_of("t.tensord")), 0);
    else
        put_content();
    for (int i = 0; i < 2; i++) {
        if (i > 0 || strstr(end, "file"))
            td_store_rescan(store);
        if (strcmp(end, "file") == 0)
            expect_served(TD_INTEGRITY_VERIFIED);
        else if (strcmp(end, "no file") == 0 || strcmp(end, "DELETE") == 0)
            ck_assert_int_eq(get("t", &listing), TD_TENSOR_NOT_FOUND);
        else
            expect_tensor(found(store, "t")->tensor, "int32[2] 1 2", "t");
    }
    ck_assert_int_eq(access(path_of("t.tensord"), F_OK) == 0,
                     strcmp(end, "no file") != 0 && strcmp(end, "DELETE") != 0);
}

TD_TEST(a_damaged_tensor_is_neither_updated_nor_copied)
{
    store = open_damaged();
    const struct td_store_write write = { .name = "t" };
    struct td_store_update *update;
    struct td_tensor ref;
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err),
                     TD_DEVICE_UNAVAILABLE);
    ck_assert_int_eq(td_resolve(td_store_resolver(store), "t", 1, &test_arena, &ref, &err),
                     TD_DEVICE_UNAVAILABLE);
}

/* A store with a pending damaged tensor. */
static struct td_store *open_pending(void)
{
    const struct td_tensor t = large_tensor();
    folder_verify = TD_VERIFY_BACKGROUND;
    persist_t(&t);
    put_damaged(data_begin + BLOCK, 1);
    return open_folder();
}

TD_TEST(an_update_in_flight_of_a_tensor_that_is_found_damaged_is_not_committed)
{
    static const uint64_t offset = 0;
    const struct td_store_write write = { .name = "t" };
    struct td_tensor_listing listing;
    struct td_store_update *update;
    /* The update needs memory for the whole tensor. */
    struct td_store *small = open_pending();
    td_store_free(small);
    store = td_store_open(&(struct td_store_options){ .dir = folder,
                                                      .quota = 2 * BYTES,
                                                      .verify = folder_verify,
                                                      .memory = td_memory_heap(),
                                                      .log = &store_log });
    ck_assert_int_eq(td_store_update_begin(store, &write, &test_arena, NULL, &update, &err), TD_OK);
    verify_all();
    ck_assert_int_eq(td_store_update_commit(update, &offset, 1, 1, &test_arena, &listing, &err),
                     TD_DEVICE_UNAVAILABLE);
    expect_damaged(1);
}

TD_TEST(a_call_in_flight_that_read_a_tensor_which_is_found_damaged_is_refused)
{
    store = open_pending();
    const struct td_tensor_listing *listing = found(store, "t");
    const uint64_t faults = td_guard_faults();
    ck_assert_int_eq(td_store_check(listing, &err), TD_OK);
    verify_all();
    ck_assert_int_eq(td_store_check(listing, &err), TD_DEVICE_UNAVAILABLE);
    ck_assert_uint_ne(td_guard_faults(), faults); /* what calls compare */
    ck_assert(td_guard_marked_at(listing->tensor->data));
}

/* ---- a stop ---------------------------------------------------------------------------------- */

static int questions;

static bool stop_at_second_question(void)
{
    return ++questions >= 2;
}

static bool stop_at_fourth_question(void)
{
    return ++questions >= 4;
}

/* It is asked before each file, each block, and the end of the scan of folders. */
TD_TEST_LOOP(a_stop_ends_the_comparison_at_the_start, 0, 3)
{
    static const struct {
        bool (*stop_requested)(void);
        const char *names;
    } stops[] = { { stop_at_second_question, "" },
                  { stop_at_fourth_question, "" },
                  { NULL, "t u" } };
    const struct td_tensor t = large_tensor();
    persist_t(&t);
    put_file("u.tensord", content, size);
    questions = 0;
    store = td_store_open(&(struct td_store_options){ .dir = folder,
                                                      .quota = QUOTA,
                                                      .verify = TD_VERIFY_START,
                                                      .memory = td_memory_heap(),
                                                      .log = &store_log,
                                                      .stop_requested = stops[_i].stop_requested });
    ck_assert_ptr_nonnull(store);
    expect_names(store, stops[_i].names);
    /* For the first file, the block at which it ends, the second file, and folders that are
     * gone. */
    if (stops[_i].stop_requested)
        ck_assert_int_eq(questions, (_i == 0 ? 2 : 4) + 2);
}

/* ---- files that are not damaged -------------------------------------------------------------- */

TD_TEST_LOOP(a_file_that_matches_is_verified, 0, 3)
{
    const struct td_tensor t = large_tensor();
    static const td_integrity at_first[] = { [TD_VERIFY_START] = TD_INTEGRITY_VERIFIED,
                                             [TD_VERIFY_BACKGROUND] = TD_INTEGRITY_PENDING,
                                             [TD_VERIFY_OFF] = TD_INTEGRITY_NONE },
                              finally[] = { [TD_VERIFY_START] = TD_INTEGRITY_VERIFIED,
                                            [TD_VERIFY_BACKGROUND] = TD_INTEGRITY_VERIFIED,
                                            [TD_VERIFY_OFF] = TD_INTEGRITY_NONE };
    folder_verify = (enum td_verify)_i;
    persist_t(&t);
    store = open_folder();
    expect_served(at_first[_i]);
    for (int i = 0; i < BLOCKS && _i == TD_VERIFY_BACKGROUND; i++) { /* one block each */
        expect_served(TD_INTEGRITY_PENDING);
        ck_assert(td_store_verify(store));
    }
    expect_served(finally[_i]);
    ck_assert(!td_store_verify(store));
    ck_assert_str_eq(logged(), "");
}

TD_TEST(what_was_just_persisted_is_verified)
{
    const struct td_tensor t = large_tensor();
    folder_verify = TD_VERIFY_BACKGROUND;
    store = open_folder();
    ck_assert_int_eq(put("t", &t, true), TD_OK);
    expect_served(TD_INTEGRITY_VERIFIED);
    ck_assert(!td_store_verify(store));
}

/* Their offsets are written some at a time, so that blocks have several parts. */
TD_TEST(strings_of_several_blocks_match_their_checksums)
{
    enum { STRINGS = 100001, CHARACTERS = 2000000 };
    static uint64_t offsets[STRINGS + 1];
    static char data[CHARACTERS];
    for (int i = 0; i <= STRINGS; i++)
        offsets[i] = (uint64_t)i * CHARACTERS / STRINGS;
    for (int i = 0; i < CHARACTERS; i++)
        data[i] = (char)('a' + i / 3 % 26);
    const struct td_tensor t = { .dtype = TD_DTYPE_STRING,
                                 .shape = { 1, { STRINGS } },
                                 .numel = STRINGS,
                                 .data = data,
                                 .bytes = CHARACTERS,
                                 .offsets = offsets };
    persist_t(&t);
    ck_assert_uint_gt(size, (STRINGS + 1) * sizeof *offsets + CHARACTERS);
    store = open_folder();
    ck_assert_int_eq(integrity_of("t"), TD_INTEGRITY_VERIFIED);
    ck_assert(memcmp(found(store, "t")->tensor->data, data, CHARACTERS) == 0);
}

TD_TEST(files_without_checksums_are_not_compared)
{
    static const char header[] =
        "{\"__metadata__\":{\"tensord\":\"1\",\"dtype\":\"int32\",\"shape\":\"[4]\",\"version\":"
        "\"7\"},\"tensor\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]}}";
    put_safetensors("old.tensord", header, 5, 4);
    put_npy("n.npy", 6, 1);
    put_safetensors("m.safetensors", TWO_TENSORS, 7, 6);
    store = open_folder();
    expect_names(store, "m:b.x m:w n old");
    ck_assert_int_eq(value_of(found(store, "old")->tensor, 3), 8);
    ck_assert_uint_eq(found(store, "old")->version, 7);
    ck_assert_int_eq(integrity_of("old"), TD_INTEGRITY_NONE);
    ck_assert_int_eq(integrity_of("n"), TD_INTEGRITY_NONE);
    ck_assert_int_eq(integrity_of("m:w"), TD_INTEGRITY_NONE);
}

/* Otherwise a flipped bit could make a file pass for one without checksums. */
TD_TEST_LOOP(checksums_of_an_unknown_kind_are_refused, 0, 3)
{
    static const char *const changes[][2] = { { "\"checksum\"", "\"checksun\"" },
                                              { "\"checksums\"", "\"checksunn\"" },
                                              { "xxh3-64/", "xxh4-64/" } };
    const struct td_tensor t = tensor("int32[2] 1 2");
    folder_verify = TD_VERIFY_OFF;
    persist_t(&t);
    char *place = memmem(content, size, changes[_i][0], strlen(changes[_i][0]));
    ck_assert_ptr_nonnull(place);
    memcpy(place, changes[_i][1], strlen(changes[_i][1]));
    put_content();
    store = open_folder();
    expect_names(store, "");
    ck_assert_ptr_nonnull(strstr(logged(), "its checksums are missing or of an unknown kind"));
}

TD_TEST(every_one_of_many_files_is_compared)
{
    enum { FILES = 50 };
    const struct td_tensor t = tensor("string[2] 'one' ''");
    char name[16];
    folder_verify = TD_VERIFY_BACKGROUND;
    store = open_folder();
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "t%d", i);
        ck_assert_int_eq(put(name, &t, true), TD_OK);
    }
    td_store_free(store); /* and the tensor in the arena stays */
    store = open_folder();
    for (int i = 0; i < FILES / 2; i++)
        ck_assert(td_store_verify(store));
    const struct td_store_write write = { .name = "t7" };
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
    ck_assert_int_eq(put("a", &t, false), TD_OK);
    verify_all();
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "t%d", i);
        if (i != 7)
            ck_assert_int_eq(integrity_of(name), TD_INTEGRITY_VERIFIED);
    }
}

TD_TEST(damage_is_found_in_each_of_several_files)
{
    const struct td_tensor t = large_tensor();
    const size_t place = data_begin + BLOCK;
    persist_t(&t);
    content[place] ^= 1;
    put_content();
    put_file("u.tensord", content, size);
    put_file("v.tensord", content, size);
    folder_verify = TD_VERIFY_BACKGROUND;
    store = open_folder();
    verify_all();
    ck_assert_int_eq(integrity_of("t"), TD_INTEGRITY_DAMAGED);
    ck_assert_int_eq(integrity_of("u"), TD_INTEGRITY_DAMAGED);
    ck_assert_int_eq(integrity_of("v"), TD_INTEGRITY_DAMAGED);
}

/* Otherwise its mapping would stay as long as the server runs. */
TD_TEST(a_version_that_was_compared_is_held_by_nothing)
{
    const struct td_tensor t = large_tensor();
    const struct td_store_write write = { .name = "t" };
    folder_verify = TD_VERIFY_BACKGROUND;
    persist_t(&t);
    td_arena_reset(&test_arena); /* it holds what it has had from a store */
    store = open_folder();
    ck_assert_int_eq(td_guard_ranges(), 1);
    verify_all();
    ck_assert_int_eq(td_store_delete(store, &write, &(bool){ false }, &err), TD_OK);
    td_arena_reset(&test_arena);
    ck_assert_int_eq(td_guard_ranges(), 0);
}

static bool stop_always(void)
{
    return true;
}

/* The main thread takes signals then; one that is pending for a moment ends no scan. */
TD_TEST(once_opened_a_store_does_not_ask_for_signals)
{
    const struct td_tensor t = large_tensor();
    persist_t(&t);
    ck_assert_int_eq(unlink(path_of("t.tensord")), 0);
    store = td_store_open(&(struct td_store_options){ .dir = folder,
                                                      .quota = QUOTA,
                                                      .verify = TD_VERIFY_START,
                                                      .memory = td_memory_heap(),
                                                      .log = &store_log,
                                                      .stop_requested = stop_always });
    ck_assert_ptr_nonnull(store);
    put_content();
    td_store_rescan(store);
    expect_served(TD_INTEGRITY_VERIFIED);
}

TD_TEST(a_version_that_is_replaced_while_it_is_compared_is_left)
{
    store = open_pending(); /* the second block is damaged */
    const struct td_tensor t = large_tensor();
    ck_assert(td_store_verify(store));
    ck_assert_int_eq(put("t", &t, true), TD_OK);
    (void)logged();
    verify_all();
    ck_assert_str_eq(logged(), "");
    expect_served(TD_INTEGRITY_VERIFIED);
}

TD_TEST(rows_that_get_keys_while_they_are_compared_are_compared_with_these)
{
    const struct td_store_write write = { .name = "t" };
    struct td_tensor rows = large_tensor();
    const struct td_tensor keys = tensor("int64[2] 7 8");
    struct td_tensor_listing listing;
    struct td_exec serial;
    bool created;
    folder_verify = TD_VERIFY_BACKGROUND;
    rows.shape = (struct td_shape){ 2, { 2, BYTES / 2 } };
    persist_t(&rows);
    store = open_folder();
    td_exec_serial(&serial, &test_arena);
    ck_assert(td_store_verify(store)); /* the first block */
    ck_assert_int_eq(
        td_store_put_keys(store, &write, &keys, &serial, &test_arena, &listing, &created, &err),
        TD_OK);
    ck_assert_int_eq(integrity_of("t"), TD_INTEGRITY_PENDING);
    verify_all();
    ck_assert_int_eq(integrity_of("t"), TD_INTEGRITY_VERIFIED);
}

TD_TEST(a_file_that_is_truncated_while_it_is_compared_counts_as_truncated)
{
    const struct td_tensor t = large_tensor();
    struct td_tensor_listing listing;
    folder_verify = TD_VERIFY_BACKGROUND;
    persist_t(&t);
    store = open_folder();
    ck_assert_int_eq(truncate(path_of("t.tensord"), (off_t)data_begin + BLOCK), 0);
    verify_all();
    ck_assert_int_eq(get("t", &listing), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "was truncated");
    ck_assert_int_eq(integrity_of("t"), TD_INTEGRITY_NONE);
}

/* ---- random damage --------------------------------------------------------------------------- */

static const char *const tensors[] = {
    "int32[3,2] 0..5",
    "float64[2] 0.5 -1",
    "bool[5] 1 0 0 1 1",
    "complex128[2] 1 2 3 4",
    "string[4] 'one' '' 'three' 'four'",
    "string[0]",
    "int8[0,3]",
    "uint16[] 9",
};

TD_TEST_EACH(no_flipped_bit_is_served_unnoticed, tensors)
{
    enum { ROUNDS = 150, MOST_FLIPS = 3 };
    const struct td_tensor t = tensor(tensors[_i]);
    random_seed((uint64_t)_i);
    persist_t(&t);
    for (int round = 0; round < ROUNDS; round++) {
        struct td_tensor_listing listing;
        const int flips = 1 + random_below(MOST_FLIPS);
        int bits[MOST_FLIPS];
        for (int i = 0; i < flips; i++) {
            bits[i] = random_below((int)size * 8);
            content[bits[i] / 8] ^= (unsigned char)(1 << bits[i] % 8);
        }
        (void)logged();
        put_content();
        store = open_folder();
        const char *log = logged();
        const td_status status = get("t", &listing);
        if (status == TD_OK) /* the flips undid each other */
            expect_tensor(listing.tensor, tensors[_i], "t");
        else
            ck_assert_msg(strstr(log, "table_skipped") || strstr(log, "tensor_damaged"), "%s", log);
        if (flips == 1)
            ck_assert_msg(status != TD_OK, "bit %d", bits[0]);
        close_store();
        for (int i = 0; i < flips; i++)
            content[bits[i] / 8] ^= (unsigned char)(1 << bits[i] % 8);
        td_arena_reset(&test_arena);
    }
}

TD_TEST(a_server_that_stops_does_not_compare_the_rest)
{
    const struct td_tensor t = large_tensor();
    store = open_folder();
    ck_assert_int_eq(put("t", &t, true), TD_OK);
    restart();
    char from[512];
    snprintf(from, sizeof from, "%s", path_of("t.tensord"));
    ck_assert_int_eq(rename(from, path_of("u.tensord")), 0);
    td_store_stop(store);
    td_store_rescan(store);
    expect_names(store, "");
}

static void open_fixture(void)
{
    one_store_begin();
    folder_verify = TD_VERIFY_START;
}

TD_FIXTURE(open_fixture, one_store_end);
