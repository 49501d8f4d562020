#include "server/workers/worker_pool.h"

#include "server/observe/clock.h"
#include "server/workers/affinity.h"
#include "server/workers/chunks.h"
#include "server/workers/quantum.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How long a thread polls before it sleeps. A job that computes in steps opens one loop after
 * another. Sleeping between two loops costs as much as a short loop: 30 us to wake a helper of the
 * last loop, and the same for an owner that waits for the last chunk. Helpers and owners therefore
 * poll first. Measured with 2 workers (tests/bench/bench_loops.c), back-to-back loops of two chunks
 * of 20 us take 21 us instead of 52, and 42 us of processor time instead of 60. Loops of two chunks
 * of 200 us take 201 us instead of 244. */
#define LINGER_NS 50000

/* A parallel loop in progress. The loop is on its owner's stack. */
struct loop {
    struct loop *next;
    td_range_fn *fn;
    void *context;
    struct td_chunks chunks; /* the mutex orders the data that the chunks compute */
    /* Number of workers inside fn, without the owner. Changed under the mutex. */
    atomic_int helpers;
    pthread_cond_t helpers_done;
};

struct td_worker {
    struct td_worker_pool *pool;
    pthread_t thread;
    /* The worker is running a small job between the chunks of its own loop. */
    bool nested;
    /* Time spent in small jobs between chunks since the worker's own job started. */
    int64_t nested_ns;
    struct td_quantum quantum;
    struct td_affinity affinity; /* guarded by the mutex */
    /* The worker's job has opened a loop and is counted in pool->jobs_with_loops. Guarded by the
     * mutex. */
    bool opened_loop;
};

/* Ratio of the running times of jobs to their estimated costs, in units of 1 / RATIO_ONE. Relaxed,
 * because a lost update barely changes an average of many values. */
struct accuracy {
    atomic_uint_fast64_t ratio;
    atomic_int n; /* number of jobs measured, at most RATIO_JOBS */
};

enum {
    RATIO_ONE = 1024,
    RATIO_LEAST = RATIO_ONE / 64, /* minimum ratio of a single job */
    RATIO_MOST = RATIO_ONE * 64,
    RATIO_JOBS = 32, /* approximate number of jobs in the average */
    RATIO_KNOWN = 8  /* minimum number of jobs before the ratio is used */
};

struct td_worker_pool {
    int n_workers;
    int64_t queue_limit;
    /* Number of places reserved or queued. Relaxed, because it orders nothing else. */
    atomic_int_fast64_t places;
    /* Lingering workers poll the next two members without the mutex, and then lock the mutex. The
     * members are changed under the mutex, with relaxed order. */
    atomic_uint_fast64_t events; /* number of jobs submitted and loops opened so far */
    /* Number of running jobs that have opened a loop and might open another. */
    atomic_int jobs_with_loops;
    /* Total cost of the queued jobs. Changed under the mutex, with relaxed order. */
    atomic_uint_fast64_t queued_ns[TD_JOB_CLASSES];
    struct accuracy accuracies[TD_JOB_CLASSES];
    atomic_bool yields; /* relaxed, because one quantum more or less makes no difference */

    pthread_mutex_t mutex; /* guards the following members */
    pthread_cond_t work;
    struct td_job_queue queue;
    struct loop *loops;
    int idle, lingering;
    bool stopping;
    struct td_worker workers[];
};

/* ---- the queue, under the mutex ------------------------------------------------------------- */

/* Records the total cost of the queued jobs. Call after every change to the queue. */
static void note_cost(struct td_worker_pool *pool)
{
    for (int i = 0; i < TD_JOB_CLASSES; i++)
        atomic_store_explicit(&pool->queued_ns[i], pool->queue.classes[i].cost_ns,
                              memory_order_relaxed);
}

static void release_place(struct td_worker_pool *pool, const struct td_job *job)
{
    if (!job->unplaced)
        atomic_fetch_sub_explicit(&pool->places, 1, memory_order_relaxed);
}

static struct td_job *left_queue(struct td_worker_pool *pool, struct td_job *job)
{
    if (job) {
        release_place(pool, job);
        note_cost(pool);
    }
    return job;
}

