#include "server/memory/fault_guard.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

/* A mapped, unlinked file of PAGES pages of 'x'. */
static char *map_pages(int *file)
{
    char path[] = "/tmp/tensord-test-guard-XXXXXX";
    char page[PAGE];
    memset(page, 'x', sizeof page);
    *file = mkstemp(path);
    ck_assert_int_ge(*file, 0);
    unlink(path);
    for (int i = 0; i < PAGES; i++)
        ck_assert_int_eq(write(*file, page, PAGE), PAGE);
    char *data = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE, *file, 0);
    ck_assert_ptr_ne(data, MAP_FAILED);
    return data;
}

/* A volatile read, so that it is neither cached nor moved. */
static char read_volatile(const char *at)
{
    return *(const volatile char *)at;
}

TD_TEST(a_truncated_file_reads_as_zeros_and_is_marked)
{
    td_guard_install();
    int file, other_file;
    char *data = map_pages(&file), *other = map_pages(&other_file);
    const int range = td_guard_add(data, PAGES * PAGE),
              other_range = td_guard_add(other, PAGES * PAGE);
    const uint64_t faults = td_guard_faults();
    ck_assert_int_eq(read_volatile(data + 5 * PAGE), 'x');
    ck_assert(!td_guard_marked(range));
    ck_assert_int_eq(ftruncate(file, 3 * PAGE), 0);
    ck_assert_int_eq(read_volatile(data + 6 * PAGE + 7), 0);
    ck_assert_int_eq(read_volatile(data + 7 * PAGE), 0);
    ck_assert_int_eq(read_volatile(data + 3 * PAGE), 0);
    ck_assert_int_eq(read_volatile(data + 2 * PAGE), 'x');
    ck_assert(td_guard_marked(range));
    ck_assert(!td_guard_marked(other_range));
    ck_assert_uint_gt(td_guard_faults(), faults);
    ck_assert_int_eq(read_volatile(other + 6 * PAGE), 'x');
    td_guard_remove(range);
    td_guard_remove(other_range);
    td_guard_remove(-1);
    ck_assert(!td_guard_marked(-1));
    munmap(data, PAGES * PAGE);
    munmap(other, PAGES * PAGE);
    close(file);
    close(other_file);
}

TD_TEST(a_cut_within_the_last_page_is_seen_at_the_last_byte_that_was_not_zero)
{
    td_guard_install();
    int file;
    char *data = map_pages(&file);
    ck_assert_int_eq(ftruncate(file, 2 * PAGE + 100), 0);
    ck_assert_int_eq(ftruncate(file, 2 * PAGE + 200), 0); /* ends in 100 zeros */
    const int range = td_guard_add(data, 2 * PAGE + 200);
    td_guard_look_at_end(range); /* not watched yet */
    td_guard_watch_end(range);
    const uint64_t faults = td_guard_faults();
    ck_assert_int_eq(ftruncate(file, 2 * PAGE + 100), 0);
    td_guard_look_at_end(range);
    ck_assert(!td_guard_marked(range)); /* what is read is what the file had */
    ck_assert_int_eq(ftruncate(file, 2 * PAGE + 99), 0);
    td_guard_look_at_end(range);
    ck_assert(td_guard_marked(range));
    ck_assert_uint_eq(td_guard_faults(), faults + 1);
    td_guard_look_at_end(range);
    ck_assert_uint_eq(td_guard_faults(), faults + 1);
    td_guard_remove(range);
    munmap(data, PAGES * PAGE);
    close(file);
}

TD_TEST(a_cut_within_an_earlier_page_is_seen_at_the_end_of_the_file)
{
    td_guard_install();
    int file;
    char *data = map_pages(&file);
    const int range = td_guard_add(data, PAGES * PAGE);
    td_guard_watch_end(range);
    ck_assert_int_eq(ftruncate(file, 2 * PAGE + 100), 0);
    ck_assert_int_eq(read_volatile(data + 2 * PAGE + 100), 0); /* without a fault */
    ck_assert(!td_guard_marked(range));
    td_guard_look_at_end(range);
    ck_assert(td_guard_marked(range));
    td_guard_look_at_end(-1);
    td_guard_watch_end(-1);
    td_guard_remove(range);
    munmap(data, PAGES * PAGE);
    close(file);
}

