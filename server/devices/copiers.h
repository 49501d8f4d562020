/* copiers.h - threads that copy from host memory into pinned memory.
 *
 *     start ──► slices, copied by all threads ──► is_done, wait        the caller does other work
 *     copy                                                             the caller copies, too
 *
 * A single thread reaches only a fraction of the memory bandwidth of the host and of the device.
 * The source can be a mapped file, which is read from the disk while it is copied.
 *
 * Ownership  The caller's struct td_copy_job and the copied memory must stay until the job is done
 *            or cancelled.
 * Threads    Any; one thread at a time for each job. */
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

/* A copy job. All zero means done, with nothing to copy. */
struct td_copy_job {
    struct td_copy_job *next;
    struct td_copy_range only; /* the range of a job with one range */
    /* Start of the next slice, after `at` bytes of the first range. */
    const struct td_copy_range *ranges;
    size_t at;
    size_t bytes; /* bytes of all ranges */
    size_t begun; /* bytes of the slices that threads have started */
    int copying;  /* number of threads that are copying a slice */
};

/* Returns NULL if memory runs out. If the system refuses threads, callers of is_done, wait and copy
 * do all the copying themselves. */
struct td_copiers *td_copiers_new(int n_threads);
/* Frees the copiers while no caller waits. Jobs that are not done are abandoned. Accepts NULL. */
void td_copiers_free(struct td_copiers *copiers);

void td_copiers_start(struct td_copiers *copiers, struct td_copy_job *job, void *to,
                      const void *from, size_t bytes);
bool td_copiers_is_done(struct td_copiers *copiers, struct td_copy_job *job);
/* Waits for the job for up to timeout_ns. Returns true if the job is done. */
bool td_copiers_wait(struct td_copiers *copiers, struct td_copy_job *job, int64_t timeout_ns);
/* Starts no more slices, and waits for the slices that have been started. */
void td_copiers_cancel(struct td_copiers *copiers, struct td_copy_job *job);

/* Copies with all threads and the caller's thread. Only the caller's thread copies a small
 * range. */
void td_copiers_copy(struct td_copiers *copiers, void *to, const void *from, size_t bytes);
/* Copies n ranges, like td_copiers_copy. Many small ranges are one job. */
void td_copiers_copy_ranges(struct td_copiers *copiers, const struct td_copy_range *ranges, int n);

/* Returns how many threads copy a large range, including the caller of copy. */
int td_copiers_count(const struct td_copiers *copiers);

/* Size above which the threads share the work of td_copiers_copy. */
#define TD_COPIERS_SHARE ((size_t)1 << 20)

/* Returns the bytes that the threads have copied, without the bytes that callers copied. */
uint64_t td_copiers_helped(struct td_copiers *copiers);

#endif
