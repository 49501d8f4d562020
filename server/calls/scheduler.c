#include "server/calls/scheduler.h"

#include "api/message/problem.h"
#include "api/oip/oip.h"
#include "kernels/integers.h"
#include "server/calls/away.h"
#include "server/calls/client_limits.h"
#include "server/calls/device_call.h"
#include "server/calls/drain.h"
#include "server/calls/passes.h"
#include "server/calls/services.h"
#include "server/calls/stage_costs.h"
#include "server/observe/clock.h"

#include <stddef.h>
#include <string.h>

enum { LONG_WAIT_NS = 1000000 };

/* True if the request names shared memory. Values in shared memory that determine addresses are
 * copied when the request is decoded. Because these values can be of any size, a worker decodes the
 * request as a large job. */
static bool names_shared_memory(const struct td_call *call)
{
    const size_t bytes = call->body_bytes, header = call->headers.inference_header;
    return call->services->shm && call->body_format == TD_FORMAT_OIP &&
           td_oip_names_shared_memory(call->body, header < bytes ? header : bytes);
}

static void end(struct td_call *call, td_status status)
{
    if (status != TD_OK)
        td_call_refuse(call);
}

/* Ends admission. Starts measuring the time of queueing or computing, and refuses a call whose
 * deadline has passed. */
static td_status check_read_in_time(struct td_call *call)
{
    const int64_t now = td_now_ns();
    td_times_end(&call->times, "admit", &call->times.compute, now);
    return td_call_late(call, "while the request was being read and checked");
}

static td_verdict answer(struct td_call *call, td_status status)
{
    td_pass_leave(call);
    end(call, status);
    return TD_ANSWERED;
}

/* Returns the time after which a queued call is not started. */
static int64_t start_by(const struct td_call *call)
{
    return td_smaller(call->schedule.start_by_ns, call->schedule.deadline_ns);
}

/* Returns the cost of a job in the queue. A job that might block counts as large, so it does not
 * run between two chunks of another job's loop. */
static uint64_t job_cost(const struct td_call *call, uint64_t cost_ns)
{
    return call->schedule.must_queue && cost_ns < TD_JOB_SMALL_NS ? TD_JOB_SMALL_NS : cost_ns;
}

static td_status queue_full(struct td_call *call, struct td_worker_pool *pool)
{
    struct td_services *services = call->services;
    td_error_set(&call->error, TD_QUEUE_FULL,
                 "the queue is full: at most %lld requests%s can wait (--queue-limit)",
                 (long long)services->config.queue_limit,
                 pool == services->disk_threads ? " that change the data folder" : "");
    call->error.retry_after_s = td_worker_pool_retry_after_s(pool);
    return TD_QUEUE_FULL;
}

/* Returns the client that takes turns with other clients in the pool's queue, or NULL if the
 * call has no client entry. */
static struct td_job_flow *flow_in(const struct td_call *call, const struct td_worker_pool *pool)
{
    if (!call->client)
        return NULL;
    return pool == call->services->disk_threads ? &call->client->disk_flow : &call->client->flow;
}

static bool reserve_in(struct td_call *call, struct td_worker_pool *pool)
{
    return td_worker_pool_reserve(pool, flow_in(call, pool));
}

/* Submits the call to its reserved place. */
static void submit_to(struct td_call *call, struct td_worker_pool *pool)
{
    call->job.flow = flow_in(call, pool);
    td_worker_pool_submit(pool, &call->job);
}

/* Refuses a call that cannot meet its deadline. The error is DEADLINE_EXCEEDED, as for a deadline
 * that passes in the queue, because the client's choice is the same: change the deadline or wait.
 * Like QUEUE_FULL, the error has Retry-After. */
static td_status check_deadline(struct td_call *call, uint64_t cost_ns)
{
    struct td_services *services = call->services;
    const int64_t by = start_by(call), left = by - call->times.stage_end;
    struct td_expected expected = { 0 };
    if (by == TD_NEVER ||
        !td_worker_pool_is_late(services->workers, flow_in(call, services->workers), cost_ns, left,
                                &expected))
        return TD_OK;
    td_error_set(&call->error, TD_DEADLINE_EXCEEDED,
                 "the deadline passes in %lld ms, and the request would wait for a worker for "
                 "about %lld ms and run for %lld ms",
                 (long long)(left / 1000000), (long long)(expected.wait_ns / 1000000),
                 (long long)(expected.run_ns / 1000000));
    call->error.retry_after_s = td_worker_pool_retry_after_s(services->workers);
    return TD_DEADLINE_EXCEEDED;
}

