/* faults.h - system calls and allocations that fail when a test says so.
 *
 * The linker puts these in the place of libc's (--wrap, in CMakeLists.txt), for the whole program.
 * A call that fails does nothing but set errno, except close, which closes. fsync never reaches the
 * disk, so that thousands of runs take seconds; write writes at most FAULT_WRITE bytes at a time.
 *
 * Threads    None but the test's own. */
#ifndef TD_TESTS_SERVER_STORE_FAULTS_H
#define TD_TESTS_SERVER_STORE_FAULTS_H

#include <stdbool.h>

enum { FAULT_WRITE = 600 };

/* Which calls fail from the first one on. */
enum fault_span {
    FAULT_ONCE, /* that one */
    FAULT_SAME, /* and all later ones of the same function */
    FAULT_ALL,  /* and all later ones */
    FAULT_SPANS
};

struct fault {
    int at; /* the number of the first call that fails, from 1 on; 0 for none */
    int reason;
    enum fault_span span;
    const char *always; /* a function that fails from the beginning on, as where a file system does
                           not have it; NULL for none */
};

/* Between the two, calls are counted and fail as told. */
void faults_begin(const struct fault *fault);
void faults_end(void);

/* Of the last time between the two: how many calls there were, and the function of one of them.
 * `memory`: it allocates, and fails with ENOMEM only. */
int faults_calls(void);
const char *faults_function(int call, bool *memory);

#endif
