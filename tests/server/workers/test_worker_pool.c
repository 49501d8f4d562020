#include "server/observe/clock.h"
#include "server/workers/worker_pool.h"
#include "tests/gates/clock.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Costs of small and large jobs; the bound between them is a millisecond. */
enum { SMALL = 1000, LARGE = 50000000 };

/* A job that records its number when it runs, and counts its runs and drops. */
struct recorded_job {
    struct td_job job; /* first: run and drop cast back */
    int number;
    struct run_order *run_order; /* where it records its number; may be NULL */
    atomic_int runs, drops;
    td_status why;
    pthread_t dropped_on;
};

struct run_order {
    atomic_int length;
    int numbers[64]; /* written by one worker, read after it has ended */
};

static void record_run(struct td_job *job, struct td_worker *worker)
{
    struct recorded_job *recorded_job = (struct recorded_job *)(void *)job;
    (void)worker;
    if (recorded_job->run_order)
        recorded_job->run_order->numbers[atomic_fetch_add(&recorded_job->run_order->length, 1)] =
            recorded_job->number;
    atomic_fetch_add(&recorded_job->runs, 1);
}

static void record_drop(struct td_job *job, td_status why)
{
    struct recorded_job *recorded_job = (struct recorded_job *)(void *)job;
    recorded_job->why = why;
    recorded_job->dropped_on = pthread_self();
    atomic_fetch_add(&recorded_job->drops, 1);
}

static void recorded_job_init(struct recorded_job *recorded_job, int number, uint64_t cost_ns,
                              struct run_order *run_order)
{
    memset(recorded_job, 0, sizeof *recorded_job);
    recorded_job->job = (struct td_job){
        .cost_ns = cost_ns, .deadline_ns = TD_NEVER, .run = record_run, .drop = record_drop
    };
    recorded_job->number = number;
    recorded_job->run_order = run_order;
}

static void submit(struct td_worker_pool *pool, struct td_job *job)
{
    while (!td_worker_pool_reserve(pool, NULL))
        sched_yield();
    td_worker_pool_submit(pool, job);
}

/* A job that keeps its worker busy until the gate opens. */
struct busy_job {
    struct td_job job; /* first: run casts back */
    struct gate gate;
};

static void run_busy(struct td_job *job, struct td_worker *worker)
{
    (void)worker;
    gate_pass(&((struct busy_job *)(void *)job)->gate);
}

/* Returns when a worker runs the job. */
static void keep_busy(struct busy_job *busy, struct td_worker_pool *pool)
{
    busy->job = (struct td_job){ .cost_ns = SMALL, .deadline_ns = TD_NEVER, .run = run_busy };
    gate_init(&busy->gate);
    submit(pool, &busy->job);
    gate_await(&busy->gate);
}

static void release(struct busy_job *busy)
{
    gate_open(&busy->gate);
}

static struct td_worker_pool *pool_of(int workers)
{
    struct td_worker_pool *pool = td_worker_pool_new(workers, 1000);
    ck_assert_ptr_nonnull(pool);
    return pool;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

enum { SUBMITTERS = 4, JOBS_EACH = 1000 };

struct submitter {
    struct td_worker_pool *pool;
    struct recorded_job *jobs;
};

static void *submit_all(void *argument)
{
    struct submitter *self = argument;
    for (int i = 0; i < JOBS_EACH; i++)
        submit(self->pool, &self->jobs[i].job);
    return NULL;
}

TD_TEST_LOOP(every_submitted_job_runs_exactly_once, 0, 4)
{
    static const int workers[] = { 1, 2, 4, 8 };
    struct td_worker_pool *pool = td_worker_pool_new(workers[_i], 100); /* full most of the time */
    struct recorded_job *jobs = calloc(SUBMITTERS * JOBS_EACH, sizeof *jobs);
    struct submitter submitters[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS * JOBS_EACH; i++)
        recorded_job_init(&jobs[i], i, i % 3 ? SMALL : LARGE, NULL);
    for (int i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (struct submitter){ pool, jobs + i * JOBS_EACH };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, submit_all, &submitters[i]), 0);
    }
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    td_worker_pool_free(pool);
    for (int i = 0; i < SUBMITTERS * JOBS_EACH; i++) {
        EXPECT(atomic_load(&jobs[i].runs) == 1, "job %d", i);
        EXPECT(atomic_load(&jobs[i].drops) == 0, "job %d", i);
    }
    free(jobs);
}

TD_TEST(reserve_fails_when_the_queue_is_full)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 3);
    struct busy_job busy;
    struct recorded_job jobs[3];
    keep_busy(&busy, pool); /* it runs, so its place is free */
    for (int i = 0; i < 3; i++) {
        recorded_job_init(&jobs[i], i, i == 1 ? LARGE : SMALL, NULL);
        ck_assert(td_worker_pool_reserve(pool, NULL));
    }
    ck_assert(!td_worker_pool_reserve(pool, NULL)); /* reserved places count before they are used */
    for (int i = 0; i < 3; i++)
        td_worker_pool_submit(pool, &jobs[i].job);
    ck_assert(!td_worker_pool_reserve(pool, NULL));
    release(&busy);
    for (int i = 0; i < 3; i++)
        EVENTUALLY(atomic_load(&jobs[i].runs));
    for (int i = 0; i < 3; i++) /* a failed reserve takes no place */
        ck_assert(td_worker_pool_reserve(pool, NULL));
    ck_assert(!td_worker_pool_reserve(pool, NULL));
    td_worker_pool_free(pool);
}

TD_TEST(a_flow_with_fewer_jobs_gets_a_place_in_a_full_queue)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 3);
    struct td_job_flow hog = { 0 }, other = { 0 };
    struct busy_job busy;
    struct recorded_job jobs[4];
    keep_busy(&busy, pool);
    for (int i = 0; i < 4; i++) {
        struct td_job_flow *flow = i < 3 ? &hog : &other;
        recorded_job_init(&jobs[i], i, SMALL, NULL);
        jobs[i].job.flow = flow;
        ck_assert(td_worker_pool_reserve(pool, flow));
        td_worker_pool_submit(pool, &jobs[i].job);
    }
    ck_assert(!td_worker_pool_reserve(pool, &hog));
    ck_assert(!td_worker_pool_reserve(pool, &other)); /* two jobs and one would change places */
    ck_assert_int_eq(atomic_load(&jobs[2].drops), 1); /* the newest of the hog */
    ck_assert_int_eq(jobs[2].why, TD_QUEUE_FULL);
    ck_assert(pthread_equal(jobs[2].dropped_on, pthread_self()));
    release(&busy);
    EVENTUALLY(atomic_load(&jobs[1].runs) && atomic_load(&jobs[3].runs));
    for (int i = 0; i < 3; i++)
        ck_assert(td_worker_pool_reserve(pool, &hog));
    ck_assert(!td_worker_pool_reserve(pool, &hog)); /* displacing has changed no place */
    td_worker_pool_free(pool);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(atomic_load(&jobs[i].runs), i != 2);
}

