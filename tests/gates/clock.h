/* clock.h - time that a test moves: the clocks of the system, plus an offset. A test that waits for
 * a timeout of an hour adds an hour.
 *
 * The test daemon has this clock, and test programs that link td_test_clock. The functions below
 * are for the latter: they move the clock of their own process.
 *
 * Threads  Any. */
#ifndef TD_TESTS_GATES_CLOCK_H
#define TD_TESTS_GATES_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, as the code under test sees it. */
int64_t test_clock_now_ns(void);

/* From here on CLOCK_MONOTONIC only moves by test_clock_advance. Thread waits with a time limit
 * then last until the test has advanced the clock past the limit. */
void test_clock_stop(void);

void test_clock_advance(int64_t ns);

/* Lets a stopped clock run again. */
void test_clock_go_on(void);

#endif
