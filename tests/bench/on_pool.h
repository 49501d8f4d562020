/* on_pool.h - runs a benchmark as a job of a worker pool, as the daemon runs an op.
 *
 * Threads    `measure` runs on a worker; td_exec_for distributes its loops to the other workers.
 * Errors     The program ends if there is no memory. */
#ifndef TD_TESTS_BENCH_ON_POOL_H
#define TD_TESTS_BENCH_ON_POOL_H

#include "kernels/exec.h"

/* Calls measure(exec, bench) on a pool of `threads` threads and waits until it returns. */
void measure_on_pool(int threads, void (*measure)(struct td_exec *exec, void *bench), void *bench);

#endif
