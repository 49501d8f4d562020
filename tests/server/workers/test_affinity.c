/* With the library's sched_* functions replaced: which processors a thread would be moved to. */
#include "server/workers/affinity.h"
#include "tests/support/suite.h"

#include <sched.h>
#include <unistd.h>

static int here;          /* the processor of the calling thread */
static cpu_set_t allowed; /* those that a thread may run on */
static int n_changes;
static pid_t changed; /* the thread whose processors were changed last */
static bool fails;

int sched_getcpu(void)
{
    return here;
}

int sched_getaffinity(pid_t thread, size_t size, cpu_set_t *set)
{
    (void)thread;
    (void)size;
    *set = allowed;
    return fails ? -1 : 0;
}

int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *set)
{
    (void)size;
    allowed = *set;
    changed = thread;
    n_changes++;
    return 0;
}

static struct td_affinity affinity;

static void setup(void)
{
    CPU_ZERO(&allowed);
    CPU_SET(0, &allowed);
    CPU_SET(1, &allowed);
    n_changes = 0;
    fails = false;
    here = 1;
    td_affinity_init(&affinity);
    td_affinity_sleep(&affinity);
}

TD_TEST_LOOP(a_thread_that_sleeps_on_the_processor_of_its_waker_wakes_elsewhere, 0, 2)
{
    here = _i;
    td_affinity_sleep(&affinity);
    td_affinity_avoid(&affinity);
    ck_assert_int_eq(changed, gettid());
    ck_assert(CPU_ISSET((size_t)(1 - _i), &allowed) && !CPU_ISSET((size_t)_i, &allowed));
    td_affinity_avoid(&affinity);
    ck_assert_int_eq(n_changes, 1);
}

TD_TEST(once_awake_it_may_run_anywhere)
{
    td_affinity_avoid(&affinity);
    here = 0;
    td_affinity_wake(&affinity);
    ck_assert(CPU_ISSET(0, &allowed) && CPU_ISSET(1, &allowed));
    ck_assert_int_eq(n_changes, 2);
}

TD_TEST(a_thread_that_sleeps_on_another_processor_is_left_alone)
{
    here = 0;
    td_affinity_avoid(&affinity);
    td_affinity_wake(&affinity);
    ck_assert_int_eq(n_changes, 0);
}

TD_TEST(a_thread_that_is_awake_is_left_alone)
{
    td_affinity_wake(&affinity);
    td_affinity_avoid(&affinity);
    ck_assert_int_eq(n_changes, 0);
}

TD_TEST(the_only_processor_stays_allowed)
{
    CPU_CLR(0, &allowed);
    td_affinity_avoid(&affinity);
    td_affinity_wake(&affinity);
    ck_assert(CPU_ISSET(1, &allowed) && !CPU_ISSET(0, &allowed));
}

TD_TEST(without_knowledge_nothing_is_changed)
{
    fails = true;
    td_affinity_avoid(&affinity);
    td_affinity_wake(&affinity);
    ck_assert_int_eq(n_changes, 0);
}

TD_FIXTURE(setup, NULL);
