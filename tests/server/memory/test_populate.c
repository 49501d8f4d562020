#include "server/memory/populate.h"
#include "tests/support/suite.h"

#include <sys/mman.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64 };

/* Untouched memory, and a job for a part of it. */
struct part {
    struct td_pages_job job; /* first: done casts back */
    int number;
    atomic_int *turn; /* shared by all jobs */
    sem_t done;
};

static void note(struct td_pages_job *job)
{
    struct part *part = (struct part *)(void *)job;
    part->number = atomic_fetch_add(part->turn, 1);
    sem_post(&part->done);
}

static struct part part_of(char *data, size_t bytes, atomic_int *turn)
{
    struct part part = { .job = { .data = data, .bytes = bytes, .done = note }, .turn = turn };
    sem_init(&part.done, 0, 0);
    return part;
}

static char *untouched(void)
{
    char *data = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(data, MAP_FAILED);
    return data;
}

static bool is_there(const char *page)
{
    unsigned char state;
    ck_assert_int_eq(mincore((void *)(uintptr_t)page, PAGE, &state), 0);
    return state & 1;
}

START_TEST(populate_maps_the_pages_of_its_range_and_no_others)
{
    struct td_pages *pages = td_pages_new();
    char *data = untouched();
    atomic_int turn = 0;
    struct part part = part_of(data + (size_t)3 * PAGE + 100, (size_t)4 * PAGE, &turn);
    td_pages_populate(pages, &part.job);
    sem_wait(&part.done);
    for (int i = 0; i < PAGES; i++)
        ck_assert_int_eq(is_there(data + (ptrdiff_t)i * PAGE), i >= 3 && i <= 7);
    td_pages_free(pages);
    munmap(data, (size_t)PAGES * PAGE);
}
END_TEST

START_TEST(populate_keeps_written_bytes)
{
    struct td_pages *pages = td_pages_new();
    char *data = untouched();
    atomic_int turn = 0;
    struct part part = part_of(data + 10, (size_t)2 * PAGE, &turn);
    data[9] = 'x';
    td_pages_populate(pages, &part.job);
    sem_wait(&part.done);
    ck_assert_int_eq(data[9], 'x');
    td_pages_free(pages);
    munmap(data, (size_t)PAGES * PAGE);
}
END_TEST

START_TEST(jobs_are_done_in_order)
{
    struct td_pages *pages = td_pages_new();
    char *data = untouched();
    atomic_int turn = 0;
    struct part parts[PAGES];
    for (int i = 0; i < PAGES; i++)
        parts[i] = part_of(data + (ptrdiff_t)i * PAGE, PAGE, &turn);
    for (int i = 0; i < PAGES; i++)
        td_pages_populate(pages, &parts[i].job);
    for (int i = 0; i < PAGES; i++)
        sem_wait(&parts[i].done);
    for (int i = 0; i < PAGES; i++)
        ck_assert_int_eq(parts[i].number, i);
    td_pages_free(pages);
    munmap(data, (size_t)PAGES * PAGE);
}
END_TEST

START_TEST(a_stop_completes_all_waiting_jobs)
{
    struct td_pages *pages = td_pages_new();
    char *data = untouched();
    atomic_int turn = 0;
    struct part parts[PAGES];
    for (int i = 0; i < PAGES; i++) {
        parts[i] = part_of(data + (ptrdiff_t)i * PAGE, PAGE, &turn);
        td_pages_populate(pages, &parts[i].job);
    }
    td_pages_stop(pages);
    ck_assert_int_eq(atomic_load(&turn), PAGES);
    struct part late = part_of(data, PAGE, &turn);
    td_pages_populate(pages, &late.job);
    ck_assert_int_eq(late.number, PAGES);
    td_pages_stop(pages); /* again */
    td_pages_free(pages);
    munmap(data, (size_t)PAGES * PAGE);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, populate_maps_the_pages_of_its_range_and_no_others);
    tcase_add_test(tcase, populate_keeps_written_bytes);
    tcase_add_test(tcase, jobs_are_done_in_order);
    tcase_add_test(tcase, a_stop_completes_all_waiting_jobs);
}

int main(void)
{
    return run_suite("pages", add);
}
