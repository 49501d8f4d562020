/* worker_pool.h - a bounded queue of jobs, one set of worker threads, and fork-join within a job.
 *
 *     I/O threads ── reserve, submit ──► job queue ──┐
 *                                                    ├──► workers: a job, else a chunk of a loop
 *     a running job ── td_exec parallel_for ─► loops ┘
 *
 * A job runs on one worker; job_queue.h says which is next. When it opens a parallel loop, idle
 * workers take chunks of it, and between two chunks its owner runs a waiting small job, so that
 * small jobs overtake large ones on every thread and chunks of different requests interleave. A
 * worker that has helped polls for the next loop of the running jobs for some 50 us before it
 * sleeps; without running loops no worker spins.
 *
 * Ownership  The pool owns a job from submit until it calls the job's run or drop, once. A source
 *            is the caller's, and is not used after run or drop.
 * Threads    submit, reserve and expire from any thread; run on a worker; drop on the thread that
 *            calls expire or reserve. One mutex; it is never held while a job or a chunk runs.
 * Errors     reserve fails while queue_limit jobs wait; the request is answered 429. */
#ifndef TD_SERVER_WORKERS_WORKER_POOL_H
#define TD_SERVER_WORKERS_WORKER_POOL_H

#include "kernels/exec.h"
#include "kernels/status.h"
#include "server/workers/job_queue.h"

#include <stdbool.h>
#include <stdint.h>

struct td_worker_pool;

/* workers >= 1. NULL without memory or threads. */
struct td_worker_pool *td_worker_pool_new(int workers, int64_t queue_limit);

/* Names the threads, for tools that show them; at most 15 characters. */
void td_worker_pool_name(struct td_worker_pool *pool, const char *name);

/* Runs the queued jobs and joins the threads. No job may be submitted any more; the state of the
 * queue may still be read. */
void td_worker_pool_stop(struct td_worker_pool *pool);

/* Stops the pool, if it runs, and frees it. */
void td_worker_pool_free(struct td_worker_pool *pool);

/* Reserves a place in the queue for a job of `source` (NULL: of none). If the queue is full, the
 * newest job of the source with the most jobs is dropped with QUEUE_FULL, unless `source` has as
 * many; then it fails. Each place is used by one submit. */
bool td_worker_pool_reserve(struct td_worker_pool *pool, const struct td_job_source *source);
void td_worker_pool_submit(struct td_worker_pool *pool, struct td_job *job);

/* For work that no client waits for, which takes nothing from those that wait. reserve_free fails
 * if the queue is full, and drops no job. submit_if_idle queues the job only if a worker is idle
 * and no job is queued or about to be; otherwise it is false. The job takes no place, so that one
 * that waits for the worker to wake is no reason to refuse a request. */
bool td_worker_pool_reserve_free(struct td_worker_pool *pool);
bool td_worker_pool_submit_if_idle(struct td_worker_pool *pool, struct td_job *job);

/* On a worker, for a job whose cost was misestimated: true if it went from small to large and
 * was queued again after the other large jobs of its source; the pool then owns it again, and
 * keeps it in the queue. Otherwise its source is charged for the difference if that is much. */
bool td_worker_pool_put_back(struct td_worker *worker, struct td_job *job, uint64_t cost_ns);

/* Drops the queued jobs past their deadline, or all of them if `everything`. */
void td_worker_pool_expire(struct td_worker_pool *pool, int64_t now_ns, bool everything);

/* Records how long a job of this estimated cost has run, all its parts together. The costs of
 * queued jobs are multiplied by the average ratio, so that an estimate of a wait is right where
 * estimates of costs are not. Takes no lock. */
void td_worker_pool_measure(struct td_worker_pool *pool, uint64_t cost_ns, int64_t took_ns);

/* The pool that the worker belongs to. */
struct td_worker_pool *td_worker_pool_of(const struct td_worker *worker);

/* On a worker: how long small jobs have run between the chunks of the job that it runs, which is no
 * time of that job. */
int64_t td_worker_nested_ns(const struct td_worker *worker);

/* True if a job of this source and cost would probably end later than left_ns from now, because of
 * the jobs that are queued before it; then *expected is how long it would wait and run. False until
 * some jobs of its class have been measured. */
struct td_expected {
    int64_t wait_ns, run_ns;
};
bool td_worker_pool_is_late(struct td_worker_pool *pool, const struct td_job_source *source,
                            uint64_t cost_ns, int64_t left_ns, struct td_expected *expected);

/* How many jobs could be queued for workers that will soon be idle; 0 while any job is queued. */
int64_t td_worker_pool_room(struct td_worker_pool *pool);

/* Do workers yield the processor after short turns (turn.h)? They do not at first. To be called
 * when that changes, from any thread. */
void td_worker_pool_yield(struct td_worker_pool *pool, bool yield);

/* What is queued: jobs, how long the oldest of them has waited, and their estimated cost. */
struct td_queue_state {
    int64_t jobs, oldest_ns;
    uint64_t cost_ns;
};
struct td_queue_state td_worker_pool_queue(struct td_worker_pool *pool, int64_t now_ns);

/* Seconds until the queued work is done, at least 1: for Retry-After. Takes no lock. */
unsigned td_worker_pool_retry_after_s(struct td_worker_pool *pool);

/* How a call computes: on `worker` with the help of its pool, or single-threaded on the calling
 * thread if worker is NULL. `stopped` is called between chunks and between loops, on the owner's
 * thread; a status other than TD_OK ends the loop. */
struct td_pool_exec {
    struct td_exec base;
    struct td_worker *worker;
    bool begun; /* a loop has been started */
    td_status (*stopped)(void *context, struct td_error *err);
    void *context;
};
void td_pool_exec_init(struct td_pool_exec *exec, struct td_worker *worker, struct td_arena *arena,
                       td_status (*stopped)(void *, struct td_error *), void *context);

#endif
