/* copiers.h - threads that copy from host memory into pinned memory.
 *
 *     start ──► slices, copied by all threads ──► is_done, wait        the caller does other work
 *     copy                                                             the caller copies, too
 *
 * One thread copies at a fraction of the host's memory bandwidth, and of the device's. The source
 * may be a mapped file, which is read from the disk while it is copied.
 *
 * Ownership  The caller's struct td_copy_job and what is copied stay until the job is done or
 *            cancelled.
 * Threads    Any; one at a time for each job. */
#ifndef TD_SERVER_DEVICES_COPIERS_H
#define TD_SERVER_DEVICES_COPIERS_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_copiers;

struct td_copy_range {
    char *to;
    const char *from;
    size_t bytes;
};

/* All zero: nothing to be copied, done. */
struct td_copy_job {
    struct td_copy_job *next;
    struct td_copy_range only; /* of a job of one range */
    const struct td_copy_range
        *ranges; /* where the next slice begins, after `at` bytes of the first */
    size_t at;
    size_t bytes; /* of all ranges */
    size_t begun; /* bytes of slices that a thread has begun */
    int copying;  /* threads that copy a slice */
};

/* NULL: out of memory. Without threads, which the system may refuse, the callers of is_done, wait
 * and copy copy all themselves. */
struct td_copiers *td_copiers_new(int n_threads);
/* No caller waits. Jobs that are not done are left. NULL is fine. */
void td_copiers_free(struct td_copiers *copiers);

void td_copiers_start(struct td_copiers *copiers, struct td_copy_job *job, void *to,
                      const void *from, size_t bytes);
bool td_copiers_is_done(struct td_copiers *copiers, struct td_copy_job *job);
/* Is it done within timeout_ns? */
bool td_copiers_wait(struct td_copiers *copiers, struct td_copy_job *job, int64_t timeout_ns);
/* Copies no more slices, and waits for those that have been begun. */
void td_copiers_cancel(struct td_copiers *copiers, struct td_copy_job *job);

/* Copies with all threads and the caller's; a small range with the caller's alone. */
void td_copiers_copy(struct td_copiers *copiers, void *to, const void *from, size_t bytes);
/* The same for n ranges: many small ones are one job. */
void td_copiers_copy_ranges(struct td_copiers *copiers, const struct td_copy_range *ranges, int n);

/* How many copy a large range: the threads, and a caller of copy. */
int td_copiers_count(const struct td_copiers *copiers);

/* Above so many bytes they share the work of copy. */
#define TD_COPIERS_SHARE ((size_t)1 << 20)

/* Bytes that the threads have copied, and not the callers. */
uint64_t td_copiers_helped(struct td_copiers *copiers);

#endif