TD_TEST(reserving_a_free_place_displaces_no_job)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 3);
    struct td_job_flow hog = { 0 };
    struct busy_job busy;
    struct recorded_job jobs[3];
    keep_busy(&busy, pool);
    for (int i = 0; i < 3; i++) {
        recorded_job_init(&jobs[i], i, SMALL, NULL);
        jobs[i].job.flow = &hog;
        ck_assert(td_worker_pool_reserve_free(pool));
        td_worker_pool_submit(pool, &jobs[i].job);
    }
    ck_assert(!td_worker_pool_reserve_free(pool)); /* a job of a flow would displace the last */
    release(&busy);
    for (int i = 0; i < 3; i++)
        EVENTUALLY(atomic_load(&jobs[i].runs));
    for (int i = 0; i < 3; i++) /* a failed one takes no place */
        ck_assert(td_worker_pool_reserve_free(pool));
    ck_assert(!td_worker_pool_reserve_free(pool));
    td_worker_pool_free(pool);
}

TD_TEST(a_job_for_idle_workers_is_queued_only_while_one_is_idle_and_nothing_waits)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 3);
    struct busy_job busy;
    struct recorded_job job, other;
    recorded_job_init(&job, 0, LARGE, NULL);
    recorded_job_init(&other, 1, SMALL, NULL);
    keep_busy(&busy, pool);
    ck_assert(!td_worker_pool_submit_if_idle(pool, &job.job)); /* the worker is busy */
    release(&busy);
    ck_assert(td_worker_pool_reserve(pool, NULL));
    ck_assert(!td_worker_pool_submit_if_idle(pool, &job.job)); /* a job is about to be queued */
    td_worker_pool_submit(pool, &other.job);
    EVENTUALLY(td_worker_pool_submit_if_idle(pool, &job.job));
    EVENTUALLY(atomic_load(&job.runs));
    ck_assert_int_eq(atomic_load(&other.runs), 1); /* before */
    for (int i = 0; i < 3; i++)                    /* it has left its place */
        ck_assert(td_worker_pool_reserve(pool, NULL));
    td_worker_pool_free(pool);
}

TD_TEST(a_job_for_idle_workers_takes_no_place_in_the_queue)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 1);
    struct recorded_job job, other;
    for (int i = 0; i < 100; i++) { /* in most rounds the worker is not awake yet at the reserve */
        recorded_job_init(&job, 0, LARGE, NULL);
        recorded_job_init(&other, 1, SMALL, NULL);
        EVENTUALLY(td_worker_pool_submit_if_idle(pool, &job.job));
        ck_assert(td_worker_pool_reserve(pool, NULL));
        ck_assert(!td_worker_pool_reserve(pool, NULL)); /* it releases none either */
        td_worker_pool_submit(pool, &other.job);
        EVENTUALLY(atomic_load(&job.runs) && atomic_load(&other.runs));
    }
    td_worker_pool_free(pool);
}

TD_TEST(an_unplaced_job_that_is_dropped_releases_no_place)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 1);
    struct recorded_job job;
    recorded_job_init(&job, 0, LARGE, NULL);
    EVENTUALLY(td_worker_pool_submit_if_idle(pool, &job.job));
    td_worker_pool_expire(pool, 0, true); /* or it runs meanwhile */
    ck_assert(td_worker_pool_reserve(pool, NULL));
    ck_assert(!td_worker_pool_reserve(pool, NULL));
    td_worker_pool_free(pool);
}

TD_TEST(the_state_of_the_queue_has_its_jobs_and_how_long_the_first_has_waited)
{
    struct td_worker_pool *pool = pool_of(1);
    struct busy_job busy;
    struct recorded_job jobs[3];
    const struct td_queue_state empty = td_worker_pool_queue(pool, td_now_ns());
    ck_assert_int_eq(empty.jobs, 0);
    ck_assert_int_eq(empty.oldest_ns, 0);
    keep_busy(&busy, pool);
    test_clock_stop();
    for (int i = 0; i < 3; i++) {
        recorded_job_init(&jobs[i], i, i == 1 ? LARGE : SMALL, NULL);
        submit(pool, &jobs[i].job);
    }
    const int64_t second = INT64_C(1000000000);
    const struct td_queue_state full = td_worker_pool_queue(pool, td_now_ns() + second);
    ck_assert_int_eq(full.jobs, 3);
    ck_assert_uint_eq(full.cost_ns, LARGE + 2 * SMALL);
    ck_assert_int_eq(full.oldest_ns, second);
    release(&busy);
    td_worker_pool_free(pool);
}

TD_TEST(free_runs_queued_jobs)
{
    struct td_worker_pool *pool = pool_of(1);
    struct busy_job busy;
    struct recorded_job jobs[20];
    keep_busy(&busy, pool);
    for (int i = 0; i < 20; i++) {
        recorded_job_init(&jobs[i], i, i % 2 ? SMALL : LARGE, NULL);
        submit(pool, &jobs[i].job);
    }
    release(&busy);
    td_worker_pool_free(pool);
    for (int i = 0; i < 20; i++)
        EXPECT(atomic_load(&jobs[i].runs) == 1, "job %d", i);
}

