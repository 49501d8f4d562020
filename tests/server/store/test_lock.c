/* The lock of the data folder: one process at a time changes the folder, others serve it and wait
 * for the lock; the folder may be replaced by another one. */
#include "server/store/aliases/aliases.h"
#include "server/store/files/data_dir.h"
#include "tests/server/folder.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCK_FILE ".tensord.lock"

static struct td_error err; /* of the last call */

static td_status put(struct td_store *store, const char *name, const char *text, bool persist)
{
    const struct td_tensor t = tensor(text);
    return put_tensor(store, name, &t, persist, &err);
}

static td_status persist(struct td_store *store, const char *name, const char *text)
{
    return put(store, name, text, true);
}

static td_status delete_name(struct td_store *store, const char *name)
{
    const struct td_store_write write = { .name = name };
    return td_store_delete(store, &write, &(bool){ false }, &err);
}

static td_status scatter(struct td_store *store, const char *name, bool persisted)
{
    static const uint64_t offset = 0;
    const struct td_store_write write = { .name = name, .persist = persisted };
    struct td_store_update *update;
    struct td_tensor_listing listing;
    const td_status status = td_store_update_begin(store, &write, &test_arena, NULL, &update, &err);
    return status != TD_OK
               ? status
               : td_store_update_commit(update, &offset, 1, 4, &test_arena, &listing, &err);
}

static bool is_file(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static void expect_locked_out(struct td_store *store, td_status status, long holder)
{
    char reason[64];
    snprintf(reason, sizeof reason, "the data folder is locked by process %ld", holder);
    ck_assert_int_eq(status, TD_DATA_DIR_LOCKED);
    EXPECT_MESSAGE(&err, reason);
    ck_assert(td_store_is_locked_out(store));
}

/* ---- one process at a time ------------------------------------------------------------------- */

TD_TEST(a_second_store_serves_the_folder_but_does_not_change_it)
{
    struct td_store *first = open_folder();
    ck_assert_int_eq(persist(first, "t", "int32[2] 1 2"), TD_OK);
    ck_assert(!td_store_is_locked_out(first));
    struct td_store *second = open_folder();
    ck_assert_ptr_nonnull(strstr(logged(), " warn data_dir_not_locked "));
    expect_tensor(found(second, "t")->tensor, "int32[2] 1 2", "t");
    expect_locked_out(second, persist(second, "t", "int32[1] 3"), getpid());
    ck_assert_msg(strncmp(err.message, "t.tensord ", 10) == 0, "%s", err.message);
    expect_locked_out(second, persist(second, "new", "int32[1] 3"), getpid());
    expect_locked_out(second, scatter(second, "t", true), getpid());
    expect_locked_out(second, delete_name(second, "t"), getpid());
    const struct td_store_write write = { .name = "t", .persist = true };
    expect_locked_out(second, td_store_check_change(second, &write, &err), getpid());
    expect_locked_out(second, td_store_admit(second, &write, 8, &err), getpid());
    expect_tensor(found(second, "t")->tensor, "int32[2] 1 2", "t");
    expect_names(second, "t");
    ck_assert_int_eq(persist(first, "t", "int32[1] 4"), TD_OK);
    td_store_free(second);
    td_store_free(first);
}

TD_TEST(changes_in_memory_need_no_lock)
{
    struct td_store *first = open_folder();
    ck_assert_int_eq(persist(first, "t", "int32[2] 1 2"), TD_OK);
    struct td_store *second = open_folder();
    ck_assert_int_eq(put(second, "m", "int32[1] 3", false), TD_OK);
    ck_assert_int_eq(scatter(second, "m", false), TD_OK);
    ck_assert_int_eq(delete_name(second, "m"), TD_OK);
    ck_assert_int_eq(put(second, "t", "int32[1] 3", false), TD_OK);
    expect_locked_out(second, delete_name(second, "t"), getpid()); /* it has a file */
    expect_tensor(found(second, "t")->tensor, "int32[1] 3", "t");
    td_store_free(second);
    td_store_free(first);
}

TD_TEST(a_store_that_gets_the_lock_looks_at_the_folder_again)
{
    struct td_store *first = open_folder();
    struct td_store *second = open_folder();
    ck_assert_int_eq(persist(first, "t", "int32[2] 1 2"), TD_OK);
    td_store_retry_lock(second);
    ck_assert(td_store_is_locked_out(second));
    expect_names(second, "");
    td_store_free(first);
    (void)logged();
    td_store_retry_lock(second);
    ck_assert(!td_store_is_locked_out(second));
    ck_assert_ptr_nonnull(strstr(logged(), " info data_dir_locked "));
    expect_tensor(found(second, "t")->tensor, "int32[2] 1 2", "t");
    ck_assert_int_eq(persist(second, "t", "int32[1] 3"), TD_OK);
    td_store_retry_lock(second);
    ck_assert_str_eq(logged(), "");
    td_store_free(second);
}

TD_TEST(a_failure_that_repeats_is_logged_once)
{
    struct td_store *first = open_folder();
    struct td_store *second = open_folder();
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 2; i++) { /* after a success, it is logged again */
        const struct rlimit no_file = { 0, before.rlim_max };
        (void)logged();
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &no_file), 0);
        td_store_retry_lock(second); /* each second */
        const bool first_time = strstr(logged(), " error data_dir_unreadable ") != NULL;
        td_store_retry_lock(second);
        const bool second_time = strstr(logged(), " error data_dir_unreadable ") != NULL;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        ck_assert(first_time);
        ck_assert(!second_time);
        td_store_retry_lock(second);
    }
    td_store_free(second);
    td_store_free(first);
}

