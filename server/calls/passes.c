#include "server/calls/passes.h"

#include "kernels/op_pass.h"
#include "server/calls/away.h"
#include "server/calls/op_task.h"
#include "server/calls/services.h"
#include "server/observe/clock.h"
#include "server/workers/worker_pool.h"

/* Maximum number of calls in a pass, in addition to the leader. */
enum { MOST_CALLS = 15 };

/* After a pass, the next one waits for calls for at most this part of the pass's time, and at most
 * this time. */
enum { COLLECT_PART = 16, COLLECT_NS = 2000000 };

struct td_pass_call {
    struct td_away base; /* must be first, because submit casts back */
    struct td_call *call;
    void (*back)(struct td_call *call);
    bool leads, shared;
    bool begun;                /* the pass of this leader has started */
    bool prompt;               /* no job was queued before this leader */
    struct td_pass_call *next; /* next leader, or next waiting call */
    /* Calls that wait for this leader, in the order of their arrival. */
    struct td_pass_call *first, *last;
    int n_waiting;
    /* Set for a leader whose pass has started: when, and the number of calls in the pass. */
    int64_t begun_ns;
    int n_calls;
};

void td_passes_init(struct td_passes *passes)
{
    pthread_mutex_init(&passes->mutex, NULL);
    td_clock_cond_init(&passes->arrived);
}

void td_passes_destroy(struct td_passes *passes)
{
    pthread_cond_destroy(&passes->arrived);
    pthread_mutex_destroy(&passes->mutex);
}

static const struct td_op_args *args_of(const struct td_pass_call *pass)
{
    return &pass->call->request.args;
}

/* ---- Waiting ----------------------------------------------------------------------------- */

/* True if the call can wait for this leader. A call does not wait for a leader that is queued
 * behind other jobs, unless it would be queued behind the same jobs, which are those of its client.
 * The queue cannot displace a waiting call, so at most a quarter of its places are for calls that
 * wait for one leader. */
static bool may_wait_for(const struct td_pass_call *leader, const struct td_call *call)
{
    const int64_t places = call->services->config.queue_limit / 4;
    return leader->n_waiting < MOST_CALLS && leader->n_waiting < places &&
           (leader->begun || leader->prompt || leader->call->client == call->client);
}

/* Returns the leader that the call can join, or NULL. Called with the mutex. */
static struct td_pass_call *leader_for(struct td_passes *passes, const struct td_call *call)
{
    for (struct td_pass_call *leader = passes->leaders; leader; leader = leader->next)
        if (leader->call->op->pass == call->op->pass && may_wait_for(leader, call) &&
            call->op->pass->can_join(args_of(leader), &call->request.args))
            return leader;
    return NULL;
}

/* Lets a call that waited run like any other call. It has not been computed elsewhere. */
static void run_here(struct td_pass_call *pass)
{
    pass->call->schedule.away = NULL;
    pass->back(pass->call);
}

/* Makes the call a leader. Called with the mutex. */
static void lead(struct td_passes *passes, struct td_pass_call *pass)
{
    pass->leads = true;
    pass->prompt = td_worker_pool_room(pass->call->services->workers) > 0;
    pass->call->schedule.pass = pass;
    pass->next = passes->leaders;
    passes->leaders = pass;
}

/* Implements td_away.submit. */
static void submit(struct td_call *call, void (*back)(struct td_call *call))
{
    struct td_pass_call *pass = (struct td_pass_call *)(void *)call->schedule.away;
    struct td_passes *passes = &call->services->passes;
    pass->back = back;
    pthread_mutex_lock(&passes->mutex);
    struct td_pass_call *leader = leader_for(passes, call);
    if (leader) {
        pass->next = NULL;
        *(leader->first ? &leader->last->next : &leader->first) = pass;
        leader->last = pass;
        leader->n_waiting++;
        atomic_fetch_add_explicit(&passes->waiting, 1, memory_order_relaxed);
        pthread_cond_broadcast(&passes->arrived);
    } else /* the leader has ended since the call was placed */
        lead(passes, pass);
    pthread_mutex_unlock(&passes->mutex);
    if (!leader)
        run_here(pass);
}

/* Implements td_away.finish. */
static td_status finish(struct td_call *call, struct td_worker *worker)
{
    struct td_pool_exec exec;
    td_op_task_exec(call, worker, &exec);
    const td_status status = call->op->pass->finish(&call->request.args, &exec.base, &call->error);
    return td_op_task_end(call, &exec.base, status);
}

void td_pass_place(struct td_call *call)
{
    struct td_passes *passes = &call->services->passes;
    const struct td_op_args *args = &call->request.args;
    if (call->schedule.away || !call->task->on_device || !call->op->pass ||
        !call->op->pass->can_join(args, args))
        return;
    struct td_pass_call *pass = td_arena_alloc(&call->arena, 1, sizeof *pass, TD_IGNORED);
    if (!pass)
        return;
    *pass = (struct td_pass_call){ .base = { .submit = submit, .finish = finish }, .call = call };
    pthread_mutex_lock(&passes->mutex);
    if (leader_for(passes, call))
        call->schedule.away = &pass->base;
    else
        lead(passes, pass);
    pthread_mutex_unlock(&passes->mutex);
}