TD_TEST_LOOP(a_pool_without_work_can_be_freed, 0, 4)
{
    static const int workers[] = { 1, 2, 4, 8 };
    td_worker_pool_free(pool_of(workers[_i]));
    td_worker_pool_free(NULL);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Jobs in the order of submission: s small, L large. The numbers are the order in which one worker
 * runs them. */
static const struct {
    const char *description, *submitted;
    int order[24];
} orders[] = {
    { "small jobs run in the order of submission", "sss", { 0, 1, 2 } },
    { "large jobs as well", "LLL", { 0, 1, 2 } },
    { "small jobs pass large ones", "LsLs", { 1, 3, 0, 2 } },
    { "every eighth job is a large one", "LLssssssssss", { 2, 3, 4, 5, 6, 7, 8, 0, 9, 10, 11, 1 } },
    { "... repeatedly",
      "LLLssssssssssssssss",
      { 3, 4, 5, 6, 7, 8, 9, 0, 10, 11, 12, 13, 14, 15, 16, 1, 17, 18, 2 } },
    { "small jobs are counted only while a large one waits",
      "ssssssssss",
      { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 } },
};

TD_TEST_EACH(jobs_run_in_this_order, orders)
{
    struct td_worker_pool *pool = pool_of(1);
    struct busy_job busy;
    struct run_order run_order = { 0 };
    struct recorded_job jobs[24];
    const int n = (int)strlen(orders[_i].submitted);
    keep_busy(&busy, pool);
    for (int i = 0; i < n; i++) {
        recorded_job_init(&jobs[i], i, orders[_i].submitted[i] == 'L' ? LARGE : SMALL, &run_order);
        submit(pool, &jobs[i].job);
    }
    release(&busy);
    td_worker_pool_free(pool);
    ck_assert_int_eq(atomic_load(&run_order.length), n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(run_order.numbers[i] == orders[_i].order[i],
                      "%s: number %d was job %d, not %d", orders[_i].description, i,
                      run_order.numbers[i], orders[_i].order[i]);
}

/* ---- misestimated jobs ---------------------------------------------------------------------- */

/* A job whose cost turns out to be different when it runs. */
struct misestimated {
    struct recorded_job recorded_job; /* first: run casts back */
    uint64_t real_cost_ns;
    int runs;
    bool was_put_back;
};

static void run_misestimated(struct td_job *job, struct td_worker *worker)
{
    struct misestimated *self = (struct misestimated *)(void *)job;
    if (self->runs++ == 0) {
        self->was_put_back = true; /* set before: after it is put back the pool owns it */
        if (td_worker_pool_put_back(worker, job, self->real_cost_ns))
            return;
        self->was_put_back = false;
    }
    record_run(job, worker);
}

static const struct {
    const char *description;
    uint64_t thought, real;
    bool goes_back;
} surprises[] = {
    { "a small job that is large", SMALL, LARGE, true },
    { "a small job that is small", SMALL, 2 * SMALL, false },
    { "a large job that is small runs at once", LARGE, SMALL, false },
    { "a large job that is larger", LARGE, 2 * (uint64_t)LARGE, false },
    { "a small job with the largest cost", SMALL, UINT64_MAX, true },
};

TD_TEST_EACH(an_underestimated_job_moves_to_the_end_of_the_large_queue, surprises)
{
    const bool goes_back = surprises[_i].goes_back;
    struct td_worker_pool *pool = td_worker_pool_new(1, 3); /* a full queue accepts it again */
    struct busy_job busy;
    struct run_order run_order = { 0 };
    struct recorded_job large, small;
    struct misestimated misestimated = { .real_cost_ns = surprises[_i].real };
    recorded_job_init(&misestimated.recorded_job, 0, surprises[_i].thought, &run_order);
    misestimated.recorded_job.job.run = run_misestimated;
    recorded_job_init(&large, 1, LARGE, &run_order);
    recorded_job_init(&small, 2, SMALL, &run_order);
    keep_busy(&busy, pool);
    submit(pool, &misestimated.recorded_job.job);
    submit(pool, &large.job);
    submit(pool, &small.job);
    release(&busy);
    EVENTUALLY(atomic_load(&run_order.length) == 3);
    int places = 0;
    while (td_worker_pool_reserve(pool, NULL))
        places++;
    ck_assert_int_eq(places, 3);
    ck_assert_uint_eq(td_worker_pool_retry_after_s(pool), 1);
    td_worker_pool_free(pool);
    ck_assert_msg(misestimated.was_put_back == goes_back, "%s", surprises[_i].description);
    ck_assert_int_eq(misestimated.runs, goes_back ? 2 : 1);
    ck_assert_int_eq(atomic_load(&misestimated.recorded_job.runs), 1);
    if (goes_back)
        ck_assert_int_eq(run_order.numbers[2], 0); /* after the small one and the large one */
}

/* ---- loops ----------------------------------------------------------------------------------- */

static td_status never_stopped(void *context, struct td_error *err)
{
    (void)context;
    (void)err;
    return TD_OK;
}

/* Runs a loop of `count` items, in chunks of one, that nobody stops. */
static void run_chunks(struct td_worker *worker, int64_t count, td_range_fn *chunk, void *context)
{
    struct td_pool_exec exec;
    struct td_error err;
    td_pool_exec_init(&exec, worker, NULL, never_stopped, NULL);
    EXPECT_OK(td_exec_for(&exec.base, count, 1, chunk, context, &err), &err);
}

/* A job that runs a loop and counts the visits of each item. */
struct looping_job {
    struct td_job job; /* first: run casts back */
    int64_t count, grain;
    atomic_int *visits;
    atomic_int bad_ranges;
    td_status status;
    atomic_int done;
};

static void visit(void *context, int64_t begin, int64_t end)
{
    struct looping_job *self = context;
    const int64_t grain = self->grain > 0 ? self->grain : 1;
    if (begin < 0 || begin >= end || end > self->count || end - begin > grain) {
        atomic_fetch_add(&self->bad_ranges, 1);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&self->visits[i], 1);
}

static void run_loop(struct td_job *job, struct td_worker *worker)
{
    struct looping_job *self = (struct looping_job *)(void *)job;
    struct td_pool_exec exec;
    struct td_error err;
    td_pool_exec_init(&exec, worker, NULL, never_stopped, NULL);
    self->status = td_exec_for(&exec.base, self->count, self->grain, visit, self, &err);
    atomic_store(&self->done, 1);
}

static void looping_init(struct looping_job *self, uint64_t cost_ns, int64_t count, int64_t grain)
{
    memset(self, 0, sizeof *self);
    self->job = (struct td_job){ .cost_ns = cost_ns, .deadline_ns = TD_NEVER, .run = run_loop };
    self->count = count;
    self->grain = grain;
    self->visits = calloc((size_t)count + 1, sizeof *self->visits);
}

/* Fails unless each item was visited exactly once. */
static void looping_expect(struct looping_job *self)
{
    ck_assert_int_eq(atomic_load(&self->done), 1);
    ck_assert_int_eq(self->status, TD_OK);
    ck_assert_int_eq(atomic_load(&self->bad_ranges), 0);
    for (int64_t i = 0; i < self->count; i++)
        EXPECT(atomic_load(&self->visits[i]) == 1, "item %lld of %lld, grain %lld: %d visits",
               (long long)i, (long long)self->count, (long long)self->grain,
               atomic_load(&self->visits[i]));
    free(self->visits);
}

static const struct {
    int64_t count, grain;
} loops[] = {
    { 0, 1 },      { 0, 0 },       { 1, 1 },       { 1, 1000 },         { 2, 1 },
    { 7, 3 },      { 8, 4 },       { 9, 4 },       { 1000, 1 },         { 1000, 7 },
    { 1000, 999 }, { 1000, 1000 }, { 1000, 1001 }, { 1000, INT64_MAX }, { 100, 0 },
    { 100, -5 },   { 20011, 64 },
};
static const int worker_counts[] = { 0, 1, 2, 4, 8 }; /* 0: single-threaded on the calling thread */
enum { N_LOOPS = COUNT_OF(loops), N_WORKER_COUNTS = COUNT_OF(worker_counts) };

TD_TEST_LOOP(parallel_for_runs_each_item_exactly_once, 0, N_LOOPS *N_WORKER_COUNTS)
{
    const int workers = worker_counts[_i / N_LOOPS];
    struct looping_job looping_job;
    looping_init(&looping_job, LARGE, loops[_i % N_LOOPS].count, loops[_i % N_LOOPS].grain);
    if (workers == 0) {
        run_loop(&looping_job.job, NULL);
    } else {
        struct td_worker_pool *pool = pool_of(workers);
        submit(pool, &looping_job.job);
        td_worker_pool_free(pool);
    }
    looping_expect(&looping_job);
}

TD_TEST_LOOP(loops_of_several_jobs_do_not_mix, 1, N_WORKER_COUNTS)
{
    enum { JOBS = 24 };
    struct td_worker_pool *pool = pool_of(worker_counts[_i]);
    struct looping_job jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        looping_init(&jobs[i], i % 3 ? LARGE : SMALL, 500 + 13 * i, 1 + i % 5);
        submit(pool, &jobs[i].job);
    }
    td_worker_pool_free(pool);
    for (int i = 0; i < JOBS; i++)
        looping_expect(&jobs[i]);
}

static void wait_for_all(void *context, int64_t begin, int64_t end)
{
    (void)begin;
    (void)end;
    pthread_barrier_wait(context);
}

struct rendezvous {
    struct td_job job;
    pthread_barrier_t barrier;
    sem_t over;
};

static void run_rendezvous(struct td_job *job, struct td_worker *worker)
{
    struct rendezvous *self = (struct rendezvous *)(void *)job;
    run_chunks(worker, 4, wait_for_all, &self->barrier);
    sem_post(&self->over);
}

TD_TEST(
    idle_workers_take_chunks_of_a_loop) /* four chunks that wait for each other need four threads */
{
    struct td_worker_pool *pool = pool_of(4);
    struct rendezvous rendezvous = {
        .job = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_rendezvous }
    };
    pthread_barrier_init(&rendezvous.barrier, NULL, 4);
    sem_init(&rendezvous.over, 0, 0);
    for (int i = 0; i < 200; i++) {
        submit(pool, &rendezvous.job);
        await(&rendezvous.over); /* never returns if a chunk is missing */
    }
    td_worker_pool_free(pool);
    pthread_barrier_destroy(&rendezvous.barrier);
}

