/* threads.h - a struct td_exec for tests: threads, ranges of any size, a deadline that expires
 * after a number of ranges. */
#ifndef TD_TESTS_SUPPORT_THREADS_H
#define TD_TESTS_SUPPORT_THREADS_H

#include "kernels/exec.h"

#include <stdatomic.h>

/* How many threads and deadlines a large op is tried with. Sanitizers slow loops down by a factor
 * of ten and more: two threads race as well as four. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_THREADS = 2, TRIED_DEADLINES = 3 };
#else
enum { MOST_THREADS = 4, TRIED_DEADLINES = 10 };
#endif

struct thread_exec {
    struct td_exec exec; /* first: parallel_for casts back */
    int threads;
    int64_t grain;          /* overrides the kernel's when > 0 */
    bool backwards;         /* starts with the last range */
    int64_t ranges_allowed; /* DEADLINE_EXCEEDED when more are needed; < 0: no deadline. A check
                               counts as a range. */
    atomic_int_fast64_t ranges_run;
};

/* parallel_for uses the calling thread and threads - 1 new ones, each of which takes the next range
 * when it has finished one. */
void thread_exec_init(struct thread_exec *exec, int threads, int64_t grain);

#endif