static const void *data_of(const struct td_pass_call *pass)
{
    return pass->call->op->pass->data(args_of(pass));
}

/* Records the end of a pass for the next one. Called with the mutex. */
static void note_end(struct td_passes *passes, const struct td_pass_call *leader)
{
    const int64_t now = td_now_ns(), part = (now - leader->begun_ns) / COLLECT_PART;
    if (leader->begun)
        passes->last = (struct td_pass_end){
            .data = data_of(leader),
            .n_calls = leader->n_calls + leader->n_waiting,
            .collect_ns = now + (part < COLLECT_NS ? part : COLLECT_NS),
        };
}

void td_pass_leave(struct td_call *call)
{
    struct td_passes *passes = &call->services->passes;
    struct td_pass_call *pass = call->schedule.pass, *first = NULL;
    if (!pass || !pass->leads)
        return;
    pthread_mutex_lock(&passes->mutex);
    struct td_pass_call **place = &passes->leaders;
    while (*place != pass)
        place = &(*place)->next;
    *place = pass->next;
    pass->leads = false;
    note_end(passes, pass);
    first = pass->first;
    if (first) {
        first->first = first->next;
        first->last = pass->last;
        first->n_waiting = pass->n_waiting - 1;
        atomic_fetch_sub_explicit(&passes->waiting, 1, memory_order_relaxed);
        lead(passes, first);
    }
    pthread_mutex_unlock(&passes->mutex);
    if (first)
        run_here(first);
}

/* Removes the waiting calls whose time is over, and returns them as a list. Called with the
 * mutex. */
static struct td_pass_call *remove_late(struct td_pass_call *leader, int64_t now_ns,
                                        struct td_pass_call *late)
{
    struct td_pass_call **place = &leader->first, *last = NULL;
    while (*place) {
        struct td_pass_call *pass = *place;
        const struct td_call_schedule *schedule = &pass->call->schedule;
        if (now_ns <= schedule->deadline_ns && now_ns <= schedule->start_by_ns) {
            last = pass;
            place = &pass->next;
            continue;
        }
        *place = pass->next;
        leader->n_waiting--;
        pass->next = late;
        late = pass;
    }
    leader->last = last;
    return late;
}

static td_status waited_too_long(struct td_call *call)
{
    return td_error_set(&call->error, TD_DEADLINE_EXCEEDED,
                        "the deadline passed while the request waited for a worker");
}

void td_passes_expire(struct td_passes *passes, int64_t now_ns)
{
    struct td_pass_call *late = NULL;
    pthread_mutex_lock(&passes->mutex);
    for (struct td_pass_call *leader = passes->leaders; leader; leader = leader->next)
        late = remove_late(leader, now_ns, late);
    pthread_mutex_unlock(&passes->mutex);
    for (struct td_pass_call *pass = late, *next; pass; pass = next) {
        next = pass->next;
        atomic_fetch_sub_explicit(&passes->waiting, 1, memory_order_relaxed);
        (void)waited_too_long(pass->call);
        pass->base.state = TD_AWAY_REFUSED;
        pass->back(pass->call);
    }
}

bool td_pass_is_shared(const struct td_call *call)
{
    return call->schedule.pass && call->schedule.pass->shared;
}

/* ---- The pass ---------------------------------------------------------------------------- */

/* The calls of a pass. The first is the leader. */
struct group {
    struct td_pass_call *members[MOST_CALLS + 1];
    struct td_op_args *args[MOST_CALLS + 1];
    int n;
    bool has_leader; /* members[0] is the leader */
};

static void join(struct group *group, struct td_pass_call *member)
{
    group->members[group->n] = member;
    group->args[group->n++] = &member->call->request.args;
}

/* Returns a call to the workers. If memory was short, the call runs alone. */
static void give_back(struct td_pass_call *member, td_status status)
{
    if (status == TD_MEMORY_EXHAUSTED || status == TD_RESOURCE_LIMIT) {
        run_here(member);
        return;
    }
    member->base.state = status == TD_OK ? TD_AWAY_DONE : TD_AWAY_REFUSED;
    member->back(member->call);
}

/* Waits until as many calls are there as in the last pass over the table, but not for long. Called
 * with the mutex. */
static void collect(struct td_passes *passes, const struct td_pass_call *leader)
{
    const struct td_pass_end last = passes->last;
    if (last.data != data_of(leader))
        return;
    while (leader->n_waiting < MOST_CALLS && leader->n_waiting + 1 < last.n_calls &&
           td_now_ns() < last.collect_ns &&
           td_clock_wait(&passes->arrived, &passes->mutex, last.collect_ns))
        ;
}

