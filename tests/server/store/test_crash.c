/* A process that persists tensors, aliases or versions in a loop, or takes version folders, is
 * killed at random system calls; the files that it leaves are complete. */
#include "kernels/key_index/key_index.h"
#include "server/store/aliases/aliases.h"
#include "tests/server/faults.h"
#include "tests/server/folder.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 30 };

/* ---- kills ----------------------------------------------------------------------------------- */

/* When the child dies; shared with it. */
struct death {
    int step; /* after so many more steps */
    int draw; /* at this call of the step, modulo the number of calls of the step before */
    int calls, calls_before;
    char pipe[32]; /* which is written to after each step */
};

static struct death *death;

static void die_in_time(const char *function, const char *file)
{
    if (strcmp(function, "write") == 0 && strcmp(file, death->pipe) == 0) {
        death->step--;
        death->calls_before = death->calls;
        death->calls = 0;
    } else if (death->calls++ >= death->draw % death->calls_before && death->step <= 0) {
        raise(SIGKILL);
    }
}

/* Runs `loop` in a child, which writes a byte to `done` after each step, and is killed at a random
 * system call of the step after the first few ones, at most `most`. Returns how many steps it had
 * done. */
static int kill_loop(void (*loop)(int done), int most)
{
    static const struct fault dying = { .before = die_in_time };
    struct stat info;
    int status, ends[2], steps = 0;
    char byte;
    if (!death) {
        death =
            mmap(NULL, sizeof *death, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ck_assert(death != MAP_FAILED);
        death->calls_before = 20;
    }
    death->step = random_below(most + 1);
    death->draw = random_below(1 << 20);
    death->calls = 0;
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fstat(ends[1], &info), 0);
    snprintf(death->pipe, sizeof death->pipe, "pipe:[%llu]", (unsigned long long)info.st_ino);
    const pid_t child = fork();
    if (child == 0) {
        faults_begin(&dying);
        loop(ends[1]);
        _exit(1); /* it is killed before */
    }
    close(ends[1]);
    while (read(ends[0], &byte, 1) == 1)
        steps++;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ends[0]);
    return steps;
}

/* ---- tensors --------------------------------------------------------------------------------- */

enum { MOST_BYTES = 100000, MOST_PUTS = 3 };

/* Content number k: its length and every byte depend on k. */
static struct td_tensor content(int k)
{
    struct td_tensor t;
    struct td_error err;
    const struct td_shape dims = { 1, { k ? MOST_BYTES : MOST_BYTES / 3 } };
    ck_assert_int_eq(td_tensor_describe(&t, "t", TD_DTYPE_UINT8, &dims, &err), TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&t, &test_arena, &err), TD_OK);
    memset(t.data, 'a' + k, t.bytes);
    return t;
}

static struct td_tensor contents[2];

/* Each step is a put. */
static void put_in_loop(int done)
{
    struct td_store *store = open_at(folder);
    const struct td_store_write on_t = { .name = "t", .persist = true };
    struct td_tensor_listing listing;
    struct td_arena arena;
    struct td_error err;
    bool created;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    for (int i = 0; store; i++) {
        if (td_store_put(store, &on_t, &contents[i % 2], &arena, &listing, &created, &err) !=
                TD_OK ||
            write(done, "", 1) != 1)
            break;
        td_arena_reset(&arena);
    }
}

static void expect_no_temporary(void)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *item; (item = readdir(dir));)
        ck_assert_msg(strncmp(item->d_name, ".tensord-tmp", 12) != 0, "%s", item->d_name);
    closedir(dir);
}

static void expect_complete(int *seen)
{
    struct td_store *store = open_folder(); /* compares the file with its checksums */
    ck_assert(!td_store_is_locked_out(store));
    if (td_store_usage(store).tensors > 0) {
        const struct td_tensor *t = found(store, "t")->tensor;
        const int k = t->bytes == contents[1].bytes;
        ck_assert_uint_eq(t->bytes, contents[k].bytes);
        ck_assert(memcmp(t->data, contents[k].data, t->bytes) == 0);
        ck_assert_int_eq(found(store, "t")->integrity, TD_INTEGRITY_VERIFIED);
        seen[k]++;
    }
    td_arena_reset(&test_arena);
    td_store_free(store);
    expect_no_temporary();
    ck_assert_ptr_null(strstr(logged(), "table_skipped"));
}

TD_TEST(a_kill_at_any_moment_leaves_the_old_or_the_new_version)
{
    int seen[2] = { 0 };
    random_seed(0);
    for (int round = 0; round < ROUNDS; round++) {
        contents[0] = content(0);
        contents[1] = content(1);
        (void)kill_loop(put_in_loop, MOST_PUTS);
        expect_complete(seen);
    }
    ck_assert(seen[0] > 0 && seen[1] > 0);
}

