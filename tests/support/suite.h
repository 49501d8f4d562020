/* suite.h - tests that register themselves, and the main function that runs them with Check.
 *
 *     TD_TEST(zero_is_not_a_size)
 *     {
 *         ck_assert(...);
 *     }
 *
 * Each test runs in a process of its own, with test_arena open. In a test that runs several times
 * `_i` is the number of the run. A program may have several source files with tests:
 *
 *     test_api                     runs all tests
 *     test_api json/test_decode    those of json/test_decode.c, as a line of ctest does */
#ifndef TD_TESTS_SUPPORT_SUITE_H
#define TD_TESTS_SUPPORT_SUITE_H

#include <check.h>

/* A test that runs once. */
#define TD_TEST(name) TD_TEST_LOOP(name, 0, 1)

/* A test that runs once for each row of a table, an array: _i is the row. */
#define TD_TEST_EACH(name, table) TD_TEST_LOOP(name, 0, (int)(sizeof(table) / sizeof *(table)))

/* A list within a row of a table: { "a row", LIST(1, 2) }. With braces instead, clang-format would
 * put each value of a long row on a line of its own. */
#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* A test that runs for each _i of [first, end). */
#define TD_TEST_LOOP(name, first, end)                                                             \
    static void name(int _i);                                                                      \
    static const TTest name##_ttest = { #name, name, __FILE__, __LINE__ };                         \
    static const struct td_test name##_test = { &name##_ttest, (first), (end) };                   \
    TD_REGISTER(td_tests, td_test, name##_test);                                                   \
    static void name(int _i CK_ATTRIBUTE_UNUSED)

/* What each test of the source file begins and ends with. Either may be NULL. */
#define TD_FIXTURE(begin, end)                                                                     \
    static const struct td_fixture begin##_fixture = { __FILE__, begin, end };                     \
    TD_REGISTER(td_fixtures, td_fixture, begin##_fixture)

/* The number of runs, or 0 under ThreadSanitizer: for tests of arithmetic in one thread, in which
 * it finds nothing and takes minutes. */
#ifdef __SANITIZE_THREAD__
#define TD_NOT_UNDER_TSAN(runs) 0
#else
#define TD_NOT_UNDER_TSAN(runs) (runs)
#endif

/* How many times as many random cases as usual a test tries: TD_TEST_EFFORT in the environment. */
int test_effort(void);

struct td_test {
    const TTest *test;
    int first, end;
};

struct td_fixture {
    const char *file;
    void (*begin)(void);
    void (*end)(void);
};

/* A pointer to the object, in a section of its own that suite.c reads from end to end. Pointers,
 * because the compiler may put gaps between larger objects. */
#define TD_REGISTER(section_name, type, object)                                                    \
    static const struct type *const object##_entry __attribute__((section(#section_name), used)) = \
        &(object)

#endif