TD_TEST(exec_provides_its_arena)
{
    struct td_arena arena;
    struct td_pool_exec exec;
    td_pool_exec_init(&exec, NULL, &arena, never_stopped, NULL);
    ck_assert_ptr_eq(exec.base.arena, &arena);
}

static td_status always_stopped(void *context, struct td_error *err)
{
    return td_error_set(err, TD_DEADLINE_EXCEEDED, "%s", (const char *)context);
}

TD_TEST(exec_checks_for_a_stop_outside_a_loop)
{
    struct td_arena arena;
    struct td_pool_exec exec;
    struct td_error err;
    char late[] = "late";
    td_pool_exec_init(&exec, NULL, &arena, never_stopped, NULL);
    ck_assert_int_eq(td_exec_check(&exec.base, &err), TD_OK);
    td_pool_exec_init(&exec, NULL, &arena, always_stopped, late);
    ck_assert_int_eq(td_exec_check(&exec.base, &err), TD_DEADLINE_EXCEEDED);
    ck_assert_str_eq(err.message, "late");
}

/* ---- jobs between the chunks of a loop ------------------------------------------------------- */

/* A large job on the only worker. Its first chunk submits other jobs; its later chunks check
 * which of them have run. */
struct outer {
    struct td_job job;
    struct td_worker_pool *pool;
    struct recorded_job small, large;
    struct looping_job small_loop;
    int small_had_run, large_had_run, small_loop_had_run; /* at the last chunk */
    sem_t over;
};

static void outer_chunk(void *context, int64_t begin, int64_t end)
{
    struct outer *self = context;
    (void)end;
    if (begin == 0) {
        submit(self->pool, &self->large.job);
        submit(self->pool, &self->small.job);
        submit(self->pool, &self->small_loop.job);
    }
    if (begin == 9) {
        self->large_had_run = atomic_load(&self->large.runs);
        self->small_had_run = atomic_load(&self->small.runs);
        self->small_loop_had_run = atomic_load(&self->small_loop.done);
    }
}

static void run_outer(struct td_job *job, struct td_worker *worker)
{
    struct outer *self = (struct outer *)(void *)job;
    run_chunks(worker, 10, outer_chunk, self);
}

TD_TEST(small_jobs_run_between_the_chunks_of_a_large_one)
{
    struct outer outer = { .job = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_outer } };
    outer.pool = pool_of(1);
    recorded_job_init(&outer.small, 0, SMALL, NULL);
    recorded_job_init(&outer.large, 1, LARGE, NULL);
    looping_init(&outer.small_loop, SMALL, 100, 7); /* a small job with a loop */
    submit(outer.pool, &outer.job);
    td_worker_pool_free(outer.pool);
    ck_assert_int_eq(outer.small_had_run, 1);
    ck_assert_int_eq(outer.small_loop_had_run, 1);
    ck_assert_int_eq(outer.large_had_run, 0);
    ck_assert_int_eq(atomic_load(&outer.large.runs), 1);
    looping_expect(&outer.small_loop);
}

/* A large job with a small one between its chunks, which takes some time. */
struct interrupted {
    struct td_job large, small;
    struct td_worker_pool *pool;
    int64_t seen_by_small, seen_by_large;
};

static void run_slowly(struct td_job *job, struct td_worker *worker)
{
    struct interrupted *self =
        (struct interrupted *)(void *)((char *)job - offsetof(struct interrupted, small));
    test_clock_advance(2000000);
    self->seen_by_small = td_worker_nested_ns(worker);
}

