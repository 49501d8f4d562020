/* copiers.h - threads that copy from host memory into pinned memory.
 *
 *     start ──► slices, copied by all threads ──► is_done, wait        the caller does other work
 *     copy                                                             the caller copies, too
 *
 * A single thread uses only a fraction of the memory bandwidth of the host and the device.
 * The source can be a mapped file, which is read from the disk while it is copied.
 *
 * Ownership  The caller's struct td_copy_job and the copied memory must remain valid until the job
 *            is done or cancelled.
 * Threads    Any thread, but only one thread at a time for each job. */
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

/* A copy job. A job whose members are all zero is done and has nothing to copy. */
struct td_copy_job {
    struct td_copy_job *next;
    struct td_copy_range only; /* the range, if the job has only one */
    /* Remaining ranges. The next slice starts `at` bytes into the first range. */
    const struct td_copy_range *ranges;
    size_t at;
    size_t bytes; /* bytes of all ranges */
    size_t begun; /* bytes of the slices that threads have started */
    int copying;  /* number of threads that are copying a slice */
};

/* Returns NULL if allocation fails. If no threads can be started, the callers of is_done, wait and
 * copy do all the copying themselves. */
struct td_copiers *td_copiers_new(int n_threads);
/* Frees the copiers. No thread may be waiting for a job. Unfinished jobs are abandoned. Accepts
 * NULL. */
void td_copiers_free(struct td_copiers *copiers);

void td_copiers_start(struct td_copiers *copiers, struct td_copy_job *job, void *to,
                      const void *from, size_t bytes);
bool td_copiers_is_done(struct td_copiers *copiers, struct td_copy_job *job);
/* Waits up to timeout_ns for the job. Returns true if the job is done. */
bool td_copiers_wait(struct td_copiers *copiers, struct td_copy_job *job, int64_t timeout_ns);
/* Starts no more slices, and waits for slices in progress. */
void td_copiers_cancel(struct td_copiers *copiers, struct td_copy_job *job);

/* Copies with all threads and the caller's thread. A small range is copied only by the caller's
 * thread. */
void td_copiers_copy(struct td_copiers *copiers, void *to, const void *from, size_t bytes);
/* Copies n ranges, like td_copiers_copy. Many small ranges form one job. */
void td_copiers_copy_ranges(struct td_copiers *copiers, const struct td_copy_range *ranges, int n);

/* Returns how many threads copy a large range, including the caller of copy. */
int td_copiers_count(const struct td_copiers *copiers);

/* Size above which the threads share the work of td_copiers_copy. */
#define TD_COPIERS_SHARE ((size_t)1 << 20)

/* Returns the number of bytes copied by the threads, without the bytes copied by callers. */
uint64_t td_copiers_helped(struct td_copiers *copiers);

#endif
