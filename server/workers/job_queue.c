#include "server/workers/job_queue.h"

#include "server/observe/clock.h"

#include <stddef.h>

enum {
    /* Maximum number of consecutive small jobs while a large job is queued. */
    SMALL_JOBS_PER_LARGE = 7,
    /* Fixed cost added to each job, so even the smallest job advances the virtual time. */
    FIXED_NS = 1000
};

/* Maximum cost of a job, so the total cost of the queue fits in 64 bits. */
#define LONGEST_NS UINT64_C(3600000000000)

int td_job_class_of(uint64_t cost_ns)
{
    return cost_ns < TD_JOB_SMALL_NS ? TD_JOB_SMALL : TD_JOB_LARGE;
}

bool td_job_is_small(const struct td_job *job)
{
    return td_job_class_of(job->cost_ns) == TD_JOB_SMALL;
}

static struct td_job_flow *flow_of(struct td_job_queue *queue, const struct td_job *job)
{
    return job->flow ? job->flow : &queue->common;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- the number of jobs of a flow ------------------------------------------------------------ */

/* Returns the flow's key. The longest queue has the smallest key. */
static uint64_t length_key(const struct td_job_flow *flow)
{
    return UINT64_MAX - (uint64_t)flow->n_displaceable;
}

static void add_flow(struct td_job_queue *queue, struct td_job_flow *flow)
{
    flow->prev = NULL;
    flow->next = queue->flows;
    if (flow->next)
        flow->next->prev = flow;
    queue->flows = flow;
    td_heap_insert(&queue->lengths, &flow->length, length_key(flow));
}

static void remove_flow(struct td_job_queue *queue, struct td_job_flow *flow)
{
    if (flow->prev)
        flow->prev->next = flow->next;
    else
        queue->flows = flow->next;
    if (flow->next)
        flow->next->prev = flow->prev;
    td_heap_remove(&queue->lengths, &flow->length);
}

/* Updates the counts after a job of the flow was added (change = 1) or removed (-1). */
static void count(struct td_job_queue *queue, struct td_job_flow *flow, const struct td_job *job,
                  int change)
{
    const bool had_jobs = flow->n_jobs > 0;
    flow->n_jobs += change;
    flow->n_displaceable += job->keep ? 0 : change;
    if (!had_jobs)
        add_flow(queue, flow);
    else if (flow->n_jobs == 0)
        remove_flow(queue, flow);
    else if (!job->keep)
        td_heap_update(&queue->lengths, &flow->length, length_key(flow));
}

int64_t td_job_queue_oldest(const struct td_job_queue *queue)
{
    int64_t oldest = TD_NEVER;
    for (const struct td_job_flow *flow = queue->flows; flow; flow = flow->next)
        for (int i = 0; i < TD_JOB_CLASSES; i++) {
            const struct td_job *first = flow->lanes[i].head;
            if (first && first->queued_ns < oldest)
                oldest = first->queued_ns;
        }
    return oldest;
}

/* ---- the jobs of a flow ---------------------------------------------------------------------- */

void td_job_queue_push(struct td_job_queue *queue, struct td_job *job)
{
    if (job->cost_ns > LONGEST_NS)
        job->cost_ns = LONGEST_NS;
    struct td_job_flow *flow = flow_of(queue, job);
    const int which = td_job_class_of(job->cost_ns);
    struct td_job_class *class = &queue->classes[which];
    struct td_job_lane *lane = &flow->lanes[which];
    job->number = queue->n_submitted++;
    job->next = NULL;
    job->prev = lane->tail;
    if (lane->tail) {
        lane->tail->next = job;
    } else {
        lane->head = job;
        lane->time = later(lane->time, class->time);
        td_heap_insert(&class->turns, &lane->turn, lane->time);
        class->n_flows++;
    }
    lane->tail = job;
    lane->cost_ns += job->cost_ns;
    class->cost_ns += job->cost_ns;
    class->n_jobs++;
    count(queue, flow, job, 1);
}

static void remove_job(struct td_job_queue *queue, struct td_job *job)
{
    struct td_job_flow *flow = flow_of(queue, job);
    const int which = td_job_class_of(job->cost_ns);
    struct td_job_class *class = &queue->classes[which];
    struct td_job_lane *lane = &flow->lanes[which];
    *(job->prev ? &job->prev->next : &lane->head) = job->next;
    *(job->next ? &job->next->prev : &lane->tail) = job->prev;
    if (!lane->head) {
        td_heap_remove(&class->turns, &lane->turn);
        class->n_flows--;
    }
    lane->cost_ns -= job->cost_ns;
    class->cost_ns -= job->cost_ns;
    class->n_jobs--;
    count(queue, flow, job, -1);
}

void td_job_queue_charge(struct td_job_queue *queue, const struct td_job *job, uint64_t cost_ns)
{
    const int which = td_job_class_of(job->cost_ns);
    struct td_job_class *class = &queue->classes[which];
    struct td_job_lane *lane = &flow_of(queue, job)->lanes[which];
    lane->time += cost_ns < LONGEST_NS ? cost_ns : LONGEST_NS;
    class->latest = later(class->latest, lane->time);
    if (lane->head)
        td_heap_update(&class->turns, &lane->turn, lane->time);
}

uint64_t td_job_queue_ahead(const struct td_job_queue *queue, const struct td_job_flow *flow,
                            int job_class)
{
    const struct td_job_class *class = &queue->classes[job_class];
    const uint64_t own = (flow ? flow : &queue->common)->lanes[job_class].cost_ns;
    if (own > class->cost_ns / (uint64_t)(class->n_flows ? class->n_flows : 1))
        return class->cost_ns;
    return own * (uint64_t) class->n_flows;
}

uint64_t td_job_queue_smalls_ahead(const struct td_job_queue *queue, uint64_t large_ns)
{
    const struct td_job_class *small = &queue->classes[TD_JOB_SMALL];
    const struct td_job_class *large = &queue->classes[TD_JOB_LARGE];
    const double larges =
        large->cost_ns ? (double)large->n_jobs * ((double)large_ns / (double)large->cost_ns) : 0;
    const double smalls = SMALL_JOBS_PER_LARGE * (larges + 1);
    if (smalls >= (double)small->n_jobs)
        return small->cost_ns;
    return (uint64_t)((double)small->cost_ns * smalls / (double)small->n_jobs);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static struct td_job *take(struct td_job_queue *queue, int which)
{
    struct td_job_class *class = &queue->classes[which];
    if (!class->turns.root)
        return NULL;
    struct td_job_lane *lane = (struct td_job_lane *)(void *)((char *)class->turns.root -
                                                              offsetof(struct td_job_lane, turn));
    struct td_job *job = lane->head;
    class->time = lane->time;
    remove_job(queue, job);
    td_job_queue_charge(queue, job, job->cost_ns + FIXED_NS);
    /* When nothing is queued, no flow is ahead of any other. */
    if (!class->turns.root)
        class->time = class->latest;
    return job;
}

struct td_job *td_job_queue_take_small(struct td_job_queue *queue)
{
    return take(queue, TD_JOB_SMALL);
}

struct td_job *td_job_queue_take(struct td_job_queue *queue)
{
    const bool any_small = queue->classes[TD_JOB_SMALL].turns.root != NULL;
    const bool any_large = queue->classes[TD_JOB_LARGE].turns.root != NULL;
    if (any_large && (!any_small || queue->smalls_in_a_row >= SMALL_JOBS_PER_LARGE)) {
        queue->smalls_in_a_row = 0;
        return take(queue, TD_JOB_LARGE);
    }
    queue->smalls_in_a_row += any_large;
    return take(queue, TD_JOB_SMALL);
}

/* ---- jobs that do not run ------------------------------------------------------------------- */

static struct td_job *newest_displaceable(struct td_job *tail)
{
    while (tail && tail->keep)
        tail = tail->prev;
    return tail;
}

struct td_job *td_job_queue_displace(struct td_job_queue *queue, const struct td_job_flow *flow)
{
    if (!queue->lengths.root)
        return NULL;
    struct td_job_flow *longest =
        (struct td_job_flow *)(void *)((char *)queue->lengths.root -
                                       offsetof(struct td_job_flow, length));
    /* With a difference of one job, the two flows would just change places. */
    const int64_t own = flow ? flow->n_jobs : queue->common.n_jobs;
    if (longest->n_displaceable <= own + 1)
        return NULL;
    struct td_job *small = newest_displaceable(longest->lanes[TD_JOB_SMALL].tail);
    struct td_job *large = newest_displaceable(longest->lanes[TD_JOB_LARGE].tail);
    struct td_job *newest = !large || (small && small->number > large->number) ? small : large;
    if (newest)
        remove_job(queue, newest);
    return newest;
}

struct td_job *td_job_queue_take_expired(struct td_job_queue *queue, int64_t now_ns,
                                         bool everything)
{
    struct td_job *expired = NULL;
    for (struct td_job_flow *flow = queue->flows, *next_flow; flow; flow = next_flow) {
        next_flow = flow->next; /* the flow is removed with its last job */
        for (int i = 0; i < TD_JOB_CLASSES; i++)
            for (struct td_job *job = flow->lanes[i].head, *next; job; job = next) {
                next = job->next;
                if (!everything && job->deadline_ns > now_ns)
                    continue;
                remove_job(queue, job);
                job->next = expired;
                expired = job;
            }
    }
    return expired;
}
