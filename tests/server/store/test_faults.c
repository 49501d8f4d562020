/* Makes every system call and allocation fail, once or from then on, and checks that three things
 * agree: the result of the call, the served tensors, and those that a restart serves. */
#include "kernels/key_index/key_index.h"
#include "server/memory/fault_guard.h"
#include "server/store/aliases/aliases.h"
#include "tests/server/faults.h"
#include "tests/server/folder.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int reasons[] = { EIO, ENOSPC, EDQUOT, EMFILE, ENOMEM, EINTR, EACCES, EROFS };

static struct td_error err; /* of the last call */
static char label[1024];    /* describes the run in failure messages */

/* ---- the folder ------------------------------------------------------------------------------ */

static void empty_folder(void)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *item; (item = readdir(dir));)
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0 &&
            unlink(path_of(item->d_name)) != 0)
            remove_version(item->d_name);
    closedir(dir);
}

/* "t.npy", or "m.safetensors/w": the only tensor w of the file. Its values begin with `first`. Of
 * "t.keys.npy" one is 7: the second, of 200 and more the first. */
static void put_one(const char *file, int32_t first)
{
    char name[64], header[256];
    const char *slash = strchr(file, '/');
    if (strstr(file, ".keys")) {
        put_keys_npy(file, (const int64_t[]){ first < 200 ? first : 7, first < 200 ? 7 : first },
                     2);
        return;
    }
    if (!slash) {
        put_npy(file, first, 2);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(slash - file), file);
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", slash + 1);
    while (strlen(header) % 8 != 0)
        strcat(header, " ");
    put_safetensors(name, header, first, 2);
}

/* Calls `one` for each word of the list. */
static void for_each(const char *list, void (*one)(const char *word, int32_t value), int32_t value)
{
    char words[256];
    char *rest = words;
    snprintf(words, sizeof words, "%s", list ? list : "");
    for (char *word; (word = strtok_r(rest, " ", &rest)); value++)
        one(word, value);
}

/* Temporary files. */
static int count_hidden(void)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (const struct dirent *item; (item = readdir(dir));)
        n += strncmp(item->d_name, ".tensord-tmp", 12) == 0;
    closedir(dir);
    return n;
}

/* ---- what is served -------------------------------------------------------------------------- */

enum { TEXT = 2048 };

/* Appends "alias>target;" of each alias that has one now. */
static void describe_aliases(struct td_store *store, struct td_arena *arena, char *at,
                             const char *end)
{
    struct td_alias_change *list;
    int count;
    ck_assert_int_eq(td_store_list_aliases(store, arena, &list, &count, &err), TD_OK);
    for (int i = 0; i < count; i++)
        if (list[i].target)
            at += snprintf(at, (size_t)(end - at), "%s>%s;", list[i].name, list[i].target);
    ck_assert(at < end - 1);
}

/* The number of keys, and the row of 7. */
static int describe_key(const struct td_tensor *keys, char *at, const char *end)
{
    static const int64_t seven = 7;
    const struct td_tensor query = { .dtype = TD_DTYPE_INT64, .numel = 1, .data = (void *)&seven };
    int64_t row;
    td_key_index_find(keys->key_index, &query, 0, 1, &row);
    return snprintf(at, (size_t)(end - at), "(%d keys, %d)", (int)keys->numel, (int)row);
}

/* ";name=values;name=values;alias>target;" of all tensors and aliases; with `show_persisted` also
 * whether tensors are persisted. */
static void describe(struct td_store *store, bool show_persisted, char text[TEXT])
{
    struct td_arena arena;
    struct td_tensor_listing *list;
    int count;
    char *at = text;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    ck_assert_int_eq(td_store_list(store, &arena, &list, &count, &err), TD_OK);
    at += snprintf(at, TEXT, ";");
    for (int i = 0; i < count; i++) {
        const struct td_tensor *t = list[i].tensor;
        const char *end = text + TEXT;
        at += snprintf(at, (size_t)(end - at), "%s=", list[i].name);
        if (t->dtype == TD_DTYPE_STRING)
            at += snprintf(at, (size_t)(end - at), "'%.*s'", (int)t->bytes, (const char *)t->data);
        for (int64_t j = 0; j < t->numel && j < 3 && t->dtype != TD_DTYPE_STRING; j++)
            at += snprintf(at, (size_t)(end - at), "%d,", value_of(t, (int)j));
        if (list[i].keys)
            at += describe_key(list[i].keys, at, end);
        if (show_persisted)
            at += snprintf(at, (size_t)(end - at), list[i].persisted ? "persisted" : "");
        at += snprintf(at, (size_t)(end - at), ";");
        ck_assert(at < end - 1);
    }
    describe_aliases(store, &arena, at, text + TEXT);
    td_arena_reset(&arena);
}

static void describe_start(char text[TEXT])
{
    struct td_store *store = open_folder();
    describe(store, false, text);
    td_store_free(store);
}

