/* faults.h - system calls and allocations that are seen by the test, and fail on request.
 *
 * The linker replaces libc's functions by these (--wrap, in CMakeLists.txt) in the whole program.
 * A failing call only sets errno, except close, which closes. fsync never reaches the disk, so that
 * thousands of runs take seconds; write writes at most FAULT_WRITE bytes at a time.
 *
 * Threads    Only the test's own. */
#ifndef TD_TESTS_SERVER_FAULTS_H
#define TD_TESTS_SERVER_FAULTS_H

#include <stdbool.h>

enum { FAULT_WRITE = 600 };

/* Which calls fail, beginning with call number `at`. */
enum fault_span {
    FAULT_ONCE, /* only that call */
    FAULT_SAME, /* and all later calls of the same function */
    FAULT_ALL,  /* and all later calls */
    FAULT_SPANS
};

struct fault {
    int at; /* number of the first failing call, from 1; 0 for none */
    int reason;
    enum fault_span span;
    const char *always; /* a function that always fails, as if the file system did not support it;
                           NULL for none */
    /* Called before each call that does not allocate, with the function and the last component of
     * the file that it is about; NULL for none. It may change files, as another process would: its
     * own calls are neither counted, nor do they fail. */
    void (*before)(const char *function, const char *file);
};

/* Between begin and end, calls are counted and fail as described by `fault`. */
void faults_begin(const struct fault *fault);
void faults_end(void);

/* Of the last run between begin and end: the number of calls, and the function of one of them.
 * `memory`: it allocates, and fails with ENOMEM only. */
int faults_calls(void);
const char *faults_function(int call, bool *memory);

/* The file descriptors of the process, and the mappings that the program has made and not
 * removed. */
int faults_descriptors(void);
int faults_mappings(void);

#endif
