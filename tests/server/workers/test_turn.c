#include "server/observe/clock.h"
#include "server/workers/turn.h"
#include "tests/support/suite.h"

#include <sys/syscall.h>

#include <sched.h>
#include <stdint.h>
#include <unistd.h>

static int yields;

/* In the place of the C library's. */
int sched_yield(void)
{
    yields++;
    return 0;
}

START_TEST(a_thread_yields_at_the_first_check_after_a_turn)
{
    struct td_turn turn;
    td_turn_begin(&turn);
    const int64_t began = turn.began_ns;
    while (yields == 0)
        td_turn_check(&turn);
    ck_assert_int_ge(turn.began_ns - began, TD_TURN_NS);
    ck_assert_int_ge(td_now_ns(), turn.began_ns);
}
END_TEST

START_TEST(a_turn_that_has_not_lasted_goes_on)
{
    struct td_turn turn = { .began_ns = td_now_ns() + 60 * INT64_C(1000000000) };
    const int64_t began = turn.began_ns;
    td_turn_check(&turn);
    ck_assert_int_eq(yields, 0);
    ck_assert_int_eq(turn.began_ns, began);
}
END_TEST

START_TEST(shorter_slices_leave_policy_and_priority_as_they_are)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attributes = { .size = sizeof attributes };
    const struct sched_param normal = { .sched_priority = 0 };
    ck_assert_int_eq(sched_setscheduler(0, SCHED_BATCH, &normal), 0);
    ck_assert_int_eq(nice(3), 3);
    td_turn_shorten_slices();
    ck_assert_int_eq(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0), 0);
    ck_assert_int_eq(attributes.policy, SCHED_BATCH);
    ck_assert_int_eq(attributes.nice, 3);
    /* 0 before Linux 6.12, which has no slices of threads */
    ck_assert(attributes.runtime_ns == 0 || attributes.runtime_ns == 200000);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, a_thread_yields_at_the_first_check_after_a_turn);
    tcase_add_test(tcase, a_turn_that_has_not_lasted_goes_on);
    tcase_add_test(tcase, shorter_slices_leave_policy_and_priority_as_they_are);
}

int main(void)
{
    return run_suite("turn", add);
}
