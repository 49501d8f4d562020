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
    struct td_populate_job job; /* first: done casts back */
    int number;
    atomic_int *next_number; /* shared by all jobs */
    sem_t done;
};

static void record_order(struct td_populate_job *job)
{
    struct part *part = (struct part *)(void *)job;
    part->number = atomic_fetch_add(part->next_number, 1);
    sem_post(&part->done);
}

static struct part part_of(char *data, size_t bytes, atomic_int *next_number)
{
    struct part part = { .job = { .data = data, .bytes = bytes, .done = record_order },
                         .next_number = next_number };
    sem_init(&part.done, 0, 0);
    return part;
}

static char *map_untouched(void)
{
    char *data = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(data, MAP_FAILED);
    return data;
}

static bool is_resident(const char *page)
{
    unsigned char state;
    ck_assert_int_eq(mincore((void *)(uintptr_t)page, PAGE, &state), 0);
    return state & 1;
}

TD_TEST(populate_maps_the_pages_of_its_range_and_no_others)
{
    struct td_populator *populator = td_populator_new();
    char *data = map_untouched();
    atomic_int next_number = 0;
    struct part part = part_of(data + (size_t)3 * PAGE + 100, (size_t)4 * PAGE, &next_number);
    td_populator_submit(populator, &part.job);
    sem_wait(&part.done);
    for (int i = 0; i < PAGES; i++)
        ck_assert_int_eq(is_resident(data + (ptrdiff_t)i * PAGE), i >= 3 && i <= 7);
    td_populator_free(populator);
    munmap(data, (size_t)PAGES * PAGE);
}

TD_TEST(populate_keeps_written_bytes)
{
    struct td_populator *populator = td_populator_new();
    char *data = map_untouched();
    atomic_int next_number = 0;
    struct part part = part_of(data + 10, (size_t)2 * PAGE, &next_number);
    data[9] = 'x';
    td_populator_submit(populator, &part.job);
    sem_wait(&part.done);
    ck_assert_int_eq(data[9], 'x');
    td_populator_free(populator);
    munmap(data, (size_t)PAGES * PAGE);
}

TD_TEST(jobs_run_in_order)
{
    struct td_populator *populator = td_populator_new();
    char *data = map_untouched();
    atomic_int next_number = 0;
    struct part parts[PAGES];
    for (int i = 0; i < PAGES; i++)
        parts[i] = part_of(data + (ptrdiff_t)i * PAGE, PAGE, &next_number);
    for (int i = 0; i < PAGES; i++)
        td_populator_submit(populator, &parts[i].job);
    for (int i = 0; i < PAGES; i++)
        sem_wait(&parts[i].done);
    for (int i = 0; i < PAGES; i++)
        ck_assert_int_eq(parts[i].number, i);
    td_populator_free(populator);
    munmap(data, (size_t)PAGES * PAGE);
}

TD_TEST(a_stop_completes_all_waiting_jobs)
{
    struct td_populator *populator = td_populator_new();
    char *data = map_untouched();
    atomic_int next_number = 0;
    struct part parts[PAGES];
    for (int i = 0; i < PAGES; i++) {
        parts[i] = part_of(data + (ptrdiff_t)i * PAGE, PAGE, &next_number);
        td_populator_submit(populator, &parts[i].job);
    }
    td_populator_stop(populator);
    ck_assert_int_eq(atomic_load(&next_number), PAGES);
    struct part late = part_of(data, PAGE, &next_number);
    td_populator_submit(populator, &late.job);
    ck_assert_int_eq(late.number, PAGES);
    td_populator_stop(populator); /* a second stop has no effect */
    td_populator_free(populator);
    munmap(data, (size_t)PAGES * PAGE);
}