/* A new start serves every tensor reported as persisted, with the same ETag. */
static void expect_kept(struct td_store *store)
{
    struct td_store *start = open_folder();
    struct td_tensor_listing *list, rescan;
    struct td_arena arena;
    int count;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    ck_assert_int_eq(td_store_list(store, &arena, &list, &count, &err), TD_OK);
    for (int i = 0; i < count; i++) {
        if (!list[i].persisted)
            continue;
        EXPECT(td_store_get(start, list[i].name, strlen(list[i].name), &arena, &rescan, &err) ==
                   TD_OK,
               "%s: %s", label, err.message);
        EXPECT(strcmp(rescan.etag, list[i].etag) == 0, "%s: %s has the ETag %s, then %s", label,
               list[i].name, list[i].etag, rescan.etag);
    }
    td_arena_reset(&arena);
    td_store_free(start);
}

/* State that a call must restore or change as a whole. */
struct state {
    char served[TEXT], stored[TEXT]; /* now, and after a new start */
    struct td_store_usage usage;
};

/* The start beside the store does not have the folder's lock, so it removes no hidden files. */
static void read_state(struct td_store *store, struct state *state)
{
    td_store_trim(store, INT64_MAX);
    describe(store, true, state->served);
    const int hidden = count_hidden();
    describe_start(state->stored);
    EXPECT(count_hidden() == hidden, "%s: a start without the lock removes hidden files", label);
    state->usage = td_store_usage(store);
}

static void expect_state(const struct state *got, const struct state *want, const char *when)
{
    EXPECT(strcmp(got->served, want->served) == 0, "%s: %s: \"%s\" is served, not \"%s\"", label,
           when, got->served, want->served);
    EXPECT(strcmp(got->stored, want->stored) == 0, "%s: %s: \"%s\" is stored, not \"%s\"", label,
           when, got->stored, want->stored);
    EXPECT(got->usage.tensors == want->usage.tensors && got->usage.mapped == want->usage.mapped &&
               got->usage.held == want->usage.held,
           "%s: %s: %d tensors, %d bytes mapped, %d held; not %d, %d, %d", label, when,
           got->usage.tensors, (int)got->usage.mapped, (int)got->usage.held, want->usage.tensors,
           (int)want->usage.mapped, (int)want->usage.held);
}

/* The sizes of the .tensord files. */
static uint64_t sum_of_files(void)
{
    DIR *dir = opendir(folder);
    uint64_t sum = 0;
    for (const struct dirent *item; (item = readdir(dir));) {
        struct stat info;
        const char *suffix = strrchr(item->d_name, '.');
        if (suffix != item->d_name && suffix && strcmp(suffix, ".tensord") == 0 &&
            stat(path_of(item->d_name), &info) == 0)
            sum += (uint64_t)info.st_size;
    }
    closedir(dir);
    return sum;
}

/* The whole remaining quota can be reserved, in memory and on disk. */
static void expect_room(struct td_store *store)
{
    const struct td_store_write file = { .name = "unused", .persist = true };
    const uint64_t disk = folder_quota - sum_of_files();
    EXPECT(td_store_admit(store, &file, disk, &err) == TD_OK, "%s: %s", label, err.message);
    EXPECT(td_store_admit(store, &file, disk + 1, &err) == TD_RESOURCE_LIMIT,
           "%s: more than the disk quota is admitted", label);
    const struct td_store_write other = { .name = "unused" };
    const struct td_store_usage usage = td_store_usage(store);
    const uint64_t room = usage.quota - usage.held;
    EXPECT(td_store_admit(store, &other, room, &err) == TD_OK, "%s: %s", label, err.message);
    EXPECT(td_store_admit(store, &other, room + 1, &err) == TD_RESOURCE_LIMIT,
           "%s: more than the quota is admitted", label);
}

/* Frees the store: it and the calls before have given back all that they took. */
static void close_store(struct td_store *store)
{
    td_arena_reset(&test_arena);
    td_store_free(store);
    EXPECT(faults_mappings() == 0, "%s: %d mappings are left", label, faults_mappings());
    EXPECT(td_guard_ranges() == 0, "%s: %d guarded ranges are left", label, td_guard_ranges());
    EXPECT(atomic_load(&store_memory.alive) == 0, "%s: %d buffers are left", label,
           atomic_load(&store_memory.alive));
}

/* ---- faults ---------------------------------------------------------------------------------- */

typedef void run_fn(const void *row, const struct fault *fault, const void *wanted);

/* The fallible calls of a run without faults. */
static struct {
    const char *function;
    bool memory;
} calls[1000];
static int n_calls;

static void record_calls(void)
{
    n_calls = faults_calls();
    ck_assert(n_calls > 0 && n_calls <= COUNT_OF(calls));
    for (int i = 0; i < n_calls; i++)
        calls[i].function = faults_function(i + 1, &calls[i].memory);
}

static void run_one(const char *description, const struct fault *fault, run_fn *run,
                    const void *row, const void *wanted)
{
    static const char *const spans[] = { "once", "and later calls of it", "and all later calls" };
    const bool memory = calls[fault->at - 1].memory;
    snprintf(label, sizeof label, "%s: call %d, %s, fails %s with %s%s%s", description, fault->at,
             calls[fault->at - 1].function, spans[fault->span],
             strerror(memory ? ENOMEM : fault->reason), fault->always ? ", without " : "",
             fault->always ? fault->always : "");
    run(row, fault, wanted);
}

