/* exec.h - what the caller of a kernel provides: parallel loops, scratch memory, cancellation.
 *
 * kernels/ starts no threads. The server's worker pool implements this interface. td_exec_serial
 * runs everything on one thread, for tests and for work that is too small to split.
 *
 * Threads    fn runs on any thread, and on several at once; its ranges never overlap. */
#ifndef TD_KERNELS_EXEC_H
#define TD_KERNELS_EXEC_H

#include "kernels/arena.h"
#include "kernels/isa.h"

#include <stdint.h>

typedef void td_range_fn(void *context, int64_t begin, int64_t end);

struct td_exec {
    /* Calls fn on ranges that together cover [0, count), each of about `grain` work items, and
     * returns when all are done. Between ranges, checks the deadline and whether the client is
     * still connected. After DEADLINE_EXCEEDED, with err filled, some ranges have not been run. */
    td_status (*parallel_for)(struct td_exec *self, int64_t count, int64_t grain, td_range_fn *fn,
                              void *context, struct td_error *err);
    /* Makes the same check as parallel_for. Single-threaded loops call it every few milliseconds.
     * NULL if the call cannot be cancelled. Used only by the caller's thread. */
    td_status (*check)(struct td_exec *self, struct td_error *err);
    /* Returns a monotonic time in nanoseconds. NULL unless the caller wants to know how long the
     * steps of a program take. */
    uint64_t (*now)(void);
    /* Memory for scratch data and for outputs whose size depends on the data. Used only by the
     * caller's thread. */
    struct td_arena *arena;
    uint64_t output_limit; /* maximum size in bytes of an output that is allocated in arena */
    /* Maximum number of FLOPs of a program, for steps whose cost is known only when they run. */
    uint64_t flops_limit;
    /* Seed of hash tables, random so that clients cannot choose keys that collide. */
    uint64_t hash_seed;
    int width; /* maximum number of ranges that run at once; at least 1 */
    /* Instruction set of arithmetic kernels. 0, which is TD_ISA_AUTO, selects the best
     * available. */
    td_isa isa;
};

/* Initialises exec to run everything on the calling thread, `grain` work items at a time, without
 * cancellation. */
void td_exec_serial(struct td_exec *exec, struct td_arena *arena);

/* Calls exec->parallel_for. */
static inline TD_MUST_CHECK td_status td_exec_for(struct td_exec *exec, int64_t count,
                                                  int64_t grain, td_range_fn *fn, void *context,
                                                  struct td_error *err)
{
    return exec->parallel_for(exec, count, grain, fn, context, err);
}

/* Calls exec->check if it is not NULL. */
static inline TD_MUST_CHECK td_status td_exec_check(struct td_exec *exec, struct td_error *err)
{
    return exec->check ? exec->check(exec, err) : TD_OK;
}

#endif
