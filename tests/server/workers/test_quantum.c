#include "server/observe/clock.h"
#include "server/workers/quantum.h"
#include "server/workers/worker_pool.h"
#include "tests/gates/clock.h"
#include "tests/support/suite.h"

#include <sys/syscall.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

static atomic_int yields;

/* In the place of the C library's. */
int sched_yield(void)
{
    yields++;
    return 0;
}

TD_TEST(a_thread_yields_at_the_first_check_after_a_quantum)
{
    struct td_quantum quantum;
    test_clock_stop();
    td_quantum_begin(&quantum);
    const int64_t began = quantum.began_ns;
    ck_assert_int_eq(began, td_now_ns());
    test_clock_advance(TD_QUANTUM_NS - 1);
    td_quantum_check(&quantum);
    ck_assert_int_eq(yields, 0);
    ck_assert_int_eq(quantum.began_ns, began);
    test_clock_advance(1);
    td_quantum_check(&quantum);
    ck_assert_int_eq(yields, 1);
    ck_assert_int_eq(quantum.began_ns, began + TD_QUANTUM_NS);
    td_quantum_check(&quantum);
    ck_assert_int_eq(yields, 1);
}

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

static struct attributes own_attributes(void)
{
    struct attributes own = { .size = sizeof own };
    ck_assert_int_eq(syscall(SYS_sched_getattr, 0, &own, sizeof own, 0), 0);
    return own;
}

TD_TEST(slices_of_another_length_leave_policy_and_priority_as_they_are)
{
    const struct sched_param normal = { .sched_priority = 0 };
    ck_assert_int_eq(sched_setscheduler(0, SCHED_BATCH, &normal), 0);
    const int niceness = nice(3); /* of the test, plus 3 */
    /* 0 before Linux 6.12, which has no slices of threads */
    const uint64_t usual = own_attributes().runtime_ns;
    const uint64_t slices[] = { TD_SLICE_NS, TD_FIRST_SLICE_NS, 0 };
    const uint64_t expected[] = { 200000, 100000, usual };
    for (int i = 0; i < (int)(sizeof slices / sizeof *slices); i++) {
        td_quantum_set_slice(slices[i]);
        const struct attributes now = own_attributes();
        ck_assert_int_eq(now.policy, SCHED_BATCH);
        ck_assert_int_eq(now.nice, niceness);
        ck_assert_uint_eq(now.runtime_ns, usual == 0 ? 0 : expected[i]);
    }
}

static void work_for_a_quantum(struct td_job *job, struct td_worker *worker)
{
    (void)job;
    (void)worker;
    test_clock_advance(TD_QUANTUM_NS);
}

/* How often a worker yields that runs three jobs of a quantum each. */
static int yields_of_three_jobs(bool yield)
{
    struct td_worker_pool *pool = td_worker_pool_new(1, 3);
    struct td_job jobs[3];
    atomic_store(&yields, 0);
    td_worker_pool_yield(pool, yield);
    for (int i = 0; i < 3; i++) {
        jobs[i] =
            (struct td_job){ .cost_ns = 1000, .deadline_ns = TD_NEVER, .run = work_for_a_quantum };
        ck_assert(td_worker_pool_reserve(pool, NULL));
        td_worker_pool_submit(pool, &jobs[i]);
    }
    td_worker_pool_free(pool);
    return atomic_load(&yields);
}

TD_TEST(workers_yield_between_jobs_while_told_to)
{
    test_clock_stop();
    ck_assert_int_eq(yields_of_three_jobs(false), 0);
    ck_assert_int_eq(yields_of_three_jobs(true), 3);
}