static void submit_small(void *context, int64_t begin, int64_t end)
{
    struct interrupted *self = context;
    (void)end;
    if (begin == 0)
        submit(self->pool, &self->small);
}

static void run_interrupted(struct td_job *job, struct td_worker *worker)
{
    struct interrupted *self = (struct interrupted *)(void *)job;
    ck_assert_int_eq(td_worker_nested_ns(worker), 0); /* also after another job */
    run_chunks(worker, 10, submit_small, self);
    self->seen_by_large = td_worker_nested_ns(worker);
}

TD_TEST(the_time_of_small_jobs_between_the_chunks_is_known)
{
    struct td_worker_pool *pool = pool_of(1);
    struct interrupted jobs[2];
    test_clock_stop();
    for (int i = 0; i < 2; i++) {
        jobs[i] = (struct interrupted){
            .large = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_interrupted },
            .small = { .cost_ns = SMALL, .deadline_ns = TD_NEVER, .run = run_slowly },
            .pool = pool,
        };
        submit(pool, &jobs[i].large);
    }
    td_worker_pool_free(pool);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(jobs[i].seen_by_large, 2000000);
        ck_assert_int_eq(jobs[i].seen_by_small, 0);
    }
}

/* A chain of small jobs, each submitted by a chunk of the one before; records how deep they
 * nest. */
struct chain {
    struct td_job job;
    struct chain *next;
    struct td_worker_pool *pool;
    int *depth, *deepest;
};

static void chain_chunk(void *context, int64_t begin, int64_t end)
{
    struct chain *self = context;
    (void)end;
    if (begin == 0 && self->next)
        submit(self->pool, &self->next->job);
}

static void run_chain(struct td_job *job, struct td_worker *worker)
{
    struct chain *self = (struct chain *)(void *)job;
    if (++*self->depth > *self->deepest)
        *self->deepest = *self->depth;
    run_chunks(worker, 10, chain_chunk, self);
    --*self->depth;
}

TD_TEST(nested_jobs_do_not_nest_further)
{
    enum { LINKS = 8 };
    struct chain chain[LINKS];
    struct td_worker_pool *pool = pool_of(1);
    int depth = 0, deepest = 0;
    for (int i = 0; i < LINKS; i++)
        chain[i] =
            (struct chain){ .job = { .cost_ns = SMALL, .deadline_ns = TD_NEVER, .run = run_chain },
                            .next = i + 1 < LINKS ? &chain[i + 1] : NULL,
                            .pool = pool,
                            .depth = &depth,
                            .deepest = &deepest };
    submit(pool, &chain[0].job);
    td_worker_pool_free(pool);
    ck_assert_int_eq(depth, 0);
    ck_assert_int_eq(deepest, 2);
}

TD_TEST_LOOP(loops_and_small_jobs_complete_under_load, 1, N_WORKER_COUNTS)
{
    enum { LOOPS = 40, SMALLS = 2000 };
    struct td_worker_pool *pool = pool_of(worker_counts[_i]);
    struct looping_job *looping_job = calloc(LOOPS, sizeof *looping_job);
    struct recorded_job *smalls = calloc(SMALLS, sizeof *smalls);
    for (int i = 0; i < SMALLS; i++) {
        recorded_job_init(&smalls[i], i, SMALL, NULL);
        submit(pool, &smalls[i].job);
        if (i % (SMALLS / LOOPS) == 0) {
            struct looping_job *loop = &looping_job[i / (SMALLS / LOOPS)];
            looping_init(loop, i % 100 ? SMALL : LARGE, 1000 + i % 17, 3);
            submit(pool, &loop->job);
        }
    }
    td_worker_pool_free(pool);
    for (int i = 0; i < SMALLS; i++)
        EXPECT(atomic_load(&smalls[i].runs) == 1, "job %d", i);
    for (int i = 0; i < LOOPS; i++)
        looping_expect(&looping_job[i]);
    free(looping_job);
    free(smalls);
}

/* ---- loops that are stopped ------------------------------------------------------------------ */

enum { STOPPED_COUNT = 100000 };

struct stoppable {
    struct td_job job;
    int checks, stop_at; /* the call of stopped that returns DEADLINE_EXCEEDED; 0: the first */
    int64_t count;
    int helpers; /* each waits in a chunk until the loop's owner waits for it */
    struct gate gate;
    sem_t over;
    pthread_t owner;
    bool asked_elsewhere;
    atomic_int inside, chunks;
    int inside_after, chunks_after;
    td_status status;
    struct td_error err;
};

/* The job whose owner is about to wait for its helpers; NULL: none. */
static struct stoppable *_Atomic stopping;

static void let_helpers_end(struct stoppable *self)
{
    if (atomic_compare_exchange_strong(&stopping, &(struct stoppable *){ self }, NULL))
        for (int i = 0; i < self->helpers; i++)
            gate_open(&self->gate);
}

/* The workers that sleep, and the owner of a loop that waits for its helpers. */
static atomic_int sleeping;

int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    struct stoppable *self = atomic_load(&stopping);
    if (self && pthread_equal(self->owner, pthread_self()))
        let_helpers_end(self);
    atomic_fetch_add(&sleeping, 1);
    const int status = __real_pthread_cond_wait(condition, mutex);
    atomic_fetch_sub(&sleeping, 1);
    return status;
}

static td_status check_stop(void *context, struct td_error *err)
{
    struct stoppable *self = context;
    self->asked_elsewhere |= !pthread_equal(self->owner, pthread_self());
    if (self->checks++ < self->stop_at)
        return TD_OK;
    for (int i = 0; i < self->helpers; i++)
        gate_await(&self->gate);
    atomic_store(&stopping, self);
    return td_error_set(err, TD_DEADLINE_EXCEEDED, "stopped at check %d", self->checks);
}

static void stoppable_chunk(void *context, int64_t begin, int64_t end)
{
    struct stoppable *self = context;
    (void)begin;
    (void)end;
    atomic_fetch_add(&self->inside, 1);
    atomic_fetch_add(&self->chunks, 1);
    if (self->helpers > 0 && !pthread_equal(self->owner, pthread_self()))
        gate_pass(&self->gate);
    atomic_fetch_sub(&self->inside, 1);
}

