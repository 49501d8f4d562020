/* scheduler.h - runs tiny tasks inline on the I/O thread and others on workers.
 *
 * Queueing a task for a worker costs more than a small gather, so a task estimated below
 * --inline-limit-us runs on the I/O thread. Everything else is queued, so that one long computation
 * never delays a lookup; large bodies are decoded by the worker as well.
 *
 * Threads  td_schedule on the I/O thread that owns the call. */
#ifndef TD_SERVER_CALLS_SCHEDULER_H
#define TD_SERVER_CALLS_SCHEDULER_H

#include "server/calls/call.h"

typedef enum td_verdict {
    TD_ANSWERED, /* call->reply is ready */
    TD_QUEUE     /* a place in the queue is reserved, or the refusal waits: suspend the
                    connection, then call td_schedule_submit */
} td_verdict;

td_verdict td_schedule(struct td_call *call);

/* Queues the call for the workers, or its refusal; call->finished is called when call->reply is
 * ready, or when it is to be sent. */
void td_schedule_submit(struct td_call *call);

#endif
