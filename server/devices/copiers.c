#include "server/devices/copiers.h"

#include "server/observe/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Size of a slice. Copying a slice takes about 50 us, so a cancelled job ends soon and all threads
 * finish at about the same time. */
#define SLICE (TD_COPIERS_SHARE / 2)

struct td_copiers {
    pthread_mutex_t mutex; /* also guards the fields of jobs */
    /* `work` signals that a slice can start. `done` signals that a job is done. */
    pthread_cond_t work, done;
    struct td_copy_job *first; /* list of the jobs with slices that no thread has started */
    bool stopping;
    uint64_t helped;
    int n_threads;
    pthread_t threads[];
};

/* ---- with the mutex held --------------------------------------------------------------------- */

static bool is_done(const struct td_copy_job *job)
{
    return job->begun == job->bytes && job->copying == 0;
}

static void unlist(struct td_copiers *copiers, const struct td_copy_job *job)
{
    struct td_copy_job **at = &copiers->first;
    while (*at && *at != job)
        at = &(*at)->next;
    if (*at)
        *at = job->next;
}

/* Skips `bytes` bytes of a job's ranges. After the last byte of the job, job->ranges points past
 * the last range. */
static void skip(struct td_copy_job *job, size_t bytes)
{
    while (bytes > 0 && bytes >= job->ranges->bytes - job->at) {
        bytes -= job->ranges->bytes - job->at;
        job->ranges++;
        job->at = 0;
    }
    job->at += bytes;
}

static void copy_ranges(const struct td_copy_range *range, size_t at, size_t bytes)
{
    for (; bytes > 0; range++, at = 0) {
        const size_t left = range->bytes - at, n = left < bytes ? left : bytes;
        if (n > 0)
            memcpy(range->to + at, range->from + at, n);
        bytes -= n;
    }
}

/* Copies the next slice, which must exist, with the mutex unlocked. Returns the number of bytes
 * copied. */
static size_t copy_slice(struct td_copiers *copiers, struct td_copy_job *job)
{
    const size_t left = job->bytes - job->begun, n = left < SLICE ? left : SLICE, at = job->at;
    const struct td_copy_range *ranges = job->ranges;
    job->begun += n;
    job->copying++;
    skip(job, n);
    if (job->begun == job->bytes)
        unlist(copiers, job);
    pthread_mutex_unlock(&copiers->mutex);
    copy_ranges(ranges, at, n);
    pthread_mutex_lock(&copiers->mutex);
    job->copying--;
    if (is_done(job))
        pthread_cond_broadcast(&copiers->done);
    return n;
}

static void copy_all(struct td_copiers *copiers, struct td_copy_job *job)
{
    while (job->begun < job->bytes)
        (void)copy_slice(copiers, job);
}

/* ---- the threads ----------------------------------------------------------------------------- */

static void *run(void *context)
{
    struct td_copiers *copiers = context;
    pthread_mutex_lock(&copiers->mutex);
    while (!copiers->stopping)
        if (copiers->first)
            copiers->helped += copy_slice(copiers, copiers->first);
        else
            pthread_cond_wait(&copiers->work, &copiers->mutex);
    pthread_mutex_unlock(&copiers->mutex);
    return NULL;
}

struct td_copiers *td_copiers_new(int n_threads)
{
    struct td_copiers *copiers =
        calloc(1, sizeof *copiers + (size_t)n_threads * sizeof copiers->threads[0]);
    if (!copiers)
        return NULL;
    pthread_mutex_init(&copiers->mutex, NULL);
    pthread_cond_init(&copiers->work, NULL);
    td_clock_cond_init(&copiers->done);
    while (copiers->n_threads < n_threads &&
           pthread_create(&copiers->threads[copiers->n_threads], NULL, run, copiers) == 0)
        copiers->n_threads++;
    return copiers;
}

void td_copiers_free(struct td_copiers *copiers)
{
    if (!copiers)
        return;
    pthread_mutex_lock(&copiers->mutex);
    copiers->stopping = true;
    pthread_cond_broadcast(&copiers->work);
    pthread_mutex_unlock(&copiers->mutex);
    for (int i = 0; i < copiers->n_threads; i++)
        pthread_join(copiers->threads[i], NULL);
    pthread_cond_destroy(&copiers->done);
    pthread_cond_destroy(&copiers->work);
    pthread_mutex_destroy(&copiers->mutex);
    free(copiers);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Adds a job, which must have bytes to copy. */
static void enlist(struct td_copiers *copiers, struct td_copy_job *job)
{
    pthread_mutex_lock(&copiers->mutex);
    struct td_copy_job **last = &copiers->first;
    while (*last)
        last = &(*last)->next;
    *last = job;
    pthread_cond_broadcast(&copiers->work);
    pthread_mutex_unlock(&copiers->mutex);
}

void td_copiers_start(struct td_copiers *copiers, struct td_copy_job *job, void *to,
                      const void *from, size_t bytes)
{
    *job = (struct td_copy_job){ .only = { to, from, bytes }, .bytes = bytes };
    job->ranges = &job->only;
    if (bytes > 0)
        enlist(copiers, job);
}

bool td_copiers_is_done(struct td_copiers *copiers, struct td_copy_job *job)
{
    return td_copiers_wait(copiers, job, 0);
}

bool td_copiers_wait(struct td_copiers *copiers, struct td_copy_job *job, int64_t timeout_ns)
{
    const int64_t until_ns = td_now_ns() + timeout_ns;
    pthread_mutex_lock(&copiers->mutex);
    if (copiers->n_threads == 0)
        copy_all(copiers, job);
    while (timeout_ns > 0 && !is_done(job) &&
           td_clock_wait(&copiers->done, &copiers->mutex, until_ns))
        ;
    const bool done = is_done(job);
    pthread_mutex_unlock(&copiers->mutex);
    return done;
}

void td_copiers_cancel(struct td_copiers *copiers, struct td_copy_job *job)
{
    pthread_mutex_lock(&copiers->mutex);
    unlist(copiers, job);
    job->begun = job->bytes;
    while (job->copying > 0)
        pthread_cond_wait(&copiers->done, &copiers->mutex);
    pthread_mutex_unlock(&copiers->mutex);
}

void td_copiers_copy(struct td_copiers *copiers, void *to, const void *from, size_t bytes)
{
    td_copiers_copy_ranges(copiers, &(struct td_copy_range){ to, from, bytes }, 1);
}

void td_copiers_copy_ranges(struct td_copiers *copiers, const struct td_copy_range *ranges, int n)
{
    struct td_copy_job job = { .ranges = ranges };
    for (int i = 0; i < n; i++)
        job.bytes += ranges[i].bytes;
    if (job.bytes <= TD_COPIERS_SHARE) {
        copy_ranges(ranges, 0, job.bytes);
        return;
    }
    enlist(copiers, &job);
    pthread_mutex_lock(&copiers->mutex);
    copy_all(copiers, &job);
    while (!is_done(&job))
        pthread_cond_wait(&copiers->done, &copiers->mutex);
    pthread_mutex_unlock(&copiers->mutex);
}

int td_copiers_count(const struct td_copiers *copiers)
{
    return copiers->n_threads + 1;
}

uint64_t td_copiers_helped(struct td_copiers *copiers)
{
    pthread_mutex_lock(&copiers->mutex);
    const uint64_t bytes = copiers->helped;
    pthread_mutex_unlock(&copiers->mutex);
    return bytes;
}