static void run_stoppable(struct td_job *job, struct td_worker *worker)
{
    struct stoppable *self = (struct stoppable *)(void *)job;
    struct td_pool_exec exec;
    self->owner = pthread_self();
    td_pool_exec_init(&exec, worker, NULL, check_stop, self);
    self->status = td_exec_for(&exec.base, self->count, 1, stoppable_chunk, self, &self->err);
    self->inside_after = atomic_load(&self->inside);
    self->chunks_after = atomic_load(&self->chunks);
    let_helpers_end(self); /* if it has not waited for them */
    sem_post(&self->over);
}

/* Frees the pool after the job: a worker that starts while the pool is being freed ends without
 * helping. */
static void run_on_new_pool(struct stoppable *self, int workers)
{
    sem_init(&self->over, 0, 0);
    if (workers == 0) {
        self->job.run(&self->job, NULL);
        return;
    }
    struct td_worker_pool *pool = pool_of(workers);
    submit(pool, &self->job);
    await(&self->over);
    td_worker_pool_free(pool);
}

TD_TEST_LOOP(a_stop_ends_the_loop_and_no_helper_remains_in_it, 0, N_WORKER_COUNTS)
{
    struct stoppable self = {
        .job = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_stoppable },
        .count = STOPPED_COUNT,
        .stop_at = 5,
        .helpers = worker_counts[_i] > 1 ? worker_counts[_i] - 1 : 0,
    };
    gate_init(&self.gate);
    run_on_new_pool(&self, worker_counts[_i]);
    ck_assert_int_eq(self.status, TD_DEADLINE_EXCEEDED);
    ck_assert_str_eq(self.err.message, "stopped at check 6"); /* the error of stopped, unchanged */
    ck_assert(!self.asked_elsewhere);
    ck_assert_int_lt(self.chunks_after, STOPPED_COUNT);
    ck_assert_int_eq(self.inside_after, 0);
    ck_assert_int_eq(atomic_load(&self.chunks), self.chunks_after);
}

TD_TEST_LOOP(a_finished_loop_is_not_stopped, 0, N_WORKER_COUNTS)
{
    struct stoppable self = {
        .job = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_stoppable },
        .count = 1,
    };
    run_on_new_pool(&self, worker_counts[_i]);
    ck_assert_int_eq(self.status, TD_OK);
    ck_assert_int_eq(self.chunks_after, 1);
}

/* A job of many loops of one chunk each: it never checks between two chunks. */
static void run_stoppable_loops(struct td_job *job, struct td_worker *worker)
{
    struct stoppable *self = (struct stoppable *)(void *)job;
    struct td_pool_exec exec;
    self->owner = pthread_self();
    td_pool_exec_init(&exec, worker, NULL, check_stop, self);
    do
        self->status = td_exec_for(&exec.base, 1, 1, stoppable_chunk, self, &self->err);
    while (self->status == TD_OK && atomic_load(&self->chunks) < 100);
    sem_post(&self->over);
}

TD_TEST_LOOP(a_job_is_stopped_between_its_loops_as_well, 0, N_WORKER_COUNTS)
{
    struct stoppable self = {
        .job = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_stoppable_loops },
        .stop_at = 5,
    };
    run_on_new_pool(&self, worker_counts[_i]);
    ck_assert_int_eq(self.status, TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(self.checks, 6);
    ck_assert_int_eq(atomic_load(&self.chunks),
                     6); /* stopped was not called before the first loop */
}

/* ---- one loop after the other ---------------------------------------------------------------- */

struct loop_sequence {
    struct td_job job;
    int loops;
    int64_t sum; /* plain additions: each loop reads what all chunks of the one before wrote */
    int64_t parts[8];
    sem_t over;
};

static void add_up(void *context, int64_t begin, int64_t end)
{
    struct loop_sequence *self = context;
    for (int64_t i = begin; i < end; i++)
        self->parts[i] = self->sum + i;
}

static void run_loop_sequence(struct td_job *job, struct td_worker *worker)
{
    struct loop_sequence *self = (struct loop_sequence *)(void *)job;
    struct td_pool_exec exec;
    struct td_error err;
    td_pool_exec_init(&exec, worker, NULL, never_stopped, NULL);
    for (int i = 0; i < self->loops; i++) {
        EXPECT_OK(td_exec_for(&exec.base, 8, 1, add_up, self, &err), &err);
        self->sum = 0;
        for (int k = 0; k < 8; k++)
            self->sum = (self->sum + self->parts[k]) % 1000003;
    }
    sem_post(&self->over);
}

TD_TEST_LOOP(each_loop_sees_what_the_one_before_wrote, 1, N_WORKER_COUNTS)
{
    enum { LOOPS = 5000 };
    int64_t expected = 0;
    for (int i = 0; i < LOOPS; i++)
        expected = (8 * expected + 28) % 1000003;
    struct td_worker_pool *pool = pool_of(worker_counts[_i]);
    struct loop_sequence rows[2] = { 0 };
    for (int i = 0; i < 2; i++) {
        rows[i].job =
            (struct td_job){ .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_loop_sequence };
        rows[i].loops = LOOPS;
        sem_init(&rows[i].over, 0, 0);
        submit(pool, &rows[i].job);
    }
    for (int i = 0; i < 2; i++) {
        await(&rows[i].over);
        ck_assert_int_eq(rows[i].sum, expected);
    }
    td_worker_pool_free(pool);
}

TD_TEST(workers_sleep_when_the_loops_are_over)
{
    struct td_worker_pool *pool = pool_of(4);
    struct loop_sequence row = {
        .job = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_loop_sequence }, .loops = 100
    };
    sem_init(&row.over, 0, 0);
    test_clock_stop(); /* no matter how long they have waited for the next loop */
    submit(pool, &row.job);
    await(&row.over);
    EVENTUALLY(atomic_load(&sleeping) == 4);
    td_worker_pool_free(pool);
}

/* A job with a loop that then stops at a gate. */
struct loop_then_gate {
    struct td_job job;
    struct looping_job loop;
    struct gate gate;
};

static void run_loop_then_gate(struct td_job *job, struct td_worker *worker)
{
    struct loop_then_gate *self = (struct loop_then_gate *)(void *)job;
    run_loop(&self->loop.job, worker);
    gate_pass(&self->gate);
}

TD_TEST(workers_sleep_when_the_next_loop_does_not_begin_soon)
{
    struct td_worker_pool *pool = pool_of(4);
    struct loop_then_gate self = {
        .job = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_loop_then_gate }
    };
    gate_init(&self.gate);
    looping_init(&self.loop, LARGE, 100, 1);
    test_clock_stop();
    submit(pool, &self.job);
    gate_await(&self.gate); /* the job may have more loops */
    /* Repeatedly: a worker may begin to wait after the clock has moved. */
    EVENTUALLY((test_clock_advance(50000), atomic_load(&sleeping) == 3));
    gate_open(&self.gate);
    td_worker_pool_free(pool);
    looping_expect(&self.loop);
}

