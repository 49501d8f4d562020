#include "tests/bench/on_pool.h"

#include "server/workers/worker_pool.h"

#include <semaphore.h>
#include <stdlib.h>

struct job {
    struct td_job job; /* first: run casts back */
    void (*measure)(struct td_exec *exec, void *bench);
    void *bench;
    sem_t done;
};

static td_status never_stopped(void *context, struct td_error *err)
{
    (void)context;
    (void)err;
    return TD_OK;
}

static void run(struct td_job *base, struct td_worker *worker)
{
    struct job *job = (struct job *)(void *)base;
    struct td_pool_exec exec;
    td_pool_exec_init(&exec, worker, NULL, never_stopped, NULL);
    job->measure(&exec.base, job->bench);
    sem_post(&job->done);
}

void measure_on_pool(int threads, void (*measure)(struct td_exec *exec, void *bench), void *bench)
{
    struct job job = { .job = { .run = run, .cost_ns = UINT64_MAX, .deadline_ns = INT64_MAX },
                       .measure = measure,
                       .bench = bench };
    struct td_worker_pool *workers = td_worker_pool_new(threads, 16);
    if (!workers)
        exit(1);
    sem_init(&job.done, 0, 0);
    if (td_worker_pool_reserve(workers, NULL))
        td_worker_pool_submit(workers, &job.job);
    sem_wait(&job.done);
    td_worker_pool_free(workers);
}
