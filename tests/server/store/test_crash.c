/* A process that persists in a loop is killed at random moments; the file it leaves is complete. */
#include "server/observe/clock.h"
#include "tests/server/folder.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/wait.h>

#include <dirent.h>
#include <signal.h>
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

static void add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, folder_open, folder_close);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_kill_at_any_moment_leaves_the_old_or_the_new_version);
}

int main(void)
{
    return run_suite("store_crash", add);
}
