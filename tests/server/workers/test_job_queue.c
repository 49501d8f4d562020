#include "server/observe/clock.h"
#include "server/workers/job_queue.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

enum { FLOWS = 3, JOBS = 64, US = 1000, MS = 1000000 };

/* A queue, its flows A, B, C, and the jobs in the order of submission. */
struct setup {
    struct td_job_queue queue;
    struct td_job_flow flows[FLOWS];
    struct td_job jobs[JOBS];
    int n;
    char taken[256]; /* " 0 2 1" */
};

static void take(struct setup *setup)
{
    const struct td_job *job = td_job_queue_take(&setup->queue);
    const size_t length = strlen(setup->taken);
    snprintf(setup->taken + length, sizeof setup->taken - length, " %d",
             job ? (int)(job - setup->jobs) : -1);
}

static const uint64_t costs[] = { ['s'] = 100 * US, ['t'] = 300 * US, ['k'] = 100 * US,
                                  ['L'] = 10 * MS,  ['M'] = 30 * MS,  ['0'] = 0 };

/* "As" is a job of flow A; s is small, t costs three times as much, 0 nothing, L is large, M
 * costs three times as much, k is small and kept; "-s" has no flow. "." takes a job. */
static void submit(struct setup *setup, const char *jobs)
{
    for (const char *at = jobs; *at; at++) {
        if (*at == '.')
            take(setup);
        if (*at == '.' || *at == ' ')
            continue;
        struct td_job *job = &setup->jobs[setup->n++];
        *job = (struct td_job){ .flow = *at == '-' ? NULL : &setup->flows[*at - 'A'],
                                .cost_ns = costs[(int)at[1]],
                                .deadline_ns = TD_NEVER,
                                .keep = at[1] == 'k' };
        td_job_queue_push(&setup->queue, job);
        at++;
    }
}

static uint64_t queued_cost(const struct setup *setup)
{
    return setup->queue.classes[TD_JOB_SMALL].cost_ns + setup->queue.classes[TD_JOB_LARGE].cost_ns;
}

/* The order in which the jobs are taken; by their numbers in the order of submission. */
static const struct {
    const char *description, *jobs, *taken;
} orders[] = {
    { "one flow: in the order of submission", "As As As", " 0 1 2" },
    { "jobs without a flow as well", "-s -s -s", " 0 1 2" },
    { "two flows take turns, however many jobs one has", "As As As As Bs", " 0 4 1 2 3" },
    { "large jobs as well", "AL AL AL AL BL", " 0 4 1 2 3" },
    { "jobs without a flow are one more flow", "As As As -s", " 0 3 1 2" },
    { "turns are by cost, not by number", "At At Bs Bs Bs Bs", " 0 2 3 4 1 5" },
    { "small jobs of all flows before large ones", "AL AL Bs Bs As", " 2 4 3 0 1" },
    { "every eighth job is a large one, of the flows in turn",
      "AL AL BL As As As As As As As As As As As As As As As As",
      " 3 4 5 6 7 8 9 0 10 11 12 13 14 15 16 2 17 18 1" },
    { "large jobs cost their flow no turn of small ones", "AM .  As As Bs Bs", " 0 1 3 2 4" },
    { "a flow that had no jobs saves nothing up", "At At At At ... Bs Bs Bs Bs Bs",
      " 0 1 2 4 5 6 3 7 8" },
    { "when nothing is queued no flow is ahead", "As As As ... As Bs", " 0 1 2 3 4" },
    { "jobs that cost nothing take turns", "A0 A0 A0 A0 B0 B0", " 0 4 1 5 2 3" },
};

TD_TEST_EACH(jobs_are_taken_in_this_order, orders)
{
    struct setup setup = { 0 };
    submit(&setup, orders[_i].jobs);
    while (setup.queue.flows)
        take(&setup);
    ck_assert_msg(strcmp(setup.taken, orders[_i].taken) == 0, "%s: %s", orders[_i].description,
                  setup.taken);
    ck_assert_ptr_null(td_job_queue_take(&setup.queue));
    ck_assert_uint_eq(queued_cost(&setup), 0);
}