/* ---- keys ------------------------------------------------------------------------------------ */

enum { KEYED_ROWS = 3000, MORE_ROWS = 1000 };

/* Sets `n` rows to the round, and their keys to numbers from it on: they belong together. */
static void fill_rows(int64_t *rows, int64_t *keys, int64_t n, int64_t round)
{
    for (int64_t i = 0; i < n; i++) {
        rows[i] = round * KEYED_ROWS + i;
        keys[i] = -rows[i];
    }
}

static struct td_tensor vector_of(int64_t *values, int64_t n)
{
    return (struct td_tensor){ .dtype = TD_DTYPE_INT64,
                               .shape = { .rank = 1, .dim = { n } },
                               .numel = n,
                               .data = values,
                               .bytes = (size_t)n * sizeof *values };
}

/* Replaces all rows and keys, in turn by more and fewer. */
static td_status change_rows(struct td_store *store, int64_t round, struct td_arena *arena)
{
    static int64_t keys[KEYED_ROWS + MORE_ROWS];
    const struct td_store_write write = { .name = "t", .persist = true };
    const int64_t n = round % 2 ? KEYED_ROWS + MORE_ROWS : KEYED_ROWS;
    const struct td_tensor vector = vector_of(keys, n);
    struct td_store_update *update;
    struct td_tensor_listing listing;
    struct td_error err;
    struct td_exec serial;
    td_exec_serial(&serial, arena);
    td_status status = td_store_update_open(store, &write, arena, &serial, &update, &err);
    if (status != TD_OK)
        return status;
    status = td_store_update_copy(update, n, &err);
    if (status != TD_OK) {
        td_store_update_abort(update);
        return status;
    }
    fill_rows(update->tensor.data, keys, n, round);
    update->keys = &vector;
    return td_store_update_commit(update, NULL, 0, 0, arena, &listing, &err);
}

static int64_t last_round; /* that is in the file when the child begins */

/* Each step is a change of all rows and keys. */
static void change_rows_in_loop(int done)
{
    struct td_store *store = open_at(folder);
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    for (int64_t round = last_round + 1; store; round++) {
        if (change_rows(store, round, &arena) != TD_OK || write(done, "", 1) != 1)
            break;
        td_arena_reset(&arena);
    }
}

/* Rows, keys and index are those of one round, which is returned, not before `acknowledged`. */
static int64_t expect_one_round(int64_t acknowledged)
{
    struct td_store *store = open_folder();
    const struct td_tensor *t = found(store, "t")->tensor;
    const int64_t *rows = t->data, round = rows[0] / KEYED_ROWS;
    int64_t got[2];
    ck_assert_int_ge(round, acknowledged);
    ck_assert_int_eq(t->numel, round % 2 ? KEYED_ROWS + MORE_ROWS : KEYED_ROWS);
    ck_assert_int_eq(t->keys->numel, t->numel);
    for (int64_t i = 0; i < t->numel; i++)
        EXPECT(rows[i] == round * KEYED_ROWS + i && ((const int64_t *)t->keys->data)[i] == -rows[i],
               "row %d", (int)i);
    int64_t queries[] = { -rows[t->numel - 1], 1 };
    const struct td_tensor vector = vector_of(queries, 2);
    td_key_index_find(t->keys->key_index, &vector, 0, 2, got);
    ck_assert(got[0] == t->numel - 1 && got[1] == TD_ROW_NONE);
    ck_assert_int_eq(found(store, "t")->integrity, TD_INTEGRITY_VERIFIED);
    td_arena_reset(&test_arena);
    td_store_free(store);
    return round;
}

TD_TEST(a_kill_at_any_moment_leaves_rows_and_keys_of_one_version)
{
    static int64_t rows[KEYED_ROWS], keys[KEYED_ROWS];
    const struct td_store_write write = { .name = "t", .persist = true };
    const struct td_tensor table = vector_of(rows, KEYED_ROWS),
                           vector = vector_of(keys, KEYED_ROWS);
    struct td_tensor_listing listing;
    struct td_error err;
    struct td_exec serial;
    bool created;
    random_seed(0);
    struct td_store *store = open_folder();
    td_exec_serial(&serial, &test_arena);
    fill_rows(rows, keys, KEYED_ROWS, 0);
    ck_assert_int_eq(td_store_put_table(store, &write, &table, &vector, &serial, &test_arena,
                                        &listing, &created, &err),
                     TD_OK);
    td_arena_reset(&test_arena);
    td_store_free(store);
    for (int i = 0; i < ROUNDS; i++) {
        const int changes = kill_loop(change_rows_in_loop, MOST_PUTS);
        last_round = expect_one_round(last_round + changes);
    }
    ck_assert_int_gt(last_round, 0);
}