/* Delays the refusal if the client retries earlier than it was told to. */
static void decide_delay(struct td_call *call)
{
    const unsigned retry_after_s = td_problem_retry_after_s(&call->error);
    if (!call->client || retry_after_s == 0)
        return;
    const int64_t now = td_now_ns();
    const int64_t delay = td_refusals_record(&call->client->refused, now, retry_after_s);
    if (delay > 0)
        /* The refusal can be due after the call's deadline. Otherwise, clients with short deadlines
         * would be exempt from the delay. */
        call->schedule.refusal_due_ns = now + delay;
}

static td_status reserve(struct td_call *call)
{
    struct td_worker_pool *workers = call->services->workers;
    return reserve_in(call, workers) ? TD_OK : queue_full(call, workers);
}

/* Refuses a suspended call. Returns true if the refusal is delayed. */
static bool refuse_later(struct td_call *call)
{
    td_pass_leave(call);
    td_client_limits_give_request(call);
    decide_delay(call);
    if (call->schedule.refusal_due_ns)
        end(call, call->error.status);
    return call->schedule.refusal_due_ns != 0;
}

/* Returns the part of the cost that is not known before admission. */
static uint64_t admitted_ns(const struct td_call *call)
{
    return call->schedule.admission.compute_ns + call->schedule.admission.encode_ns;
}

/* Queues the call, or refuses it. Counts the call as suspended before it reads `refusing`.
 * Therefore, if `refusing` is set and the count is zero, no call is suspended. */
static td_verdict enqueue(struct td_call *call, uint64_t cost_ns)
{
    struct td_services *services = call->services;
    atomic_fetch_add(&services->suspended, 1);
    cost_ns = job_cost(call, cost_ns);
    const bool draining = td_drain_check_queueing(call) != TD_OK;
    if (!draining && check_deadline(call, cost_ns) == TD_OK &&
        td_client_limits_take_request(call) == TD_OK && reserve(call) == TD_OK) {
        call->job.cost_ns = cost_ns;
        call->job.deadline_ns = start_by(call);
        return TD_QUEUE;
    }
    if (!draining && refuse_later(call))
        return TD_QUEUE;
    /* The workers might already be stopped after this line. */
    atomic_fetch_sub(&services->suspended, 1);
    return answer(call, call->error.status);
}

/* Admits the call. Only this function sets the admission. The task returns the cost of the call,
 * which determines where the call is computed. */
static td_status admit(struct td_call *call)
{
    struct td_admission admission = { 0 };
    td_status status = td_call_admit(call, &admission);
    if (status != TD_OK)
        return status;
    admission.compute_ns = td_stage_compute_ns(&admission.cost);
    admission.encode_ns = td_stage_encode_ns(call, &admission);
    call->schedule.admission = admission;
    return td_device_call_place(call);
}

td_verdict td_schedule(struct td_call *call)
{
    const uint64_t limit = (uint64_t)call->services->config.inline_limit_us * 1000;
    uint64_t cost = td_stage_decode_ns(call);
    td_status status = td_call_late(call, "before the request had arrived");
    if (status != TD_OK)
        return answer(call, status);
    /* A long body is a large job in any case, so it need not be searched. */
    if (!call->encoded && (cost <= limit || cost < TD_JOB_SMALL_NS) && names_shared_memory(call))
        call->schedule.must_queue = true;
    if (cost > limit || call->encoded || call->schedule.must_queue)
        return enqueue(call, cost);
    status = td_call_decode(call);
    if (status != TD_OK)
        return answer(call, status);
    cost += td_stage_admit_ns(call);
    if (cost > limit)
        return enqueue(call, cost);
    /* Also admits a call that must be queued, because its cost affects how long other calls
     * wait. */
    status = admit(call);
    if (status != TD_OK)
        return answer(call, status);
    cost += admitted_ns(call);
    if (td_away_is(call, TD_AWAY_DUE) || cost > limit || call->schedule.must_queue) {
        td_pass_place(call);
        status = check_read_in_time(call);
        return status == TD_OK ? enqueue(call, cost) : answer(call, status);
    }
    status = td_call_compute(call, NULL);
    if (status == TD_OK)
        status = td_call_encode(call);
    return answer(call, status);
}

