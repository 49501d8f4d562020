/* suite.h - the main function of a test program with one suite of one case; test_arena is open in
 * each test. */
#ifndef TD_TESTS_SUPPORT_SUITE_H
#define TD_TESTS_SUPPORT_SUITE_H

#include <check.h>

/* Runs the tests that `add` adds and returns main's exit status. */
int run_suite(const char *name, void (*add)(TCase *tcase));

#endif
