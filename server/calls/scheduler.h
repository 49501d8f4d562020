/* scheduler.h - runs small tasks inline on the I/O thread and other tasks on workers.
 *
 * Queueing a task for a worker costs more than a small gather, so a task estimated below
 * --inline-limit-us runs on the I/O thread. All other tasks are queued, so a long computation never
 * delays a lookup. Workers also decode large bodies.
 *
 * Threads  td_schedule runs on the I/O thread that owns the call. */
#ifndef TD_SERVER_CALLS_SCHEDULER_H
#define TD_SERVER_CALLS_SCHEDULER_H

#include "server/calls/call.h"

typedef enum td_verdict {
    TD_ANSWERED, /* call->reply is ready */
    /* A place in the queue is reserved, or the refusal is delayed. Suspend the connection, then
     * call td_schedule_submit. */
    TD_QUEUE
} td_verdict;

td_verdict td_schedule(struct td_call *call);

/* Queues the call for the workers, or delays its refusal. Calls call->finished when call->reply is
 * ready or a delayed refusal is due. */
void td_schedule_submit(struct td_call *call);

#endif
