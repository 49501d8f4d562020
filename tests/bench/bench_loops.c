/* bench_loops.c - measures the cost of distributing a job's loops to workers: loops of two chunks,
 * one after the other, on a pool of two workers.
 *
 *     bench_loops [chunk in us] [gap between loops in us] [loops]
 *
 * Prints microseconds per loop, medians of 9 runs: on one worker, on two, and the processor time
 * of the process with two. If distribution were free, a loop on two workers would take half as
 * long. */
#include "server/observe/clock.h"
#include "server/workers/worker_pool.h"
#include "tests/bench/measure.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RUNS = 9 };

struct bench {
    struct td_job job;
    int64_t chunk_ns, gap_ns;
    int loops;
    double us, cpu_us;
    sem_t done;
};

static void spin(int64_t ns)
{
    const int64_t end = td_now_ns() + ns;
    while (td_now_ns() < end)
        ;
}

static void chunk(void *context, int64_t begin, int64_t end)
{
    const struct bench *bench = context;
    spin(bench->chunk_ns * (end - begin));
}

static td_status never(void *context, struct td_error *err)
{
    (void)context;
    (void)err;
    return TD_OK;
}

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void run(struct td_job *job, struct td_worker *worker)
{
    struct bench *bench = (struct bench *)(void *)job;
    struct td_pool_exec exec;
    struct td_error err;
    td_pool_exec_init(&exec, worker, NULL, never, NULL);
    const int64_t begun = td_now_ns();
    const double cpu_begun = cpu_us();
    for (int i = 0; i < bench->loops; i++) {
        if (td_exec_for(&exec.base, 2, 1, chunk, bench, &err) != TD_OK)
            abort();
        spin(bench->gap_ns);
    }
    bench->us = (double)(td_now_ns() - begun) / 1e3 / bench->loops;
    bench->cpu_us = (cpu_us() - cpu_begun) / bench->loops;
    sem_post(&bench->done);
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .job = { .cost_ns = 50000000, .deadline_ns = TD_NEVER, .run = run },
        .chunk_ns = (int64_t)(argc > 1 ? atof(argv[1]) * 1e3 : 20e3),
        .gap_ns = (int64_t)(argc > 2 ? atof(argv[2]) * 1e3 : 0),
        .loops = argc > 3 ? atoi(argv[3]) : 500,
    };
    double us[2][RUNS], cpu[2][RUNS];
    sem_init(&bench.done, 0, 0);
    for (int i = 0; i < 2 * RUNS; i++) {
        struct td_worker_pool *pool = td_worker_pool_new(1 + i % 2, 10);
        if (!pool || !td_worker_pool_reserve(pool, NULL))
            return 1;
        td_worker_pool_submit(pool, &bench.job);
        sem_wait(&bench.done);
        td_worker_pool_free(pool);
        us[i % 2][i / 2] = bench.us;
        cpu[i % 2][i / 2] = bench.cpu_us;
    }
    printf("chunk %g us, gap %g us: one worker %.1f us, two %.1f us, processor time %.1f us\n",
           (double)bench.chunk_ns / 1e3, (double)bench.gap_ns / 1e3, median(us[0], RUNS),
           median(us[1], RUNS), median(cpu[1], RUNS));
    return 0;
}
