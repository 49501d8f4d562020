#include "tests/support/suite.h"

#include "tests/support/tensors.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

enum { LIMIT_S = 600 }; /* ends a test that hangs, also with valgrind on a busy machine */

/* The linker defines these for each section whose name is an identifier. Weak: a program may have no
 * fixture. */
extern const struct td_test *const __start_td_tests[] __attribute__((weak));
extern const struct td_test *const __stop_td_tests[] __attribute__((weak));
extern const struct td_fixture *const __start_td_fixtures[] __attribute__((weak));
extern const struct td_fixture *const __stop_td_fixtures[] __attribute__((weak));

int test_effort(void)
{
    const char *effort = getenv("TD_TEST_EFFORT");
    return effort ? atoi(effort) : 1;
}

int main(void)
{
    Suite *suite = suite_create(program_invocation_short_name);
    TCase *tcase = tcase_create(program_invocation_short_name);
    tcase_add_checked_fixture(tcase, test_arena_open, test_arena_close);
    for (const struct td_fixture *const *fixture = __start_td_fixtures;
         fixture < __stop_td_fixtures; fixture++)
        tcase_add_checked_fixture(tcase, (*fixture)->begin, (*fixture)->end);
    for (const struct td_test *const *test = __start_td_tests; test < __stop_td_tests; test++)
        tcase_add_loop_test(tcase, (*test)->test, (*test)->first, (*test)->end);
    tcase_set_timeout(tcase, LIMIT_S);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    const int ran = srunner_ntests_run(runner);
    srunner_free(runner);
    return failed == 0 && ran > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