TD_TEST(a_rescan_takes_the_lock_too)
{
    struct td_store *first = open_folder();
    struct td_store *second = open_folder();
    td_store_free(first);
    td_store_rescan(second);
    ck_assert_int_eq(persist(second, "t", "int32[1] 3"), TD_OK);
    td_store_free(second);
}

TD_TEST(only_the_holder_of_the_lock_removes_temporary_files)
{
    struct td_store *first = open_folder();
    put_text(".tensord-tmp-1-0", "being written");
    struct td_store *second = open_folder();
    td_store_rescan(second);
    td_store_retry_lock(second);
    td_store_rescan(first);
    ck_assert(is_file(".tensord-tmp-1-0"));
    td_store_free(first);
    ck_assert(is_file(".tensord-tmp-1-0"));
    td_store_retry_lock(second);
    ck_assert(!is_file(".tensord-tmp-1-0"));
    td_store_free(second);
}

TD_TEST(a_killed_process_releases_the_lock)
{
    int ends[2], status;
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const bool opened = open_at(folder) && write(ends[1], "", 1) == 1;
        for (; opened;)
            pause();
        _exit(1);
    }
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    struct td_store *store = open_folder();
    expect_locked_out(store, persist(store, "t", "int32[1] 3"), child);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    td_store_retry_lock(store);
    ck_assert_int_eq(persist(store, "t", "int32[1] 3"), TD_OK);
    td_store_free(store);
    close(ends[0]);
    close(ends[1]);
}

/* ---- the lock file --------------------------------------------------------------------------- */

static const char *const treatments[] = { "deleted", "replaced", "emptied" };

static void treat(const char *treatment)
{
    if (strcmp(treatment, "emptied") == 0)
        ck_assert_int_eq(truncate(path_of(LOCK_FILE), 0), 0);
    else
        ck_assert_int_eq(unlink(path_of(LOCK_FILE)), 0);
    if (strcmp(treatment, "replaced") == 0)
        put_text(LOCK_FILE, "");
}

TD_TEST_EACH(whatever_happens_to_the_lock_file_a_second_store_is_locked_out, treatments)
{
    struct td_store *first = open_folder();
    treat(treatments[_i]);
    for (int i = 0; i < 2; i++) {
        struct td_store *second = open_folder();
        ck_assert(td_store_is_locked_out(second));
        ck_assert_int_eq(persist(second, "t", "int32[1] 3"), TD_DATA_DIR_LOCKED);
        if (i > 0 && strcmp(treatments[_i], "emptied") != 0)
            expect_locked_out(second, persist(second, "t", "int32[1] 3"), getpid());
        td_store_free(second);
        td_store_rescan(first); /* locks the new file, and writes its process id into it */
        ck_assert(is_file(LOCK_FILE));
        ck_assert_int_eq(persist(first, "t", "int32[1] 4"), TD_OK);
    }
    td_store_free(first);
}

