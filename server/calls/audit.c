#include "server/calls/audit.h"

#include "server/calls/services.h"

struct change {
    const char *operation, *table, *alias, *target;
    uint64_t version;
    bool persisted;
};

static void write_line(const struct td_call *call, const struct change *change)
{
    struct td_sender_text sender;
    if (!call->sender.token)
        return;
    td_sender_print(&call->sender, &sender);
    td_log(&call->services->log, TD_LOG_INFO, "audit", TD_TEXT("request_id", call->request_id),
           TD_TEXT("client", sender.peer[0] ? sender.peer : NULL),
           TD_TEXT("forwarded_for", sender.forwarded[0] ? sender.forwarded : NULL),
           TD_TEXT("token", call->sender.token), TD_TEXT("operation", change->operation),
           TD_TEXT("table", change->table), TD_TEXT("alias", change->alias),
           TD_TEXT("target", change->target), TD_COUNT("version", change->version),
           TD_COUNT("persisted", change->persisted));
}

void td_audit_table(const struct td_call *call, const char *operation,
                    const struct td_tensor_listing *made)
{
    const struct change change = { .operation = operation,
                                   .table = made->name,
                                   .version = made->version,
                                   .persisted = made->persisted };
    write_line(call, &change);
}

void td_audit_deleted(const struct td_call *call, const char *operation, const char *table,
                      bool persisted)
{
    write_line(call,
               &(struct change){ .operation = operation, .table = table, .persisted = persisted });
}

void td_audit_alias(const struct td_call *call, const char *alias, const char *target,
                    bool persisted)
{
    const struct change change = { .operation = target ? "set_alias" : "delete_alias",
                                   .alias = alias,
                                   .target = target,
                                   .persisted = persisted };
    write_line(call, &change);
}