/* ---- flips ----------------------------------------------------------------------------------- */

enum { ALIASES = 40, MOST_FLIPS = 20 };

static td_status flip_all(struct td_store *store, const char *target, struct td_error *err)
{
    static char names[ALIASES][16];
    struct td_alias_change set[ALIASES];
    for (int i = 0; i < ALIASES; i++) {
        snprintf(names[i], sizeof names[i], "x%d", i);
        set[i] = (struct td_alias_change){ names[i], target };
    }
    return td_store_flip(
        store, &(struct td_alias_flip){ .set = set, .n_set = ALIASES, .persist = true }, err);
}

/* Each step is a flip. */
static void flip_in_loop(int done)
{
    struct td_store *store = open_at(folder);
    struct td_error err;
    for (int i = 0; store; i++)
        if (flip_all(store, i % 2 ? "v@1" : "v@0", &err) != TD_OK || write(done, "", 1) != 1)
            break;
}

/* All aliases name the same version, or none is there: that. `last` is of the last flip that was
 * acknowledged, -1 for none; the next one may have happened. */
static void expect_whole(int last, int *seen)
{
    struct td_alias_change *list;
    struct td_problem_listing *problems;
    struct td_error err;
    int count, n_problems;
    struct td_store *store = open_folder();
    ck_assert_int_eq(td_store_list_aliases(store, &test_arena, &list, &count, &err), TD_OK);
    ck_assert(count == ALIASES || (count == 0 && last < 0));
    for (int i = 0; i < count; i++)
        ck_assert_str_eq(list[i].target, list[0].target);
    if (count > 0)
        seen[list[0].target[2] - '0']++;
    ck_assert_int_eq(
        td_store_list_problems(store, &test_arena, &problems, &n_problems, &(int){ 0 }, &err),
        TD_OK);
    ck_assert_int_eq(n_problems, 0);
    td_arena_reset(&test_arena);
    td_store_free(store);
    expect_no_temporary();
}

TD_TEST(a_kill_at_any_moment_leaves_all_of_a_flip_or_nothing)
{
    int seen[2] = { 0 };
    int last = -1;
    random_seed(0);
    put_npy("v@0.npy", 0, 1);
    put_npy("v@1.npy", 1, 1);
    for (int round = 0; round < ROUNDS; round++) {
        const int flips = kill_loop(flip_in_loop, MOST_FLIPS);
        if (flips > 0)
            last = (flips - 1) % 2;
        expect_whole(last, seen);
    }
    ck_assert(seen[0] > 0 && seen[1] > 0);
}

/* ---- version folders ------------------------------------------------------------------------- */

enum { FOLDERS_LEFT = 3, MOST_FOLDERS = 6 };

static int last_folder; /* the newest one when the child begins */

/* Folder number k: m@k and t@k, whose values begin with k, and the aliases that name them. */
static void bring_folder(int k)
{
    char text[2048] = "\"aliases\":{", from[128], name[16];
    for (int i = 0; i < ALIASES; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"x%d\":\"%s@%d\"",
                 i ? "," : "", i, i % 2 ? "m" : "t", k);
    strcat(text, "}");
    remove_version(".new"); /* of a child before */
    put_version(".new", "m.npy t.npy", k, text);
    snprintf(from, sizeof from, "%s", path_of(".new"));
    snprintf(name, sizeof name, "%d", k);
    ck_assert_int_eq(rename(from, path_of(name)), 0);
}

static void take_folder_away(int k)
{
    char from[128], name[16];
    remove_version(".old");
    snprintf(name, sizeof name, "%d", k);
    snprintf(from, sizeof from, "%s", path_of(name));
    (void)rename(from, path_of(".old")); /* there is none at first */
    remove_version(".old");
}

/* Each step takes a folder, with the versions of another one going. */
static void take_in_loop(int done)
{
    struct td_store *store = open_at(folder);
    for (int k = last_folder + 1; store; k++) {
        take_folder_away(k - FOLDERS_LEFT);
        bring_folder(k);
        td_store_rescan(store);
        if (write(done, "", 1) != 1)
            break;
    }
}

/* All targets in aliases.json, "m@7" or "t@7", are of one folder. */
static int folder_in_file(void)
{
    char text[4096];
    int k = 0, other;
    FILE *file = fopen(path_of("aliases.json"), "r");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (const char *at = text; (at = strchr(at, '@')); k = other) {
        other = atoi(++at);
        ck_assert_msg(k == 0 || k == other, "%s", text);
    }
    return k;
}