TD_TEST(small_jobs_are_taken_alone_between_chunks)
{
    struct setup setup = { 0 };
    submit(&setup, "AL As Bs");
    ck_assert_ptr_eq(td_job_queue_take_small(&setup.queue), &setup.jobs[1]);
    ck_assert_ptr_eq(td_job_queue_take_small(&setup.queue), &setup.jobs[2]);
    ck_assert_ptr_null(td_job_queue_take_small(&setup.queue));
    ck_assert_ptr_eq(td_job_queue_take(&setup.queue), &setup.jobs[0]);
}

TD_TEST(a_flow_whose_job_took_longer_waits_longer_for_its_next_turn)
{
    struct setup setup = { 0 };
    submit(&setup, "As As Bs Bs Bs Bs .");
    td_job_queue_charge(&setup.queue, &setup.jobs[0], 200 * US);
    submit(&setup, ".....");
    ck_assert_str_eq(setup.taken, " 0 2 3 4 1 5");
}

/* The theorem of start-time fair queueing: between flows that always have jobs queued, the work
 * differs by at most one job of each. */
TD_TEST_LOOP(flows_with_queued_jobs_get_equal_shares_of_the_work, 0, 5)
{
    enum { FIXED = 1 * US, STEPS = 2000 };
    static const int most[FLOWS] = { 30 * US, 300 * US, 900 * US };
    struct setup setup = { 0 };
    uint64_t work[FLOWS] = { 0 };
    random_seed((uint64_t)_i + 1);
    for (int i = 0; i < FLOWS * 5; i++) {
        submit(&setup, (const char *[]){ "As", "Bs", "Cs" }[i % FLOWS]);
    }
    for (int step = 0; step < STEPS; step++) {
        struct td_job *job = td_job_queue_take(&setup.queue);
        const int which = (int)(job->flow - setup.flows);
        work[which] += job->cost_ns + FIXED;
        job->cost_ns = (uint64_t)random_below(most[which]);
        td_job_queue_push(&setup.queue, job);
        for (int i = 0; i < FLOWS && step > 20; i++)
            for (int j = 0; j < FLOWS; j++)
                ck_assert_uint_le(work[i],
                                  work[j] + (uint64_t)most[i] + (uint64_t)most[j] + 200 * US);
    }
}

/* The cost, in units of a small job's, that is taken before a further small job of this flow. */
static const struct {
    const char *description, *jobs;
    char flow;
    int ahead;
} waits[] = {
    { "an empty queue", "", 'A', 0 },
    { "one flow: all of its jobs", "As As As", 'A', 3 },
    { "a new flow: none", "As As As", 'B', 0 },
    { "as many of another flow as of its own", "As As As Bs", 'B', 2 },
    { "all if it has the most", "As As As Bs", 'A', 4 },
    { "three flows", "As As Bs Bs Cs Cs Cs", 'A', 6 },
    { "not large ones", "As AL BL Bs", 'A', 2 },
    { "without a flow", "-s -s As", '-', 3 },
    { "jobs that were taken do not count", "As As As ... As Bs Bs", 'A', 2 },
};

TD_TEST_EACH(the_jobs_before_a_further_one_depend_on_its_flow, waits)
{
    struct setup setup = { 0 };
    const char flow = waits[_i].flow;
    submit(&setup, waits[_i].jobs);
    const uint64_t ahead = td_job_queue_ahead(
        &setup.queue, flow == '-' ? NULL : &setup.flows[flow - 'A'], TD_JOB_SMALL);
    ck_assert_msg(ahead == (uint64_t)waits[_i].ahead * costs['s'], "%s: %llu",
                  waits[_i].description, (unsigned long long)ahead);
}

/* Small jobs before a further large one of flow A. */
static const struct {
    const char *description, *jobs;
    int smalls;
} smalls_ahead[] = {
    { "an empty queue", "", 0 },
    { "all, if they are few", "As Bs Bs", 3 },
    { "a large one is taken after seven", "As As As As As As As As As As", 7 },
    { "... and after seven more for each that is queued before it",
      "AL As As As As As As As As As As As As As As As As", 14 },
    { "not for those of other flows that are taken later", "BL BL BL As As As As As As As As As As",
      7 },
};

TD_TEST_EACH(a_large_job_waits_for_small_ones_as_well, smalls_ahead)
{
    struct setup setup = { 0 };
    submit(&setup, smalls_ahead[_i].jobs);
    const uint64_t large = td_job_queue_ahead(&setup.queue, &setup.flows[0], TD_JOB_LARGE);
    const uint64_t ahead = td_job_queue_smalls_ahead(&setup.queue, large);
    ck_assert_msg(ahead == (uint64_t)smalls_ahead[_i].smalls * costs['s'], "%s: %llu",
                  smalls_ahead[_i].description, (unsigned long long)ahead);
}

