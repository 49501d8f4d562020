#include "server/memory/populate.h"

#include <sys/mman.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* added in Linux 5.14 and missing from older headers */
#endif

struct td_populator {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the following members */
    pthread_cond_t changed;
    struct td_populate_job *first, **last;
    bool stopped;
};

/* Populates the memory. If the kernel does not support MADV_POPULATE_WRITE, touches each page
 * instead. */
static void populate(char *data, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *const aligned = (char *)((uintptr_t)data / page * page);
    if (madvise(aligned, (size_t)(data + bytes - aligned), MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t i = 0; i < bytes; i += page)
        ((volatile char *)data)[i] = 0;
}

/* Returns the next job, or NULL if the populator is stopped and the queue is empty. If *stopped is
 * set, the job must not be populated. */
static struct td_populate_job *next_job(struct td_populator *populator, bool *stopped)
{
    pthread_mutex_lock(&populator->mutex);
    while (!populator->first && !populator->stopped)
        pthread_cond_wait(&populator->changed, &populator->mutex);
    struct td_populate_job *job = populator->first;
    if (job) {
        populator->first = job->next;
        if (!populator->first)
            populator->last = &populator->first;
    }
    *stopped = populator->stopped;
    pthread_mutex_unlock(&populator->mutex);
    return job;
}

static void *run(void *context)
{
    const struct sched_param normal = { .sched_priority = 0 };
    struct td_populate_job *job;
    bool stopped;
    (void)pthread_setname_np(pthread_self(), "populate");
    /* Keeps this thread from preempting I/O threads. */
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &normal);
    while ((job = next_job(context, &stopped))) {
        if (!stopped)
            populate(job->data, job->bytes);
        job->done(job);
    }
    return NULL;
}

struct td_populator *td_populator_new(void)
{
    struct td_populator *populator = calloc(1, sizeof *populator);
    if (!populator)
        return NULL;
    populator->last = &populator->first;
    pthread_mutex_init(&populator->mutex, NULL);
    pthread_cond_init(&populator->changed, NULL);
    if (pthread_create(&populator->thread, NULL, run, populator) == 0)
        return populator;
    pthread_cond_destroy(&populator->changed);
    pthread_mutex_destroy(&populator->mutex);
    free(populator);
    return NULL;
}

void td_populator_stop(struct td_populator *populator)
{
    if (!populator)
        return;
    pthread_mutex_lock(&populator->mutex);
    const bool again = populator->stopped;
    populator->stopped = true;
    pthread_cond_signal(&populator->changed);
    pthread_mutex_unlock(&populator->mutex);
    if (!again)
        pthread_join(populator->thread, NULL);
}

void td_populator_free(struct td_populator *populator)
{
    if (!populator)
        return;
    td_populator_stop(populator);
    pthread_cond_destroy(&populator->changed);
    pthread_mutex_destroy(&populator->mutex);
    free(populator);
}

void td_populator_submit(struct td_populator *populator, struct td_populate_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&populator->mutex);
    const bool stopped = populator->stopped;
    if (!stopped) {
        *populator->last = job;
        populator->last = &job->next;
        pthread_cond_signal(&populator->changed);
    }
    pthread_mutex_unlock(&populator->mutex);
    if (stopped)
        job->done(job);
}