/* Takes the calls that wait for the leader, and returns them as a list. */
static struct td_pass_call *take_waiting(struct td_pass_call *leader)
{
    struct td_passes *passes = &leader->call->services->passes;
    pthread_mutex_lock(&passes->mutex);
    collect(passes, leader);
    leader->begun_ns = td_now_ns();
    leader->n_calls = 1 + leader->n_waiting;
    struct td_pass_call *taken = leader->first;
    atomic_fetch_sub_explicit(&passes->waiting, leader->n_waiting, memory_order_relaxed);
    leader->first = leader->last = NULL;
    leader->n_waiting = 0;
    leader->begun = true;
    pthread_mutex_unlock(&passes->mutex);
    return taken;
}

/* Refuses a call that cannot take part in the pass any more. */
static td_status check_present(struct td_call *call, int64_t now)
{
    call->gone = td_call_client_left(call);
    if (call->gone)
        return TD_DEADLINE_EXCEEDED; /* no reply is sent */
    return now <= call->schedule.deadline_ns && now <= call->schedule.start_by_ns
               ? TD_OK
               : waited_too_long(call);
}

static td_status prepare(struct td_pass_call *member, struct td_worker *worker, int64_t now)
{
    struct td_call *call = member->call;
    struct td_pool_exec exec;
    td_times_end(&call->times, "queue", &call->times.queue, now);
    td_status status = check_present(call, now);
    if (status == TD_OK)
        status = td_op_task_begin(call, worker, &exec);
    return status == TD_OK ? call->op->pass->prepare(&call->request.args, &exec.base, &call->error)
                           : status;
}

/* Prepares the waiting calls. A call that fails goes back to the queue with its
 * error. */
static void prepare_waiting(struct group *group, struct td_pass_call *waiting,
                            struct td_worker *worker)
{
    const int64_t now = td_now_ns();
    for (struct td_pass_call *member = waiting, *next; member; member = next) {
        next = member->next;
        const td_status status = prepare(member, worker, now);
        if (status == TD_OK)
            join(group, member);
        else
            give_back(member, status);
    }
}

/* Stops a pass when each of its calls would stop. */
static td_status stopped(void *context, struct td_error *err)
{
    const struct group *group = context;
    td_status status = TD_OK;
    for (int i = 0; i < group->n; i++) {
        status = td_call_stopped(group->members[i]->call, err);
        if (status == TD_OK)
            return TD_OK;
    }
    return status;
}

/* Returns the members to the workers after the pass. */
static void give_back_members(const struct group *group, td_status status,
                              const struct td_error *err)
{
    const int64_t now = td_now_ns();
    if (status == TD_OK)
        atomic_fetch_add_explicit(&group->members[0]->call->services->passes.members,
                                  (uint64_t)(group->n - group->has_leader), memory_order_relaxed);
    for (int i = group->has_leader; i < group->n; i++) {
        struct td_call *call = group->members[i]->call;
        td_times_end(&call->times, "compute", &call->times.compute, now);
        if (status != TD_OK)
            call->error = *err;
        give_back(group->members[i], status);
    }
}

/* Runs the pass of a group with at least one call that is not the leader. */
static td_status run_group(struct group *group, struct td_call *leader, struct td_worker *worker,
                           struct td_exec *exec)
{
    const struct td_op_pass *pass = leader->op->pass;
    struct td_pool_exec shared;
    struct td_error err = { .status = TD_OK };
    td_op_task_exec(leader, worker, &shared);
    shared.stopped = stopped;
    shared.context = group;
    td_status status = pass->run(group->args, group->n, &shared.base, &err);
    give_back_members(group, status, &err);
    if (!group->has_leader)
        return TD_OK;
    if (status == TD_MEMORY_EXHAUSTED || status == TD_RESOURCE_LIMIT)
        return pass->run(group->args, 1, exec, &leader->error);
    if (status != TD_OK)
        leader->error = err;
    return status;
}

td_status td_pass_run(struct td_call *call, struct td_worker *worker, struct td_exec *exec)
{
    const struct td_op_pass *pass = call->op->pass;
    struct td_pass_call *leader = call->schedule.pass;
    struct group group = { .n = 0 };
    struct td_pass_call *waiting = take_waiting(leader);
    const td_status prepared = pass->prepare(&call->request.args, exec, &call->error);
    td_status status = TD_OK;
    if (prepared == TD_OK) {
        group.has_leader = true;
        join(&group, leader);
    }
    prepare_waiting(&group, waiting, worker);
    if (group.n > group.has_leader) {
        leader->shared = true;
        status = run_group(&group, call, worker, exec);
    } else if (group.has_leader)
        status = pass->run(group.args, 1, exec, &call->error);
    if (prepared != TD_OK)
        return prepared;
    return status == TD_OK ? pass->finish(&call->request.args, exec, &call->error) : status;
}