/* A job with a loop that then runs until the other jobs have run. */
static void run_loop_then_wait(struct td_job *job, struct td_worker *worker)
{
    struct outer *self = (struct outer *)(void *)job;
    run_chunks(worker, 100, visit, &self->small_loop);
    submit(self->pool, &self->small.job); /* while a helper polls or has just begun to sleep */
    submit(self->pool, &self->large.job);
    while (!atomic_load(&self->small.runs) || !atomic_load(&self->large.runs))
        sched_yield();
    sem_post(&self->over);
}

TD_TEST(a_lingering_worker_takes_a_new_job)
{
    struct td_worker_pool *pool = pool_of(2);
    for (int i = 0; i < 500; i++) {
        struct outer outer = {
            .job = { .cost_ns = LARGE, .deadline_ns = TD_NEVER, .run = run_loop_then_wait },
            .pool = pool,
        };
        sem_init(&outer.over, 0, 0);
        recorded_job_init(&outer.small, 0, SMALL, NULL);
        recorded_job_init(&outer.large, 1, LARGE, NULL);
        looping_init(&outer.small_loop, SMALL, 100, 1);
        submit(pool, &outer.job);
        await(&outer.over);
        free(outer.small_loop.visits);
    }
    td_worker_pool_free(pool);
}

/* ---- jobs that wait too long ----------------------------------------------------------------- */

/* Deadlines in the order of submission ('-' for none, else ten times the digit), the time, and
 * the dropped jobs. */
static const struct {
    const char *description, *deadlines, *costs;
    int64_t now;
    bool everything;
    const char *dropped;
} expiries[] = {
    { "an empty queue", "", "", 15, false, "" },
    { "no job is late", "2-3", "sss", 15, false, "   " },
    { "the first", "1-3", "sss", 15, false, "x  " },
    { "the middle one", "-13", "sss", 15, false, " x " },
    { "the last", "-31", "sss", 15, false, "  x" },
    { "all of them", "111", "sss", 15, false, "xxx" },
    { "among large ones", "1-1", "LLL", 15, false, "x x" },
    { "among both", "1-12-1", "sLLsLs", 15, false, "x x  x" },
    { "jobs without a deadline", "--", "sL", INT64_MAX - 1, false, "  " },
    { "everything", "1-9", "sLs", 15, true, "xxx" },
};

TD_TEST_EACH(expire_drops_only_jobs_past_their_deadline, expiries)
{
    const char *deadlines = expiries[_i].deadlines, *description = expiries[_i].description;
    const int n = (int)strlen(deadlines);
    const td_status why = expiries[_i].everything ? TD_DRAINING : TD_DEADLINE_EXCEEDED;
    struct td_worker_pool *pool = td_worker_pool_new(1, n + 1);
    struct busy_job busy;
    struct recorded_job jobs[8], late_comers[2];
    keep_busy(&busy, pool);
    for (int i = 0; i < n; i++) {
        recorded_job_init(&jobs[i], i, expiries[_i].costs[i] == 'L' ? LARGE : SMALL, NULL);
        jobs[i].job.deadline_ns = deadlines[i] == '-' ? TD_NEVER : (deadlines[i] - '0') * 10;
        submit(pool, &jobs[i].job);
    }
    td_worker_pool_expire(pool, expiries[_i].now, expiries[_i].everything);
    for (int i = 0; i < n; i++) {
        const bool dropped = expiries[_i].dropped[i] == 'x';
        ck_assert_msg(atomic_load(&jobs[i].drops) == dropped, "%s: job %d", description, i);
        if (dropped)
            ck_assert_msg(jobs[i].why == why && pthread_equal(jobs[i].dropped_on, pthread_self()),
                          "%s: job %d", description, i);
    }
    int places = 0; /* only the places of dropped jobs are free */
    while (td_worker_pool_reserve(pool, NULL))
        places++;
    for (int i = 0; i < n; i++)
        places += expiries[_i].dropped[i] != 'x';
    ck_assert_msg(places == n + 1, "%s: %d places", description, places);
    for (int i = 0; i < 2 && i < places; i++) { /* both queues still accept jobs */
        recorded_job_init(&late_comers[i], i, i ? LARGE : SMALL, NULL);
        td_worker_pool_submit(pool, &late_comers[i].job);
    }
    release(&busy);
    td_worker_pool_free(pool);
    for (int i = 0; i < n; i++)
        ck_assert_msg(atomic_load(&jobs[i].runs) + atomic_load(&jobs[i].drops) == 1, "%s: job %d",
                      description, i);
    for (int i = 0; i < 2 && i < places; i++)
        ck_assert_int_eq(atomic_load(&late_comers[i].runs), 1);
}

static void *expire_all_the_time(void *argument)
{
    struct td_worker_pool *pool = argument;
    for (int i = 0; i < 2000; i++) {
        td_worker_pool_expire(pool, 15, i % 100 == 99);
        if (td_worker_pool_retry_after_s(pool) < 1)
            abort();
        sched_yield();
    }
    return NULL;
}

TD_TEST(each_job_runs_or_is_dropped_exactly_once)
{
    enum { JOBS = 5000 };
    struct td_worker_pool *pool = pool_of(4);
    struct recorded_job *jobs = calloc(JOBS, sizeof *jobs);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, expire_all_the_time, pool), 0);
    for (int i = 0; i < JOBS; i++) {
        recorded_job_init(&jobs[i], i, i % 5 ? SMALL : LARGE, NULL);
        jobs[i].job.deadline_ns = i % 2 ? 10 : TD_NEVER;
        submit(pool, &jobs[i].job);
    }
    pthread_join(thread, NULL);
    td_worker_pool_free(pool);
    for (int i = 0; i < JOBS; i++)
        EXPECT(atomic_load(&jobs[i].runs) + atomic_load(&jobs[i].drops) == 1, "job %d", i);
    free(jobs);
}

/* ---- Retry-After ----------------------------------------------------------------------------- */

#define SECOND ((uint64_t)1000000000)

