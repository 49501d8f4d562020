/* fuzz_store.c - files of the data folder: loaded by a store, read, persisted, read again.
 *
 * Input    A byte that selects the format: .tensord, .npy or .safetensors; the file. With 0x80 set:
 *          a file that the store has written, with 0x02 a table with keys, is damaged, and with
 *          0x04 its checksums are not compared: an offset in two bytes, little-endian, and a byte
 *          that is combined with the one there by exclusive or; and so on.
 *
 * A valid file beside it is served whatever this one holds, and what is verified is what was
 * written. */
#include "server/store/store.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static const char *const file_names[] = { "t.tensord", "t.npy", "t.safetensors" };
static const char valid_name[] = "valid.npy";

enum { PATH_SIZE = 128, MOST_PERSISTED = 1 << 16 };

static void path_of(char path[PATH_SIZE], const char *name)
{
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
}

static void put_file(const char *name, const void *data, size_t size)
{
    char path[PATH_SIZE];
    path_of(path, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0, "%s", path);
}

static void remove_file(const char *name)
{
    char path[PATH_SIZE];
    path_of(path, name);
    unlink(path);
}

static void remove_folder(void)
{
    for (size_t i = 0; i < sizeof file_names / sizeof file_names[0]; i++)
        remove_file(file_names[i]);
    remove_file(valid_name);
    remove_file("copy.tensord");
    remove_file(".tensord.lock");
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char valid[] = "\x93NUMPY\x01\x00\x38\x00{'descr': '|u1', 'fortran_order': False, "
                                "'shape': (2,)}\n\x07\x08";
    (void)argc;
    (void)argv;
    snprintf(folder, sizeof folder, "%s/tensord-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    REQUIRE(mkdtemp(folder), "no folder %s", folder);
    put_file(valid_name, valid, sizeof valid - 1);
    atexit(remove_folder);
    return 0;
}

static struct td_store *open_store(enum td_verify verify)
{
    static const struct td_log log = { .level = TD_LOG_ERROR, .fd = -1 };
    struct td_store *store = td_store_open(&(struct td_store_options){
        .dir = folder, .quota = 1 << 26, .verify = verify, .memory = fuzz_memory(), .log = &log });
    REQUIRE(store, "the store does not open");
    return store;
}

static bool get(struct td_store *store, const char *name, struct td_arena *arena,
                struct td_tensor_listing *out)
{
    struct td_error err = { 0 };
    const td_status status = td_store_get(store, name, strlen(name), arena, out, &err);
    if (status != TD_OK)
        fuzz_expect_error(&err, status, 0);
    return status == TD_OK;
}

/* Persists the tensor, and its keys if `keyed`. False if some of them are equal. */
static bool put(struct td_store *store, const char *name, const struct td_tensor *tensor,
                bool keyed, struct td_arena *arena)
{
    const struct td_store_write write = { .name = name, .persist = true };
    struct td_tensor_listing listing;
    struct td_error err = { 0 };
    struct td_exec serial;
    bool created;
    td_exec_serial(&serial, arena);
    const td_status status = td_store_put_table(store, &write, tensor, keyed ? tensor->keys : NULL,
                                                &serial, arena, &listing, &created, &err);
    REQUIRE(status == TD_OK || err.has_equal, "%s", err.message);
    return status == TD_OK;
}

static void expect_as_written(const struct td_tensor *written, bool keyed,
                              const struct td_tensor_listing *listing)
{
    fuzz_expect_same(written, listing->tensor, true);
    REQUIRE(keyed == (listing->keys != NULL), "keys came or went");
    if (!keyed)
        return;
    fuzz_expect_same(written->keys, listing->keys, true);
    fuzz_expect_keys(listing->keys, true);
}

/* Persists the tensor as "copy", and compares it with what another store loads. */
static void persist(struct td_store *store, const struct td_tensor *tensor, struct td_arena *arena)
{
    const struct td_store_write write = { .name = "copy" };
    struct td_tensor_listing listing;
    struct td_error err = { 0 };
    if (!put(store, "copy", tensor, true, arena))
        return;
    struct td_store *other = open_store(TD_VERIFY_START);
    REQUIRE(get(other, "copy", arena, &listing), "the copy is not there");
    fuzz_expect_tensor(listing.tensor);
    expect_as_written(tensor, tensor->keys != NULL, &listing);
    td_arena_reset(arena); /* the versions that it holds, before their store */
    td_store_free(other);
    REQUIRE(td_store_delete(store, &write, &(bool){ false }, &err) == TD_OK, "%s", err.message);
}

static void read_all(struct td_store *store, struct td_arena *arena)
{
    struct td_tensor_listing *list, one;
    struct td_error err = { 0 };
    int count, found = 0;
    REQUIRE(td_store_list(store, arena, &list, &count, &err) == TD_OK, "%s", err.message);
    for (int i = 0; i < count; i++) {
        found += strcmp(list[i].name, "valid") == 0;
        if (list[i].integrity == TD_INTEGRITY_DAMAGED)
            continue;
        REQUIRE(get(store, list[i].name, arena, &one), "%s is listed only", list[i].name);
        fuzz_expect_tensor(one.tensor);
        if (one.keys)
            fuzz_expect_keys(one.keys, false);
        REQUIRE(td_store_check(&one, &err) == TD_OK, "%s", err.message);
        fuzz_expect_round_trip(one.tensor, TD_FORMAT_JSON, TD_LAYOUT_BASE64);
    }
    REQUIRE(found == 1, "the valid file is not served");
    td_arena_reset(arena);
    if (get(store, "t", arena, &one) && one.tensor->bytes <= MOST_PERSISTED)
        persist(store, one.tensor, arena);
    td_arena_reset(arena);
}

/* Reads t.tensord, and writes it with the damage that the input describes. False if there is
 * none. */
static bool damage_file(const uint8_t *data, size_t size)
{
    static uint8_t bytes[4096], before[4096];
    char path[PATH_SIZE];
    path_of(path, file_names[0]);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    REQUIRE(length > 0 && length < (ssize_t)sizeof bytes && close(fd) == 0, "%s", path);
    memcpy(before, bytes, sizeof before);
    for (; size >= 3; data += 3, size -= 3)
        bytes[(data[0] | data[1] << 8) % length] ^= data[2];
    put_file(file_names[0], bytes, (size_t)length);
    return memcmp(before, bytes, sizeof before) != 0;
}

/* The tensor is refused, or was not changed; a file that does not say that it has checksums is one
 * of an older server. */
static void read_damaged(uint8_t selected, const uint8_t *data, size_t size, struct td_arena *arena)
{
    const bool keyed = selected & 2, compared = !(selected & 4);
    struct td_resolver *resolver = fuzz_resolver();
    struct td_tensor_listing listing;
    struct td_tensor tensor;
    struct td_error err = { 0 };
    REQUIRE(resolver->resolve(resolver, selected & 1 ? "s" : "t", 1, arena, &tensor, &err) == TD_OK,
            "%s", err.message);
    struct td_store *store = open_store(TD_VERIFY_START);
    REQUIRE(put(store, "t", &tensor, keyed, arena), "equal keys");
    td_arena_reset(arena);
    td_store_free(store);
    const bool damaged = damage_file(data, size);
    store = open_store(compared ? TD_VERIFY_START : TD_VERIFY_OFF);
    const bool served = get(store, "t", arena, &listing);
    const bool verified = served && listing.integrity == TD_INTEGRITY_VERIFIED;
    REQUIRE(damaged || verified || (served && !compared), "a file without damage is not verified");
    if (verified || !damaged)
        expect_as_written(&tensor, keyed, &listing);
    if (served)
        fuzz_expect_tensor(listing.tensor);
    if (served && listing.keys)
        fuzz_expect_keys(listing.keys, false);
    td_arena_reset(arena);
    td_store_free(store);
}

static void read_given(const char *name, const uint8_t *data, size_t size, struct td_arena *arena)
{
    put_file(name, data, size);
    struct td_store *store = open_store(TD_VERIFY_START);
    const int before = td_store_usage(store).tensors;
    td_store_rescan(store);
    REQUIRE(td_store_usage(store).tensors == before, "a rescan changes the tensors");
    read_all(store, arena);
    td_store_free(store);
    remove_file(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t selected = fuzz_byte(&data, &size);
    struct td_arena *arena = fuzz_arena_open();
    if (selected & 0x80)
        read_damaged(selected, data, size, arena);
    else
        read_given(file_names[selected % 3], data, size, arena);
    remove_file(file_names[0]);
    fuzz_arena_close(arena);
    return 0;
}
