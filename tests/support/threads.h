/* threads.h - a struct td_exec for tests: real threads, ranges as small as a test likes, a deadline
 * that comes after a number of ranges. */
#ifndef TD_TESTS_SUPPORT_THREADS_H
#define TD_TESTS_SUPPORT_THREADS_H

#include "kernels/exec.h"

#include <stdatomic.h>

struct thread_exec {
    struct td_exec exec; /* first: parallel_for casts back */
    int threads;
    int64_t grain;          /* overrides the kernel's when > 0 */
    int64_t ranges_allowed; /* DEADLINE_EXCEEDED when more are needed; < 0: no deadline. A check
                               counts as a range. */
    atomic_int_fast64_t ranges_run;
};

/* The caller and threads - 1 more, made for each parallel_for; ranges go to whoever asks next. */
void thread_exec_init(struct thread_exec *exec, int threads, int64_t grain);

#endif