/* A child takes the lock again and again. While it holds the lock, it alone has the file "owner";
 * at times it deletes the lock file, holding it or not. */
static _Noreturn void contend(int seed)
{
    random_seed((uint64_t)seed);
    for (int i = 0; i < 150; i++) {
        struct td_store *store = open_at(folder);
        td_store_retry_lock(store);
        if (!td_store_is_locked_out(store)) {
            const int fd = open(path_of("owner"), O_CREAT | O_EXCL, 0600);
            if (fd < 0)
                _exit(1);
            close(fd);
            if (random_below(4) == 0)
                (void)unlink(path_of(LOCK_FILE));
            for (int turns = random_below(4); turns > 0; turns--)
                sched_yield();
            if (unlink(path_of("owner")) != 0)
                _exit(2);
        } else if (random_below(8) == 0) {
            (void)unlink(path_of(LOCK_FILE));
        }
        td_store_free(store);
    }
    _exit(0);
}

TD_TEST(no_two_processes_hold_the_lock_at_once)
{
    enum { CHILDREN = 6 };
    int status;
    for (int i = 0; i < CHILDREN; i++) {
        if (fork() == 0)
            contend(i);
    }
    for (int i = 0; i < CHILDREN; i++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    }
}

TD_TEST(a_link_in_place_of_the_lock_file_is_not_followed)
{
    put_text("precious", "text");
    ck_assert_int_eq(symlink("precious", path_of(LOCK_FILE)), 0);
    put_npy("n.npy", 1, 1);
    struct td_store *store = open_folder();
    expect_names(store, "n");
    ck_assert_int_eq(persist(store, "t", "int32[1] 3"), TD_DEVICE_UNAVAILABLE);
    struct stat info;
    ck_assert_int_eq(stat(path_of("precious"), &info), 0);
    ck_assert_int_eq(info.st_size, 4);
    ck_assert_int_eq(unlink(path_of(LOCK_FILE)), 0);
    td_store_retry_lock(store);
    ck_assert_int_eq(persist(store, "t", "int32[1] 3"), TD_OK);
    td_store_free(store);
}

TD_TEST(a_link_in_place_of_the_lock_file_creates_nothing)
{
    ck_assert_int_eq(symlink("elsewhere", path_of(LOCK_FILE)), 0);
    struct td_store *store = open_folder();
    ck_assert_int_eq(access(path_of("elsewhere"), F_OK), -1);
    ck_assert_int_eq(persist(store, "t", "int32[1] 3"), TD_DEVICE_UNAVAILABLE);
    td_store_free(store);
}

/* Calls body(which) in the process of another user of the folder, which gets the mode: permissions
 * do not bind root. */
