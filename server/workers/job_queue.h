/* job_queue.h - the queued jobs, and which of them runs next.
 *
 *     source A ── small jobs, large jobs ─┐    of the small jobs, then of the large ones, that of
 *     source B ── small jobs, large jobs ─┼──► the source with the least virtual time; of one
 *     ...                                 ┘    source, the job submitted first
 *
 * A source is where jobs come from: a client. Sources take turns, so that what a client waits for
 * depends on its own jobs and the number of clients, not on how many jobs another one has queued.
 * In each class, small and large, a source has a virtual time, which grows by the cost of each job
 * taken from it. A source without queued jobs catches up with the time of the job taken last: it
 * saves nothing up. Small jobs go first; every eighth job taken is a large one if any is queued, so
 * that neither class starves.
 *
 * When the queue is full, the newest job of the source with the most jobs is displaced by one of a
 * source that has fewer, so that no source can keep another out of the queue.
 *
 * Ownership  Borrows jobs and sources; a source must not end while a job of it is queued.
 * Threads    Not synchronised: the worker pool's mutex guards the queue and what is in it.
 * Cost       O(log sources), amortised, for a job; O(jobs) to find the expired ones.
 * Source     Goyal, Vin, Cheng: Start-time Fair Queueing, 1996; Suter et al.: Buffer Management
 *            Schemes for TCP in Gigabit Routers with Per-flow Queueing, 1999 (longest queue
 *            drop). */
#ifndef TD_SERVER_WORKERS_JOB_QUEUE_H
#define TD_SERVER_WORKERS_JOB_QUEUE_H

#include "kernels/status.h"
#include "server/workers/heap.h"

#include <stdbool.h>
#include <stdint.h>

struct td_job_source;
struct td_worker;

#define TD_JOB_SMALL_NS 1000000 /* jobs below this are small */

struct td_job {
    struct td_job_source *source; /* NULL: common to all jobs without one */
    uint64_t cost_ns;             /* estimate: small or large, turns, and Retry-After */
    int64_t deadline_ns;          /* TD_NEVER for none */
    bool keep;                    /* not displaced: part of it is done, or it cannot be repeated */
    void (*run)(struct td_job *job, struct td_worker *worker);
    /* DEADLINE_EXCEEDED, DRAINING, or QUEUE_FULL if it is displaced */
    void (*drop)(struct td_job *job, td_status why);

    /* of the queue */
    struct td_job *next, *prev;
    uint64_t number;   /* in the order of submission */
    int64_t queued_ns; /* when */

    bool unplaced; /* of the pool: it takes none of the places in the queue */
};

enum { TD_JOB_SMALL, TD_JOB_LARGE, TD_JOB_CLASSES };

/* Zeros at first. All members are the queue's. */
struct td_job_source {
    struct td_job_lane {
        struct td_job *head, *tail;
        uint64_t time;            /* virtual: when the first job starts */
        uint64_t cost_ns;         /* of its jobs */
        struct td_heap_node turn; /* by time, while it has jobs */
    } lanes[TD_JOB_CLASSES];
    int64_t n_jobs, n_displaceable; /* queued */
    struct td_heap_node length;     /* by the number of displaceable jobs, while it has jobs */
    struct td_job_source *next, *prev;
};

struct td_job_queue {
    struct td_job_class {
        struct td_heap turns;
        uint64_t time;    /* virtual: when the job taken last started */
        uint64_t latest;  /* virtual: the latest end of a job taken */
        uint64_t cost_ns; /* of its queued jobs */
        int64_t n_jobs;
        int n_sources; /* with queued jobs */
    } classes[TD_JOB_CLASSES];
    int smalls_in_a_row;
    uint64_t n_submitted;
    struct td_heap lengths;
    struct td_job_source *sources; /* those with jobs */
    struct td_job_source common;   /* of the jobs without a source */
};

bool td_job_is_small(const struct td_job *job);
int td_job_class_of(uint64_t cost_ns); /* TD_JOB_... */

/* Limits the job's cost to an hour, so that no sum overflows. */
void td_job_queue_push(struct td_job_queue *queue, struct td_job *job);

/* When the job was queued that has waited longest, about; TD_NEVER if there is none. */
int64_t td_job_queue_oldest(const struct td_job_queue *queue);

/* The next job, of both classes or a small one; NULL: none. */
struct td_job *td_job_queue_take(struct td_job_queue *queue);
struct td_job *td_job_queue_take_small(struct td_job_queue *queue);

/* The cost of the jobs of the same class that are taken before a further one of `source`, about:
 * all sources get as much as the source's queued jobs cost, unless they have less. */
uint64_t td_job_queue_ahead(const struct td_job_queue *queue, const struct td_job_source *source,
                            int job_class);

/* The cost of the small jobs that are taken before a large one for which large ones of this cost
 * are taken first, about. */
uint64_t td_job_queue_smalls_ahead(const struct td_job_queue *queue, uint64_t large_ns);

/* Adds to the virtual time of the job's source, whether or not the job is queued. */
void td_job_queue_charge(struct td_job_queue *queue, const struct td_job *job, uint64_t cost_ns);

/* Removes the newest job of the source with the most displaceable jobs, for a job of `source`. NULL
 * if that would not leave it with more jobs than `source` has then. */
struct td_job *td_job_queue_displace(struct td_job_queue *queue,
                                     const struct td_job_source *source);

/* Removes the jobs past their deadline, or all of them if `everything`; a list by `next`. */
struct td_job *td_job_queue_take_expired(struct td_job_queue *queue, int64_t now_ns,
                                         bool everything);

#endif