static bool is_empty(const struct td_job_queue *queue)
{
    return queue->classes[TD_JOB_SMALL].n_jobs + queue->classes[TD_JOB_LARGE].n_jobs == 0;
}

static struct td_job *next_job(struct td_worker_pool *pool)
{
    return left_queue(pool, td_job_queue_take(&pool->queue));
}

/* ---- loops ---------------------------------------------------------------------------------- */

/* Runs one chunk. Returns false if no chunk is left. `worker` is NULL without a pool. */
static bool run_chunk(struct td_worker *worker, struct loop *loop)
{
    const int thread = worker ? (int)(worker - worker->pool->workers) : 0;
    int64_t begin, end;
    if (!td_chunks_claim(&loop->chunks, thread, &begin, &end))
        return false;
    loop->fn(loop->context, begin, end);
    return true;
}

/* Checks the worker's quantum after a job or a chunk. The mutex must not be held. */
static void check_quantum(struct td_worker *worker)
{
    if (atomic_load_explicit(&worker->pool->yields, memory_order_relaxed))
        td_quantum_check(&worker->quantum);
}

static struct loop *loop_with_chunks(struct td_worker_pool *pool)
{
    for (struct loop *loop = pool->loops; loop; loop = loop->next)
        if (td_chunks_left(&loop->chunks))
            return loop;
    return NULL;
}

static void count_event(struct td_worker_pool *pool)
{
    atomic_fetch_add_explicit(&pool->events, 1, memory_order_relaxed);
}

/* Polls briefly for a job or for the next loop of a running job. Returns at once if no running job
 * has loops. Yields the processor between two polls. The caller holds the mutex, which is released
 * during the call. */
static void linger(struct td_worker_pool *pool)
{
    const uint_fast64_t seen = atomic_load_explicit(&pool->events, memory_order_relaxed);
    const int64_t until = td_now_ns() + LINGER_NS;
    pool->lingering++;
    pthread_mutex_unlock(&pool->mutex);
    while (atomic_load_explicit(&pool->events, memory_order_relaxed) == seen &&
           atomic_load_explicit(&pool->jobs_with_loops, memory_order_relaxed) > 0 &&
           td_now_ns() < until)
        sched_yield();
    pthread_mutex_lock(&pool->mutex);
    pool->lingering--;
}

/* Runs a chunk of the loop. The caller holds the mutex, which is released during the call. */
static void help_loop(struct td_worker *worker, struct loop *loop)
{
    struct td_worker_pool *pool = worker->pool;
    atomic_fetch_add_explicit(&loop->helpers, 1, memory_order_relaxed);
    pthread_mutex_unlock(&pool->mutex);
    run_chunk(worker, loop);
    pthread_mutex_lock(&pool->mutex);
    if (atomic_fetch_sub_explicit(&loop->helpers, 1, memory_order_relaxed) == 1)
        pthread_cond_signal(&loop->helpers_done);
    pthread_mutex_unlock(&pool->mutex);
    /* The worker is no longer counted, so the loop's owner does not wait for it. */
    check_quantum(worker);
    pthread_mutex_lock(&pool->mutex);
}

static void loop_open(struct td_worker *owner, struct loop *loop, int64_t n_chunks)
{
    struct td_worker_pool *pool = owner->pool;
    pthread_mutex_lock(&pool->mutex);
    loop->next = pool->loops;
    pool->loops = loop;
    if (!owner->opened_loop) {
        owner->opened_loop = true;
        atomic_fetch_add_explicit(&pool->jobs_with_loops, 1, memory_order_relaxed);
    }
    count_event(pool);
    /* Lingering workers need no signal. */
    const int64_t wanted = n_chunks - 1 - pool->lingering;
    const int64_t wake = wanted < pool->idle ? wanted : pool->idle;
    for (int i = 0; wake > 0 && i < pool->n_workers; i++)
        td_affinity_avoid(&pool->workers[i].affinity);
    for (int64_t i = 0; i < wake; i++)
        pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
}

