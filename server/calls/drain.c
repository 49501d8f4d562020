#include "server/calls/drain.h"

#include "server/calls/services.h"

td_status td_drain_check_ready(struct td_call *call)
{
    return atomic_load_explicit(&call->services->draining, memory_order_relaxed)
               ? td_error_set(&call->error, TD_DRAINING, "the server is stopping")
               : TD_OK;
}

td_status td_drain_check_new(struct td_call *call)
{
    return atomic_load(&call->services->refusing)
               ? td_error_set(&call->error, TD_DRAINING,
                              "the server is stopping and accepts no new requests")
               : TD_OK;
}

td_status td_drain_check_queueing(struct td_call *call)
{
    return atomic_load(&call->services->refusing)
               ? td_error_set(&call->error, TD_DRAINING, "the server is stopping")
               : TD_OK;
}

bool td_drain_stops_running(const struct td_call *call)
{
    return atomic_load_explicit(&call->services->refusing, memory_order_relaxed);
}

td_status td_drain_stop_running(const char *doing, struct td_error *err)
{
    return td_error_set(err, TD_DRAINING, "the server stopped while %s", doing);
}

void td_drain_drop_queued(struct td_call *call)
{
    td_error_set(&call->error, TD_DRAINING, "the server stopped while this request was queued");
}
