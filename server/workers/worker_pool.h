/* worker_pool.h - a bounded queue of jobs, one set of worker threads, and fork-join within a job.
 *
 *     I/O threads ── reserve, submit ──► job queue ──┐
 *                                                    ├──► workers: a job, or else a chunk of a loop
 *     a running job ── td_exec parallel_for ─► loops ┘
 *
 * A job runs on one worker; job_queue.h defines the order of jobs. When a job opens a parallel
 * loop, idle workers take chunks of the loop. Between two chunks, the loop's owner runs a waiting
 * small job, so small jobs overtake large jobs on every thread, and chunks of different requests
 * interleave. A worker that has helped polls for the next loop of the running jobs for about 50 us
 * before it sleeps. Without running loops, no worker spins.
 *
 * Ownership  The pool owns a job from submit until it calls either run or drop of the job. The
 *            caller owns the flows. The pool does not use a job's flow after run or drop.
 * Threads    Any thread can call submit, reserve and expire. A job's run is called on a worker, and
 *            drop on the thread that calls expire or reserve. The pool's mutex is never held while
 *            a job or a chunk runs.
 * Errors     reserve fails while queue_limit jobs wait, in which case the request gets 429. */
#ifndef TD_SERVER_WORKERS_WORKER_POOL_H
#define TD_SERVER_WORKERS_WORKER_POOL_H

#include "kernels/exec.h"
#include "kernels/status.h"
#include "server/workers/job_queue.h"

#include <stdbool.h>
#include <stdint.h>

struct td_worker_pool;

/* Starts a pool of at least one worker. Returns NULL if allocation fails or no thread can be
 * started. */
struct td_worker_pool *td_worker_pool_new(int workers, int64_t queue_limit);

/* Sets the name of the threads, for tools that display thread names. The name has at most 15
 * characters. */
void td_worker_pool_name(struct td_worker_pool *pool, const char *name);

/* Runs the queued jobs and joins the threads. Afterwards, no job can be submitted, but the state of
 * the queue can still be read. */
void td_worker_pool_stop(struct td_worker_pool *pool);

/* Stops the pool if it is running, and frees it. */
void td_worker_pool_free(struct td_worker_pool *pool);

/* td_worker_pool_reserve reserves a place in the queue for a job of `flow`, which can be NULL. If
 * the queue is full, drops the newest job of the flow with the most jobs, with QUEUE_FULL.
 * Returns false if `flow` itself has as many jobs. td_worker_pool_submit queues a job in a
 * reserved place. Each place is for one submit. */
bool td_worker_pool_reserve(struct td_worker_pool *pool, const struct td_job_flow *flow);
void td_worker_pool_submit(struct td_worker_pool *pool, struct td_job *job);

/* For work that no client waits for and that must not delay clients. td_worker_pool_reserve_free
 * drops no job, and returns false if the queue is full. td_worker_pool_submit_if_idle queues the
 * job only if a worker is idle and no job is queued or about to be queued. Otherwise, it returns
 * false. The job uses no place in the queue, so it causes no refusals. */
bool td_worker_pool_reserve_free(struct td_worker_pool *pool);
bool td_worker_pool_submit_if_idle(struct td_worker_pool *pool, struct td_job *job);

/* Corrects the estimated cost of a job, on the worker that runs the job. If a small job becomes
 * large, queues it again behind the other large jobs of its flow and returns true. The pool then
 * owns the job again, and never displaces it. Otherwise, charges the flow if the difference is
 * large. */
bool td_worker_pool_put_back(struct td_worker *worker, struct td_job *job, uint64_t cost_ns);

/* Drops the queued jobs past their deadline, or all queued jobs if `everything` is set. */
void td_worker_pool_expire(struct td_worker_pool *pool, int64_t now_ns, bool everything);

/* Records how long a job with this estimated cost has run, as the sum of all its parts. Estimates
 * of waiting times multiply the costs of queued jobs by the average ratio, so the estimates are
 * right even if the costs are not. Takes no lock. */
void td_worker_pool_measure(struct td_worker_pool *pool, uint64_t cost_ns, int64_t took_ns);

/* Returns the pool to which the worker belongs. */
struct td_worker_pool *td_worker_pool_of(const struct td_worker *worker);

/* Returns how long small jobs have run between the chunks of the worker's job. This time does not
 * count toward the job. Call on the worker. */
int64_t td_worker_nested_ns(const struct td_worker *worker);

/* True if a job of this flow and cost would probably end later than left_ns from now, because of
 * the jobs queued before it. Sets *expected to the expected waiting and running times. Returns
 * false until some jobs of the class have been measured. */
struct td_expected {
    int64_t wait_ns, run_ns;
};
bool td_worker_pool_is_late(struct td_worker_pool *pool, const struct td_job_flow *flow,
                            uint64_t cost_ns, int64_t left_ns, struct td_expected *expected);

/* Returns the number of jobs that could be queued for workers that are about to become idle, or 0
 * while any job is queued. */
int64_t td_worker_pool_room(struct td_worker_pool *pool);

/* Sets whether workers yield the processor after short quanta (quantum.h). Initially they do not.
 * Any thread can call this function. */
void td_worker_pool_yield(struct td_worker_pool *pool, bool yield);

/* State of the queue: number of jobs, waiting time of the oldest job, and estimated cost. */
struct td_queue_state {
    int64_t jobs, oldest_ns;
    uint64_t cost_ns;
};
struct td_queue_state td_worker_pool_queue(struct td_worker_pool *pool, int64_t now_ns);

/* Returns the number of seconds until the queued work will be done, at least 1, for Retry-After.
 * Takes no lock. */
unsigned td_worker_pool_retry_after_s(struct td_worker_pool *pool);

/* Executes a call on `worker` with the help of its pool, or single-threaded on the calling thread
 * if `worker` is NULL. `stopped` is called between chunks and between loops, on the owner's thread.
 * Any status other than TD_OK ends the loop. */
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
