/* worker_pool.h - one bounded queue in front of one set of threads, and fork-join inside a job.
 *
 *     I/O threads ── reserve, submit ──► small jobs ─┐
 *                                        large jobs ─┼──► workers: a job, else a chunk of a loop
 *     a running job ── td_exec parallel_for ─► loops ┘
 *
 * A job runs on one worker. When it asks for a parallel loop, workers without a job of their own
 * take chunks of it, and between two chunks its owner runs a waiting small job, so that small work
 * passes big work on every thread and chunks of different requests interleave. Small jobs go first;
 * every eighth turn is a large one's, so that neither starves. A worker that has helped looks out
 * for the running jobs' next loop for some 50 us before it sleeps; without running loops nobody
 * spins.
 *
 * Ownership  A job belongs to the pool from submit until its run or drop is called, once.
 * Threads    submit and expire from any thread; run on a worker; drop on the thread that calls
 *            expire. One mutex; it is never held while a job or a chunk runs.
 * Errors     reserve says no when queue_limit jobs wait: full is an answer (429). */
#ifndef TD_SERVER_WORKERS_WORKER_POOL_H
#define TD_SERVER_WORKERS_WORKER_POOL_H

#include "kernels/exec.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

struct td_worker_pool;
struct td_worker;

#define TD_JOB_SMALL_NS 1000000 /* a job below this may pass larger ones */

struct td_job {
    struct td_job *next;
    uint64_t cost_ns;    /* estimate; decides between small and large, and Retry-After */
    int64_t deadline_ns; /* TD_NEVER for none */
    void (*run)(struct td_job *job, struct td_worker *worker);
    void (*drop)(struct td_job *job, td_status why); /* DEADLINE_EXCEEDED or DRAINING */
};

/* workers >= 1. NULL when memory or threads cannot be had. */
struct td_worker_pool *td_worker_pool_new(int workers, int64_t queue_limit);

/* Runs what is queued, ends the threads, frees the pool. Nothing may be submitted any more. */
void td_worker_pool_free(struct td_worker_pool *pool);

/* Takes a place in the queue; false when it is full. Each place taken is used by one submit. */
bool td_worker_pool_reserve(struct td_worker_pool *pool);
void td_worker_pool_submit(struct td_worker_pool *pool, struct td_job *job);

/* On a worker, when a job turns out to cost something else than it was thought to: true when it has
 * gone back into the queue, behind other large ones, and will be run again; the caller lets go of
 * it. */
bool td_worker_pool_put_back(struct td_worker *worker, struct td_job *job, uint64_t cost_ns);

/* Drops the jobs that wait past their deadline; all that wait when everything is true. */
void td_worker_pool_expire(struct td_worker_pool *pool, int64_t now_ns, bool everything);

/* Seconds until the work queued now is done, at least 1: for Retry-After. */
unsigned td_worker_pool_retry_after_s(struct td_worker_pool *pool);

/* How a call computes: on `worker` with the help of its pool, or with worker NULL alone on the
 * calling thread. `stopped` is asked between chunks and between loops, on the owner's thread;
 * anything but TD_OK ends the loop. */
struct td_pool_exec {
    struct td_exec base;
    struct td_worker *worker;
    bool begun; /* a loop has been run */
    td_status (*stopped)(void *context, struct td_error *err);
    void *context;
};
void td_pool_exec_init(struct td_pool_exec *exec, struct td_worker *worker, struct td_arena *arena,
                       td_status (*stopped)(void *, struct td_error *), void *context);

#endif