static void as_other_user(mode_t mode, void (*body)(int which), int which)
{
    int status;
    ck_assert_int_eq(chmod(folder, mode), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (getuid() == 0 && setuid(65534) != 0)
            _exit(3);
        body(which);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(chmod(folder, 0700), 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static void serve_only(int unused)
{
    (void)unused;
    struct td_store *store = open_folder();
    const char *log = logged();
    ck_assert_msg(strstr(log, " info data_dir_not_locked ") && strstr(log, "denied"), "%s", log);
    expect_names(store, "n");
    ck_assert_int_eq(persist(store, "t", "int32[1] 3"), TD_FORBIDDEN);
    EXPECT_MESSAGE(&err, "is not allowed to change t.tensord");
    ck_assert_int_eq(delete_name(store, "n"), TD_FORBIDDEN);
    (void)logged();
    td_store_retry_lock(store);
    ck_assert_str_eq(logged(), "");
    td_store_free(store);
}

TD_TEST(a_folder_without_write_permission_is_served)
{
    put_npy("n.npy", 1, 1);
    as_other_user(0555, serve_only, 0);
}

static td_status put_new(struct td_store *store)
{
    return persist(store, "t", "int32[1] 3");
}

static td_status delete_version(struct td_store *store)
{
    return delete_name(store, "n@1");
}

static td_status scatter_persisted(struct td_store *store)
{
    return scatter(store, "n@1", true);
}

static td_status flip_persisted(struct td_store *store)
{
    const struct td_alias_change set = { "x", "n@1" };
    return td_store_flip(store, &(struct td_alias_flip){ .set = &set, .n_set = 1, .persist = true },
                         &err);
}

static const struct {
    td_status (*make)(struct td_store *store);
    const char *file;
} refused_changes[] = {
    { put_new, "t.tensord" },
    { delete_version, "n@1.npy" },
    { scatter_persisted, "n@1.tensord" },
    { flip_persisted, "aliases.json" },
};

static void make_refused_change(int which)
{
    char line[128];
    snprintf(line, sizeof line, " warn change_failed file=%s reason=\"Permission denied\"",
             refused_changes[which].file);
    struct td_store *store = open_folder();
    (void)logged();
    ck_assert_int_eq(refused_changes[which].make(store), TD_FORBIDDEN);
    const char *log = logged(), *place = strstr(log, line);
    ck_assert_msg(place && !strstr(place + strlen(line), "change_failed"), "%s", log);
    td_store_free(store);
}

TD_TEST_EACH(a_change_without_write_permission_is_logged_once, refused_changes)
{
    put_npy("n@1.npy", 1, 1);
    as_other_user(0555, make_refused_change, _i);
}

/* The lock file alone keeps the user from changes: as a file, or if `is_folder` as a folder. */
static void name_lock_file(int is_folder)
{
    struct td_data_access access;
    char reason[64];
    snprintf(reason, sizeof reason, "%s", strerror(is_folder ? EISDIR : EACCES));
    ck_assert_int_eq(td_data_dir_probe(folder, &access), 0);
    ck_assert(access.only_lock);
    ck_assert_int_eq(access.denied, is_folder ? EISDIR : EACCES);
    struct td_store *store = open_folder();
    const char *log = logged(), *line = strstr(log, " warn data_dir_not_locked ");
    ck_assert_msg(line && strstr(line, "file=.tensord.lock") && strstr(line, reason), "%s", log);
    ck_assert_int_ne(persist(store, "t", "int32[1] 3"), TD_OK);
    EXPECT_MESSAGE(&err, ".tensord.lock");
    EXPECT_MESSAGE(&err, reason);
    EXPECT_MESSAGE(&err, TD_LOCK_WAY_OUT);
    ck_assert_ptr_nonnull(strstr(logged(), "change_failed file=.tensord.lock"));
    ck_assert_int_eq(remove(path_of(".tensord.lock")), 0);
    td_store_retry_lock(store);
    EXPECT_OK(persist(store, "t", "int32[1] 3"), &err);
    td_store_free(store);
}

TD_TEST_LOOP(a_lock_file_that_cannot_be_opened_is_named, 0, 2)
{
    if (_i == 0)
        put_text(".tensord.lock", "");
    ck_assert_int_eq(
        _i == 0 ? chmod(path_of(".tensord.lock"), 0400) : mkdir(path_of(".tensord.lock"), 0755), 0);
    as_other_user(0777, name_lock_file, _i);
}

/* ---- another folder under the same path ------------------------------------------------------ */

static char moved[128];

static void move_folder(void)
{
    snprintf(moved, sizeof moved, "%s-moved", folder);
    ck_assert_int_eq(rename(folder, moved), 0);
}

static void remove_moved(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", moved);
    ck_assert_int_eq(system(command), 0);
}

TD_TEST(a_rescan_notices_that_the_folder_was_replaced)
{
    struct td_store *store = open_folder();
    ck_assert_int_eq(persist(store, "old", "int32[1] 1"), TD_OK);
    ck_assert_int_eq(put(store, "memory", "int32[1] 2", false), TD_OK);
    move_folder();
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    put_npy("new.npy", 3, 1);
    (void)logged();
    td_store_rescan(store);
    ck_assert_ptr_nonnull(strstr(logged(), " info data_dir_replaced "));
    expect_names(store, "memory new");
    ck_assert_int_eq(persist(store, "t", "int32[1] 4"), TD_OK);
    ck_assert(is_file("t.tensord"));
    struct td_store *second = open_folder();
    ck_assert(td_store_is_locked_out(second));
    struct td_store *old = open_at(moved);
    ck_assert(!td_store_is_locked_out(old));
    expect_names(old, "old");
    td_store_free(old);
    td_store_free(second);
    td_store_free(store);
    remove_moved();
}

TD_TEST(a_replacement_that_is_locked_is_served_until_its_lock_is_free)
{
    struct td_store *store = open_folder();
    move_folder();
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    struct td_store *other = open_folder();
    ck_assert_int_eq(persist(other, "t", "int32[1] 4"), TD_OK);
    td_store_rescan(store);
    expect_names(store, "t");
    expect_locked_out(store, persist(store, "t", "int32[1] 5"), getpid());
    td_store_free(other);
    td_store_retry_lock(store);
    ck_assert_int_eq(persist(store, "t", "int32[1] 5"), TD_OK);
    td_store_free(store);
    remove_moved();
}

TD_TEST(a_folder_that_was_moved_away_is_served_but_not_changed_until_it_returns)
{
    struct td_store *store = open_folder();
    ck_assert_int_eq(persist(store, "t", "int32[1] 1"), TD_OK);
    move_folder();
    (void)logged();
    td_store_rescan(store);
    ck_assert_ptr_nonnull(strstr(logged(), " error data_dir_unreadable "));
    expect_names(store, "t");
    ck_assert(td_store_is_locked_out(store));
    ck_assert_int_eq(persist(store, "t", "int32[1] 2"), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "No such file");
    ck_assert_ptr_nonnull(strstr(logged(), " warn change_failed file=t.tensord "));
    td_store_retry_lock(store);
    ck_assert_str_eq(logged(), "");
    ck_assert_int_eq(rename(moved, folder), 0);
    td_store_retry_lock(store);
    ck_assert_int_eq(persist(store, "t", "int32[1] 2"), TD_OK);
    expect_names(store, "t");
    td_store_free(store);
}

TD_TEST(an_empty_folder_does_not_take_the_place_of_one_with_files)
{
    struct td_store *store = open_folder();
    ck_assert_int_eq(persist(store, "t", "int32[1] 1"), TD_OK);
    move_folder();
    ck_assert_int_eq(mkdir(folder, 0700), 0); /* where a volume was mounted */
    (void)logged();
    td_store_rescan(store);
    const char *log = logged();
    ck_assert_ptr_nonnull(strstr(log, " error data_dir_unreadable "));
    ck_assert_ptr_nonnull(strstr(log, "perhaps a volume is not mounted"));
    expect_names(store, "t");
    ck_assert(td_store_is_locked_out(store));
    ck_assert_int_eq(persist(store, "t", "int32[1] 2"), TD_DEVICE_UNAVAILABLE);
    EXPECT_MESSAGE(&err, "the path leads to an empty folder; perhaps a volume is not mounted");
    td_store_retry_lock(store);
    ck_assert_str_eq(logged(), "");
    ck_assert(!is_file(LOCK_FILE)); /* nothing is written below the mount point */
    put_npy("new.npy", 3, 1);
    td_store_rescan(store);
    expect_names(store, "new");
    ck_assert_int_eq(persist(store, "t", "int32[1] 2"), TD_OK);
    td_store_free(store);
    remove_moved();
}

TD_TEST(an_empty_folder_takes_the_place_of_an_empty_one)
{
    struct td_store *store = open_folder();
    move_folder();
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    td_store_rescan(store);
    ck_assert_int_eq(persist(store, "t", "int32[1] 2"), TD_OK);
    ck_assert(is_file("t.tensord"));
    td_store_free(store);
    remove_moved();
}

TD_FIXTURE(folder_open, folder_close);