/* ---- on a worker ---------------------------------------------------------------------------- */

/* Lets the next writer of the same names proceed, and the next leader of a pass. */
static void leave(struct td_call *call)
{
    td_pass_leave(call);
    if (td_writer_has_entered(&call->schedule.writer))
        td_writer_leave(call->services->store, &call->schedule.writer);
}

/* Ends the work on a suspended call. This is a worker's last step for a call. */
static void finish(struct td_call *call)
{
    struct td_services *services = call->services;
    leave(call);
    td_client_limits_give_request(call);
    call->finished(call);
    atomic_fetch_sub(&services->suspended, 1);
}

/* Sends a delayed refusal. Runs on the refusals thread. */
static void end_refusal(struct td_refusal *refusal)
{
    struct td_call *call =
        (struct td_call *)(void *)((char *)refusal - offsetof(struct td_call, schedule.refusal));
    call->gone = td_call_client_left(call);
    finish(call);
}

/* Ends a call that is refused while it is suspended. The refusal might be delayed. */
static void finish_refusal(struct td_call *call)
{
    call->schedule.refusal.end = end_refusal;
    if (!call->schedule.refusal_due_ns ||
        !td_refusals_delay(call->services->refusals, &call->schedule.refusal,
                           call->schedule.refusal_due_ns))
        finish(call);
}

static void left_queue(struct td_call *call)
{
    const int64_t now = td_now_ns();
    td_times_end(&call->times, "queue", &call->times.queue, now);
}

static td_status waited_too_long(struct td_call *call)
{
    return td_error_set(&call->error, TD_DEADLINE_EXCEEDED,
                        call->schedule.effect == TD_EFFECT_NONE
                            ? "the deadline passed while the request waited for a worker"
                            : "the deadline passed while the request waited for other changes to "
                              "the same tensor, or for the disk; nothing was changed");
}

static void run(struct td_job *job, struct td_worker *worker);
static void drop(struct td_job *job, td_status why);

/* Lets the workers continue a call that was computed elsewhere, even if only to reply with an
 * error. Runs on the thread that computed the call. */
static void back(struct td_call *call)
{
    const struct td_admission *admission = &call->schedule.admission;
    uint64_t left = 0;
    if (!td_away_is(call, TD_AWAY_REFUSED))
        left = admission->encode_ns +
               (call->schedule.next >= TD_NEXT_CHANGE || td_away_is(call, TD_AWAY_DONE)
                    ? 0
                    : admission->compute_ns);
    call->job.cost_ns = job_cost(call, left);
    call->job.deadline_ns = call->schedule.next >= TD_NEXT_CHANGE ? TD_NEVER
                            : call->schedule.away                 ? call->schedule.deadline_ns
                                                                  : start_by(call);
    /* A call that has only waited for a pass can be displaced. */
    call->job.keep = call->schedule.away != NULL;
    submit_to(call, call->services->workers);
}

static void submit_away(struct td_call *call)
{
    call->job.run = run;
    call->job.drop = drop;
    call->schedule.away->submit(call, back);
}

/* Reserves a new place in the queue for the call's return and submits the call elsewhere. Runs on a
 * worker. Returns false if the queue is full, in which case the call continues here. */
static bool queue_away(struct td_call *call)
{
    if (!reserve_in(call, call->services->workers)) {
        call->schedule.away = NULL;
        return false;
    }
    submit_away(call);
    return true;
}

/* Returns true if a call that was just admitted was submitted elsewhere. Runs on a worker. If the
 * queue is full, the call is computed here, unless the request has "device": "gpu". */
static bool submitted_away(struct td_call *call, td_status *status)
{
    if (!td_away_is(call, TD_AWAY_DUE))
        return false;
    if (queue_away(call))
        return true;
    if (call->request.common.device == TD_DEVICE_GPU)
        *status = queue_full(call, call->services->workers);
    return false;
}