/* The job that is displaced when one of this flow arrives; -1: none. */
static const struct {
    const char *description, *jobs;
    char flow;
    int displaced;
} displacements[] = {
    { "an empty queue", "", 'A', -1 },
    { "the newest job of the flow that has the most", "As As As", 'B', 2 },
    { "a large one as well", "As AL", 'B', 1 },
    { "a small one newer than a large one", "AL As", 'B', 1 },
    { "of several flows", "As Bs Bs Bs As", 'C', 3 },
    { "not its own", "As As As Bs", 'A', -1 },
    { "two flows would change places", "As As Bs", 'B', -1 },
    { "all have one job", "As Bs", 'C', -1 },
    { "of the jobs without a flow", "-s -s As", 'B', 1 },
    { "for a job without a flow", "As As", '-', 1 },
    { "kept jobs stay", "Ak Ak Ak Bs Bs", 'C', 4 },
    { "the newest that is not kept", "As As Ak", 'B', 1 },
    { "kept jobs make no queue longer", "Ak Ak Ak As Bs Bs", 'C', 5 },
};

TD_TEST_EACH(the_longest_queue_makes_room, displacements)
{
    struct setup setup = { 0 };
    const char flow = displacements[_i].flow;
    submit(&setup, displacements[_i].jobs);
    const struct td_job *displaced =
        td_job_queue_displace(&setup.queue, flow == '-' ? NULL : &setup.flows[flow - 'A']);
    const int number = displaced ? (int)(displaced - setup.jobs) : -1;
    ck_assert_msg(number == displacements[_i].displaced, "%s: %d", displacements[_i].description,
                  number);
    for (int i = 0; i < setup.n - (displaced != NULL); i++)
        ck_assert_ptr_ne(td_job_queue_take(&setup.queue), displaced);
    ck_assert_ptr_null(td_job_queue_take(&setup.queue));
}

/* Deadlines: a digit; the time is 5. */
static const struct {
    const char *description, *jobs, *deadlines, *left;
    bool everything;
} expiries[] = {
    { "none is late", "As Bs", "67", " 0 1", false },
    { "one is late at its deadline", "As Bs", "56", " 1", false },
    { "of several flows", "As Bs AL BL Cs", "19173", " 1 3", false },
    { "the first, a middle and the last one", "As As As As As", "18191", " 1 3", false },
    { "everything", "As Bs CL -L", "9999", "", true },
};

TD_TEST_EACH(late_jobs_are_removed, expiries)
{
    struct setup setup = { 0 };
    int removed = 0;
    submit(&setup, expiries[_i].jobs);
    for (int i = 0; i < setup.n; i++)
        setup.jobs[i].deadline_ns = expiries[_i].deadlines[i] - '0';
    for (struct td_job *job = td_job_queue_take_expired(&setup.queue, 5, expiries[_i].everything);
         job; job = job->next)
        removed++;
    while (setup.queue.flows)
        take(&setup);
    ck_assert_msg(strcmp(setup.taken, expiries[_i].left) == 0, "%s: %s", expiries[_i].description,
                  setup.taken);
    ck_assert_int_eq(removed, setup.n - (int)strlen(expiries[_i].left) / 2);
    ck_assert_uint_eq(queued_cost(&setup), 0);
}

TD_TEST(costs_are_limited_so_that_their_sum_does_not_overflow)
{
    struct setup setup = { 0 };
    submit(&setup, "As .");
    for (int i = 0; i < JOBS; i++) {
        setup.jobs[i] = (struct td_job){ .flow = &setup.flows[0], .cost_ns = UINT64_MAX };
        td_job_queue_push(&setup.queue, &setup.jobs[i]);
    }
    ck_assert_uint_eq(queued_cost(&setup), JOBS * UINT64_C(3600000000000));
}

TD_TEST(a_job_of_a_millisecond_is_large)
{
    ck_assert_int_eq(td_job_class_of(MS - 1), TD_JOB_SMALL);
    ck_assert_int_eq(td_job_class_of(MS), TD_JOB_LARGE);
}
