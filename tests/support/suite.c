#include "tests/support/suite.h"

#include "tests/support/tensors.h"

#include <stdlib.h>

int run_suite(const char *name, void (*add)(TCase *tcase))
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, test_arena_open, test_arena_close);
    tcase_set_timeout(tcase, 120); /* seconds per test, enough for valgrind */
    add(tcase);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