/* Decodes and admits a call that the I/O thread left to the workers. The cost of the other stages
 * is known only afterwards. */
static td_status prepare(struct td_call *call, struct td_worker *worker, bool *put_back)
{
    const int64_t taken = call->times.stage_end;
    td_status status = TD_OK;
    if (call->schedule.next == TD_NEXT_ENCODE) /* the upload has ended, completely or not */
        return TD_OK;
    if (call->schedule.next == TD_NEXT_CHANGE) /* the call has waited to make its change */
        return taken > start_by(call) ? waited_too_long(call) : TD_OK;
    if (td_away_is(call, TD_AWAY_REFUSED))
        return call->error.status;
    if (call->schedule.away) /* the device has already checked start_by */
        return taken > call->schedule.deadline_ns ? waited_too_long(call) : TD_OK;
    if (taken > start_by(call))
        return waited_too_long(call);
    if (call->schedule.next == TD_NEXT_COMPUTE)
        return TD_OK;
    if (call->schedule.next == TD_NEXT_DECODE)
        status = td_call_decode(call);
    if (status == TD_OK && taken > start_by(call)) /* the body can set start_by */
        return waited_too_long(call);
    if (status == TD_OK)
        status = admit(call);
    if (status == TD_OK)
        td_pass_place(call);
    if (status == TD_OK)
        status = check_read_in_time(call);
    call->job.deadline_ns = start_by(call);
    if (status == TD_OK && submitted_away(call, &status)) {
        *put_back = true;
        return TD_OK;
    }
    if (status == TD_OK)
        *put_back = td_worker_pool_put_back(worker, &call->job, job_cost(call, admitted_ns(call)));
    return status;
}

/* Computes the call unless it was computed elsewhere. */
static td_status compute(struct td_call *call, struct td_worker *worker)
{
    if (call->schedule.next >= TD_NEXT_CHANGE)
        return TD_OK;
    const td_status status = td_away_is(call, TD_AWAY_DONE)
                                 ? call->schedule.away->finish(call, worker)
                                 : td_call_compute(call, worker);
    if (status == TD_OK)
        call->schedule.next = TD_NEXT_CHANGE;
    return status;
}

/* Returns what the call is going to change, and fills in its writer. */
static td_effect effect_of(struct td_call *call)
{
    return call->task->effect ? call->task->effect(call, &call->schedule.writer) : TD_EFFECT_NONE;
}

static struct td_worker_pool *pool_of_change(const struct td_call *call)
{
    return call->schedule.effect == TD_EFFECT_DISK ? call->services->disk_threads
                                                   : call->services->workers;
}

/* Submits the call after its writer has locked its names, or after the wait for them has ended
 * early because the deadline passed or the server is stopping. If the wait ended early, the queue
 * refuses the call. */
static void ready_to_change(struct td_writer *writer)
{
    struct td_call *call =
        (struct td_call *)(void *)((char *)writer - offsetof(struct td_call, schedule.writer));
    submit_to(call, pool_of_change(call));
}

/* Returns true if a computed call makes its change later, on another thread, because another writer
 * holds one of its names or because the change might wait for a disk. Runs on a worker or a disk
 * thread. No thread waits in the meantime. */
static bool changes_later(struct td_call *call, struct td_worker *worker, td_status *status)
{
    if (td_writer_has_entered(&call->schedule.writer))
        return false;
    call->schedule.effect = effect_of(call);
    if (call->schedule.effect == TD_EFFECT_NONE)
        return false;
    struct td_store *store = call->services->store;
    struct td_worker_pool *pool = pool_of_change(call);
    call->schedule.writer.deadline_ns = start_by(call);
    call->schedule.writer.ready = ready_to_change;
    if (td_worker_pool_of(worker) == pool && td_writer_try(store, &call->schedule.writer))
        return false;
    if (!reserve_in(call, pool)) {
        *status = queue_full(call, pool);
        return false;
    }
    call->job.cost_ns = job_cost(call, admitted_ns(call));
    call->job.deadline_ns = start_by(call);
    /* If td_writer_enter returns false, another thread might already own the call. */
    if (td_writer_enter(store, &call->schedule.writer))
        submit_to(call, pool);
    return true;
}