static bool has_no_helpers(struct loop *loop)
{
    return atomic_load_explicit(&loop->helpers, memory_order_relaxed) == 0;
}

/* Closes the loop. Returns when no helper uses the loop any more. */
static void loop_close(struct td_worker_pool *pool, struct loop *loop)
{
    pthread_mutex_lock(&pool->mutex);
    struct loop **link = &pool->loops;
    while (*link != loop)
        link = &(*link)->next;
    *link = loop->next; /* no worker joins after this */
    if (!has_no_helpers(loop)) {
        pthread_mutex_unlock(&pool->mutex);
        for (const int64_t until = td_now_ns() + LINGER_NS;
             !has_no_helpers(loop) && td_now_ns() < until;)
            sched_yield();
        pthread_mutex_lock(&pool->mutex); /* the last helper signals under the mutex */
    }
    while (!has_no_helpers(loop))
        pthread_cond_wait(&loop->helpers_done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

static void run_waiting_small_job(struct td_worker *worker)
{
    struct td_worker_pool *pool = worker->pool;
    if (worker->nested)
        return;
    pthread_mutex_lock(&pool->mutex);
    struct td_job *job = left_queue(pool, td_job_queue_take_small(&pool->queue));
    pthread_mutex_unlock(&pool->mutex);
    if (!job)
        return;
    const int64_t begun = td_now_ns();
    worker->nested = true;
    job->run(job, worker);
    worker->nested = false;
    worker->nested_ns += td_now_ns() - begun;
}

static td_status parallel_for(struct td_exec *base, int64_t count, int64_t grain, td_range_fn *fn,
                              void *context, struct td_error *err)
{
    struct td_pool_exec *exec = (struct td_pool_exec *)(void *)base;
    struct td_worker *worker = exec->worker;
    td_status status = exec->begun ? exec->stopped(exec->context, err) : TD_OK;
    exec->begun = true;
    grain = grain > 0 ? grain : 1;
    if (status == TD_OK && count > 0 && count <= grain)
        fn(context, 0, count);
    if (status != TD_OK || count <= grain)
        return status;
    struct loop loop = { .fn = fn, .context = context };
    const bool parallel = base->width > 1;
    td_chunks_init(&loop.chunks, count, grain, base->width);
    if (parallel) {
        pthread_cond_init(&loop.helpers_done, NULL);
        loop_open(worker, &loop, (count - 1) / grain + 1);
    }
    while (run_chunk(worker, &loop)) {
        if (!td_chunks_left(&loop.chunks))
            break;
        status = exec->stopped(exec->context, err);
        if (status != TD_OK)
            break;
        if (worker) {
            check_quantum(worker);
            run_waiting_small_job(worker);
        }
    }
    if (parallel) {
        td_chunks_drop(&loop.chunks);
        loop_close(worker->pool, &loop);
        pthread_cond_destroy(&loop.helpers_done);
    }
    return status;
}

static td_status check(struct td_exec *base, struct td_error *err)
{
    struct td_pool_exec *exec = (struct td_pool_exec *)(void *)base;
    td_status status = exec->stopped(exec->context, err);
    if (status == TD_OK && exec->worker)
        run_waiting_small_job(exec->worker);
    return status;
}

void td_pool_exec_init(struct td_pool_exec *exec, struct td_worker *worker, struct td_arena *arena,
                       td_status (*stopped)(void *, struct td_error *), void *context)
{
    exec->base =
        (struct td_exec){ .parallel_for = parallel_for,
                          .check = check,
                          .arena = arena,
                          .width = worker && !worker->nested ? worker->pool->n_workers : 1 };
    exec->worker = worker;
    exec->begun = false;
    exec->stopped = stopped;
    exec->context = context;
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Sets SCHED_BATCH, under which a woken worker does not preempt the thread that woke it. An I/O
 * thread then submits all requests that it has read before the worker runs them in a row, which
 * saves a thread switch per request. With 2 cores, a request takes 14 us of CPU time instead of 22,
 * and the rate doubles (tests/bench/run.py --only workers). */
static void prefer_io_threads(void)
{
    const struct sched_param normal = { .sched_priority = 0 };
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &normal); /* failure is harmless */
}

/* Runs a job. The caller holds the mutex, which is released during the call. */
static void run_job(struct td_worker *worker, struct td_job *job)
{
    struct td_worker_pool *pool = worker->pool;
    pthread_mutex_unlock(&pool->mutex);
    worker->nested_ns = 0;
    job->run(job, worker);
    check_quantum(worker);
    pthread_mutex_lock(&pool->mutex);
    if (worker->opened_loop)
        atomic_fetch_sub_explicit(&pool->jobs_with_loops, 1, memory_order_relaxed);
    worker->opened_loop = false;
}

static void *work(void *argument)
{
    struct td_worker *worker = argument;
    struct td_worker_pool *pool = worker->pool;
    prefer_io_threads();
    td_quantum_set_slice(TD_SLICE_NS);
    td_quantum_begin(&worker->quantum);
    /* The worker has helped, and has not lingered since then. */
    bool helped = false;
    pthread_mutex_lock(&pool->mutex);
    td_affinity_init(&worker->affinity);
    for (;;) {
        struct td_job *job = next_job(pool);
        struct loop *loop;
        if (job) {
            run_job(worker, job);
            helped = false;
        } else if ((loop = loop_with_chunks(pool))) {
            help_loop(worker, loop);
            helped = true;
        } else if (pool->stopping) {
            break;
        } else if (helped) {
            linger(pool);
            helped = false;
        } else {
            pool->idle++;
            td_affinity_sleep(&worker->affinity);
            pthread_cond_wait(&pool->work, &pool->mutex);
            td_affinity_wake(&worker->affinity);
            pool->idle--;
            td_quantum_begin(&worker->quantum);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

struct td_worker_pool *td_worker_pool_new(int workers, int64_t queue_limit)
{
    struct td_worker_pool *pool =
        calloc(1, sizeof *pool + (size_t)workers * sizeof(struct td_worker));
    if (!pool)
        return NULL;
    pool->queue_limit = queue_limit;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    for (int i = 0; i < workers; i++) {
        struct td_worker *worker = &pool->workers[i];
        worker->pool = pool;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            td_worker_pool_free(pool);
            return NULL;
        }
        pool->n_workers = i + 1;
    }
    return pool;
}

void td_worker_pool_name(struct td_worker_pool *pool, const char *name)
{
    for (int i = 0; i < pool->n_workers; i++)
        (void)pthread_setname_np(pool->workers[i].thread, name);
}

void td_worker_pool_stop(struct td_worker_pool *pool)
{
    if (!pool || pool->stopping)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->n_workers; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

void td_worker_pool_free(struct td_worker_pool *pool)
{
    if (!pool)
        return;
    td_worker_pool_stop(pool);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

struct td_queue_state td_worker_pool_queue(struct td_worker_pool *pool, int64_t now_ns)
{
    struct td_queue_state state = { .jobs = 0 };
    pthread_mutex_lock(&pool->mutex);
    const int64_t oldest = td_job_queue_oldest(&pool->queue);
    for (int i = 0; i < TD_JOB_CLASSES; i++) {
        state.jobs += pool->queue.classes[i].n_jobs;
        state.cost_ns += pool->queue.classes[i].cost_ns;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (oldest < now_ns)
        state.oldest_ns = now_ns - oldest;
    return state;
}

void td_worker_pool_yield(struct td_worker_pool *pool, bool yield)
{
    /* The workers read the flag after each quantum, so it is written only to change it. */
    if (atomic_load_explicit(&pool->yields, memory_order_relaxed) != yield)
        atomic_store_explicit(&pool->yields, yield, memory_order_relaxed);
}

/* Drops a list of jobs taken from the queue. */
static void drop_all(struct td_job *jobs, td_status why)
{
    while (jobs) {
        struct td_job *next = jobs->next;
        jobs->drop(jobs, why);
        jobs = next;
    }
}

/* A refused place is not counted, not even briefly. Otherwise, a concurrent reserve would fail or
 * displace a job although there is a place. */
bool td_worker_pool_reserve_free(struct td_worker_pool *pool)
{
    int_fast64_t places = atomic_load_explicit(&pool->places, memory_order_relaxed);
    while (places < pool->queue_limit)
        if (atomic_compare_exchange_weak_explicit(&pool->places, &places, places + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    return false;
}

bool td_worker_pool_reserve(struct td_worker_pool *pool, const struct td_job_flow *flow)
{
    if (td_worker_pool_reserve_free(pool))
        return true;
    pthread_mutex_lock(&pool->mutex);
    /* Places are released under the mutex, so a place might have been released before this thread
     * locked it. */
    const bool is_free = td_worker_pool_reserve_free(pool);
    struct td_job *displaced = is_free ? NULL : td_job_queue_displace(&pool->queue, flow);
    if (displaced) /* the caller takes over its place */
        note_cost(pool);
    pthread_mutex_unlock(&pool->mutex);
    if (displaced)
        displaced->drop(displaced, TD_QUEUE_FULL);
    return is_free || displaced;
}

/* Queues a job. The caller holds the mutex even while signalling, because after the mutex is
 * unlocked, the job might be done and the pool freed. */
static void push(struct td_worker_pool *pool, struct td_job *job)
{
    job->queued_ns = td_now_ns();
    td_job_queue_push(&pool->queue, job);
    note_cost(pool);
    count_event(pool);
    if (pool->idle > 0)
        pthread_cond_signal(&pool->work);
}

void td_worker_pool_submit(struct td_worker_pool *pool, struct td_job *job)
{
    job->unplaced = false;
    pthread_mutex_lock(&pool->mutex);
    push(pool, job);
    pthread_mutex_unlock(&pool->mutex);
}

bool td_worker_pool_submit_if_idle(struct td_worker_pool *pool, struct td_job *job)
{
    job->unplaced = true;
    pthread_mutex_lock(&pool->mutex);
    const bool idle = pool->idle > 0 && is_empty(&pool->queue) &&
                      atomic_load_explicit(&pool->places, memory_order_relaxed) == 0;
    if (idle)
        push(pool, job);
    pthread_mutex_unlock(&pool->mutex);
    return idle;
}

/* True if the cost is far above the estimate. Small jobs are charged only in this case, which saves
 * locking the mutex. */
static bool is_much_more(uint64_t cost_ns, uint64_t estimate_ns)
{
    return cost_ns / 4 > estimate_ns || cost_ns > estimate_ns + TD_JOB_SMALL_NS;
}

bool td_worker_pool_put_back(struct td_worker *worker, struct td_job *job, uint64_t cost_ns)
{
    struct td_worker_pool *pool = worker->pool;
    const bool was_small = td_job_is_small(job);
    const uint64_t before_ns = job->cost_ns;
    job->cost_ns = cost_ns;
    if (was_small && !td_job_is_small(job)) {
        job->keep = true;
        /* The place was released when the job was taken, so here the queue can exceed its limit by
         * one. */
        atomic_fetch_add_explicit(&pool->places, 1, memory_order_relaxed);
        td_worker_pool_submit(pool, job);
        return true;
    }
    if (is_much_more(cost_ns, before_ns)) {
        pthread_mutex_lock(&pool->mutex);
        td_job_queue_charge(&pool->queue, job, cost_ns - before_ns);
        pthread_mutex_unlock(&pool->mutex);
    }
    return false;
}

void td_worker_pool_expire(struct td_worker_pool *pool, int64_t now_ns, bool everything)
{
    pthread_mutex_lock(&pool->mutex);
    struct td_job *expired = td_job_queue_take_expired(&pool->queue, now_ns, everything);
    for (const struct td_job *job = expired; job; job = job->next)
        release_place(pool, job);
    note_cost(pool);
    pthread_mutex_unlock(&pool->mutex);
    drop_all(expired, everything ? TD_DRAINING : TD_DEADLINE_EXCEEDED);
}

int64_t td_worker_pool_room(struct td_worker_pool *pool)
{
    enum { JOBS_PER_WORKER = 4 };
    if (atomic_load_explicit(&pool->places, memory_order_relaxed) > 0)
        return 0;
    const int64_t wanted = JOBS_PER_WORKER * (int64_t)pool->n_workers;
    return wanted < pool->queue_limit ? wanted : pool->queue_limit;
}

/* ---- estimates ------------------------------------------------------------------------------ */

void td_worker_pool_measure(struct td_worker_pool *pool, uint64_t cost_ns, int64_t took_ns)
{
    struct accuracy *accuracy = &pool->accuracies[td_job_class_of(cost_ns)];
    const double ratio = RATIO_ONE * (double)took_ns / (double)(cost_ns + 1);
    const int64_t measured = ratio < RATIO_LEAST  ? RATIO_LEAST
                             : ratio > RATIO_MOST ? RATIO_MOST
                                                  : (int64_t)ratio;
    const int n = atomic_load_explicit(&accuracy->n, memory_order_relaxed) + 1;
    const int64_t before = (int64_t)atomic_load_explicit(&accuracy->ratio, memory_order_relaxed);
    atomic_store_explicit(&accuracy->ratio, (uint64_t)(before + (measured - before) / n),
                          memory_order_relaxed);
    if (n < RATIO_JOBS)
        atomic_store_explicit(&accuracy->n, n, memory_order_relaxed);
}

struct td_worker_pool *td_worker_pool_of(const struct td_worker *worker)
{
    return worker->pool;
}

int64_t td_worker_nested_ns(const struct td_worker *worker)
{
    return worker->nested ? 0 : worker->nested_ns;
}

static bool is_measured(struct td_worker_pool *pool, int job_class)
{
    return atomic_load_explicit(&pool->accuracies[job_class].n, memory_order_relaxed) >=
           RATIO_KNOWN;
}

/* Returns how long jobs with this estimated cost would take on one worker. */
static double real_ns(struct td_worker_pool *pool, int job_class, uint64_t cost_ns)
{
    if (!is_measured(pool, job_class))
        return (double)cost_ns;
    return (double)cost_ns / RATIO_ONE *
           (double)atomic_load_explicit(&pool->accuracies[job_class].ratio, memory_order_relaxed);
}

/* Returns how long the queued jobs of the first n classes would take on all workers. */
static double queued_real_ns(struct td_worker_pool *pool, int n)
{
    double ns = 0;
    for (int i = 0; i < n; i++)
        ns += real_ns(pool, i, atomic_load_explicit(&pool->queued_ns[i], memory_order_relaxed));
    return ns / (pool->n_workers ? pool->n_workers : 1);
}

bool td_worker_pool_is_late(struct td_worker_pool *pool, const struct td_job_flow *flow,
                            uint64_t cost_ns, int64_t left_ns, struct td_expected *expected)
{
    const int job_class = td_job_class_of(cost_ns);
    const double run = real_ns(pool, job_class, cost_ns), left = (double)left_ns - run;
    if (!is_measured(pool, job_class) ||
        /* Avoids the lock. */
        queued_real_ns(pool, job_class + 1) <= left)
        return false;
    pthread_mutex_lock(&pool->mutex);
    const uint64_t ahead = td_job_queue_ahead(&pool->queue, flow, job_class);
    const uint64_t smalls =
        job_class == TD_JOB_LARGE ? td_job_queue_smalls_ahead(&pool->queue, ahead) : 0;
    pthread_mutex_unlock(&pool->mutex);
    const double wait =
        (real_ns(pool, job_class, ahead) + real_ns(pool, TD_JOB_SMALL, smalls)) / pool->n_workers;
    *expected = (struct td_expected){ .wait_ns = (int64_t)wait, .run_ns = (int64_t)run };
    return ahead + smalls > 0 && wait > left;
}

unsigned td_worker_pool_retry_after_s(struct td_worker_pool *pool)
{
    enum { LONGEST_S = 60 };
    const double seconds = queued_real_ns(pool, TD_JOB_CLASSES) / 1e9 + 1;
    return seconds < LONGEST_S ? (unsigned)seconds : LONGEST_S;
}
