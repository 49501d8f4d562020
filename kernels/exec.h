/* exec.h - what a kernel may ask its caller for: other hands, memory, and whether to go on.
 *
 * kernels/ starts no thread; the server's worker pool implements this, td_exec_serial is for tests
 * and for work too small to share.
 *
 * Threads  fn runs on any thread, several at once, on ranges that never overlap. */
#ifndef TD_KERNELS_EXEC_H
#define TD_KERNELS_EXEC_H

#include "kernels/arena.h"
#include "kernels/isa.h"

#include <stdint.h>

typedef void td_range_fn(void *context, int64_t begin, int64_t end);

struct td_exec {
    /* Calls fn on ranges that together are [0, count), each of about `grain` items, and returns
     * when all are done. Between ranges it looks at the deadline and at the client:
     * DEADLINE_EXCEEDED (err filled) means that some ranges were not run. */
    td_status (*parallel_for)(struct td_exec *self, int64_t count, int64_t grain, td_range_fn *fn,
                              void *context, struct td_error *err);
    /* The same look, between the parts of something that only one thread may do; every few
     * milliseconds. NULL: nobody will ask to stop. Caller's thread only. */
    td_status (*check)(struct td_exec *self, struct td_error *err);
    /* For outputs whose size only the data tells, and scratch; caller's thread only. */
    struct td_arena *arena;
    uint64_t output_limit; /* bytes that such an output may have */
    int width;             /* the most ranges that run at once, 1 or more */
    td_isa isa;            /* of the arithmetic kernels; 0, TD_ISA_AUTO, is the best there is */
};

/* Runs everything on the calling thread, in one range per grain. */
void td_exec_serial(struct td_exec *exec, struct td_arena *arena);

/* parallel_for, without the pointer dance. */
static inline TD_MUST_CHECK td_status td_exec_for(struct td_exec *exec, int64_t count,
                                                  int64_t grain, td_range_fn *fn, void *context,
                                                  struct td_error *err)
{
    return exec->parallel_for(exec, count, grain, fn, context, err);
}

/* check, where there is one. */
static inline TD_MUST_CHECK td_status td_exec_check(struct td_exec *exec, struct td_error *err)
{
    return exec->check ? exec->check(exec, err) : TD_OK;
}

#endif