static const struct {
    const char *description;
    int workers;
    uint64_t costs[5];
    unsigned least, most;
} retries[] = {
    { "an empty queue: soon", 1, { 0 }, 1, 1 },
    { "a small job: soon", 1, { 1000 }, 1, 1 },
    { "ten seconds of one worker", 1, { 10 * SECOND }, 10, 11 },
    { "jobs add up", 1, { 5 * SECOND, 5 * SECOND, SECOND / 2 }, 10, 12 },
    { "ten seconds of two workers", 2, { 10 * SECOND }, 5, 6 },
    { "a day is capped", 1, { 86400 * SECOND }, 30, 3600 },
    { "a sum that overflows 64 bits",
      1,
      { UINT64_MAX / 4, UINT64_MAX / 4, UINT64_MAX / 4, UINT64_MAX / 4, SECOND },
      30,
      3600 },
};

TD_TEST_EACH(retry_after_is_the_queued_work_divided_by_the_workers, retries)
{
    const char *description = retries[_i].description;
    struct td_worker_pool *pool = pool_of(retries[_i].workers);
    struct busy_job busy[2];
    struct recorded_job jobs[5];
    for (int i = 0; i < retries[_i].workers; i++)
        keep_busy(&busy[i], pool);
    for (int i = 0; i < 5 && retries[_i].costs[i]; i++) {
        recorded_job_init(&jobs[i], i, retries[_i].costs[i], NULL);
        submit(pool, &jobs[i].job);
    }
    const unsigned seconds = td_worker_pool_retry_after_s(pool);
    ck_assert_msg(seconds >= retries[_i].least && seconds <= retries[_i].most, "%s: %u",
                  description, seconds);
    td_worker_pool_expire(pool, 0, true);
    ck_assert_msg(td_worker_pool_retry_after_s(pool) == 1, "%s: after all were dropped",
                  description);
    for (int i = 0; i < retries[_i].workers; i++)
        release(&busy[i]);
    td_worker_pool_free(pool);
}

/* ---- estimates ------------------------------------------------------------------------------- */

/* Ten jobs of 10 ms are queued; jobs of 10 ms took so long; is one more that has so long late? */
static const struct {
    const char *description;
    int workers, measured, took_ms, left_ms;
    bool of_other_flow, late;
} deadlines[] = {
    { "enough time", 1, 8, 10, 150, false, false },
    { "too little time", 1, 8, 10, 90, false, true },
    { "too little for the job itself", 1, 8, 10, 105, false, true },
    { "jobs take twice as long as estimated", 1, 8, 20, 150, false, true },
    { "jobs take half as long as estimated", 1, 8, 5, 60, false, false },
    { "two workers", 2, 8, 10, 90, false, false },
    { "two workers, too little time", 2, 8, 10, 55, false, true },
    { "nothing is known yet", 1, 7, 10, 1, false, false },
    { "another flow does not wait for those jobs", 1, 8, 10, 50, true, false },
};

TD_TEST_EACH(a_job_is_late_if_those_before_it_take_too_long, deadlines)
{
    const int workers = deadlines[_i].workers;
    struct td_worker_pool *pool = pool_of(workers);
    struct td_job_flow flows[2] = { 0 };
    struct busy_job busy[2];
    struct recorded_job jobs[10];
    struct td_expected expected = { 0 };
    for (int i = 0; i < workers; i++)
        keep_busy(&busy[i], pool);
    for (int i = 0; i < deadlines[_i].measured; i++)
        td_worker_pool_measure(pool, 10000000, deadlines[_i].took_ms * 1000000);
    for (int i = 0; i < 10; i++) {
        recorded_job_init(&jobs[i], i, 10000000, NULL);
        jobs[i].job.flow = &flows[0];
        submit(pool, &jobs[i].job);
    }
    const bool late = td_worker_pool_is_late(pool, &flows[deadlines[_i].of_other_flow], 10000000,
                                             deadlines[_i].left_ms * INT64_C(1000000), &expected);
    ck_assert_msg(late == deadlines[_i].late, "%s", deadlines[_i].description);
    if (late) {
        ck_assert_int_eq((expected.wait_ns + 500000) / 1000000,
                         10 * deadlines[_i].took_ms / workers);
        ck_assert_int_eq((expected.run_ns + 500000) / 1000000, deadlines[_i].took_ms);
    }
    for (int i = 0; i < workers; i++)
        release(&busy[i]);
    td_worker_pool_free(pool);
}

TD_TEST(a_large_job_is_late_if_small_ones_before_it_take_too_long)
{
    struct td_worker_pool *pool = pool_of(1);
    struct busy_job busy;
    struct recorded_job jobs[5];
    struct td_expected expected = { 0 };
    keep_busy(&busy, pool);
    for (int i = 0; i < 10; i++)
        td_worker_pool_measure(pool, LARGE, LARGE);
    for (int i = 0; i < 5; i++) {
        recorded_job_init(&jobs[i], i, 900000, NULL);
        submit(pool, &jobs[i].job);
    }
    ck_assert(!td_worker_pool_is_late(pool, NULL, LARGE, LARGE + 5000000, &expected));
    ck_assert(td_worker_pool_is_late(pool, NULL, LARGE, LARGE + 4000000, &expected));
    ck_assert_int_eq(expected.wait_ns, 5 * 900000);
    release(&busy);
    td_worker_pool_free(pool);
}

TD_TEST(with_an_empty_queue_no_job_is_late)
{
    struct td_worker_pool *pool = pool_of(1);
    struct td_expected expected = { 0 };
    for (int i = 0; i < 100; i++)
        td_worker_pool_measure(pool, SMALL, 1000 * (int64_t)SMALL);
    ck_assert(!td_worker_pool_is_late(pool, NULL, SMALL, 1, &expected));
    td_worker_pool_free(pool);
}

TD_TEST(the_average_follows_the_last_jobs)
{
    static const int64_t took[] = { 0, 1, INT64_MAX, LARGE };
    struct td_worker_pool *pool = pool_of(1);
    struct busy_job busy;
    struct recorded_job job;
    struct td_expected expected = { 0 };
    keep_busy(&busy, pool);
    recorded_job_init(&job, 0, LARGE, NULL);
    submit(pool, &job.job);
    for (size_t i = 0; i < COUNT_OF(took); i++)
        for (int j = 0; j < 1000; j++)
            td_worker_pool_measure(pool, LARGE, took[i]);
    ck_assert(td_worker_pool_is_late(pool, NULL, LARGE, 1, &expected));
    ck_assert_int_ge(expected.wait_ns, LARGE / 10 * 9);
    ck_assert_int_le(expected.wait_ns, LARGE / 10 * 11);
    release(&busy);
    td_worker_pool_free(pool);
}
