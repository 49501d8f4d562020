#include "kernels/exec.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

struct seen {
    int64_t next;  /* expected begin of the next range */
    int64_t count; /* ranges */
    int64_t largest;
};

static void record_range(void *context, int64_t begin, int64_t end)
{
    struct seen *seen = context;
    ck_assert_int_eq(begin, seen->next);
    ck_assert_int_gt(end, begin);
    seen->next = end;
    seen->count++;
    seen->largest = end - begin > seen->largest ? end - begin : seen->largest;
}

static const struct {
    const char *case_name;
    int64_t count, grain, ranges;
} loops[] = {
    { "no work items", 0, 10, 0 },
    { "less than a grain is one range", 7, 10, 1 },
    { "a grain is one range", 10, 10, 1 },
    { "the last range has the rest", 25, 10, 3 },
    { "a grain below 1 is 1", 3, 0, 3 },
    { "a count near INT64_MAX does not overflow", INT64_MAX, INT64_MAX - 1, 2 },
};

TD_TEST_EACH(serial_ranges_follow_each_other, loops)
{
    struct td_exec exec;
    struct td_error err;
    struct seen seen = { 0 };
    td_exec_serial(&exec, &test_arena);
    ck_assert_int_eq(
        td_exec_for(&exec, loops[_i].count, loops[_i].grain, record_range, &seen, &err), TD_OK);
    ck_assert_msg(seen.next == loops[_i].count, "%s", loops[_i].case_name);
    ck_assert_msg(seen.count == loops[_i].ranges, "%s", loops[_i].case_name);
    ck_assert_int_le(seen.largest, loops[_i].grain > 0 ? loops[_i].grain : 1);
}

TD_TEST(the_arena_is_that_of_the_caller)
{
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    ck_assert_ptr_eq(exec.arena, &test_arena);
}

static td_status refuse(struct td_exec *self, struct td_error *err)
{
    (void)self;
    return td_error_set(err, TD_DEADLINE_EXCEEDED, "late");
}

TD_TEST(a_check_calls_the_function_of_the_exec)
{
    struct td_exec exec;
    struct td_error err;
    td_exec_serial(&exec, &test_arena);
    ck_assert_int_eq(td_exec_check(&exec, &err), TD_OK); /* no check */
    exec.check = refuse;
    ck_assert_int_eq(td_exec_check(&exec, &err), TD_DEADLINE_EXCEEDED);
    ck_assert_str_eq(err.message, "late");
}