/* The folders that are there are served, each whole, and the aliases name the newest;
 * `acknowledged` is one that the child took, perhaps not the last one. */
static void expect_folders(int acknowledged)
{
    struct td_alias_change *list;
    struct td_error err;
    int count, newest = 0;
    char name[16];
    const int before = folder_in_file();
    ck_assert_int_ge(before, acknowledged);
    struct td_store *store = open_folder();
    for (int k = 1; k <= before + 1; k++) {
        snprintf(name, sizeof name, "%d", k);
        if (access(path_of(name), F_OK) != 0)
            continue;
        newest = k;
        snprintf(name, sizeof name, "m@%d", k);
        ck_assert_int_eq(value_of(found(store, name)->tensor, 0), k);
        name[0] = 't';
        ck_assert_int_eq(value_of(found(store, name)->tensor, 99), k + 99);
    }
    ck_assert_int_le(before, newest);
    ck_assert_int_eq(td_store_list_aliases(store, &test_arena, &list, &count, &err), TD_OK);
    ck_assert_int_eq(count, newest ? ALIASES : 0);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(atoi(list[i].target + 2), newest);
    ck_assert_ptr_null(strstr(logged(), "folder_refused"));
    last_folder = newest;
    td_arena_reset(&test_arena);
    td_store_free(store);
    expect_no_temporary();
}

TD_TEST(a_kill_at_any_moment_leaves_all_of_a_folder_or_nothing)
{
    random_seed(0);
    last_folder = 0;
    for (int round = 0; round < ROUNDS; round++)
        expect_folders(last_folder + kill_loop(take_in_loop, MOST_FOLDERS));
}

/* ---- versions that are not kept -------------------------------------------------------------- */

enum { KEPT = 2, MOST_VERSIONS = 10 };

static int last_version; /* that the alias names when the child begins */

/* Each step puts a version, lets the alias name it, and so removes an older one. */
static void replace_in_loop(int done)
{
    struct td_store *store = open_at(folder);
    struct td_tensor_listing listing;
    struct td_arena arena;
    struct td_error err;
    bool created;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    for (int k = last_version + 1; store; k++) {
        char name[16];
        int32_t value = k;
        const struct td_tensor t = { .dtype = TD_DTYPE_INT32,
                                     .data = &value,
                                     .bytes = sizeof value,
                                     .numel = 1,
                                     .shape = { 1, { 1 } } };
        snprintf(name, sizeof name, "m@%d", k);
        const struct td_store_write write_it = { .name = name, .persist = true };
        const struct td_alias_change set = { "x", name };
        const struct td_alias_flip flip = { .set = &set, .n_set = 1, .persist = true };
        td_status status = td_store_put(store, &write_it, &t, &arena, &listing, &created, &err);
        if (status == TD_CONFLICT) /* put by the child before */
            status = TD_OK;
        if (status != TD_OK || td_store_flip(store, &flip, &err) != TD_OK ||
            write(done, "", 1) != 1)
            break;
        td_arena_reset(&arena);
    }
}

/* The alias names the version that was acknowledged, or a later one, which is there, and so are the
 * newest ones. */
static void expect_newest(int acknowledged)
{
    struct td_alias_change *list;
    struct td_error err;
    int count;
    char name[16];
    struct td_store *store = open_folder();
    ck_assert_int_eq(td_store_list_aliases(store, &test_arena, &list, &count, &err), TD_OK);
    ck_assert(count == 1 || (count == 0 && acknowledged == 0));
    last_version = count ? atoi(list[0].target + 2) : 0;
    ck_assert_int_ge(last_version, acknowledged);
    for (int k = last_version; k > 0 && k > last_version + 1 - KEPT; k--) {
        snprintf(name, sizeof name, "m@%d", k);
        ck_assert_int_eq(value_of(found(store, name)->tensor, 0), k);
    }
    ck_assert_int_le(td_store_usage(store).tensors, KEPT + 1);
    td_arena_reset(&test_arena);
    td_store_free(store);
    expect_no_temporary();
}

TD_TEST(a_kill_at_any_moment_leaves_the_newest_versions)
{
    random_seed(0);
    folder_keep_versions = KEPT;
    last_version = 0;
    for (int round = 0; round < ROUNDS; round++)
        expect_newest(last_version + kill_loop(replace_in_loop, MOST_VERSIONS));
    folder_keep_versions = 0;
}

TD_FIXTURE(folder_open, folder_close);