/* Sanitizers slow the runs down by a factor of four. There, one call fails or all later ones do,
 * and allocations fail only where all functions work. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SPAN_STEP = FAULT_ALL - FAULT_ONCE, TRIES_MEMORY = false };
#else
enum { SPAN_STEP = 1, TRIES_MEMORY = true };
#endif

/* Runs with every possible fault in the recorded calls. The errors take turns: the code beside a
 * call hardly depends on the error, and each function is called in many of the runs. */
static void for_each_fault(const char *description, run_fn *run, const void *row,
                           const void *wanted)
{
    for (int at = 1; at <= n_calls; at++) {
        for (int span = FAULT_ONCE; span < FAULT_SPANS; span += SPAN_STEP) {
            const struct fault fault = { .at = at,
                                         .reason =
                                             reasons[(at * FAULT_SPANS + span) % COUNT_OF(reasons)],
                                         .span = (enum fault_span)span };
            run_one(description, &fault, run, row, wanted);
        }
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

static struct td_tensor new_tensor; /* the tensor that a change puts */

static td_status put(struct td_store *store, const char *name, bool persist, struct td_arena *arena)
{
    const struct td_store_write write = { .name = name, .persist = persist };
    struct td_tensor_listing listing;
    bool created;
    return td_store_put(store, &write, &new_tensor, arena, &listing, &created, &err);
}

static td_status persist(struct td_store *store, const char *name, struct td_arena *arena)
{
    return put(store, name, true, arena);
}

/* Changes the second element, or all if they are strings. */
static td_status scatter(struct td_store *store, const char *name, struct td_arena *arena)
{
    static const uint64_t offset = 4;
    static const int32_t value = 77;
    const struct td_store_write write = { .name = name, .persist = true };
    struct td_store_update *update;
    struct td_tensor_listing listing;
    const td_status status = td_store_update_begin(store, &write, arena, NULL, &update, &err);
    if (status != TD_OK)
        return status;
    if (update->tensor.dtype == TD_DTYPE_STRING)
        update->tensor = new_tensor;
    else
        memcpy((char *)update->tensor.data + offset, &value, sizeof value);
    return td_store_update_commit(update, &offset, 1, sizeof value, arena, &listing, &err);
}

/* Four keys for two rows and two more. */
static td_status grow(struct td_store *store, const char *name, struct td_arena *arena)
{
    static int64_t numbers[] = { 3, 7, 5, -1 };
    const struct td_tensor keys = { .dtype = TD_DTYPE_INT64,
                                    .shape = { .rank = 1, .dim = { 4 } },
                                    .numel = 4,
                                    .data = numbers,
                                    .bytes = sizeof numbers };
    const struct td_store_write write = { .name = name, .persist = true };
    struct td_store_update *update;
    struct td_tensor_listing listing;
    struct td_exec serial;
    td_exec_serial(&serial, arena);
    td_status status = td_store_update_open(store, &write, arena, &serial, &update, &err);
    if (status != TD_OK)
        return status;
    status = td_store_update_copy(update, 4, &err);
    if (status != TD_OK) {
        td_store_update_abort(update);
        return status;
    }
    memcpy((char *)update->tensor.data + 8, (const int32_t[]){ 8, 9 }, 8);
    update->keys = &keys;
    return td_store_update_commit(update, NULL, 0, 0, arena, &listing, &err);
}

static td_status put_two_keys(struct td_store *store, const char *name, struct td_arena *arena,
                              bool persist)
{
    static int64_t numbers[] = { 7, 3 };
    const struct td_tensor keys = { .dtype = TD_DTYPE_INT64,
                                    .shape = { .rank = 1, .dim = { 2 } },
                                    .numel = 2,
                                    .data = numbers,
                                    .bytes = sizeof numbers };
    const struct td_store_write write = { .name = name, .persist = persist };
    struct td_tensor_listing listing;
    struct td_exec serial;
    bool created;
    td_exec_serial(&serial, arena);
    return td_store_put_keys(store, &write, &keys, &serial, arena, &listing, &created, &err);
}

static td_status put_keys(struct td_store *store, const char *name, struct td_arena *arena)
{
    return put_two_keys(store, name, arena, false);
}

static td_status persist_keys(struct td_store *store, const char *name, struct td_arena *arena)
{
    return put_two_keys(store, name, arena, true);
}

static td_status delete_tensor(struct td_store *store, const char *name, struct td_arena *arena)
{
    const struct td_store_write write = { .name = name };
    (void)arena;
    return td_store_delete(store, &write, &(bool){ false }, &err);
}

/* Lets aliases name versions: "x=a@1 y=". */
static td_status flip(struct td_store *store, const char *text, struct td_arena *arena)
{
    enum { MOST = 4 };
    struct td_alias_change set[MOST];
    struct td_alias_flip flip = { .set = set, .persist = true };
    char words[128];
    char *rest = words;
    (void)arena;
    snprintf(words, sizeof words, "%s", text);
    for (char *word; (word = strtok_r(rest, " ", &rest)); flip.n_set++) {
        char *target = strchr(word, '=');
        *target++ = '\0';
        set[flip.n_set] = (struct td_alias_change){ word, *target ? target : NULL };
    }
    return td_store_flip(store, &flip, &err);
}

#define NUMBERS "int32[400] 1000..1399"
#define STRINGS "string[3] 'one' '' 'three'"

static const struct change {
    const char *description;
    td_status (*run)(struct td_store *store, const char *name, struct td_arena *arena);
    const char *name;
    const char *new_tensor; /* tensor */
    const char *own;        /* names persisted before; 'name: strings */
    const char *files;      /* files added before the store is opened */
    const char *memory; /* names put in memory after that; "x=a@1": an alias that is persisted */
} changes[] = {
    { "PUT of a new name", persist, "t", NUMBERS, "other", NULL, NULL },
    { "PUT over a .tensord file", persist, "t", NUMBERS, "t other", NULL, NULL },
    { "PUT over .npy", persist, "t", NUMBERS, NULL, "t.npy other.npy", NULL },
    { "PUT over .npy with keys", persist, "t", NUMBERS, NULL, "t.npy t.keys.npy", NULL },
    { "PUT over both", persist, "t", NUMBERS, "t", "t.npy", NULL },
    { "PUT over memory", persist, "t", NUMBERS, NULL, NULL, "t other" },
    { "PUT over memory over files", persist, "t", NUMBERS, "t", "t.npy", "t" },
    { "PUT over .safetensors", persist, "m:w", NUMBERS, NULL, "m.safetensors/w", NULL },
    { "PUT of strings", persist, "t", STRINGS, NULL, NULL, NULL },
    { "PUT of strings over strings", persist, "t", STRINGS, "'t", NULL, NULL },
    { "PUT of numbers over strings", persist, "t", NUMBERS, "'t", NULL, "'t" },
    { "scatter into a .tensord file", scatter, "t", NUMBERS, "t", NULL, NULL },
    { "scatter into .npy", scatter, "t", NUMBERS, NULL, "t.npy", NULL },
    { "scatter into both", scatter, "t", NUMBERS, "t", "t.npy", NULL },
    { "scatter into memory", scatter, "t", NUMBERS, NULL, NULL, "t" },
    { "scatter into memory over a file", scatter, "t", NUMBERS, "t", NULL, "t" },
    { "scatter into strings", scatter, "t", STRINGS, "'t", NULL, NULL },
    { "keys of a table in memory", put_keys, "t", NUMBERS, NULL, NULL, "t" },
    { "keys in memory of a table in a file", put_keys, "t", NUMBERS, "t", NULL, NULL },
    { "keys into a .tensord file", persist_keys, "t", NUMBERS, "t other", NULL, NULL },
    { "keys of .npy", persist_keys, "t", NUMBERS, NULL, "t.npy", NULL },
    { "keys of .npy with keys", persist_keys, "t", NUMBERS, NULL, "t.npy t.keys.npy", NULL },
    { "rows and keys of a .tensord file", grow, "t", NUMBERS, "t", NULL, NULL },
    { "rows and keys of memory over a file", grow, "t", NUMBERS, "t", NULL, "t" },
    { "DELETE of a .tensord file", delete_tensor, "t", NUMBERS, "t other", NULL, NULL },
    { "DELETE of .npy", delete_tensor, "t", NUMBERS, NULL, "t.npy", NULL },
    { "DELETE of .npy with keys", delete_tensor, "t", NUMBERS, NULL, "t.npy t.keys.npy", NULL },
    { "DELETE of both", delete_tensor, "t", NUMBERS, "t", "t.npy", NULL },
    { "DELETE of .safetensors", delete_tensor, "m:w", NUMBERS, NULL, "m.safetensors/w", NULL },
    { "DELETE of all three", delete_tensor, "m:w", NUMBERS, "m:w", "m.safetensors/w m:w.npy",
      NULL },
    { "DELETE of three without a .tensord file", delete_tensor, "a:b:c", NUMBERS, NULL,
      "a.safetensors/b:c a:b.safetensors/c a:b:c.npy", NULL },
    { "DELETE of memory", delete_tensor, "t", NUMBERS, "other", NULL, "t" },
    { "DELETE of memory over files", delete_tensor, "t", NUMBERS, "t", "t.npy", "t" },
    { "a first flip", flip, "x=a@1 y=b@1", NUMBERS, "a@1 b@1", NULL, NULL },
    { "a flip of three aliases", flip, "x=a@2 y=b@2 old=", NUMBERS, "a@1 b@1", "a@2.npy b@2.npy",
      "x=a@1 y=b@1 old=a@1" },
    { "DELETE of an alias", delete_tensor, "x", NUMBERS, "a@1 a@2", NULL, "x=a@1 y=a@1" },
    { "DELETE of a version", delete_tensor, "a@1", NUMBERS, "a@1 a@2", NULL, "x=a@2" },
};

static struct td_store *filled;
static bool filled_files;

static void fill(const char *word, int32_t value)
{
    char text[64];
    const bool strings = *word == '\'';
    if (strchr(word, '=')) {
        EXPECT(flip(filled, word, &test_arena) == TD_OK, "%s", err.message);
        return;
    }
    snprintf(text, sizeof text, strings ? "string[2] 'no %d' ''" : "int32[2] %d 0", (int)value);
    new_tensor = tensor(text);
    EXPECT(put(filled, word + strings, filled_files, &test_arena) == TD_OK, "%s", err.message);
}

/* Opens a store as the row describes. */
static struct td_store *prepare(const struct change *change)
{
    empty_folder();
    filled = open_folder();
    filled_files = true;
    for_each(change->own, fill, 1);
    td_arena_reset(&test_arena);
    td_store_free(filled);
    for_each(change->files, put_one, 100);
    filled = open_folder();
    filled_files = false;
    for_each(change->memory, fill, 50);
    td_arena_reset(&test_arena);
    (void)logged();
    return filled;
}

static td_status run_change(const struct change *change, struct td_store *store,
                            const struct fault *fault)
{
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    new_tensor = tensor(change->new_tensor);
    err.message[0] = '\0';
    faults_begin(fault);
    const td_status status = change->run(store, change->name, &arena);
    faults_end();
    td_arena_reset(&arena);
    td_arena_reset(&test_arena);
    return status;
}

static const struct fault none = { 0 };

/* If both the fsync of the folder and the undo fail, the change stays and the error reports it. */
static bool took_effect(td_status status)
{
    return status == TD_OK || strstr(err.message, "power failure");
}

struct states {
    struct state before, after;
};

static void change_with_fault(const void *row, const struct fault *fault, const void *wanted)
{
    const struct change *change = row;
    const struct states *states = wanted;
    struct state now;
    struct td_store *store = prepare(change);
    const int descriptors = faults_descriptors();
    const td_status status = run_change(change, store, fault);
    const bool done = took_effect(status);
    const size_t length = strlen(label);
    snprintf(label + length, sizeof label - length, "; %s", status == TD_OK ? "done" : err.message);
    const struct state *want = done ? &states->after : &states->before;
    EXPECT(status == TD_OK || err.message[0], "%s: the error has no message", label);
    const bool one = fault->span == FAULT_ONCE && !fault->always;
    EXPECT(status == TD_OK || !done || !one, "%s: not undone", label);
    EXPECT(faults_descriptors() == descriptors, "%s: descriptors are left", label);
    EXPECT(count_hidden() == 0 || !one, "%s: hidden files are left", label);
    read_state(store, &now);
    expect_state(&now, want, "then");
    expect_kept(store);
    td_store_rescan(store);
    read_state(store, &now);
    expect_state(&now, want, "after a rescan");
    expect_room(store);
    const td_status rescan = run_change(change, store, &none);
    EXPECT(rescan == (done && change->run == delete_tensor ? TD_TENSOR_NOT_FOUND : TD_OK),
           "%s: once more: %s", label, err.message);
    read_state(store, &now);
    expect_state(&now, &states->after, "once more");
    close_store(store);
    td_store_free(open_folder());
    EXPECT(count_hidden() == 0, "%s: hidden files are left at a start", label);
}

/* Runs the change with each fault, and with each function that always fails. */
static void try_change(const struct change *change, const char *always)
{
    static struct states states;
    struct td_store *store = prepare(change);
    read_state(store, &states.before);
    EXPECT_OK(run_change(change, store, &none), &err);
    record_calls();
    read_state(store, &states.after);
    close_store(store);
    ck_assert_str_ne(states.before.served, states.after.served);
    if (!always)
        for_each_fault(change->description, change_with_fault, change, &states);
    for (int at = 1; at <= n_calls && always; at++) {
        const struct fault fault = { .at = at, .reason = EIO, .always = always };
        if (TRIES_MEMORY || !calls[at - 1].memory)
            run_one(change->description, &fault, change_with_fault, change, &states);
    }
}

TD_TEST_EACH(a_failed_change_alters_neither_memory_nor_disk, changes)
{
    try_change(&changes[_i], NULL);
}

TD_TEST_EACH(without_hard_links_memory_and_disk_agree_after_a_failed_change, changes)
{
    try_change(&changes[_i], "linkat");
}

TD_TEST_EACH(the_next_start_removes_files_that_could_not_be_removed, changes)
{
    try_change(&changes[_i], "unlinkat");
}

/* ---- rescanning ------------------------------------------------------------------------------ */

static const struct rescan_case {
    const char *description;
    struct change change; /* the state before; its name is put in memory later */
    const char *then; /* "t.npy": the file is added or replaced; "-t.npy": removed; "=t": another
                             process persists t */
    const char *may_miss; /* a name that another file provides then, which may be unreadable */
} looks[] = {
    { "new files", LIST(.name = "t", .own = "other"), "t.npy m.safetensors/w", NULL },
    { "changed files", LIST(.name = "t", .files = "t.npy m.safetensors/w"), "t.npy m.safetensors/w",
      NULL },
    { "a file and that of its keys", LIST(.name = "t", .own = "other"), "t.npy t.keys.npy", NULL },
    { "changed files of rows and keys", LIST(.name = "t", .files = "t.npy t.keys.npy"),
      "t.npy t.keys.npy", NULL },
    { "changed keys", LIST(.name = "t", .files = "t.npy t.keys.npy"), "t.keys.npy", NULL },
    { "a vanished file of keys", LIST(.name = "t", .files = "t.npy t.keys.npy"), "-t.keys.npy",
      NULL },
    { "a changed .tensord file", LIST(.name = "t", .own = "t 'u"), "=t", NULL },
    { "another tensor in a file", LIST(.name = "m:v", .files = "m.safetensors/w"),
      "m.safetensors/v", NULL },
    { "vanished files", LIST(.name = "o", .own = "t", .files = "u.npy o.npy"), "-t.tensord -u.npy",
      NULL },
    { "a file that takes precedence over another is added", LIST(.name = "t", .files = "t.npy"),
      "=t t.npy", NULL },
    { "a file that took precedence is removed", LIST(.name = "t", .own = "t", .files = "t.npy"),
      "-t.tensord", "t" },
    { "a put tensor stays", LIST(.name = "u", .files = "t.npy u.npy", .memory = "t"), "u.npy",
      NULL },
    { "a put tensor is removed with its file",
      LIST(.name = "t", .files = "t.npy u.npy", .memory = "t"), "t.npy", NULL },
};

/* Another process writes the file in a folder of its own and moves it here. */
static void persist_elsewhere(const char *name, int32_t value)
{
    char other[512], from[600];
    snprintf(other, sizeof other, "%s", path_of("other"));
    ck_assert_int_eq(mkdir(other, 0700), 0);
    filled = open_at(other);
    filled_files = true;
    fill(name, value);
    td_store_free(filled);
    snprintf(from, sizeof from, "%s/%s.tensord", other, name);
    char file[64];
    snprintf(file, sizeof file, "%s.tensord", name);
    ck_assert_int_eq(rename(from, path_of(file)), 0);
    snprintf(from, sizeof from, "%s/.tensord.lock", other);
    ck_assert_int_eq(unlink(from), 0);
    ck_assert_int_eq(rmdir(other), 0);
}

static void apply_file_change(const char *word, int32_t value)
{
    if (*word == '-') {
        ck_assert_int_eq(unlink(path_of(word + 1)), 0);
    } else if (*word == '=') {
        persist_elsewhere(word + 1, value);
    } else {
        char path[512], file[64];
        snprintf(path, sizeof path, "%s",
                 path_of(strstr(word, ".keys") ? "new.keys.tmp" : "new.tmp"));
        snprintf(file, sizeof file, "%.*s", (int)strcspn(word, "/"), word);
        if (strchr(word, '/')) {
            char other[80];
            snprintf(other, sizeof other, "new.tmp%s", strchr(word, '/'));
            put_one(other, value);
        } else {
            put_one(strstr(word, ".keys") ? "new.keys.tmp" : "new.tmp", value);
        }
        ck_assert_int_eq(rename(path, path_of(file)), 0);
    }
}

static struct td_store *prepare_rescan(const struct rescan_case *rescan)
{
    struct td_store *store = prepare(&rescan->change);
    for_each(rescan->then, apply_file_change, 200);
    td_arena_reset(&test_arena);
    return store;
}

/* Whether the log reports it. */
static bool contains(const char *text, const char *item)
{
    char plain[TEXT], tagged[TEXT];
    const char *tag = strstr(item, "persisted");
    const int length = tag ? (int)(tag - item) : (int)strlen(item) - 1;
    snprintf(plain, sizeof plain, "%.*s;", length, item);
    snprintf(tagged, sizeof tagged, "%.*spersisted;", length, item);
    return strstr(text, plain) || strstr(text, tagged);
}

/* Each tensor is as before or as after, and none that is in both is missing. */
static void expect_either(const char *now, const struct states *states, const char *may_miss)
{
    char item[TEXT];
    for (const char *at = now; at[1]; at += strcspn(at + 1, ";") + 1) {
        snprintf(item, sizeof item, ";%.*s;", (int)strcspn(at + 1, ";"), at + 1);
        EXPECT(contains(states->before.served, item) || contains(states->after.served, item),
               "%s: \"%s\" is served", label, item);
    }
    for (const char *at = states->before.served; at[1]; at += strcspn(at + 1, ";") + 1) {
        snprintf(item, sizeof item, ";%.*s=", (int)strcspn(at + 1, "="), at + 1);
        const bool may = may_miss && strncmp(item + 1, may_miss, strlen(item) - 2) == 0;
        EXPECT(strstr(now, item) || !strstr(states->after.served, item) || may,
               "%s: \"%s\" is missing", label, item);
    }
}

static void rescan_with_fault(const void *row, const struct fault *fault, const void *wanted)
{
    const struct rescan_case *rescan = row;
    const struct states *states = wanted;
    struct state now;
    struct td_store *store = prepare_rescan(rescan);
    const int descriptors = faults_descriptors();
    faults_begin(fault);
    td_store_rescan(store);
    faults_end();
    EXPECT(faults_descriptors() == descriptors, "%s: descriptors are left", label);
    read_state(store, &now);
    expect_either(now.served, states, rescan->may_miss);
    expect_room(store);
    const bool all = strcmp(now.served, states->after.served) == 0;
    if (all) { /* later changes stay, though a fault may have kept a file from being remembered */
        new_tensor = tensor("int32[1] 3000");
        EXPECT(put(store, rescan->change.name, false, &test_arena) == TD_OK, "%s", err.message);
        td_arena_reset(&test_arena);
    }
    td_store_rescan(store);
    EXPECT(!td_store_is_locked_out(store), "%s: the lock is lost", label);
    read_state(store, &now);
    if (all)
        EXPECT(strstr(now.served, "=3000,;"), "%s: \"%s\" after a PUT and a rescan", label,
               now.served);
    else
        expect_state(&now, &states->after, "after another rescan");
    expect_kept(store);
    close_store(store);
}

TD_TEST_EACH(a_failed_rescan_serves_the_old_or_the_new_version, looks)
{
    const struct rescan_case *rescan = &looks[_i];
    static struct states states;
    struct td_store *store = prepare_rescan(rescan);
    read_state(store, &states.before);
    faults_begin(&none);
    td_store_rescan(store);
    faults_end();
    record_calls();
    read_state(store, &states.after);
    close_store(store);
    ck_assert_str_ne(states.before.served, states.after.served);
    for_each_fault(rescan->description, rescan_with_fault, rescan, &states);
}

/* ---- version folders ------------------------------------------------------------------------- */

static struct td_store *prepare_folder(void)
{
    static const struct change change = { .files = "m@6.npy", .memory = "x=m@6 y=m@6" };
    struct td_store *store = prepare(&change);
    put_version("7", "m.npy t.npy", 70, "\"aliases\":{\"x\":\"m@7\",\"z\":\"t@7\"}");
    return store;
}

/* The folder is taken whole, with its aliases, or not at all, now and by the next rescan. */
static void take_folder_with_fault(const void *row, const struct fault *fault, const void *wanted)
{
    const struct states *states = wanted;
    struct state now;
    struct td_store *store = prepare_folder();
    const int descriptors = faults_descriptors();
    (void)row;
    faults_begin(fault);
    td_store_rescan(store);
    faults_end();
    EXPECT(faults_descriptors() == descriptors, "%s: descriptors are left", label);
    td_store_trim(store, INT64_MAX);
    describe(store, true, now.served);
    EXPECT(strcmp(now.served, states->before.served) == 0 ||
               strcmp(now.served, states->after.served) == 0,
           "%s: \"%s\" is served", label, now.served);
    expect_room(store);
    td_store_rescan(store);
    read_state(store, &now);
    expect_state(&now, &states->after, "after another rescan");
    expect_kept(store);
    close_store(store);
}

TD_TEST(a_folder_is_taken_whole_or_not_whichever_call_fails)
{
    static struct states states;
    struct td_store *store = prepare_folder();
    describe(store, true, states.before.served);
    faults_begin(&none);
    td_store_rescan(store);
    faults_end();
    record_calls();
    read_state(store, &states.after);
    close_store(store);
    ck_assert_ptr_nonnull(strstr(states.after.served, "x>m@7;y>m@6;z>t@7;"));
    for_each_fault("a folder of a version", take_folder_with_fault, NULL, &states);
}

/* ---- versions that are not kept -------------------------------------------------------------- */

static const struct change next_version = {
    .run = persist, .name = "m@3", .new_tensor = NUMBERS, .own = "m@1 m@2", .memory = "x=m@2"
};

/* Memory and disk agree on which versions are left; none is removed for one that is not there, and
 * the next scan removes what could not be removed. */
static void put_version_with_fault(const void *row, const struct fault *fault, const void *wanted)
{
    char served[TEXT], stored[TEXT];
    struct td_store *store = prepare(&next_version);
    const bool put = took_effect(run_change(&next_version, store, fault));
    (void)row, (void)wanted;
    describe(store, false, served);
    describe_start(stored);
    EXPECT(strcmp(served, stored) == 0, "%s: \"%s\" is served, \"%s\" stored", label, served,
           stored);
    EXPECT((strstr(served, ";m@3=") != NULL) == put && strstr(served, ";m@2=") &&
               strstr(served, ";x>m@2;"),
           "%s: \"%s\" is served", label, served);
    td_store_rescan(store);
    describe(store, false, served);
    EXPECT((strstr(served, ";m@1=") == NULL) == put && (strstr(served, ";m@3=") != NULL) == put,
           "%s: \"%s\" is served after a rescan", label, served);
    expect_kept(store);
    expect_room(store);
    close_store(store);
}

TD_TEST(only_old_versions_are_removed_whichever_call_fails)
{
    folder_keep_versions = 2;
    struct td_store *store = prepare(&next_version);
    ck_assert_int_eq(run_change(&next_version, store, &none), TD_OK);
    record_calls();
    expect_names(store, "m@2 m@3");
    close_store(store);
    for_each_fault("a version more", put_version_with_fault, NULL, NULL);
    folder_keep_versions = 0;
}

/* A tensor that is put after a scan could not read or serve its file stays in the next scan. */
static void put_after_fault(const void *row, const struct fault *fault, const void *wanted)
{
    static const struct change change = { .files = "u.npy" };
    const char *file = row;
    struct td_store *store = prepare(&change);
    (void)wanted;
    put_one(file, 200);
    faults_begin(fault);
    td_store_rescan(store);
    faults_end();
    char skipped[80];
    snprintf(skipped, sizeof skipped, "table_skipped file=%.*s ", (int)strcspn(file, "/"), file);
    const bool was_skipped = strstr(logged(), skipped) && !calls[fault->at - 1].memory;
    const char *name = strchr(file, '/') ? "m:w" : "t";
    new_tensor = tensor("int32[1] 3000");
    EXPECT(put(store, name, false, &test_arena) == TD_OK, "%s", err.message);
    td_arena_reset(&test_arena);
    td_store_rescan(store);
    EXPECT(value_of(found(store, name)->tensor, 0) == 3000 || !was_skipped,
           "%s: a later PUT was replaced", label);
    td_arena_reset(&test_arena);
    close_store(store);
}

static const char *const new_files[] = { "t.npy", "m.safetensors/w" };

TD_TEST_EACH(a_tensor_put_after_its_file_could_not_be_read_stays, new_files)
{
    static const struct change change = { .files = "u.npy" };
    struct td_store *store = prepare(&change);
    put_one(new_files[_i], 200);
    faults_begin(&none);
    td_store_rescan(store);
    faults_end();
    record_calls();
    close_store(store);
    for_each_fault(new_files[_i], put_after_fault, new_files[_i], NULL);
}

static void start_with_fault(const void *row, const struct fault *fault, const void *wanted)
{
    const struct state *want = wanted;
    struct state now;
    (void)row;
    const int descriptors = faults_descriptors();
    faults_begin(fault);
    struct td_store *store = open_at(folder);
    faults_end();
    if (store) {
        td_store_rescan(store);
        EXPECT(!td_store_is_locked_out(store), "%s: the lock is not taken", label);
        read_state(store, &now);
        expect_state(&now, want, "after a rescan");
        close_store(store);
    }
    EXPECT(faults_descriptors() == descriptors, "%s: descriptors are left", label);
    (void)logged();
}

TD_TEST(a_rescan_completes_a_failed_start)
{
    static const struct change change = { .own = "t 'u other",
                                          .files = "t.npy n.npy m.safetensors/w" };
    static struct state want;
    td_store_free(prepare(&change));
    faults_begin(&none);
    struct td_store *store = open_folder();
    faults_end();
    record_calls();
    read_state(store, &want);
    close_store(store);
    for_each_fault("start", start_with_fault, NULL, &want);
}

/* ---- the index of keys ----------------------------------------------------------------------- */

#define INDEX ".k.keys.npy.index.tensord"

/* The smallest number of keys whose index is stored. */
enum { N_KEYS = 65536 };

static void put_many_keys(void)
{
    static int64_t keys[N_KEYS];
    for (int i = 0; i < N_KEYS; i++)
        keys[i] = 7 - i;
    put_npy("k.npy", 1, N_KEYS);
    put_keys_npy("k.keys.npy", keys, N_KEYS);
}

static void store_index_with_fault(const void *row, const struct fault *fault, const void *wanted)
{
    char now[TEXT];
    (void)row;
    unlink(path_of(INDEX));
    faults_begin(fault);
    struct td_store *store = open_at(folder);
    faults_end();
    close_store(store);
    for (int i = 0; i < 2; i++) {
        describe_start(now);
        EXPECT(strcmp(now, wanted) == 0, "%s: start %d serves %s", label, i, now);
        EXPECT(count_hidden() == 0, "%s: start %d leaves temporary files", label, i);
        EXPECT(access(path_of(INDEX), F_OK) == 0, "%s: start %d stores no index", label, i);
    }
    (void)logged();
}

TD_TEST(an_index_that_could_not_be_stored_is_stored_by_the_next_start)
{
    static char want[TEXT];
    put_many_keys();
    faults_begin(&none);
    describe_start(want);
    faults_end();
    record_calls();
    for (int at = 1; at <= n_calls; at++) {
        const bool same = at > 1 && strcmp(calls[at - 1].function, calls[at - 2].function) == 0;
        /* One of the many writes is enough. */
        if (same && strcmp(calls[at - 1].function, "write") == 0)
            continue;
        for (int span = FAULT_ONCE; span < FAULT_SPANS; span += SPAN_STEP) {
            const struct fault fault = { .at = at,
                                         .reason = reasons[at % COUNT_OF(reasons)],
                                         .span = (enum fault_span)span };
            run_one("the index of keys", &fault, store_index_with_fault, NULL, want);
        }
    }
}

static void begin(void)
{
    folder_quota = (uint64_t)1 << 20; /* so that it is checked */
    folder_open();
}

TD_FIXTURE(begin, folder_close);
