/* A process that persists tensors or aliases in a loop is killed at random moments; the files that it
 * leaves are complete. */
#include "server/observe/clock.h"
#include "server/store/aliases.h"
#include "tests/server/folder.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/wait.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 30, MOST_BYTES = 3000000, MOST_PUTS = 3 };

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

/* Runs in the child; reports every put. */
static _Noreturn void put_in_loop(const struct td_tensor *contents, int done)
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
    _exit(1); /* the parent kills it before */
}

static void expect_complete(const struct td_tensor *contents, int *seen)
{
    struct td_store *store = open_folder(); /* compares the file with its checksums */
    ck_assert(!td_store_is_locked_out(store));
    if (td_store_stats(store).tensors > 0) {
        const struct td_tensor *t = found(store, "t")->tensor;
        const int k = t->bytes == contents[1].bytes;
        ck_assert_uint_eq(t->bytes, contents[k].bytes);
        ck_assert(memcmp(t->data, contents[k].data, t->bytes) == 0);
        ck_assert_int_eq(found(store, "t")->integrity, TD_INTEGRITY_VERIFIED);
        seen[k]++;
    }
    td_arena_reset(&test_arena);
    td_store_free(store);
    DIR *dir = opendir(folder);
    for (const struct dirent *item; (item = readdir(dir));)
        ck_assert_msg(strncmp(item->d_name, ".tensord-tmp", 12) != 0, "%s", item->d_name);
    closedir(dir);
    ck_assert_ptr_null(strstr(logged(), "table_skipped"));
}

START_TEST(a_kill_at_any_moment_leaves_the_old_or_the_new_version)
{
    int seen[2] = { 0 };
    int64_t put_ns = 1000000; /* at least the duration of a put */
    random_seed(0);
    for (int round = 0; round < ROUNDS; round++) {
        const struct td_tensor contents[2] = { content(0), content(1) };
        const int puts = random_below(MOST_PUTS + 1);
        int status, ends[2];
        char byte;
        ck_assert_int_eq(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0)
            put_in_loop(contents, ends[1]);
        for (int i = 0; i < puts; i++) {
            const int64_t begun = td_now_ns();
            ck_assert_int_eq(read(ends[0], &byte, 1), 1);
            if (td_now_ns() - begun > put_ns)
                put_ns = td_now_ns() - begun;
        }
        const struct timespec delay = { .tv_nsec = random_below((int)(put_ns % 1000000000)) };
        nanosleep(&delay, NULL);
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status));
        close(ends[0]);
        close(ends[1]);
        expect_complete(contents, seen);
    }
    ck_assert(seen[0] > 0 && seen[1] > 0);
}
END_TEST

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

/* Runs in the child; reports every flip. */
static _Noreturn void flip_in_loop(int done)
{
    struct td_store *store = open_at(folder);
    struct td_error err;
    for (int i = 0; store; i++)
        if (flip_all(store, i % 2 ? "v@1" : "v@0", &err) != TD_OK || write(done, "", 1) != 1)
            break;
    _exit(1); /* the parent kills it before */
}

/* All aliases name the same version, or none is there: that. `last` is of the last flip that was
 * acknowledged, -1 for none; the next one may have happened. */
static void expect_whole(int last, int *seen)
{
    struct td_alias_listing *list;
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
    ck_assert_int_eq(td_store_list_problems(store, &test_arena, &problems, &n_problems, &err),
                     TD_OK);
    ck_assert_int_eq(n_problems, 0);
    td_arena_reset(&test_arena);
    td_store_free(store);
    DIR *dir = opendir(folder);
    for (const struct dirent *item; (item = readdir(dir));)
        ck_assert_msg(strncmp(item->d_name, ".tensord-tmp", 12) != 0, "%s", item->d_name);
    closedir(dir);
}

START_TEST(a_kill_at_any_moment_leaves_all_of_a_flip_or_nothing)
{
    int seen[2] = { 0 };
    int64_t flip_ns = 200000; /* at least the duration of a flip */
    int last = -1;
    random_seed(0);
    put_npy("v@0.npy", 0, 1);
    put_npy("v@1.npy", 1, 1);
    for (int round = 0; round < ROUNDS; round++) {
        const int flips = random_below(MOST_FLIPS + 1);
        int status, ends[2];
        char byte;
        ck_assert_int_eq(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0)
            flip_in_loop(ends[1]);
        for (int i = 0; i < flips; i++) {
            const int64_t begun = td_now_ns();
            ck_assert_int_eq(read(ends[0], &byte, 1), 1);
            if (i > 0 && td_now_ns() - begun > flip_ns)
                flip_ns = td_now_ns() - begun;
            last = i % 2;
        }
        const struct timespec delay = { .tv_nsec = random_below((int)(flip_ns % 1000000000)) };
        nanosleep(&delay, NULL);
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status));
        close(ends[0]);
        close(ends[1]);
        expect_whole(last, seen);
    }
    ck_assert(seen[0] > 0 && seen[1] > 0);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, folder_open, folder_close);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_kill_at_any_moment_leaves_the_old_or_the_new_version);
    tcase_add_test(tcase, a_kill_at_any_moment_leaves_all_of_a_flip_or_nothing);
}

int main(void)
{
    return run_suite("store_crash", add);
}