/* Makes the call's change, if there is one. */
static td_status change(struct td_call *call, struct td_worker *worker)
{
    if (call->schedule.effect == TD_EFFECT_NONE || call->schedule.next == TD_NEXT_ENCODE)
        return TD_OK;
    const td_status status = td_call_change(call, worker);
    if (status == TD_OK)
        call->schedule.next = TD_NEXT_ENCODE;
    leave(call);
    return status;
}

/* Returns true if the upload of a computed call's table was submitted. Runs on a worker. If the
 * queue is full, the table is uploaded when an op first uses it. */
static bool submitted_upload(struct td_call *call)
{
    const struct td_tensor *table = call->task->upload ? call->task->upload(call) : NULL;
    return table && !call->schedule.away && td_device_call_place_upload(call, table) &&
           queue_away(call);
}

static void run(struct td_job *job, struct td_worker *worker)
{
    struct td_call *call = (struct td_call *)(void *)job;
    const uint64_t queued_ns = job->cost_ns;
    const bool admitted = call->schedule.next >= TD_NEXT_COMPUTE;
    bool put_back = false;
    left_queue(call);
    const int64_t begun = call->times.stage_end;
    /* Skips poll() after short waits, because a disconnect is unlikely and poll() costs a tenth of
     * a small job. */
    call->gone = call->gone || (call->times.queue > LONG_WAIT_NS && td_call_client_left(call));
    if (!call->gone) {
        td_status status = prepare(call, worker, &put_back);
        if (put_back)
            return;
        if (status == TD_OK)
            status = compute(call, worker);
        td_pass_leave(call);
        if (status == TD_OK && call->schedule.next != TD_NEXT_ENCODE &&
            changes_later(call, worker, &status))
            return;
        if (status == TD_OK)
            status = change(call, worker);
        if (status == TD_OK && submitted_upload(call))
            return;
        if (status == TD_OK)
            status = td_call_encode(call);
        if (status == TD_OK && !call->schedule.away && !td_pass_is_shared(call))
            td_worker_pool_measure(td_worker_pool_of(worker),
                                   admitted ? queued_ns : queued_ns + admitted_ns(call),
                                   call->times.stage_end - begun - td_worker_nested_ns(worker));
        end(call, status);
    }
    finish(call);
}

static void displaced(struct td_call *call)
{
    /* Frees the client's place before a refusal that can be delayed. */
    td_client_limits_give_request(call);
    td_error_set(
        &call->error, TD_QUEUE_FULL,
        "the queue is full: at most %lld requests can wait (--queue-limit), and this client has "
        "more waiting requests than any other",
        (long long)call->services->config.queue_limit);
    call->error.retry_after_s = td_worker_pool_retry_after_s(call->services->workers);
    decide_delay(call);
}

static void drop(struct td_job *job, td_status why)
{
    struct td_call *call = (struct td_call *)(void *)job;
    /* Lets other writers proceed before a refusal that can be delayed. */
    leave(call);
    /* Completes a call that has made its change or has its result, because only the encoding is
     * left, which takes little time. */
    if (call->schedule.next == TD_NEXT_ENCODE ||
        (why == TD_DRAINING && td_away_is(call, TD_AWAY_DONE) &&
         effect_of(call) == TD_EFFECT_NONE && call->schedule.away->finish(call, NULL) == TD_OK)) {
        left_queue(call);
        end(call, td_call_encode(call));
        finish(call);
        return;
    }
    if (why == TD_DRAINING)
        td_drain_drop_queued(call);
    else if (why == TD_QUEUE_FULL)
        displaced(call);
    else
        (void)waited_too_long(call);
    left_queue(call);
    end(call, call->error.status);
    finish_refusal(call);
}

void td_schedule_submit(struct td_call *call)
{
    call->job.run = run;
    call->job.drop = drop;
    if (call->schedule.refusal_due_ns)
        finish_refusal(call);
    else if (td_away_is(call, TD_AWAY_DUE))
        submit_away(call);
    else
        submit_to(call, call->services->workers);
}