TD_TEST(a_file_that_ends_in_a_page_of_zeros_is_whole_until_that_page_is_gone)
{
    td_guard_install();
    int file;
    char *data = map_pages(&file);
    ck_assert_int_eq(ftruncate(file, 2 * PAGE), 0);
    ck_assert_int_eq(ftruncate(file, 3 * PAGE), 0);
    const int range = td_guard_add(data, 3 * PAGE);
    td_guard_watch_end(range);
    ck_assert_int_eq(ftruncate(file, 2 * PAGE + 1), 0);
    td_guard_look_at_end(range);
    ck_assert(!td_guard_marked(range));
    ck_assert_int_eq(ftruncate(file, 2 * PAGE), 0);
    td_guard_look_at_end(range);
    ck_assert(td_guard_marked(range));
    td_guard_remove(range);
    munmap(data, PAGES * PAGE);
    close(file);
}

TD_TEST(a_range_has_its_first_byte_and_its_last_and_no_other)
{
    td_guard_install();
    int file;
    char *data = map_pages(&file);
    const int range = td_guard_add(data, PAGES * PAGE);
    ck_assert_int_eq(ftruncate(file, 0), 0);
    ck_assert_int_eq(read_volatile(data), 0);
    ck_assert(td_guard_marked_at(data));
    ck_assert(td_guard_marked_at(data + PAGES * PAGE - 1));
    ck_assert(!td_guard_marked_at(data - 1));
    ck_assert(!td_guard_marked_at(data + PAGES * PAGE));
    td_guard_remove(range);
    ck_assert(!td_guard_marked_at(data));
    munmap(data, PAGES * PAGE);
    close(file);
}

TD_TEST(a_reused_range_is_not_marked)
{
    td_guard_install();
    int file;
    char *data = map_pages(&file);
    int range = td_guard_add(data, PAGES * PAGE);
    ck_assert_int_eq(ftruncate(file, 0), 0);
    ck_assert_int_eq(read_volatile(data), 0);
    ck_assert(td_guard_marked(range));
    td_guard_remove(range);
    range = td_guard_add(data, PAGES * PAGE);
    ck_assert(!td_guard_marked(range));
    td_guard_remove(range);
    munmap(data, PAGES * PAGE);
    close(file);
}

/* In a child process: Check would report its end as a failure. */
static int status_of_child(void (*run)(void))
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL); /* not a sanitizer's handler */
        td_guard_install();
        run();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

static void read_unguarded(void)
{
    int file;
    char *data = map_pages(&file);
    const int range = td_guard_add(data, PAGE); /* the first page only */
    if (ftruncate(file, 0) != 0 || read_volatile(data) != 0)
        _exit(1);
    (void)read_volatile(data + PAGE);
    td_guard_remove(range);
}

static void send_signal(void)
{
    kill(getpid(), SIGBUS);
}

TD_TEST(faults_outside_all_ranges_end_the_process)
{
    int status = status_of_child(read_unguarded);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = status_of_child(send_signal);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void *add_and_remove(void *argument)
{
    char *data = argument;
    for (int i = 0; i < 20000; i++)
        td_guard_remove(td_guard_add(data, PAGE));
    return NULL;
}

static void *read_truncated(void *argument)
{
    const char *data = argument;
    long sum = 0;
    for (int i = 0; i < PAGES; i++)
        sum += read_volatile(data + (size_t)i * PAGE);
    return (void *)sum;
}

TD_TEST(ranges_are_added_and_removed_while_others_fault)
{
    enum { THREADS = 4 };
    pthread_t coming, readers[THREADS];
    char own[PAGE];
    td_guard_install();
    ck_assert_int_eq(pthread_create(&coming, NULL, add_and_remove, own), 0);
    for (int round = 0; round < 50; round++) {
        int file;
        char *data = map_pages(&file);
        const int range = td_guard_add(data, PAGES * PAGE);
        ck_assert_int_eq(ftruncate(file, 0), 0);
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&readers[i], NULL, read_truncated, data), 0);
        for (int i = 0; i < THREADS; i++) {
            void *sum;
            pthread_join(readers[i], &sum);
            ck_assert_ptr_null(sum);
        }
        ck_assert(td_guard_marked(range));
        td_guard_remove(range);
        munmap(data, PAGES * PAGE);
        close(file);
    }
    pthread_join(coming, NULL);
}

TD_TEST(a_full_table_rejects_further_ranges)
{
    int *taken = calloc(TD_GUARD_RANGES, sizeof *taken), n = 0;
    static char page[PAGE];
    for (int range; n < TD_GUARD_RANGES && (range = td_guard_add(page, PAGE)) >= 0;)
        taken[n++] = range;
    ck_assert_int_eq(n, TD_GUARD_RANGES);
    ck_assert_int_eq(td_guard_add(page, PAGE), -1);
    for (int i = 0; i < n; i++)
        td_guard_remove(taken[i]);
    ck_assert_int_ge(taken[0] = td_guard_add(page, PAGE), 0);
    td_guard_remove(taken[0]);
    free(taken);
}
