#include "server/memory/populate.h"

#include <sys/mman.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older headers lack it */
#endif

struct td_pages {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    struct td_pages_job *first, **last;
    bool stopped;
};

/* Older kernels lack MADV_POPULATE_WRITE: touch each page. */
static void populate(char *data, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *const aligned = (char *)((uintptr_t)data / page * page);
    if (madvise(aligned, (size_t)(data + bytes - aligned), MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t i = 0; i < bytes; i += page)
        ((volatile char *)data)[i] = 0;
}

/* The next job, or NULL when stopped and empty; if *stopped, the job is not populated. */
static struct td_pages_job *next_job(struct td_pages *pages, bool *stopped)
{
    pthread_mutex_lock(&pages->mutex);
    while (!pages->first && !pages->stopped)
        pthread_cond_wait(&pages->changed, &pages->mutex);
    struct td_pages_job *job = pages->first;
    if (job) {
        pages->first = job->next;
        if (!pages->first)
            pages->last = &pages->first;
    }
    *stopped = pages->stopped;
    pthread_mutex_unlock(&pages->mutex);
    return job;
}

static void *run(void *context)
{
    const struct sched_param normal = { .sched_priority = 0 };
    struct td_pages_job *job;
    bool stopped;
    (void)pthread_setname_np(pthread_self(), "pages");
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH,
                                &normal); /* do not preempt I/O threads */
    while ((job = next_job(context, &stopped))) {
        if (!stopped)
            populate(job->data, job->bytes);
        job->done(job);
    }
    return NULL;
}

struct td_pages *td_pages_new(void)
{
    struct td_pages *pages = calloc(1, sizeof *pages);
    if (!pages)
        return NULL;
    pages->last = &pages->first;
    pthread_mutex_init(&pages->mutex, NULL);
    pthread_cond_init(&pages->changed, NULL);
    if (pthread_create(&pages->thread, NULL, run, pages) == 0)
        return pages;
    pthread_cond_destroy(&pages->changed);
    pthread_mutex_destroy(&pages->mutex);
    free(pages);
    return NULL;
}

void td_pages_stop(struct td_pages *pages)
{
    pthread_mutex_lock(&pages->mutex);
    const bool again = pages->stopped;
    pages->stopped = true;
    pthread_cond_signal(&pages->changed);
    pthread_mutex_unlock(&pages->mutex);
    if (!again)
        pthread_join(pages->thread, NULL);
}

void td_pages_free(struct td_pages *pages)
{
    if (!pages)
        return;
    td_pages_stop(pages);
    pthread_cond_destroy(&pages->changed);
    pthread_mutex_destroy(&pages->mutex);
    free(pages);
}

void td_pages_populate(struct td_pages *pages, struct td_pages_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&pages->mutex);
    const bool stopped = pages->stopped;
    if (!stopped) {
        *pages->last = job;
        pages->last = &job->next;
        pthread_cond_signal(&pages->changed);
    }
    pthread_mutex_unlock(&pages->mutex);
    if (stopped)
        job->done(job);
}
