#include "tests/support/suite.h"

#include "tests/support/tensors.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_S = 600 }; /* ends a test that hangs, also with valgrind on a busy machine */

/* The linker defines these for each section whose name is an identifier. Weak: a program may have
 * no fixture. */
extern const struct td_test *const __start_td_tests[] __attribute__((weak));
extern const struct td_test *const __stop_td_tests[] __attribute__((weak));
extern const struct td_fixture *const __start_td_fixtures[] __attribute__((weak));
extern const struct td_fixture *const __stop_td_fixtures[] __attribute__((weak));

int test_effort(void)
{
    const char *effort = getenv("TD_TEST_EFFORT");
    return effort ? atoi(effort) : 1;
}

/* True if the path ends in "/NAME.c". */
static bool is_file(const char *path, const char *name)
{
    char end[256];
    const int length = snprintf(end, sizeof end, "/%s.c", name);
    const size_t size = strlen(path);
    return length > 0 && (size_t)length <= size && strcmp(path + size - (size_t)length, end) == 0;
}

/* The tests of one source file, with its fixtures. */
static TCase *case_of(const char *file)
{
    TCase *tcase = tcase_create(file);
    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, test_arena_open, test_arena_close);
    for (const struct td_fixture *const *fixture = __start_td_fixtures;
         fixture < __stop_td_fixtures; fixture++)
        if (strcmp((*fixture)->file, file) == 0)
            tcase_add_checked_fixture(tcase, (*fixture)->begin, (*fixture)->end);
    for (const struct td_test *const *test = __start_td_tests; test < __stop_td_tests; test++)
        if (strcmp((*test)->test->file, file) == 0)
            tcase_add_loop_test(tcase, (*test)->test, (*test)->first, (*test)->end);
    return tcase;
}

/* True if an earlier test is of the same file. */
static bool is_known(const struct td_test *const *test)
{
    for (const struct td_test *const *earlier = __start_td_tests; earlier < test; earlier++)
        if (strcmp((*earlier)->test->file, (*test)->test->file) == 0)
            return true;
    return false;
}

/* All files, or the one that is named. */
static void add_cases(Suite *suite, const char *name)
{
    for (const struct td_test *const *test = __start_td_tests; test < __stop_td_tests; test++)
        if (!is_known(test) && (!name || is_file((*test)->test->file, name)))
            suite_add_tcase(suite, case_of((*test)->test->file));
}

int main(int argc, char **argv)
{
    Suite *suite = suite_create(program_invocation_short_name);
    SRunner *runner = srunner_create(suite);
    add_cases(suite, argc > 1 ? argv[1] : NULL);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner), ran = srunner_ntests_run(runner);
    srunner_free(runner);
    if (ran == 0)
        fprintf(stderr, "no test ran: is there a file %s.c?\n", argc > 1 ? argv[1] : "with tests");
    return failed == 0 && ran > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
