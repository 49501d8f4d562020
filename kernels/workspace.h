/* workspace.h - temporary memory of a kernel: one shared part, and scratch memory for each thread.
 *
 * Ownership  The caller owns the memory. The op's cost reports its sizes. Several parallel loops
 *            can use the same workspace in turn.
 * Threads    The thread that runs the kernel assigns `shared`. A range function (exec.h) acquires
 *            the scratch area of one thread, uses it exclusively and releases it before it returns.
 *            An area is always free, because there are as many areas as ranges that can run at the
 *            same time. */
#ifndef TD_KERNELS_WORKSPACE_H
#define TD_KERNELS_WORKSPACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of threads that work on a call of a kernel. */
#define TD_WORKSPACE_MAX_THREADS 256

struct td_workspace {
    char *shared;         /* aligned to 64 bytes */
    char *scratch;        /* n_threads areas of scratch_bytes each, aligned to 64 bytes */
    size_t scratch_bytes; /* a multiple of 64 */
    int n_threads;
    atomic_uchar in_use[TD_WORKSPACE_MAX_THREADS];
};

/* Returns `bytes` rounded up to a multiple of 64, to which every part of a workspace is aligned.
 * Returns UINT64_MAX on overflow. */
static inline uint64_t td_workspace_align(uint64_t bytes)
{
    return bytes > UINT64_MAX - 63 ? UINT64_MAX : (bytes + 63) / 64 * 64;
}

/* Returns the number of a free scratch area, which belongs to the caller until the caller releases
 * it. */
static inline int td_workspace_acquire(struct td_workspace *workspace)
{
    for (int i = 0;; i = i + 1 < workspace->n_threads ? i + 1 : 0)
        /* Acquire order ensures that all accesses of the previous holder are complete. */
        if (!atomic_exchange_explicit(&workspace->in_use[i], 1, memory_order_acquire))
            return i;
}

static inline void *td_workspace_scratch(const struct td_workspace *workspace, int i)
{
    return workspace->scratch + (size_t)i * workspace->scratch_bytes;
}

static inline void td_workspace_release(struct td_workspace *workspace, int i)
{
    atomic_store_explicit(&workspace->in_use[i], 0, memory_order_release);
}

#endif
