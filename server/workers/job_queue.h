/* job_queue.h - the queued jobs, and the order in which they run.
 *
 *     flow A ── small jobs, large jobs ─┐    small jobs first, then large jobs; within a class,
 *     flow B ── small jobs, large jobs ─┼──► the flow with the lowest virtual time; within a
 *     ...                               ┘    flow, the oldest job
 *
 * A flow is the jobs of a client. Flows take turns, so a client's waiting time depends on its
 * own jobs and the number of clients, not on the number of jobs that other clients have queued. In
 * each class, small and large, a flow has a virtual time, which grows by the cost of each job
 * taken from it. A flow without queued jobs catches up with the time of the job taken last, so it
 * cannot save up turns. Small jobs go first. Every eighth job taken is a large job if one is
 * queued, so neither class starves.
 *
 * When the queue is full, a job of a flow with fewer jobs displaces the newest job of the flow
 * with the most jobs. No flow can therefore keep another flow out of the queue.
 *
 * Ownership  Borrows jobs and flows. A flow must not end while one of its jobs is queued.
 * Threads    One thread at a time. The worker pool's mutex guards the queue and its content.
 * Cost       O(log flows), amortised, for a job. O(jobs) to find the expired jobs.
 * Source     Goyal, Vin, Cheng: Start-time Fair Queueing, 1996; Suter et al.: Buffer Management
 *            Schemes for TCP in Gigabit Routers with Per-flow Queueing, 1999 (longest queue
 *            drop). */
#ifndef TD_SERVER_WORKERS_JOB_QUEUE_H
#define TD_SERVER_WORKERS_JOB_QUEUE_H

#include "kernels/status.h"
#include "server/workers/heap.h"

#include <stdbool.h>
#include <stdint.h>

struct td_job_flow;
struct td_worker;

#define TD_JOB_SMALL_NS 1000000 /* jobs with a lower cost are small */

struct td_job {
    /* Flow of the job, or NULL for the common flow of all jobs that have none. */
    struct td_job_flow *flow;
    /* Estimated cost, which determines the class, the turns, and Retry-After. */
    uint64_t cost_ns;
    int64_t deadline_ns; /* TD_NEVER without a deadline */
    /* True if the job must not be displaced, because it is partly done or cannot be repeated. */
    bool keep;
    void (*run)(struct td_job *job, struct td_worker *worker);
    /* Called instead of run if the job is dropped, with DEADLINE_EXCEEDED or DRAINING, or with
     * QUEUE_FULL if the job is displaced. */
    void (*drop)(struct td_job *job, td_status why);

    /* Members that the queue uses. */
    struct td_job *next, *prev;
    uint64_t number;   /* number in the order of submission */
    int64_t queued_ns; /* time of queueing */

    /* True if the job uses no place in the queue. Used by the pool. */
    bool unplaced;
};

enum { TD_JOB_SMALL, TD_JOB_LARGE, TD_JOB_CLASSES };

/* A flow of jobs. Initially all zero. The queue owns all members. */
struct td_job_flow {
    struct td_job_lane {
        struct td_job *head, *tail;
        uint64_t time;            /* virtual time at which the first job starts */
        uint64_t cost_ns;         /* total cost of its queued jobs */
        struct td_heap_node turn; /* ordered by time, while the lane has jobs */
    } lanes[TD_JOB_CLASSES];
    int64_t n_jobs, n_displaceable; /* numbers of queued jobs */
    /* Ordered by the number of displaceable jobs, while the flow has jobs. */
    struct td_heap_node length;
    struct td_job_flow *next, *prev;
};

struct td_job_queue {
    struct td_job_class {
        struct td_heap turns;
        uint64_t time;    /* virtual start of the job taken last */
        uint64_t latest;  /* latest virtual end of a job taken */
        uint64_t cost_ns; /* total cost of the queued jobs */
        int64_t n_jobs;
        int n_flows; /* flows with queued jobs */
    } classes[TD_JOB_CLASSES];
    int smalls_in_a_row;
    uint64_t n_submitted;
    struct td_heap lengths;
    struct td_job_flow *flows; /* flows with jobs */
    struct td_job_flow common; /* common flow of all jobs that have no flow of their own */
};

bool td_job_is_small(const struct td_job *job);
int td_job_class_of(uint64_t cost_ns); /* returns TD_JOB_SMALL or TD_JOB_LARGE */

/* Adds a job. Limits its cost to one hour, so no sum overflows. */
void td_job_queue_push(struct td_job_queue *queue, struct td_job *job);

/* Returns the approximate time at which the oldest queued job was queued, or TD_NEVER if the queue
 * is empty. */
int64_t td_job_queue_oldest(const struct td_job_queue *queue);

/* td_job_queue_take removes and returns the next job. td_job_queue_take_small removes and returns
 * the next small job. Both return NULL if there is none. */
struct td_job *td_job_queue_take(struct td_job_queue *queue);
struct td_job *td_job_queue_take_small(struct td_job_queue *queue);

/* Returns the approximate cost of the jobs of this class that would be taken before another job of
 * `flow`. The estimate assumes that every other flow gets as much time as the queued jobs of
 * `flow` cost, or less if its own jobs cost less. */
uint64_t td_job_queue_ahead(const struct td_job_queue *queue, const struct td_job_flow *flow,
                            int job_class);

/* Returns the approximate cost of the small jobs that would be taken before a large job that waits
 * for other large jobs with a total cost of large_ns. */
uint64_t td_job_queue_smalls_ahead(const struct td_job_queue *queue, uint64_t large_ns);

/* Adds a cost to the virtual time of the job's flow, whether or not the job is queued. */
void td_job_queue_charge(struct td_job_queue *queue, const struct td_job *job, uint64_t cost_ns);

/* Removes the newest displaceable job of the flow with the most displaceable jobs, to make room
 * for a job of `flow`. Returns NULL if that flow would then not have more jobs than
 * `flow`. */
struct td_job *td_job_queue_displace(struct td_job_queue *queue, const struct td_job_flow *flow);

/* Removes the jobs past their deadline, or all jobs if `everything` is set. Returns them as a list
 * linked by `next`. */
struct td_job *td_job_queue_take_expired(struct td_job_queue *queue, int64_t now_ns,
                                         bool everything);

#endif
